"""Options that several commands share, and the model, path or plan that they describe."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from tether.cli.doing import LIMITS, READING, REPLAYING
from tether.cli.parsing import (
    advising,
    influence_of,
    objective_of,
    refuse_rewards,
    renamed_columns,
    subject_to_of,
    worth_of,
)

if TYPE_CHECKING:
    from tether.explanation.verdicts import Nouns
    from tether.mdp import MDP
    from tether.model.model_record import ModelRecord
    from tether.model.properties import Property
    from tether.objects.counterfactual_object import CounterfactualMDP
    from tether.objects.plan_object import Plan
    from tether.observation.path import Path

__all__ = [
    "Episode",
    "ModelOptions",
    "PlanOptions",
    "about_a_model",
    "about_an_episode",
    "about_an_episode_or_none",
    "as_json",
    "with_certificate",
    "with_draws",
    "with_gamma",
    "with_hiding",
    "with_influence",
    "with_k_and_m",
    "with_limits",
    "with_limits_and_risk",
    "with_names",
    "with_objective",
    "with_property",
    "with_rule",
    "with_times",
    "with_writing",
]

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = {"P": "transitions", "R": "rewards"}
"""The arrays of a model, and the arguments of `tether.io.read_arrays` for their names."""

with_certificate = click.option(
    "--no-certificate",
    "certificate",
    flag_value=False,
    default=True,
    help="Leave out what holds under other causal models.",
)


def with_gamma(command: F) -> F:
    """``--gamma`` and ``--practice``: hidden causes of actions and outcomes."""
    practice = click.option(
        "--practice",
        metavar="FILE",
        help="How often each action is usually taken: a policy file, or random.  [default: as in the log of a learned "
        "model, otherwise random]",
    )
    gamma = click.option(
        "--gamma",
        type=click.FloatRange(min=1.0),
        default=1.0,
        metavar="TIMES",
        help="Allow for hidden causes that changed the odds of an action up to so many times.  [default: 1, none]",
    )
    return gamma(practice(command))


def with_draws(command: F) -> F:
    """``--draws`` and ``--seed``: how sure an answer of a learned model is."""
    seed = click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of the draws."
    )
    draws = click.option(
        "--draws",
        type=click.IntRange(min=0),
        help="For a learned model: how many of the models that its log leaves possible to draw, to say how sure "
        "the answer is; 0 for none.  [default: 100, fewer for a large model]",
    )
    return draws(seed(command))


as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


@dataclass(frozen=True)
class ModelOptions:
    """MODEL, and how to read it."""

    model: str
    format: str | None
    columns: dict[str, str]
    order: str | None
    reward_order: str | None
    terminal: tuple[str, ...]
    discount: float | None
    final_reward: dict[str, float]
    reward_model: str | None
    state_rewards: str | None
    transition_rewards: str | None
    constants: str | None
    tolerance: float | None

    def split_columns(self) -> tuple[dict[str, str], dict[str, str]]:
        """What ``--column`` says about MODEL; and what about PATH or a log: the names that MODEL cannot have."""
        if self._has == "columns":
            return self.columns, {}
        own = {ours: theirs for ours, theirs in self.columns.items() if self._has == "arrays" and ours in _ARRAYS}
        return own, {ours: theirs for ours, theirs in self.columns.items() if ours not in own}

    def refuse_other_columns(self) -> None:
        """An error if ``--column`` is not about MODEL: for a command without PATH or log."""
        for ours in self.split_columns()[1]:
            raise click.UsageError(self._no_column(ours))

    def _no_column(self, ours: str) -> str:
        if self._has != "arrays":
            return f"--column {ours}: {self.model} has no columns."
        fix = "--column P=NAME, --column R=NAME; --column R= if there are no rewards"
        return f"--column {ours}: {self.model} has arrays, not columns. If they have other names: {fix}."

    @property
    def _has(self) -> str | None:
        from tether.io.opening import names_in

        return names_in(self.model, self.format)

    def open(self) -> MDP:
        """Read the model, and say so."""
        from tether.cli.screen import progress
        from tether.io.sources import open_model

        with progress() as say:
            say(f"reading {self.model}", READING)
            mdp = open_model(self.model, **{**self._without_rewards, **self.reading})
        if self.discount is not None:
            mdp = mdp.with_objective(discount=self.discount)
        return self._with_final_reward(mdp) if self.final_reward else mdp

    def _with_final_reward(self, mdp: MDP) -> MDP:
        from tether.io.sources import find_name

        rewards = {find_name(mdp.states, word, "state"): value for word, value in self.final_reward.items()}
        return mdp.with_objective(final_reward=rewards)

    @property
    def _without_rewards(self) -> dict[str, Any]:
        """How to leave out the rewards of a file, if an objective is asked for: none counts then."""
        from tether.io.opening import rewards_left_out

        objective = click.get_current_context().params.get("objective")
        return {} if objective is None else rewards_left_out(self.model, self.format)

    @property
    def reading(self) -> dict[str, Any]:
        """The options that were given, as the reader takes them."""
        from tether.io.finding import word_to_label

        arrays: dict[str, Any] = {}
        if self._has == "arrays":
            arrays = {_ARRAYS[ours]: theirs for ours, theirs in self.columns.items()}
            if arrays.get("rewards") == "":
                arrays["rewards"] = None
        given = {
            "format": self.format,
            "columns": {} if arrays else self.columns,
            "order": self.order and self.order.upper(),
            "reward_order": self.reward_order and self.reward_order.upper(),
            "terminal": [word_to_label(word) for word in self.terminal],
            "reward_model": self.reward_model,
            "state_rewards": self.state_rewards,
            "transition_rewards": self.transition_rewards,
            "constants": self.constants,
        }
        exactly = {} if self.tolerance is None else {"tolerance": self.tolerance}  # 0 is one, too
        return {name: value for name, value in given.items() if value} | arrays | exactly


@dataclass(frozen=True)
class Episode(ModelOptions):
    """MODEL and PATH, and how to read them."""

    path: str | None
    path_columns: dict[str, str]
    time: str | None
    step: str | None
    horizon: int | None = None
    then: str = "best"

    def __post_init__(self) -> None:
        if not self.model:  # the explorer's embedded cases
            if self.words:
                raise click.UsageError(f"{self.words[0]}: MODEL is missing.")
            return
        own, of_path = self.split_columns()
        object.__setattr__(self, "path_columns", {**of_path, **self.path_columns})
        object.__setattr__(self, "columns", own)

    @property
    def path_source(self) -> str:
        """PATH, or the path of the case."""
        if self.path is not None:
            return self.path
        if self.model.startswith("case:"):
            return self.model
        from tether.io.opening import must_exist

        must_exist(self.model)
        raise click.UsageError(
            "PATH is missing: the episode that happened, as a file, as an episode of a log (log.csv#17), or case:NAME. "
            "It may be left out only if MODEL is an embedded case."
        )

    @property
    def named(self) -> dict[str, str]:
        """MODEL and PATH as they were written."""
        return {"model": self.model, "path": self.path_source}

    def nouns(self, episode: str | None, step: str | None) -> Nouns:
        """What an episode and a step are called: as the options say, or as the case does."""
        from tether.explanation.verdicts import Nouns

        return Nouns(episode or self._case_noun or "episode", step or "step")

    def title(self, noun: str, hide_id: bool = False) -> str:
        """The episode by a person's name for it: "Sepsis patient", "Patient 10"; without its name in the log."""
        if hide_id:
            return noun.capitalize()
        if self.path_source.startswith("case:"):
            from tether.io.embedded import title_of

            return title_of(self.path_source, noun)
        return f"{noun.capitalize()} {self.path_source.rpartition('#')[2]}"

    def name(self, label: Any) -> str:
        """A state or an action as it is written here: in words, where the case has them."""
        from tether._foundation.words import shown
        from tether.io.embedded import words_of

        return words_of(self.model).get(label, shown(label)) if isinstance(label, str) else shown(label)

    def hours(self) -> list[float] | None:
        """The times of the steps, in the log's own numbers, where ``--time`` names a column of them."""
        if self.time is None:
            return None
        from tether.io.columns import read_columns

        file, _, wanted = self.path_source.rpartition("#")
        named = {ours: theirs for ours, theirs in self.path_columns.items() if ours == "episode"}
        read = read_columns(
            file or wanted, ["t"], ["episode"], {**named, "t": self.time}, text=["episode"], blank=["t"]
        )
        times, ids = read.get("t"), read.get("episode") if file else None
        assert times is not None
        kept = times if ids is None else times[[str(one) == wanted for one in ids]]
        return sorted(float(time) for time in kept)

    @property
    def _case_noun(self) -> str | None:
        if not self.path_source.startswith("case:"):
            return None
        from tether.io.embedded import open_case

        return open_case(self.path_source)[0].noun

    def refuse_options_of_path(self) -> None:
        """An error if there are options for PATH: for a call without one."""
        for ours in self.path_columns:
            raise click.UsageError(f"{self._no_column(ours)} There is no PATH that could have it.")
        if self.time or self.step:
            raise click.UsageError(f"{'--time' if self.time else '--step'} is about PATH, and there is none.")

    def open_path(self, mdp: MDP | None) -> Path:
        """Read the path, with the names of the model if there is one."""
        from tether.cli.screen import progress
        from tether.io.sources import open_path

        source = self.path_source
        with progress() as say:
            say(f"reading {source}", READING)
            return open_path(source, mdp, **self.reading_path)

    @property
    def reading_path(self) -> dict[str, Any]:
        """The options for PATH that were given, as the reader takes them."""
        given = {"columns": self.path_columns, "time": self.time, "step": self.step}
        return {name: value for name, value in given.items() if value}

    @property
    def words(self) -> list[str]:
        """The options that were given, as they are written."""
        single = {
            "--format": self.format,
            "--order": self.order,
            "--reward-order": self.reward_order,
            "--discount": self.discount,
            "--reward-model": self.reward_model,
            "--state-rewards": self.state_rewards,
            "--transition-rewards": self.transition_rewards,
            "--constants": self.constants,
            "--tolerance": self.tolerance,
            "--time": self.time,
            "--step": self.step,
            "--horizon": self.horizon,
            "--then": None if self.then == "best" else self.then,
        }
        several = {
            "--column": [f"{ours}={theirs}" for ours, theirs in self.columns.items()],
            "--terminal": self.terminal,
            "--final-reward": [f"{state}={value!r}" for state, value in self.final_reward.items()],
            "--path-column": [f"{ours}={theirs}" for ours, theirs in self.path_columns.items()],
        }
        given = [(option, str(value)) for option, value in single.items() if value is not None]
        given += [(option, value) for option, values in several.items() for value in values]
        return [word for pair in given for word in pair]

    def replay(self, mdp: MDP | None = None, path: Path | None = None) -> CounterfactualMDP:
        """Condition the model on the path; read both, unless they are given. A learned model leaves the path out."""
        from tether.cli.screen import progress
        from tether.learning.folds import unseen
        from tether.objects.counterfactual_object import counterfactual

        _ = self.path_source  # a missing path is reported before a large model is read
        mdp = self.open() if mdp is None else mdp
        path = self.open_path(mdp) if path is None else path
        with progress() as say:
            say("replaying the model with the luck of the episode", REPLAYING)
            return counterfactual(unseen(mdp, path), path, **self.beyond(mdp))

    def beyond(self, mdp: MDP) -> dict[str, Any]:
        """Up to which time, and who acts after the record, as `tether.counterfactual` takes them."""
        return {"horizon": self.horizon, "then": who_acts(self.then, mdp)}


