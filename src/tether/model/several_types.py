"""`Types`: models of individuals of several types, where nobody recorded who is of which type."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.checked_json import encode_checked
from tether._foundation.markup import facts
from tether._foundation.words import counted, percent
from tether._foundation.writing import written_into
from tether.errors import FileError, Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.model.practice import shares_together

LIST_OF_TYPES = "types.json"
"""The file of a directory of types that names them."""

TYPES_FORMAT = "tether types 1"


class Types:
    """Models of several types of individuals, of which the log does not say who is which.

    Parameters
    ----------
    models : mapping
        The model of each type, by name. All have the same states and actions, and the same actions in each state.
    prior : mapping
        How likely each type is, before the episode is seen; a number, or a mapping from first states to numbers.
    practice : mapping, optional
        If those who acted saw the type: what they usually do for each type, as a mapping from states to an action, or
        to shares of actions. What was done then says something of the type, too. By default they did not see it.

    Examples
    --------
    >>> import tether
    >>> def ward(dies):
    ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies), ("sick", "treat", "well", 1.0)]
    ...     return tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
    >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.2, "robust": 0.8})
    >>> types
    <Types: frail 20 %, robust 80 %>
    >>> cf = tether.counterfactual(types, tether.Path(["sick", "sick", "dead"], ["wait", "wait"]))
    >>> {name: round(share, 2) for name, share in cf.posterior.items()}
    {'frail': 0.2, 'robust': 0.8}

    Nine in ten frail patients are treated, and one in ten of the others. She was not:

    >>> practice = {"frail": {"sick": {"treat": 0.9, "wait": 0.1}}, "robust": {"sick": {"treat": 0.1, "wait": 0.9}}}
    >>> types = tether.Types(types.models, prior={"frail": 0.5, "robust": 0.5}, practice=practice)
    >>> round(tether.counterfactual(types, tether.Path(["sick", None], ["wait"])).posterior["frail"], 3)
    0.1
    """

    usual: Floats | None
    """How often each pair is taken in its state, by people of any type; None if some model was not learned."""

    own_practice: Mapping[str, Floats] | None
    """For each type how often each pair is taken in its state, if those who acted saw the type; otherwise None."""

    caveat: str
    """What is to be said of types that nobody recorded, wherever they are used; empty for others."""

    def __init__(
        self,
        models: Mapping[str, ModelRecord],
        prior: Mapping[str, Any],
        practice: Mapping[str, Mapping[Any, Any]] | None = None,
    ) -> None:
        if not models:
            raise QueryError("there must be at least one type: tether.Types({'a name': mdp}, prior={'a name': 1.0})")
        if not isinstance(models, Mapping) or not isinstance(prior, Mapping):
            raise QueryError("models and prior are mappings: tether.Types({'a name': mdp}, prior={'a name': 1.0})")
        for name, mdp in models.items():
            if not isinstance(name, str):
                raise QueryError(Problem(f"the name of a type must be a text, not {name!r}", value=name))
            if not isinstance(mdp, ModelRecord):
                raise QueryError(Problem(f"the model of type {name!r} must be a tether.MDP, not {mdp!r}", value=mdp))
        if set(models) != set(prior):
            raise QueryError(
                f"prior must name the types {', '.join(map(repr, models))}, not {', '.join(map(repr, prior))}"
            )
        self.models, self._prior = dict(models), {name: prior[name] for name in models}
        first = next(iter(models.values()))
        for name, mdp in models.items():
            same = tuple(mdp.states) == tuple(first.states) and tuple(mdp.actions) == tuple(first.actions)
            same = same and np.array_equal(mdp.form.pair_start, first.form.pair_start)
            if not same or not np.array_equal(mdp.form.pair_action, first.form.pair_action):
                message = f"the model of type {name!r} has other states, or other actions, than the first"
                raise QueryError(Problem(message, value=name, fix="build all models with the same names"))
            if mdp.discount != first.discount:
                raise QueryError(f"the model of type {name!r} has another discount than the first")
        if not self.by_first_state:
            self.prior(None)
        self.usual, self.own_practice, self.caveat = shares_together(models.values()), None, ""
        if practice is not None:
            if set(practice) != set(models):
                raise QueryError(
                    f"practice must name the types {', '.join(map(repr, models))}, not {', '.join(map(repr, practice))}"
                )
            self.own_practice = {name: _shares_of(mdp, practice[name], name) for name, mdp in models.items()}

    @property
    def by_first_state(self) -> bool:
        """Whether the prior depends on the first state of an episode."""
        return any(isinstance(share, Mapping) for share in self._prior.values())

    def prior(self, state: Any) -> dict[str, float]:
        """How likely each type is in an episode that begins in a state."""
        found = {}
        for name in self.models:
            share = self._prior[name]
            if isinstance(share, Mapping):
                if state not in share:
                    raise QueryError(Problem(f"prior says nothing of type {name!r} in state {state!r}", state))
                share = share[state]
            if isinstance(share, bool) or not isinstance(share, int | float | np.number):
                raise QueryError(Problem(f"prior of type {name!r} must be a number, not {share!r}", value=share))
            found[name] = float(share)
        total = sum(found.values())
        if not (min(found.values()) >= 0 and abs(total - 1.0) <= 1e-9):  # also if one is not a number
            raise QueryError(f"prior is not a distribution: {', '.join(f'{one:g}' for one in found.values())}")
        return found

    def with_objective(self, *, discount: float | None = None, final_reward: Any = None) -> Self:
        """A copy with another objective: `tether.MDP.with_objective` of each model.

        Examples
        --------
        >>> import tether
        >>> mdp = tether.MDP.from_table(["sick"], ["wait"], ["well"], [1.0], terminal=["well"])
        >>> types = tether.Types({"any": mdp}, prior={"any": 1.0}).with_objective(final_reward={"well": 1.0})
        >>> tether.counterfactual(types, tether.Path(["sick", "well"], ["wait"])).plan().observed_value
        1.0
        """
        changed = {
            name: mdp.with_objective(discount=discount, final_reward=final_reward) for name, mdp in self.models.items()
        }
        return self.with_models(changed)

    def with_models(self, models: Mapping[str, ModelRecord]) -> Self:
        """A copy with other models of the same states and actions."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.models = dict(models)
        return made

    def bare(self, name: str) -> ModelRecord:
        """The model of a type as it is replayed: up to the end of the record, with probabilities as they are."""
        return replace(self.models[name], counts=None, horizon=None)

    @property
    def episodes(self) -> int | None:
        """From how many episodes the models were learned; None if some were not learned."""
        found = [mdp.counts for mdp in self.models.values() if mdp.counts is not None]
        if len(found) < len(self.models):
            return None
        return sum(one.episodes + one.left_out for one in found) - max(one.left_out for one in found)

    @property
    def together(self) -> ModelRecord:
        """The model of the first type; of learned ones with the counts of all."""
        first, found = next(iter(self.models.values())), [mdp.counts for mdp in self.models.values()]
        if first.counts is None or None in found:
            return replace(first, counts=None)
        seen = np.sum([counts.transitions for counts in found if counts is not None], axis=0)
        return replace(first, counts=replace(first.counts, transitions=seen))

    def rests_on(self) -> list[str]:
        """What is to be known of types that were learned from a log; empty for others."""
        if self.episodes is None:
            return []
        pooling = [mdp.counts.pooling for mdp in self.models.values() if mdp.counts is not None]
        said = [f"The models are learned, from {counted(self.episodes, 'episode')}.", self.caveat]
        if all(one is not None and one.rho == 0.0 for one in pooling):
            said.append("No effect of any action can be shown for any type: they differ no more than by chance.")
        return [sentence for sentence in said if sentence]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write all models and the prior to a directory, for `tether.io.read_types` and ``tether explain``.

        The list of types has checksums of itself and of the models, so that a damaged or exchanged file is refused.

        Examples
        --------
        >>> import tempfile, tether
        >>> mdp = tether.cases.toy().mdp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tether.Types({"any": mdp}, prior={"any": 1.0}).save(folder)
        ...     tether.io.read_types(folder)
        <Types: any 100 %>
        """
        from tether.model.storage import save

        target = Path(folder)
        if target.exists() and not target.is_dir():
            raise FileError(Problem("types are saved to a directory, and this is a file", file=str(target)))
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(Problem(f"it cannot be made: {error.strerror or error}", file=str(target))) from error
        listed, states = [], next(iter(self.models.values())).states
        with written_into(target, last=LIST_OF_TYPES) as work:
            for i, (name, mdp) in enumerate(self.models.items()):
                model, share = f"type-{i}.tether", self._prior[name]
                by_state = [share.get(state) for state in states] if isinstance(share, Mapping) else share
                version = save(mdp, work / model)
                listed.append({"name": name, "model": model, "version": version, "prior": by_state})
            usual = None if self.usual is None else self.usual.tolist()
            own = self.own_practice
            practice = None if own is None else [own[name].tolist() for name in self.models]
            contents = {"format": TYPES_FORMAT, "types": listed, "usual": usual, "practice": practice}
            contents["caveat"] = self.caveat
            (work / LIST_OF_TYPES).write_bytes(encode_checked(contents))

    def _repr_html_(self) -> str:
        prior = "depends on the first state" if self.by_first_state else ""
        shares = {} if prior else self.prior(None)
        some = [(name, prior or f"{percent(shares[name])} before an episode") for name in self.models]
        return facts([("types", counted(len(self.models), "model")), *some])

    def __repr__(self) -> str:
        if self.by_first_state:
            return f"<Types: {', '.join(self.models)}; the prior depends on the first state>"
        return f"<Types: {', '.join(f'{name} {percent(share)}' for name, share in self.prior(None).items())}>"


def _shares_of(mdp: ModelRecord, practice: Mapping[Any, Any], name: str) -> Floats:
    """How often each pair is taken in its state: 1 where nobody chooses."""
    form = mdp.form
    made = np.ones(form.pair_action.size)
    for s, state in enumerate(mdp.states):
        pairs = slice(int(form.pair_start[s]), int(form.pair_start[s + 1]))
        actions = [mdp.actions[int(a)] for a in form.pair_action[pairs]]
        if state not in practice:
            leads = form.next_state[form.row_start[pairs.start] : form.row_start[pairs.stop]]
            if len(actions) > 1 and (leads != s).any():
                raise QueryError(Problem(f"practice of type {name!r} says nothing of state {state!r}", value=state))
            continue
        done = practice[state] if isinstance(practice[state], Mapping) else {practice[state]: 1.0}
        if set(done) - set(actions) or min(done.values()) < 0 or abs(sum(done.values()) - 1.0) > 1e-9:
            what = f"practice of type {name!r} in state {state!r} must be shares of {', '.join(map(repr, actions))}"
            raise QueryError(Problem(f"{what} that add up to 1", value=done))
        made[pairs] = [float(done.get(action, 0.0)) for action in actions]
    return made


def refuse_types(given: Any, what: str, fix: str) -> None:
    """Say why a question of one model has no answer for several types, and what to ask instead."""
    if isinstance(given, Types):
        raise QueryError(Problem(f"{what}, and these are {len(given.models)} hidden types", fix=fix))
