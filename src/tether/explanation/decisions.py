"""Which decisions mattered: for every step and every action available there, what would have followed, exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrow import Tabular, table_of
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.rounding import ROUNDING, gain_of, rounding_of
from tether._foundation.words import strength_in_words
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import Problem, QueryError
from tether.evaluation.necessity import NecessityBounds, necessity_bounds
from tether.evaluation.one_change import Alternatives, alternatives
from tether.evaluation.outcomes import Outcome, outcome_of
from tether.evaluation.review import SURE, Batch, horizons, probability_better
from tether.explanation.deciding import decision_sentences
from tether.explanation.mistakes import Review, review_if_valued
from tether.influence.one_step import Influence
from tether.influence.rules import Rule
from tether.model.properties import Property
from tether.plan.best_values import observed_value
from tether.plan.objective import asked, negated
from tether.plan.standard import Standard
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Decision(Displayed):
    """One action that could be taken at one step of the observed episode.

    Attributes
    ----------
    t : int
    state : name
        The observed state.
    action : name
    is_observed : bool
        Whether this is the action that was taken.
    value : float or None
        Expected return, had only this action been different: everything else is done as observed. None where that
        cannot be: ``reason`` says why.
    gain : float or None
        ``value`` less the observed return.
    best : float or None
        The best expected return with this action and at most m changed actions in all, without a tether.
    necessity : float or None
        Probability that the outcome that happened would not have happened, had only this action been different. None
        where the last state is no outcome, and where ``value`` is None.
    strength : float
        The part of the action's probability that the observation moves.
    needed_k : int
        The shortest tether that allows the action.
    reason : str or None
        Why there is no value.
    mistake : float or None
        What the action costs compared with the best of the plain model, by what could be known at the time; 0 for the
        best. Beside ``gain``, which only hindsight knows. None where the plain model has no value.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> left = tether.counterfactual(grid.mdp, grid.path).decisions().at(2)[3]
    >>> left.action, round(left.value, 2), round(left.necessity, 3), left.needed_k
    ('left', -25.68, 0.933, 6)
    """

    t: int
    state: Any
    action: Any
    is_observed: bool
    value: float | None
    gain: float | None
    best: float | None
    necessity: float | None
    strength: float
    needed_k: int
    reason: str | None = None
    mistake: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Decisions(Tabular):
    """Every step of an episode, and every action that was available there; made by `CounterfactualMDP.decisions`.

    Attributes
    ----------
    m : int
        How many actions may change in all, for `Decision.best`.
    rule, influence
        What `Decision.needed_k` means.
    observed_value : float
    outcome : str or None
        The observed outcome: the label of the last state, or its name if it is absorbing; for a property, that it
        held, or that it did not.
    rows : tuple of Decision
        By time, then in the model's order of actions.
    objective : Property or None
        The property whose probability the values are; None if they are returns.
    minimise : bool
        Whether less is better.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> decisions = tether.counterfactual(patient.mdp, patient.path).decisions()
    >>> decisions
    <Decisions: 10 steps, 80 actions, outcome 'died'>
    >>> print(decisions.sentences(str)[-1])
    From the observed state at step 3 on, nothing done could have changed the outcome.
    """

    cf: CounterfactualRecord
    m: int
    rule: Rule
    influence: Influence
    observed_value: float
    outcome: str | None
    rows: tuple[Decision, ...]
    objective: Property | None = None
    minimise: bool = False

    @property
    def asked(self) -> CounterfactualRecord:
        """The counterfactual MDP in which the values are returns (`tether.plan.objective`)."""
        return asked(self.cf, self.objective, self.minimise)

    @property
    def event(self) -> Outcome | None:
        """The observed outcome, as states that an episode may end in; None if there is none."""
        return _outcome(self.asked, self.objective)

    def at(self, t: int) -> tuple[Decision, ...]:
        """The actions of step t."""
        t = self.cf.time(t)
        return tuple(row for row in self.rows if row.t == t)

    def within(self, k: int) -> tuple[Decision, ...]:
        """The actions that a tether of length k allows.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> decisions = tether.counterfactual(case.mdp, case.path).decisions()
        >>> [(row.t, row.action) for row in decisions.within(2) if not row.is_observed]
        [(6, 'V_I'), (6, 'V_S')]
        """
        k = whole_number("k", k, 1)
        return tuple(row for row in self.rows if row.needed_k <= k)

    def stretches(self) -> list[tuple[int, int]]:
        """First and last step of each stretch. Consecutive steps where no action would have changed anything are one.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> tether.counterfactual(patient.mdp, patient.path).decisions().stretches()
        [(0, 0), (1, 1), (2, 2), (3, 9)]
        """
        found: list[tuple[int, int]] = []
        before = False
        for t in range(self.cf.T):
            idle = self.is_idle(t)
            if idle and before:
                found[-1] = (found[-1][0], t)
            else:
                found.append((t, t))
            before = idle
        return found

    def is_idle(self, t: int) -> bool:
        """Whether no action at t would have changed anything."""
        seen = self.observed_value
        return all(
            row.value is not None
            and row.best is not None
            and max(abs(row.value - seen), abs(row.best - seen)) <= rounding_of(seen)
            and (row.necessity or 0.0) <= ROUNDING
            for row in self.at(t)
        )

    def necessity_bounds(self, t: int, action: Any) -> tuple[NecessityBounds, ...]:
        """The bounds of the necessity of one decision: over all causal models, and over all stable ones.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> decisions = tether.counterfactual(grid.mdp, grid.path).decisions()
        >>> for one in decisions.necessity_bounds(2, "left"):
        ...     print(one)
        nothing: 0.929 to 0.972 (Gumbel-max 0.933)
        stability: 0.929 to 0.936 (Gumbel-max 0.933)
        """
        rows = self.at(t)
        found = next((row for row in rows if row.action == action), None)
        if found is None:
            there = ", ".join(repr(row.action) for row in rows)
            message, fix = f"the action {action!r} is not available in state {rows[0].state!r}", f"there are {there}"
            place = f"t = {t}"
            raise QueryError(Problem(message, rows[0].state, action, time=t, value=action, place=place, fix=fix))
        outcome = self.event
        if outcome is None:
            raise QueryError(
                "the episode ends in no outcome, so none can be avoided: an outcome is a state with a label "
                "(mdp.with_labels) or an absorbing one"
            )
        return necessity_bounds(self.cf, found.t, found.action, outcome, self.objective)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """Mistake or luck; which decision mattered most with hindsight; from when on nothing could be changed.

        ``name`` turns a name into text.
        """
        first = [] if self.review is None else self.review.verdict(name)
        return [*first, *decision_sentences(self, self.event, name)]

    @cached_property
    def review(self) -> Review | None:
        """Mistake or luck; None if the plain model has no value, because a state without actions can be reached."""
        return review_if_valued(self.cf, self.objective, self.minimise)

    def known_then(self, row: Decision) -> str:
        """What was known of a decision at the time, compared with what was done: "better" or "not better".

        In a learned model "not shown", where it seems better by no more than estimation can produce. Empty where the
        plain model has no value.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> decisions = tether.counterfactual(grid.mdp, grid.path).decisions()
        >>> [decisions.known_then(row) for row in decisions.at(2) if row.action in ("right", "down")]
        ['better', 'not better']
        """
        done = next(one for one in self.at(row.t) if one.is_observed)
        if done.mistake is None or row.mistake is None:
            return ""
        more = done.mistake - row.mistake
        if more <= 0.0:
            return "not better"
        better, taken = (self.cf.mdp.pair_index(one.state, one.action) for one in (row, done))
        standard = Standard(self.cf.mdp, "best", self.objective, self.minimise)
        return "better" if probability_better(standard, better, taken, more) >= SURE else "not shown"

    @property
    def ended_well(self) -> bool:
        """Whether the observed outcome is a good one: a label that is marked so, or what was asked for."""
        if self.outcome is None:
            return False
        if self.objective is not None:
            return (self.observed_value > 0.5) != self.minimise
        return self.cf.mdp.labels.side(self.outcome) == "good"

    def to_arrow(self) -> pyarrow.Table:
        """One row per step and action, with the fields of `Decision` as columns.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).decisions().to_arrow()
        >>> table.num_rows, table.column("action").slice(0, 3).to_pylist()
        (21, ['NIL', 'V_I', 'V_S'])
        """
        return table_of(Decision, self.rows, {"state": self.cf.mdp.states, "action": self.cf.mdp.actions})

    def plot(self, what: str = "gain", ax: Axes | None = None) -> Axes:
        """Time × action, shaded by "gain", "best" or "necessity"; what was done is marked. Returns the axes.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).decisions().plot().get_xlabel()
        'step'
        """
        from tether.figures.decisions_figure import plot_decisions

        return plot_decisions(self, what, ax)

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        ended = "no outcome" if self.outcome is None else f"outcome {self.outcome!r}"
        return f"<Decisions: {self.cf.T} steps, {len(self.rows)} actions, {ended}>"

    def _repr_html_(self) -> str:
        head = ("t", "state", "action", "", "mistake", "had only this been different", f"best with m = {self.m}")
        rows = [
            (
                row.t,
                row.state,
                row.action,
                "done" if row.is_observed else "",
                "" if row.mistake is None else f"{row.mistake:.4g}",
                row.reason if row.value is None else f"{row.value:.6g}",
                "" if row.best is None else f"{row.best:.6g}",
                "" if row.necessity is None else f"{row.necessity:.3g}",
                strength_in_words(row.strength),
                row.needed_k,
            )
            for row in self.rows
        ]
        avoided = "necessity" if self.outcome is None else f"not {self.outcome}"
        return paragraphs(self.sentences(str)) + html_table((*head, avoided, "strength", "from k"), rows)


def decide(
    cf: CounterfactualRecord, objective: Any, m: int, rule: Any, influence: Any, minimise: bool = False
) -> Decisions:
    """Every step and every action available there; see `CounterfactualMDP.decisions`."""
    tied = tether(cf, rule, influence, objective, minimise)
    cf = tied.cf
    m = min(whole_number("m", m, 1), cf.T)
    thresholds, world = tied.thresholds(), tied.asked
    outcome, observed = _outcome(world, tied.objective), observed_value(world)
    worth = -observed if minimise else observed  # more is always better
    rows: list[Decision] = []
    for t, found in enumerate(_alternatives(world, m, outcome, minimise)):
        if t >= world.graph.end:  # the objective is decided: whatever is done, nothing changes
            rows += _idle(cf, t, worth, outcome is not None)
            continue
        at = int(np.searchsorted(thresholds.nodes[t].states, int(cf.observation.states[t])))
        first = int(thresholds.offsets[t][at])
        kappa = thresholds.kappa[t][first : first + found.pairs.size]
        rows += [_row(cf, t, found, i, int(kappa[i]), worth) for i in range(kappa.size)]
    if minimise:
        rows = [replace(row, value=_opposite(row.value), best=_opposite(row.best)) for row in rows]
    rows = _with_mistakes(cf, Standard(cf.mdp, "best", tied.objective, tied.minimise), rows)
    name = None if outcome is None else outcome.name
    about = tied.rule, tied.influence, observed, name, tuple(rows), tied.objective, tied.minimise
    return Decisions(cf, m, *about)


def _with_mistakes(cf: CounterfactualRecord, standard: Standard, rows: list[Decision]) -> list[Decision]:
    """The rows with what each action costs compared with the best of the plain model."""
    pairs = [
        np.array([cf.mdp.pair_index(row.state, row.action) for row in rows if row.t == t], np.int64)
        for t in range(cf.T)
    ]
    until = int(horizons(cf.mdp, Batch.of(cf.observation), None if cf.after is None else cf.horizon)[0])
    found_pairs = standard.of_pairs(until, [*pairs, *[np.empty(0, np.int64)] * (until - cf.T)])
    values, sizes = (some[: cf.T] for some in found_pairs)
    if not all(np.isfinite(one).all() for one in values):
        return rows
    found = []
    for one, size in zip(values, sizes, strict=True):
        cost = one.max(initial=-np.inf) - one
        found += np.where(cost <= 1e-11 * size.max(initial=0.0), 0.0, cost).tolist()
    return [replace(row, mistake=cost) for row, cost in zip(rows, found, strict=True)]


def _alternatives(
    world: CounterfactualRecord, m: int, outcome: Outcome | None, minimise: bool
) -> tuple[Alternatives, ...]:
    if minimise:
        graph = negated(world.graph)
        world = replace(world, mdp=graph.mdp, graph=graph)
    return alternatives(world, m, outcome)


def _idle(cf: CounterfactualRecord, t: int, observed: float, happened: bool) -> list[Decision]:
    """A step after the objective is decided."""
    rows = []
    for action in cf.mdp.actions_in(cf.path.states[t]):
        strength = cf.strength(t, cf.path.states[t], action)
        same, none = action == cf.path.actions[t], 0.0 if happened else None
        rows.append(Decision(t, cf.path.states[t], action, same, observed, 0.0, observed, none, strength, 1))
    return rows


def _row(cf: CounterfactualRecord, t: int, found: Alternatives, i: int, needed_k: int, observed: float) -> Decision:
    mdp, pair = cf.mdp, int(found.pairs[i])
    edits = cf.graph.layers[t].edits
    at = edits.find(pair)
    value, missing_at = _number(found.value[i]), int(found.missing_at[i])
    reason = None
    if value is None:
        state, action = mdp.states[int(found.missing_in[i])], cf.path.actions[missing_at]
        reason = f"it can lead to state {state!r} at t = {missing_at}, where the observed {action!r} is not available"
    return Decision(
        t,
        cf.path.states[t],
        mdp.actions[int(mdp.form.pair_action[pair])],
        pair == int(cf.observation.pairs[t]),
        value,
        None if value is None else gain_of(value, observed),
        _number(found.best[i]),
        _number(found.missed[i]),
        0.0 if at < 0 else float(edits.strengths(np.array([at]))[0]),
        needed_k,
        reason,
    )


def _opposite(value: float | None) -> float | None:
    return None if value is None else 0.0 - value


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _outcome(world: CounterfactualRecord, objective: Property | None) -> Outcome | None:
    """The class of the observed last state; None if it was not recorded, or is no outcome.

    For a property: all states in which it is decided in the same way, or undecided at the end with the same effect.
    """
    last = int(world.observation.states[-1])
    if last < 0 or objective is None:
        return None if last < 0 else outcome_of(world.mdp, last)
    worth, final = world.mdp.final_reward, world.mdp.final_reward if world.rest is None else world.rest.final
    assert worth is not None
    assert final is not None
    if min(worth[last], 1.0 - worth[last]) > 1e-9:  # the record was cut before it was decided
        return None
    happened = bool(worth[last] > 0.5)
    name = objective.in_words if happened else objective.failed_in_words
    return Outcome(name, np.flatnonzero(final == float(happened)))
