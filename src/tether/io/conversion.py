"""A model from one format into another, and what the new format cannot hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.markup import Displayed
from tether.io.files import name_of
from tether.io.models import FORMATS, format_of, write_model
from tether.io.opening import open_model
from tether.io.valuations import valuation_class
from tether.mdp import MDP
from tether.model.as_stormpy import valuations
from tether.model.form import Rewards, all_pair_states
from tether.model.model_record import ModelRecord


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Conversion:
    """Record of a model that was written in another format.

    Attributes
    ----------
    mdp : MDP
        The model as it was read.
    target : str
        Where it was written to.
    format : str
        One of the formats of `tether.io.write_model`.
    lost_labels : tuple of str
        The labels (`MDP.labels`) that this format cannot hold.
    numbered : bool
        Whether states are written as numbers, because the format cannot hold their names.
    notes : tuple of str
        What else is not as in the model, in sentences.

    Examples
    --------
    >>> import tempfile, tether
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.io.convert("case:grid-world", f"{folder}/grid.tra").format
    'prism'
    """

    mdp: MDP
    target: str
    format: str
    lost_labels: tuple[str, ...]
    numbered: bool
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lost = f", without the labels {', '.join(self.lost_labels)}" if self.lost_labels else ""
        return f"<Conversion: {self.mdp!r} as {self.format}{lost}{', states by number' if self.numbered else ''}>"


def convert(
    source: MDP | str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str | None = None,
    mean_rewards: bool = False,
    **options: Any,
) -> Conversion:
    """Read a model in one format and write it in another.

    Parameters
    ----------
    source : MDP, str or path
        A model, or what `tether.io.open_model` opens.
    target : path
        Its suffix says the format; a name without one is a saved model, which keeps everything.
    to : str, optional
        The format of the target, if its name does not say it.
    mean_rewards : bool
        Write R(s, a, s') to a DRN file as its means, R(s, a).
    **options
        How to read the source (``format``, ``columns``, ``order``, ``terminal``), as `tether.io.open_model` takes them.

    Examples
    --------
    >>> import tempfile, tether
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = tether.io.convert("case:grid-world", f"{folder}/grid.parquet")
    >>> done.format, done.mdp, done.numbered
    ('parquet', <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>, False)
    """
    format = format_of(target, to)
    mdp = source if isinstance(source, MDP) else open_model(source, **options)
    write_model(mdp, target, to, **({"mean_rewards": True} if mean_rewards else {}))
    lost = () if FORMATS[format].has_labels else tuple(mdp.label_sets)
    numbered = format == "prism" and valuations(mdp.states, (int, bool)) is None
    return Conversion(mdp, name_of(target), format, lost, numbered, tuple(_notes(mdp, format)))


def _notes(mdp: MDP, format: str) -> Iterator[str]:
    """What PRISM's and Storm's files do not hold of a model, or hold in another way."""
    if format not in ("prism", "drn"):
        return
    rewards = 'are called "reward"' if format == "drn" else "have no name"
    yield f"The rewards {rewards}, and the choices of a state are in the order of the model's actions."
    if mdp.n_actions == 1:
        yield "A Markov chain is written as an MDP with one action."
    if mdp.discount != 1.0:
        yield f"The discount {mdp.discount:g} is left out: these files have none."
    if mdp.final_reward is not None:
        yield "The final reward is left out: these files have none."


@dataclass(frozen=True, slots=True)
class EpisodeModel(Displayed):
    """A counterfactual MDP that was written for another tool, and what to ask of it.

    Attributes
    ----------
    file : str
    states, transitions : int
    question : str
        The property whose value in the state labelled ``init``, less ``shift``, is the value of the best plan. If no
        reward is other than 0, this is the chance of what never happens: Storm has no answer about rewards that are all
        0.
    shift : float
        How much rewards were raised, over a whole path: PRISM takes none below 0.

    Examples
    --------
    >>> import tempfile, tether
    >>> case = tether.cases.epidemic()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = tether.counterfactual(case.mdp, case.path).write(f"{folder}/outbreak.drn", k=6, m=4)
    >>> made.states, made.question
    (116, 'R{"reward"}max=? [ C<=8 ]')
    """

    file: str
    states: int
    transitions: int
    question: str
    shift: float


def write_unfolded(mdp: MDP, file: str | os.PathLike[str], steps: int, minimise: bool) -> EpisodeModel:
    """Write an unfolded counterfactual MDP (`tether.plan.unfolded`) and say what to ask of it."""
    format = format_of(file)
    lift = max(0.0, -float(mdp.rewards.values.min())) if format == "prism" else 0.0
    means: dict[str, Any] = {"mean_rewards": True} if format == "drn" else {}
    write_model(_raised(mdp, lift) if lift else mdp, file, **means)
    best, name = "min" if minimise else "max", "" if format == "prism" else '{"reward"}'  # PRISM's files have no name
    question = f"R{name}{best}=? [ C<={steps} ]" if mdp.rewards.values.any() else f"P{best}=? [ F false ]"
    return EpisodeModel(os.fspath(file), mdp.n_states, mdp.n_transitions, question, lift * steps)


def for_tools(unfolded: MDP, own: ModelRecord) -> MDP:
    """An unfolded model as other tools read it: its states are values of variables, and it has its model's labels.

    The variables are t, those of the model's states, uninfluenced (for the rule `assured`) and changes_left. The last
    state, "done", follows the last step; its other values mean nothing.
    """
    sample, names = own.states[0], list(unfolded.states)[:-1]
    ends = {"init": np.arange(unfolded.n_states) == 0, "done": np.arange(unfolded.n_states) == len(names)}
    sizes = {0} if isinstance(own.states[:0], range) else {_size(name) for name in own.states}
    if len(sizes) > 1 or -1 in sizes or len(set(map(len, names))) > 1:  # states of several kinds
        return unfolded.with_labels(ends)
    (size,) = sizes
    parts = list(getattr(sample, "_fields", ())) or [f"v{i}" for i in range(size)] or ["state"]
    places = [own.states.find(name[1 : 1 + size] if size else name[1]) for name in names]
    labels = {f"{name}_2" if name in ends else name: own.labels[name].indices for name in own.labels}
    marked = {name: np.append(np.isin(places, states), False) for name, states in labels.items()}
    further = ["uninfluenced", "changes_left"][1 + len(parts) - len(names[0]) :]
    make = valuation_class(["t", *parts, *further])
    after = (1 + max(name[0] for name in names), *names[0][1:-1], 0)
    named = unfolded.with_names(states=[make(name) for name in [*names, after]])
    return named.with_labels({**{name: some for name, some in marked.items() if some.any()}, **ends})


def _size(name: Any) -> int:
    """How many parts a name has: 0 for one that is no tuple, -1 for a tuple without any."""
    return (len(name) or -1) if isinstance(name, tuple) else 0


def _raised(mdp: MDP, lift: float) -> MDP:
    """The model with more reward at every step before "done"."""
    form = mdp.form
    raised = lift * ~np.isin(all_pair_states(form.pair_start), mdp.labels["done"].indices)
    if mdp.rewards.by_entry:
        raised = np.repeat(raised, np.diff(form.row_start))
    rewards = Rewards(mdp.rewards.values + raised, mdp.rewards.by_entry)
    return replace(mdp, form=replace(form, rewards=rewards))
