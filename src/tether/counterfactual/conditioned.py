"""The counterfactual MDP: the model, replayed with the luck of one observed episode.

For an observed path τ the counterfactual MDP has the states, actions and rewards of the model, and
at step t the transition probabilities

    P_{t,τ}(s' | s, a) = P(s' | s, a, noise of step t | s_t, a_t led to s_{t+1})

The mechanism says which rows a step changes. Gumbel-max changes only rows whose support meets that of
the observed row (the paper's Proposition 1), so the result is stored as the nominal model plus a few
edited rows per step. Only pairs that s_0 can reach at that step are edited at all; a row outside is
computed when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.markup import facts
from tether._foundation.words import counted
from tether.counterfactual.gumbel_max import GumbelMax
from tether.counterfactual.layers import Graph, Layer, make_layer, walking
from tether.counterfactual.mechanism import Mechanism, Posterior
from tether.counterfactual.mechanisms import make_mechanism
from tether.counterfactual.rows import ObservedStep, Rows
from tether.errors import PathError, Problem
from tether.model.form import pair_states
from tether.model.mdp import MDP
from tether.observation.earned import Earned, earned
from tether.observation.ends import settled
from tether.observation.indices import observe_indices, path_of
from tether.observation.path import Observation, Path, observe, time_index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tether.evaluation.evaluate import Evaluation
    from tether.explanation.decisions import Decisions
    from tether.explanation.what_if import WhatIf
    from tether.explorer.notebook import Inline
    from tether.influence.classes import Classes
    from tether.influence.one_step import Influence
    from tether.influence.rules import Rule
    from tether.influence.why import Why
    from tether.model.properties import Property
    from tether.plan.pareto import Front
    from tether.plan.plan import Plan
    from tether.plan.sweep import Sweep
    from tether.plan.tethered import Tethered

__all__ = ["CounterfactualMDP", "check_not_stuck", "counterfactual"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CounterfactualMDP:
    """A model conditioned on an observed path; made by `counterfactual`.

    Attributes
    ----------
    mdp, path, mechanism
        What it was made of.
    graph : Graph
        For each time, the states that s_0 can reach and their edited rows.
    posteriors : tuple of Posterior or None
        What each step says about the noise of its time; None where its outcome was not recorded.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> cf
    <CounterfactualMDP: 11 steps, 144 states reachable over time, 184 rows edited, gumbel-max>
    >>> cf.row(2, 2, "left")  # at t = 2 the robot stood in 2, went down, and fell into the pit, 6
    ((1, 2, 3, 6), array([0.92857143, 0.01719577, 0.01719577, 0.03703704]))
    >>> cf.nominal_row(2, 2, "left")
    ((1, 2, 3, 6), array([0.9       , 0.03333333, 0.03333333, 0.03333333]))
    >>> round(cf.strength(2, 2, "left"), 3)
    0.032
    """

    mdp: MDP
    path: Path
    mechanism: Mechanism
    graph: Graph
    posteriors: tuple[Posterior | None, ...]
    _questions: dict[Any, Any] = field(default_factory=dict, init=False)
    _is_made: bool = field(default=False, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # As what it was made of: all the rest can be computed again. A copy with another graph cannot.
        if self._is_made:
            return counterfactual, (self.mdp, self.path, self.mechanism)
        return CounterfactualMDP, (self.mdp, self.path, self.mechanism, self.graph, self.posteriors)

    @property
    def T(self) -> int:
        """Number of steps of the observed path."""
        return self.graph.T

    @property
    def observation(self) -> Observation:
        """The path in the model's indices."""
        return self.graph.observation

    @property
    def earned(self) -> Earned | None:
        """What the log says the episode earned, beside what the model says; None for a path without rewards.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> path = tether.Path(grid.path.states, grid.path.actions, rewards=[0] * 10 + [-900])
        >>> earned = tether.counterfactual(grid.mdp, path).earned
        >>> earned.logged, earned.model
        (-900.0, -897.0)
        """
        return earned(self.mdp, self.observation, self.path)

    @property
    def n_edited(self) -> int:
        """How many rows were edited, over all steps."""
        return sum(int(layer.edits.pairs.size) for layer in self.graph.layers)

    @property
    def nbytes(self) -> int:
        """Memory of what is stored beyond the model's own arrays."""
        arrays = [self.graph.last_states]
        for layer in self.graph.layers:
            arrays += [layer.states, *layer.edits.arrays]
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())

    def reachable(self, t: int) -> tuple[Any, ...]:
        """Names of the states that s_0 can reach in ``t`` steps, t = 0 … T, whatever the actions.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).reachable(1)
        ('s1', 's2')
        """
        return self.mdp.names_of(self.graph.states(self.time(t, last=self.T)))

    def row(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats]:
        """P_{t,τ}(·|state, action): next states in the model's order, zeros left out, and probabilities."""
        t, pair = self.time(t), self.mdp.pair_index(state, action)
        rows, i = self._edited(t, pair)
        if rows is None:
            return self.mdp.row(state, action)
        next_state, probability = rows.row(i)
        return self.mdp.names_of(next_state), probability.copy()

    def nominal_row(self, t: int, state: Any, action: Any) -> tuple[tuple[Any, ...], Floats]:
        """P(·|state, action), what the model says without the observation."""
        self.time(t)
        return self.mdp.row(state, action)

    def strength(self, t: int, state: Any, action: Any) -> float:
        """How much the observation matters here: total variation between `row` and `nominal_row`.

        0: the row is interventional, the observation says nothing about it. Exact for an exact
        mechanism.
        """
        t, pair = self.time(t), self.mdp.pair_index(state, action)
        rows, i = self._edited(t, pair)
        return 0.0 if rows is None else float(rows.strength[i])

    def standard_error(self, t: int, state: Any, action: Any) -> Floats:
        """Standard error of each probability of `row`: 0 for the exact mechanism."""
        t, pair = self.time(t), self.mdp.pair_index(state, action)
        rows, _ = self._edited(t, pair)
        _, probability = self.row(t, state, action)
        if rows is None or self.posteriors[t] is None:
            return np.zeros_like(probability)
        return self.mechanism.standard_error(probability)

    def tether(
        self,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        *,
        objective: Property | None = None,
        minimise: bool = False,
    ) -> Tethered:
        """The tethered question: what "within k" means, fixed once, with κ computed once for all that is asked of it.

        Parameters
        ----------
        rule : {"definition", "published", "printed", "assured"}
            What k means; see `tether.influence.rules`.
        influence : "support", `tether.tv` (eps) or `tether.effective` (eps)
            When a pair counts as influenced; the last two go with "definition" and "assured".
        objective : `tether.reach` (goal), `tether.avoid` (bad) or `tether.until` (hold, goal), optional
            What is asked for instead of the return: values are then the probability that the property holds.
        minimise : bool
            Ask for the smallest value, not the largest: for costs, and for what is not wanted.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tied = tether.counterfactual(case.mdp, case.path).tether(rule="assured")
        >>> tied.plan(k=7, m=4).value == tied.sweep().value(7, 4)
        True
        """
        from tether.plan.tethered import tether

        question = tether(self, rule, influence, objective, minimise)
        kept: Tethered = self._questions.setdefault(question.key, question)
        return kept

    def remembered(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made once and kept with the counterfactual MDP."""
        if key not in self._questions:
            self._questions[key] = make()
        return self._questions[key]

    def plan(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        subject_to: tuple[Property, float] | None = None,
    ) -> Plan:
        """The best policy that stays within k steps of the observation's influence and changes at most m actions.

        Parameters
        ----------
        k : int, optional
            The length of the tether, from 1; T + 1 and beyond: no influence constraint. Left out: the shortest tether
            that is enough (`enough_k`), and 1 where no tether gains anything.
        m : int
            How many actions may differ from the observed ones, from 0; T and beyond: all.
        rule, influence
            What "within k" means; see `tether`.
        objective, minimise
            What is asked for instead of the largest return; see `tether`.
        subject_to : (property, limit), optional
            Keep the probability of a property within a limit: ``(tether.reach("died"), 0.1)``. The plan is then the
            best of the supported points of value against the property (`pareto`) that is within it;
            ``plan.constraint`` says how it keeps to it, and which two plans would meet it exactly if one was drawn.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.plan(k=8, m=1).value
        -1.0
        >>> plan = cf.plan(k=7, m=2, objective=tether.reach("over"))
        >>> round(plan.value, 3), plan.observed_value
        (0.111, 0.0)
        """
        question = self.tether(rule, influence, objective=objective, minimise=minimise)
        return question.plan(k, m, subject_to=subject_to)

    def sweep(
        self,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        ks: Iterable[int] | None = None,
        ms: Iterable[int] | None = None,
    ) -> Sweep:
        r"""The best value for every k = 1 … T + 1 and m = 0 … T, or for those asked for.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.counterfactual(case.mdp, case.path).sweep(ks=[2, 3, 7, 8], ms=[1, 2]))
         k \ m        1        2
             2   -38.00   -38.00
             3   -37.11   -37.11
             7   -27.83   -19.58
             8    -1.00    -1.00
        """
        return self.tether(rule, influence, objective=objective, minimise=minimise).sweep(ks, ms)

    def choose_k(
        self,
        m: int,
        at_least: float | None = None,
        *,
        at_most: float | None = None,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> int | None:
        """The smallest k whose best value with m changes is at least a threshold; None if none is.

        With ``minimise`` the best is the smallest: give ``at_most``.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).choose_k(m=2, at_least=-30.0)
        6
        """
        question = self.tether(rule, influence, objective=objective, minimise=minimise)
        return question.choose_k(m, at_least, at_most=at_most)

    def enough_k(
        self,
        m: int = 1,
        share: float = 0.9,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> int | None:
        """The shortest tether that gives at least ``share`` of what the longest one gives; None if none gains anything.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).enough_k(m=2)
        7
        """
        return self.tether(rule, influence, objective=objective, minimise=minimise).enough_k(m, share)

    def evaluate(
        self, policy: Any, *, influence: str | Influence = "support", objective: Property | None = None
    ) -> Evaluation:
        """Exactly what to expect under any policy, and how much of it the observation influences.

        Parameters
        ----------
        policy : "observed", "optimal", "random", callable, mapping, array or Plan
            See `tether.evaluation.policy`.
        influence
            When a pair counts as influenced, as in `plan`.
        objective
            What to expect of a property instead of the return, as in `plan`: the value is the probability that it
            holds. An episode rests where that is decided, and a plan for a property is evaluated for it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.evaluate("observed").value
        -38.0
        >>> cf.evaluate(lambda state: "V_I" if "V_I" in case.mdp.actions_in(state) else "NIL").tailoring
        <Tailoring: 0.00 of 7 steps influenced, longest uninfluenced run 7 (probability 1)>
        """
        from tether.evaluation.evaluate import evaluate_policy

        return evaluate_policy(self, policy, influence, objective)

    def decisions(
        self,
        objective: Property | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        minimise: bool = False,
    ) -> Decisions:
        """Which decisions mattered: for every step and every action available there, what would have followed.

        Exactly: the expected return had only this action been different; the best with this action and at most m
        changes in all, without a tether; the probability that the outcome that happened would not have happened; and
        the shortest tether that allows the action.

        Parameters
        ----------
        objective : Property, optional
            What decisions are weighed by: the probability of a property (see `tether`); the return by default. The
            outcome that happened is then that it held, or that it did not.
        m : int
            How many actions may change in all, from 1, for the best that could follow.
        rule, influence
            What a tether is; see `tether`.
        minimise : bool
            Less is better: for the best that could follow.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> decisions = tether.counterfactual(case.mdp, case.path).decisions()
        >>> [(row.action, row.value, row.needed_k) for row in decisions.at(0)[:2]]
        [('NIL', -38.0, 1), ('V_I', -1.0, 8)]
        """
        from tether.explanation.decisions import decide

        return decide(self, objective, m, rule, influence, minimise)

    def what_if(
        self,
        actions: Mapping[int, Any] | None = None,
        best_from: int | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
    ) -> WhatIf:
        """Other actions at some steps, or the best from some step on: exactly what would have followed.

        Parameters
        ----------
        actions : mapping of time to action
            What to do instead, whatever the state is then; all other steps are done as observed. Where an action is
            not available the observed one is taken, and where that is not available either, the best there is.
        best_from : int, optional
            From this time on the best that can be done, without a tether and with any number of changes.
        rule, influence
            What the tether means that `WhatIf.needed_k` tells; see `tether`.
        objective
            A property in place of the return; see `tether`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> asked = tether.counterfactual(case.mdp, case.path).what_if({5: "V_I"})
        >>> round(asked.value, 3), asked.observed_value, asked.needed_k
        (-37.111, -38.0, 3)
        """
        from tether.explanation.what_if import what_if

        return what_if(self, {} if actions is None else actions, best_from, rule, influence, objective)

    def classify(
        self,
        t: int,
        k: int,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        rollout: str = "counterfactual",
    ) -> Classes:
        """Class of each state at time t = 0 … T: observed, influenced and reachable, and so on.

        Parameters
        ----------
        rollout : {"counterfactual", "nominal"}
            What "reachable" means: through the counterfactual MDP, exactly; or through the nominal rows, as
            the paper draws it.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).classify(t=2, k=2, rollout="nominal")["s6"]
        'influenced and reachable'
        """
        return self.tether(rule, influence).classify(t, k, rollout)

    def why(
        self,
        t: int,
        state: Any,
        action: Any,
        k: int,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        uninfluenced: int = 0,
    ) -> Why:
        """Why a pair is allowed for k, or is not: in a sentence and as a record.

        ``uninfluenced`` is the number of uninfluenced steps just passed; only the rule `assured` looks at it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> answer = tether.counterfactual(case.mdp, case.path).why(0, (9, 1, 20), "V_I", k=3)
        >>> answer.allowed, answer.needed, answer.nearest
        (False, 8, None)
        """
        return self.tether(rule, influence).why(t, state, action, k, uninfluenced)

    def pareto(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        against: str | Property = "strength",
        limit: int = 1000,
        progress: Callable[[int], None] | None = None,
    ) -> Front:
        """Value against expected strength, or against a property: every supported point of the front, exactly.

        Parameters
        ----------
        k : int, optional
            A hard limit on influence as well; none by default.
        m : int
            How many actions may change.
        objective, minimise
            What the value is; see `tether`.
        against : {"strength", "closeness"} or Property
            What value is weighed against: the expected strength of the rows taken, or 1 - their distance to the
            observed row, summed over the steps; or, for a return, the probability that a property holds
            (``tether.reach("died")``), of which less is better. The property does not end the episode.
        limit : int
            Stop after so many points.
        progress : callable, optional
            Told how many points were found so far, each time before the next is looked for: long fronts take a while.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).pareto(m=1).values
        array([ -1., -38.])
        >>> patient = tether.cases.sepsis()
        >>> tether.counterfactual(patient.mdp, patient.path).pareto(k=9, m=3, against=tether.reach("died"))
        <Front: 55 points, value -3609 … -3877, reach died 0.81 … 0.77>
        """
        question = self.tether(rule, influence, objective=objective, minimise=minimise)
        return question.pareto(k, m, against=against, limit=limit, progress=progress)

    def plot(
        self,
        k: int,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        rollout: str = "counterfactual",
        label: Callable[[Any], str] = str,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the states over time by class, for one k; returns the axes. See `tether.views.figures.plot_classes`.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> ax = tether.counterfactual(toy.mdp, toy.path).plot(k=1)
        >>> ax.get_legend().get_texts()[0].get_text()
        'observed'
        """
        from tether.views.figures import plot_classes

        return plot_classes(self, k, ax, rule=rule, influence=influence, rollout=rollout, label=label)

    def explore(self, height: int = 800) -> Inline:
        """A page to play with: k, m, "what if" and "why?", below the cell of a notebook, or in any browser.

        It is served to this machine only, until the program ends or ``stop()`` is called on what is returned. Needs the
        extra ``explorer``.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> page = tether.counterfactual(toy.mdp, toy.path).explore()
        >>> page.address[:17]
        'http://127.0.0.1:'
        >>> page.stop()
        """
        from tether.explorer.notebook import explore

        return explore(self, height)

    def _edited(self, t: int, pair: int) -> tuple[Rows | None, int]:
        """The row of a pair as it was stored, or as it is now computed; None where it is nominal."""
        layer, posterior = self.graph.layers[t], self.posteriors[t]
        i = layer.edits.find(pair)
        if i >= 0:
            return layer.edits, i
        if posterior is None:
            return None, -1
        state = np.array([pair_states(self.mdp.form.pair_start, pair)])
        with walking(self.mdp, [layer.observed.next_state]) as walk:
            rows = make_layer(walk, state, layer.observed, posterior).edits
        i = rows.find(pair)
        return (None, -1) if i < 0 else (rows, i)

    def time(self, t: Any, last: int | None = None) -> int:
        """``t`` as an int from 0 to ``last`` (T - 1 by default), or an error that says so."""
        return time_index(t, self.T - 1 if last is None else last)

    def __repr__(self) -> str:
        nodes = sum(int(self.graph.states(t).size) for t in range(self.T + 1))
        return (
            f"<CounterfactualMDP: {counted(self.T, 'step')}, {counted(nodes, 'state')} reachable over time, "
            f"{counted(self.n_edited, 'row')} edited, {self.mechanism.name}>"
        )

    def _repr_html_(self) -> str:
        sizes = [int(self.graph.states(t).size) for t in range(self.T + 1)]
        return facts(
            [
                ("model", self.mdp),
                ("path", self.path),
                ("reachable", f"{counted(sum(sizes), 'state')} over time, at most {max(sizes):,} at once"),
                ("edited", f"{counted(self.n_edited, 'row')}"),
                ("mechanism", self.mechanism.name),
            ]
        )