def who_acts(then: str, mdp: MDP) -> Any:
    """Who acts after the record: by name, or a policy from a file."""
    from tether.io.sources import open_policy

    return then if then in ("best", "usual") else open_policy(then, mdp)


@dataclass(frozen=True)
class PlanOptions:
    """k, m, and what they mean."""

    k: int | None
    m: int
    rule: Any
    influence: Any
    objective: Property | None
    minimise: bool
    subject_to: tuple[Property, float] | None = None
    """A property, and how likely it may be; None for no such limit, and for commands without the option."""
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    cost: tuple[str, ...] = ()

    def advising(self, mdp: ModelRecord) -> dict[str, Any]:
        """Which changes may be advised, and what they cost, as the library takes them."""
        return advising(mdp, self.only, self.never, self.cost)

    @property
    def judging(self) -> dict[str, Any]:
        """What a value is, and whether less is better."""
        return {"objective": self.objective, "minimise": self.minimise}

    def plan(self, cf: CounterfactualMDP, every_k: bool = False) -> Plan:
        """The best plan within them; with ``every_k`` κ is computed for every k, because the next question needs it."""
        from tether.cli.screen import progress

        with progress() as say:
            say("planning", LIMITS)
            about = self.judging | self.advising(cf.mdp)
            question = cf.tether(rule=self.rule, influence=self.influence, **about)
            if every_k:
                question.thresholds()
            return question.plan(self.k, self.m, subject_to=self.subject_to)


