"""What the options of a command describe: a model, an episode, a plan; and how to open or make it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from tether.cli.doing import LIMITS, READING, REPLAYING, spoken
from tether.cli.parsing import STEPS, advising

if TYPE_CHECKING:
    from tether.mdp import MDP
    from tether.model.model_record import ModelRecord
    from tether.model.properties import Property
    from tether.objects.counterfactual_object import CounterfactualMDP
    from tether.objects.plan_object import Plan
    from tether.observation.path import Path

_ARRAYS = {"P": "transitions", "R": "rewards"}
"""The arrays of a model, and the arguments of `tether.io.read_arrays` for their names."""


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

        return names_in(self.file, self.format)

    @property
    def file(self) -> str:
        """The file of MODEL: for ``-`` one of standard input."""
        from tether.cli.pipes import input_file

        return input_file(self.model, "MODEL")

    def open(self) -> MDP:
        """Read the model, and say so."""
        from tether.cli.pipes import read_from
        from tether.cli.screen import progress
        from tether.io import open_model

        with progress() as say, read_from(self.model, "MODEL") as file:
            say(f"reading {self.model}", READING)
            mdp = open_model(file, **{**self._without_rewards, **self.reading})
        if self.discount is not None:
            mdp = mdp.with_objective(discount=self.discount)
        return self._with_final_reward(mdp) if self.final_reward else mdp

    def _with_final_reward(self, mdp: MDP) -> MDP:
        from tether.io.names_as_text import find_name

        rewards = {find_name(mdp.states, word, "state"): value for word, value in self.final_reward.items()}
        return mdp.with_objective(final_reward=rewards)

    @property
    def _without_rewards(self) -> dict[str, Any]:
        """How to leave out the rewards of a file, if an objective is asked for: none counts then."""
        from tether.io.opening import rewards_left_out

        objective = click.get_current_context().params.get("objective")
        return {} if objective is None else rewards_left_out(self.file, self.format)

    @property
    def reading(self) -> dict[str, Any]:
        """The options that were given, as the reader takes them."""
        from tether.io.names_as_text import word_to_label

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


def title_of_path(source: str, noun: str) -> str:
    """A person's name for the episode that a source names.

    >>> title_of_path("case:hidden-diabetes", "patient"), title_of_path("log.csv#17", "patient")
    ('Hidden diabetes patient', 'Patient 17')
    """
    if source.startswith("case:"):
        from tether.io.embedded import title_of

        return title_of(source, noun)
    file, _, one = source.rpartition("#")
    return f"{noun.capitalize()} {one if file else PurePath(one).stem}"


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

        must_exist(self.file)
        raise click.UsageError(
            "PATH is missing: the episode that happened, as a file, as an episode of a log (log.csv#17), or case:NAME. "
            "It may be left out only if MODEL is an embedded case."
        )

    @property
    def named(self) -> dict[str, str]:
        """MODEL and PATH as they were written."""
        return {"model": self.model, "path": self.path_source}

    def title(self, noun: str, hide_id: bool = False) -> str:
        """The episode by a person's name for it: "Sepsis patient", "Patient 10"; without its name in the log."""
        return noun.capitalize() if hide_id else title_of_path(self.path_source, noun)

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
    def case_noun(self) -> str | None:
        """What a case calls its episodes; None for a path from a file."""
        source = self.path or self.model or ""
        if not source.startswith("case:"):
            return None
        from tether.io.embedded import is_typed_case, open_case, open_typed_case

        return (open_typed_case if is_typed_case(source) else open_case)(source)[0].noun

    def refuse_options_of_path(self) -> None:
        """An error if there are options for PATH: for a call without one."""
        for ours in self.path_columns:
            raise click.UsageError(f"{self._no_column(ours)} There is no PATH that could have it.")
        if self.time or self.step:
            raise click.UsageError(f"{'--time' if self.time else '--step'} is about PATH, and there is none.")

    def open_path(self, mdp: MDP | None) -> Path:
        """Read the path, with the names of the model if there is one."""
        from tether.cli.pipes import read_from
        from tether.cli.screen import progress
        from tether.io import open_path

        source = self.path_source
        with progress() as say, read_from(source) as file:
            say(f"reading {source}", READING)
            path = open_path(file, mdp, **self.reading_path)
        steps = click.get_current_context().meta.get(STEPS)
        return path if steps is None else path.first(steps)

    @property
    def reading_path(self) -> dict[str, Any]:
        """The options for PATH that were given, as the reader takes them."""
        given = {"columns": self.path_columns, "time": self.time, "step": self.step}
        return {name: value for name, value in given.items() if value}

    @property
    def words(self) -> list[str]:
        """The options that were given, as they are written."""
        nouns = spoken()
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
            "--episode-name": None if nouns.episode in ("episode", self.case_noun) else nouns.episode,
            "--step-name": None if nouns.step == "step" else nouns.step,
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
    from tether.io import open_policy

    return then if then in ("best", "usual") else open_policy(then, mdp)


@dataclass(frozen=True)
class QuestionOptions:
    """What k counts, what a value is, and which changes may be advised. A command need not have all these options."""

    rule: Any = "definition"
    influence: Any = "support"
    objective: Property | None = None
    minimise: bool = False
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    cost: tuple[str, ...] = ()

    def advising(self, mdp: ModelRecord) -> dict[str, Any]:
        """Which changes may be advised, and what they cost, as the library takes them."""
        return advising(mdp, self.only, self.never, self.cost)

    @property
    def tethering(self) -> dict[str, Any]:
        """The rule and the test of influence: what k counts."""
        return {"rule": self.rule, "influence": self.influence}

    @property
    def judging(self) -> dict[str, Any]:
        """What a value is, and whether less is better."""
        return {"objective": self.objective, "minimise": self.minimise}

    @property
    def in_json(self) -> dict[str, Any]:
        """What k counts and what a value is, as answers in JSON say it."""
        from tether.explanation.answer_data import objective_data

        return {"rule": self.rule, "influence": str(self.influence), **objective_data(**self.judging)}


@dataclass(frozen=True)
class PlanOptions(QuestionOptions):
    """k, m, and what they mean."""

    k: int | None = None
    m: int = 1
    subject_to: tuple[Property, float] | None = None
    """A property, and how likely it may be; None for no such limit, and for commands without the option."""

    def plan(self, cf: CounterfactualMDP, every_k: bool = False) -> Plan:
        """The best plan within them; with ``every_k`` κ is computed for every k, because the next question needs it."""
        from tether.cli.screen import progress

        with progress() as say:
            say("planning", LIMITS)
            question = cf.tether(**self.tethering, **self.judging, **self.advising(cf.mdp))
            if every_k:
                question.thresholds()
            return question.plan(self.k, self.m, subject_to=self.subject_to)
