"""What `tether.rules` and `tether.evaluate_rules` return: rules with their numbers, in records, tables and words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.rounding import ROUNDING
from tether._foundation.words import average, counted, in_points, percent, percents, three_digits
from tether.conditioning.model_sets import EVERY_MODEL, hidden_causes_in_words
from tether.core.replays import Practice
from tether.explanation.reviewing import outcome_noun
from tether.model.model_record import ModelRecord
from tether.model.practice import strongest_in_words
from tether.observation.path import Path
from tether.ruling.one_rule import OneRule
from tether.ruling.practised import practice_of

if TYPE_CHECKING:
    import pyarrow


class RulePolicy(Displayed):
    """Usual practice with rules, as a policy: for `MDP.evaluate`, `CounterfactualMDP.evaluate` and ``audit(policy=)``.

    About an episode it is "as recorded, except the rules": the recorded action where the episode was, changed by the
    rules; usual practice with the rules elsewhere.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> log = [grid.mdp.simulate("random", 8, start=0, rng=seed) for seed in range(50)]
    >>> one = tether.evaluate_rules(grid.mdp, log, [tether.rule("2", instead_of="down", do="right")])[0]
    >>> {action: round(chance, 2) for action, chance in one.policy(0, 2).items()}
    {'up': 0.13, 'right': 0.47, 'left': 0.4}
    >>> tether.counterfactual(grid.mdp, grid.path).evaluate(one.policy).value > -897
    True
    """

    def __init__(self, mdp: ModelRecord, usual: Floats, ruled: Any) -> None:
        self.mdp, self._ruled, self._usual = mdp, ruled, usual
        self._share = np.asarray(usual @ ruled).ravel()

    @property
    def practice(self) -> Practice:
        """Usual practice with the rules, as replays take it."""
        return practice_of(self._usual, self._ruled)

    def __call__(self, t: int, state: Any) -> dict[Any, float]:
        """What is done in a state, whatever the time: the probability of each action."""
        del t
        s = self.mdp.state_index(state)
        pairs = range(int(self.mdp.form.pair_start[s]), int(self.mdp.form.pair_start[s + 1]))
        return self._named({x: float(self._share[x]) for x in pairs})

    def given(self, path: Path) -> Callable[[int, Any], dict[Any, float]]:
        """The policy about an episode."""

        def decide(t: int, state: Any) -> dict[Any, float]:
            if t >= len(path.actions) or path.states[t] != state:
                return self(t, state)
            row = self._ruled[self.mdp.pair_index(state, path.actions[t])].tocoo()
            return self._named(dict(zip(row.col.tolist(), row.data.tolist(), strict=True)))

        return decide

    def _named(self, chances: Mapping[int, float]) -> dict[Any, float]:
        action = self.mdp.form.pair_action
        return {self.mdp.actions[int(action[x])]: chance for x, chance in chances.items() if chance > 0}


@dataclass(frozen=True, slots=True)
class EvaluatedRule(Displayed):
    """A rule with its numbers, for everyone in a log whom it touches.

    Numbers of episodes are expected numbers. Those named ``…_low`` and ``…_high`` hold under every causal model in
    which the luck of one step says nothing about the luck of another.

    Attributes
    ----------
    rule : OneRule
    on_top_of : tuple of OneRule
        Rules that hold already. Then all numbers are of these rules together with this one, but for ``better`` and
        those named ``added``.
    episodes, touched, steps : int
        Episodes in all; those that the rule touches; in how many of their steps it changes what was done.
    gain, gain_low, gain_high : float
        What it changes per episode of the log, in the plain model; the 90 % interval. In a learned model the interval
        of a rule that a search found comes from the episodes that did not help to choose it.
    better : float
        The probability that it adds something to usual practice, and to the rules that hold already. In a learned model
        it comes from the same episodes as the interval.
    added : float
        What it adds to the gain of the rules that hold already.
    helped, harmed : float
        How many touched episodes would have ended better, and worse, than they did (Gumbel-max).
    helped_low, helped_high, harmed_low, harmed_high : float
        At least, and at most, under every causal model.
    bad : str
        What counts as a bad end; empty if nothing does.
    bad_ended, bad_touched : int
        Episodes that ended so: in all, and of those that the rule touches.
    saved, lost : float
        How many bad ends it averts, and causes.
    saved_low, saved_high, lost_low, lost_high : float
    saved_related_low, saved_related_high, lost_related_low, lost_related_high : float
        At least, and at most, if the luck of different steps may be related in any way.
    bad_before, bad_after : float
        The chance of a bad end in the plain model, without and with the rule. Their difference needs no causal model.
    saved_share, lost_share : tuple of float or None
        The least and the largest share of bad ends averted, and of other ends turned bad, for any such log (two worlds;
        None for rules that were not chosen, and where the model is too large).
    held_out : int
        Episodes that were not used to choose the rule.
    held_out_gain, held_out_low, held_out_high : float
        The gain per episode on these, and its 90 % interval; NaN without any.
    held_out_added, held_out_added_low, held_out_added_high : float
        What it adds there to the gain of the rules that hold already.
    harmed_chosen : float
        The share of touched episodes that it harms, in the part of the log that rules are chosen on.
    is_chosen : bool
        Whether it may be chosen: it surely adds something in the part of the log on which rules are chosen, and more
        than any rule does where actions are permuted.
    gamma_star : float or None
        How strong hidden reasons must be to undo the gain: the odds of an action would have to change so many times for
        reasons that are not in the log. 1 without a gain, infinite if no hidden reason can; None where the model is
        large and the rule is not the best.
    objective : str
        The property whose probability is the gain; empty for the return.
    policy : RulePolicy
        Usual practice with the rule.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> log = [grid.mdp.simulate("random", 8, start=0, rng=seed) for seed in range(50)]
    >>> one = tether.evaluate_rules(grid.mdp, log, [tether.rule("2", instead_of="down", do="right")])[0]
    >>> print(one.split()[0])
    It touches 4 episodes of 50.
    """

    rule: OneRule
    on_top_of: tuple[OneRule, ...]
    episodes: int
    touched: int
    steps: int
    gain: float
    gain_low: float
    gain_high: float
    added: float
    helped: float
    harmed: float
    helped_low: float
    helped_high: float
    harmed_low: float
    harmed_high: float
    bad: str
    bad_ended: int
    bad_touched: int
    saved: float
    lost: float
    saved_low: float
    saved_high: float
    lost_low: float
    lost_high: float
    saved_related_low: float
    saved_related_high: float
    lost_related_low: float
    lost_related_high: float
    bad_before: float
    bad_after: float
    saved_share: tuple[float, float] | None
    lost_share: tuple[float, float] | None
    held_out: int
    held_out_gain: float
    held_out_low: float
    held_out_high: float
    held_out_added: float
    held_out_added_low: float
    held_out_added_high: float
    harmed_chosen: float
    better: float
    is_chosen: bool
    policy: RulePolicy
    minimise: bool = False
    gamma_star: float | None = None
    objective: str = ""

    def __repr__(self) -> str:
        gain, touched = three_digits(self.gain), counted(self.touched, "episode")
        return f"<EvaluatedRule: {self.rule} Gain {gain} per episode, {touched} touched>"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    @property
    def bad_noun(self) -> str:
        """A bad end as it is written in a sentence."""
        return outcome_noun(self.bad) or self.bad

    @property
    def net(self) -> float:
        """How many more episodes are helped than harmed."""
        return self.helped - self.harmed

    def sentences(self) -> list[str]:
        """The rule, whom it helps and harms, what it changes on average, the held-out check, hidden reasons."""
        return [str(self.rule), *self.split(), *self.means(), *self.check(), *self.hidden()]

    @property
    def _who(self) -> tuple[str, str]:
        """What the numbers are of, and its verb's ending: this rule, or it together with those before it."""
        return (f"these {len(self.on_top_of) + 1} rules together", "") if self.on_top_of else ("it", "s")

    def split(self) -> list[str]:
        """Who is saved and lost, helped and harmed: counterfactual, with its range under every causal model."""
        who, s = self._who
        touched = counted(self.touched, "episode")
        found = [f"{who[0].upper()}{who[1:]} touch{'es' if s else ''} {touched} of {self.episodes:,}."]
        if self.bad:
            is_death = outcome_noun(self.bad) == "death"
            lives, dies = ("have lived", "have died") if is_death else (f"not have ended in {self.bad}", "have")
            others = self.touched - self.bad_touched
            found = [
                f"Of {touched} that {who} touch{'es' if s else ''}, {whole(self.saved)} more would {lives} and "
                f"{whole(self.lost)} more would {dies}.",
                f"{self.bad_touched:,} of them ended in {self.bad_noun}: {_of_100(self.saved, self.bad_touched)} would "
                f"not have. Of the other {others:,}, {_of_100(self.lost, others)} would have.",
                f"Under {EVERY_MODEL}: {range_in_words(self.saved_low, self.saved_high)} averted, "
                f"{range_in_words(self.lost_low, self.lost_high)} caused.{self._if_related()}",
            ]
        if self.objective:  # then better and worse are the same as averted and caused
            return found
        better, worse = whole(self.helped), whole(self.harmed)
        if np.isfinite(self.helped_low):
            which = "every such model" if self.bad else EVERY_MODEL
            better += f" ({range_in_words(self.helped_low, self.helped_high)} under {which})"
            worse += f" ({range_in_words(self.harmed_low, self.harmed_high)})"
        return [*found, f"Better than what happened: {better}. Worse: {worse}."]

    def _if_related(self) -> str:
        """How many are averted and caused if luck may be related over time; empty if that is the same."""
        near = self.saved_low, self.saved_high, self.lost_low, self.lost_high
        wide = self.saved_related_low, self.saved_related_high, self.lost_related_low, self.lost_related_high
        saved, lost = (range_in_words(*ends) for ends in (wide[:2], wide[2:]))
        if (saved, lost) == (range_in_words(*near[:2]), range_in_words(*near[2:])):
            return ""
        return f" If the luck of different steps may be related: {saved} averted, {lost} caused."

    def means(self) -> list[str]:
        """What changes on average: from the plain model, without a causal model."""
        found, (who, _) = [], self._who
        if self.bad:
            before, after = percents(self.bad_before, self.bad_after)
            without, having = ("these rules", "them") if self.on_top_of else ("the rule", "it")
            found.append(
                f"In the plain model {before} of all episodes end in {self.bad_noun} without {without}, {after} with "
                f"{having}. This needs no causal model."
            )
        worth = f"the probability of '{self.objective}'" if self.objective else "the expected return"
        found.append(
            f"Per episode of the log {worth} changes by {self.amount(self.gain)} "
            f"(90 % interval {self.between(self.gain_low, self.gain_high)}{self._drawn_towards_0()})"
            f"{f' with {who}; this rule adds {self.amount(self.added)}' if self.on_top_of else ''}."
        )
        if 0.0 < self.better < 1.0:
            what = "adds something" if self.on_top_of else "is better than usual practice"
            found.append(f"This rule {what} with a probability of {percent(self.better)}.")
        return found

    def _drawn_towards_0(self) -> str:
        """Why the gain of a rule in a learned model need not be in the middle of its interval."""
        counts = self.policy.mdp.counts
        pooled = counts is not None and counts.pooling is not None
        return "; pooling draws the first number towards 0, not the interval" if pooled else ""

    def hidden(self) -> list[str]:
        """How strong hidden reasons must be to undo the gain; nothing without a gain, or if it is not known."""
        if self.gamma_star is None or self.gamma_star <= 1.0:
            return []
        compared = "" if np.isinf(self.gamma_star) else strongest_in_words(self.policy.mdp)
        return [hidden_causes_in_words(self.gamma_star), *([compared] if compared else [])]

    def check(self) -> list[str]:
        """The gain on held-out episodes, and what this rule adds to others; nothing without any."""
        if not self.held_out:
            return []
        ends = self.between(self.held_out_low, self.held_out_high)
        found = f"On {counted(self.held_out, 'episode')} that did not help to choose it: "
        if self.on_top_of:
            own = self.between(self.held_out_added_low, self.held_out_added_high)
            found += f"{self.amount(self.held_out_added)} more ({own}). {self._who[0].capitalize()}: "
        return [f"{found}{self.amount(self.held_out_gain)} ({ends})."]

    def amount(self, gain: float) -> str:
        """A gain in words: of a property its probability, in percentage points."""
        return in_points(gain) if self.objective else three_digits(gain)

    def between(self, low: float, high: float) -> str:
        """An interval of a gain, in the same units."""
        return f"{self.bare(low)} to {self.bare(high)}"

    def bare(self, gain: float) -> str:
        """A gain in the same units, without their name."""
        return three_digits(100.0 * gain if self.objective else gain)