_TIMES = [
    click.option("--time", metavar="COLUMN", help="A column of times, in place of t: numbers or timestamps."),
    click.option("--step", metavar="SIZE", help="How far apart the times are, to find gaps: 4, or 4h for timestamps."),
]

_NAMED = [
    click.option("--episode-name", metavar="WORD", help="What an episode is called: patient.  [default: episode]"),
    click.option("--step-name", metavar="WORD", help="What a step is called: hour.  [default: step]"),
]

_HIDING = [
    click.option("--hide-ids", is_flag=True, help="Leave the names of episodes out of the pages; tables keep them."),
]

_WRITTEN = [
    click.option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True,
                 help="The decimal sign in a text file."),
    click.option("--encoding", metavar="NAME", default="", help="The encoding of a text file, if not UTF-8: latin-1."),
    click.option("--day-first", is_flag=True, help="Dates are written dd/mm/yyyy."),
    click.option("--fold-case", is_flag=True,
                 help="Names that differ only in case, spaces or accents are one name, in lower case."),
]  # fmt: skip

_READING = [
    click.option("--format", metavar="NAME", help="The format of MODEL, if its name does not say it."),
    click.option(
        "--column",
        "columns",
        multiple=True,
        callback=renamed_columns,
        metavar="OURS=YOURS",
        help="A column of MODEL that has another name: state=s. Or an array: P=T, R=cost; R= for no rewards. "
        "May be repeated.",
    ),
    click.option("--order", metavar="AXES", help="Axes of transitions in an array file: SAS, ASS or SSA."),
    click.option(
        "--reward-order", metavar="AXES", help="Axes of rewards in such a file: S, SA, AS, SAS, ASS, SSA, TSA."
    ),
    click.option("--terminal", multiple=True, metavar="STATE", help="A state that ends episodes. May be repeated."),
    click.option("--discount", type=float, help="The discount per step, from 0 to 1."),
    click.option(
        "--final-reward",
        multiple=True,
        callback=worth_of,
        metavar="STATE=VALUE",
        help="The reward for ending in a state; 0 for other states. May be repeated.",
    ),
    click.option("--reward-model", metavar="NAME", help="Which rewards to take, if a DRN or PRISM model has several."),
    click.option("--state-rewards", metavar="FILE", help="State rewards of a PRISM model, if they are not beside it."),
    click.option("--transition-rewards", metavar="FILE", help="Its transition rewards, if they are not beside it."),
    click.option("--constants", metavar="N=3,…", help="Constants that a PRISM or JANI program leaves open."),
    click.option(
        "--tolerance",
        type=float,
        help="How far from 1 the probabilities of an action may sum, in a file of few digits.",
    ),
]