def counterfactual(
    mdp: MDP, path: Path | Observation, mechanism: str | Mechanism = GumbelMax.name, **options: Any
) -> CounterfactualMDP:
    """Condition a model on an observed path.

    Parameters
    ----------
    mdp : MDP
    path : Path or Observation
        The observed episode; each step must be possible in the model. An `Observation` is one in the model's indices:
        see `tether.observation.indices.observe_indices`.
    mechanism : str or Mechanism
        ``"gumbel-max"``: exact. ``"gumbel-max-sampled"``: by sampling, with the options ``samples=``,
        ``rng=`` and ``method=`` of `SampledGumbelMax`. ``"independent"``, ``"comonotone"`` (with the option
        ``order=``) and ``"maximal"``: see `tether.counterfactual.couplings`. Or any object with the interface of
        `tether.counterfactual.mechanism.Mechanism`.

    Returns
    -------
    CounterfactualMDP

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_arrays([[[0.5, 0.5], [0.25, 0.75]], [[0, 1], [0, 1]]], actions=["wait", "treat"])
    >>> cf = tether.counterfactual(mdp, tether.Path([0, 1], ["wait"]))
    >>> cf.row(0, 0, "treat")  # waiting led to 1; treating makes 1 likelier still: the outcome stands
    ((1,), array([1.]))
    """
    observation, path = _observed(mdp, path)
    chosen = make_mechanism(mechanism, options, mdp)
    observed = [_observed_step(mdp, observation, t) for t in range(observation.T)]
    posteriors = tuple(chosen.infer(step) if step.recorded else None for step in observed)
    states = observation.states[:1].astype(np.int32)
    states.flags.writeable = False
    layers: list[Layer] = []
    with walking(mdp, (step.next_state for step in observed)) as walk:
        for step, posterior in zip(observed, posteriors, strict=True):
            check_not_stuck(mdp, step.t, states)
            layers.append(make_layer(walk, states, step, posterior))
            states = walk.onward(states, layers[-1].edits)
    graph = Graph(mdp, observation, tuple(layers), states)
    made = CounterfactualMDP(mdp, path, chosen, graph, posteriors)
    object.__setattr__(made, "_is_made", True)  # not of the constructor: a changed copy is not what this call makes
    return made


def _observed(mdp: MDP, path: Path | Observation) -> tuple[Observation, Path]:
    """The episode in the model's indices and in its names, whichever it was given in."""
    if isinstance(path, Observation):
        observation = replace(observe_indices(mdp, path.states, path.actions), rewards=path.rewards)
        return observation, path_of(mdp, observation)
    return observe(mdp, path), settled(mdp, path)


def _observed_step(mdp: MDP, observation: Observation, t: int) -> ObservedStep:
    pair, outcome = int(observation.pairs[t]), int(observation.states[t + 1])
    entries = mdp.entries(pair)
    return ObservedStep(t, mdp.form.next_state[entries], mdp.form.probability[entries], outcome, pair)


def check_not_stuck(mdp: MDP, t: int, states: Ints) -> None:
    """In every state that can be reached before the end, some action must be available."""
    pair_start = mdp.form.pair_start
    stuck = states[pair_start[states + 1] == pair_start[states]]
    if stuck.size:
        state = mdp.states[int(stuck[0])]
        message = (
            f"t = {t}: state {state!r} can be reached, but the model has no action there; the model was explored "
            "from other initial states or to a smaller horizon: explore it from this path's first state"
        )
        raise PathError(Problem(message, state=state, time=t))