def _of_100(part: float, of: int) -> str:
    """An expected number of episodes, and its share."""
    return f"{whole(part)} ({percent(part / of)})" if of and part > ROUNDING else whole(part)


def whole(expected: float) -> str:
    """An expected number of episodes, to the nearest whole one.

    >>> whole(14.8), whole(0.2), whole(0.0)
    ('15', 'under 1', '0')
    """
    return "0" if expected <= ROUNDING else f"{expected:,.0f}" if expected >= 0.5 else "under 1"


def range_in_words(low: float, high: float) -> str:
    """A range of numbers of episodes, in whole ones that contain it.

    >>> range_in_words(2.29, 27.9)
    '2 to 28'
    """
    return f"{math.floor(low + ROUNDING):,} to {math.ceil(high - ROUNDING):,}"


_COLUMNS = tuple(
    one.name for one in fields(EvaluatedRule)
    if one.name not in ("rule", "on_top_of", "saved_share", "lost_share", "policy", "minimise", "objective")
)  # fmt: skip


class RulesRecord(Tabular, Sequence[EvaluatedRule]):
    """Rules with their numbers, best first; `tether.records.Rules` says what the fields are."""

    def __init__(
        self,
        rules: Sequence[EvaluatedRule],
        chosen: Sequence[EvaluatedRule] = (),
        *,
        searched: int = 0,
        placebo: int | None = None,
        reason: str = "",
        broken: int = 0,
        best_gain: float = float("nan"),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._rules, self.chosen = tuple(rules), tuple(chosen)
        self.searched, self.placebo, self.reason = searched, placebo, reason
        self.broken, self.best_gain = broken, best_gain
        self.settings = dict(settings or {})

    @overload
    def __getitem__(self, i: int) -> EvaluatedRule: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[EvaluatedRule]: ...
    def __getitem__(self, i: int | slice) -> Any:
        return self._rules[i]

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the best policy's gain that the chosen rules reach, one after the other."""
        return tuple(one.gain / self.best_gain if self.best_gain else float("nan") for one in self.chosen)

    @property
    def unit(self) -> str:
        """What gains are counted in; nothing for the return."""
        return "percentage points" if len(self) and self[0].objective else ""

    @cached_property
    def table(self) -> pyarrow.Table:
        """One row per rule, best first; the columns are the attributes of `EvaluatedRule`."""
        return self.to_arrow()

    def to_arrow(self) -> pyarrow.Table:
        """The rules as an Arrow table."""
        import pyarrow as pa

        columns: dict[str, Any] = {"rule": [str(one.rule) for one in self]}
        columns["on_top_of"] = [" ".join(map(str, one.on_top_of)) for one in self]
        for name in _COLUMNS:
            columns[name] = [getattr(one, name) for one in self]
        for name in ("saved_share", "lost_share"):
            shares = [getattr(one, name) for one in self]
            for end, place in (("low", 0), ("high", 1)):
                ends = [None if one is None else one[place] for one in shares]
                columns[f"{name}_{end}"] = pa.array(ends, pa.float64())
        return pa.table(columns)

    def plot(self, ax: Any = None) -> Any:
        """Helped and harmed of each rule, as bars with their range under every causal model; returns the axes."""
        from tether.figures.rule_bars import plot_rules

        return plot_rules(self, ax)

    def sentences(self) -> list[str]:
        """The chosen rules in words; or that no rule was chosen, and why."""
        found = self.nothing()
        for one in self.chosen or ([] if self.searched else self):
            found += [*([""] if found else []), *one.sentences()]
        for number, share in enumerate(self.shares):
            if np.isfinite(share) and share > 0:
                what = "This rule reaches" if number == 0 else f"These {number + 1} rules together reach"
                reached = percent(min(share, 1.0))
                found.append(f"{what} {reached} of what the best policy of the model would gain.")
        if self.placebo is not None:
            many, shown = self.placebo or "none", "show" if self.placebo > 1 else "shows"
            found.append(f"Of 19 logs with permuted actions, {many} {shown} as much as this log.")
        return found

    def nothing(self) -> list[str]:
        """Sentences on why a search chose no rule; empty if it chose one."""
        if self.chosen or not self.searched:
            return []
        what = "is shown to be better than usual practice"
        if self.settings.get("harm") is not None:
            what += f" and to harm at most {percent(self.settings['harm'])} of those whom it touches"
        return [f"None of {self.searched:,} rules {what}.", *([self.reason] if self.reason else [])]

    def __repr__(self) -> str:
        best = f"; best: {self[0].rule}" if len(self) else ""
        return f"<Rules: {counted(len(self), 'rule')}, {len(self.chosen)} chosen{best}>"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        rows = [
            (str(one.rule), f"{one.touched:,}", one.bare(one.gain), average(one.helped), average(one.harmed),
             average(one.saved), average(one.lost), one.bare(one.held_out_gain))
            for one in self
        ]  # fmt: skip
        unit = f" ({self.unit})" if self.unit else ""
        heads = ("rule", "touched", f"gain{unit}", "helped", "harmed", "saved", "lost", f"held-out gain{unit}")
        return paragraphs(self.sentences()) + html_table(heads, rows)