_MODEL = [click.argument("model"), *_READING]

_EPISODE = [
    click.argument("model"),
    click.argument("path", required=False),
    *_READING,
    click.option(
        "--path-column",
        "path_columns",
        multiple=True,
        callback=renamed_columns,
        metavar="OURS=YOURS",
        help="A column of PATH that has another name. A state may be made of several: state=status,lactate.",
    ),
    *_TIMES,
]

_HORIZON = [
    click.option(
        "--horizon",
        type=click.IntRange(min=1),
        help="Up to which step to ask: an episode that ended early might have gone on.  [default: the horizon of the "
        "model after an early end; for a learned model, until it would have ended under usual practice]",
    ),
    click.option(
        "--then",
        metavar="POLICY",
        default="best",
        show_default=True,
        help="Who acts after the last recorded step: best, usual (for a learned model, as often as in its log), "
        "random, or a file, as in tether evaluate.",
    ),
]

_RULE = [
    click.option(
        "--rule",
        type=click.Choice(["definition", "published", "printed", "assured"]),
        default="definition",
        show_default=True,
        help="What k means; with assured there are never k uninfluenced steps in a row.",
    ),
    click.option(
        "--influence",
        callback=influence_of,
        metavar="TEST",
        default="support",
        show_default=True,
        help="When a step counts as influenced: support, tv:EPS, effective:EPS.",
    ),
]

_OBJECTIVE = [
    click.option(
        "--objective",
        callback=objective_of,
        metavar="PROPERTY",
        help="What to ask for instead of the return: 'reach GOAL', 'avoid BAD' or 'until HOLD GOAL', with labels of "
        "the model or names of states.",
    ),
    click.option("--minimise", is_flag=True, help="Ask for the smallest value, not the largest: for costs."),
]

_LIMITS = [
    click.option(
        "-k",
        type=click.IntRange(min=1),
        help="Length of the tether.  [default: the largest gain of the plans that are about this episode; if none is, "
        "the shortest that gives 90 % of what the longest, k = T, gives]",
    ),
    click.option("-m", type=click.IntRange(min=0), default=1, show_default=True, help="How many actions may change."),
]


_ADVISABLE = [
    click.option(
        "--only",
        multiple=True,
        metavar="CHANGE",
        help="Advise only this change: a step (2, or 2-4), an action, or 'step=2-4 state=STATE action=ACTION'. May be "
        "repeated.",
    ),
    click.option("--never", multiple=True, metavar="CHANGE", help="Never advise this change. May be repeated."),
    click.option(
        "--cost", multiple=True, metavar="PRICE", help="The price of a change: 5, or ACTION=5. May be repeated."
    ),
]


_SUBJECT_TO = click.option(
    "--subject-to",
    callback=subject_to_of,
    metavar="'PROPERTY P'",
    help="Only plans under which a property has at most probability P: 'reach died 0.1'.",
)


def _with(options: list[Any]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _gathered(options: list[Any], record: type, argument: str) -> Callable[[F], F]:
    """A decorator: the command gets these options as one record."""

    def decorate(command: F) -> F:
        names = [field.name for field in fields(record)]

        @functools.wraps(command)
        def gathering(**given: Any) -> Any:
            refuse_rewards(given.get("objective"))
            one = record(**{name: given.pop(name) for name in names if name in given})
            return command(**{argument: one}, **given)

        return cast(F, _with(options)(gathering))

    return decorate


about_a_model = _gathered(_MODEL, ModelOptions, "source")
about_a_record = _gathered(_EPISODE, Episode, "episode")
about_an_episode = _gathered([*_EPISODE, *_HORIZON], Episode, "episode")
about_an_episode_or_none = _gathered(
    [click.argument("model", required=False), *_EPISODE[1:], *_HORIZON], Episode, "episode"
)
with_horizon = _with(_HORIZON)
with_limits = _gathered([*_LIMITS, *_RULE, *_OBJECTIVE, *_ADVISABLE], PlanOptions, "limits")
with_limits_and_risk = _gathered([*_LIMITS, *_RULE, *_OBJECTIVE, _SUBJECT_TO, *_ADVISABLE], PlanOptions, "limits")
with_advisable = _with(_ADVISABLE)
with_changes = _with(_ADVISABLE[:2])
with_objective = _with(_OBJECTIVE)
with_property = _with(_OBJECTIVE[:1])
with_k_and_m = _with([*_LIMITS, _RULE[0]])
with_rule = _with(_RULE)
with_names = _with(_NAMED)
with_hiding = _with(_HIDING)
with_times = _with(_TIMES)
with_writing = _with(_WRITTEN)
with_influence = _with(_RULE[1:])
