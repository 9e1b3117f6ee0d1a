"""Writing the counterfactual interval model: what a set of causal models allows, for Storm and PRISM to check.

It has one state for each (time, state, changes left): a model checker then needs no notion of time, of k or of m. Every
probability is an interval: its exact bounds. If the set of causal models is a box (``"nothing"`` and the published
sets, with known probabilities), the intervals describe it exactly, and the checker's answer is ours. For
``"stability"`` and for uncertain probabilities they are wider than the set: the checker's answer is a bound of ours.

Both tools need rewards of at least 0, and Storm some above 0. Every path has the same number of steps, so rewards can
be shifted: subtract ``shift`` from the answer. PRISM needs lower ends above 0: there they are raised to ``floor``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.writing import written
from tether.conditioning.layers import expand
from tether.errors import FileError, Problem, QueryError
from tether.io.plaintext import spelled
from tether.io.prism.prism_writer import action_names
from tether.model.as_stormpy import distinct_names
from tether.observation.changes import is_change
from tether.plan.objective import asked, asked_set
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    from tether.conditioning.counterfactual_record import CounterfactualRecord
    from tether.conditioning.model_sets import ModelSet
    from tether.influence.kappa import Thresholds
    from tether.influence.rules import GivenRule as Rule
    from tether.model.properties import Property
    from tether.plan.robust_record import RobustRecord

_FORMATS = {".drn": "drn", ".nm": "prism", ".prism": "prism"}
_FLOOR = 1e-9
_LEAST = 1e-300
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class IntervalModel:
    """What was written, and what to ask of it.

    Attributes
    ----------
    file : str
    format : {"drn", "prism"}
    states, choices, transitions : int
    question : str
        The question whose answer is the guaranteed return, or probability of a property, plus ``shift``. Storm must
        resolve the uncertainty robustly (in stormpy ``UncertaintyResolutionMode.ROBUST``); PRISM does so by the word
        ``maxmin``. Storm is asked for the rewards of all T + 1 steps, because it has no answer for ``F "done"`` if a
        lower end is 0.
    shift : float
        How much the rewards were shifted, over a whole path: subtract it from the checker's answer.
    is_exact : bool
        Whether the intervals are the set of causal models itself; otherwise they are wider.

    Examples
    --------
    >>> import tempfile, tether
    >>> case = tether.cases.epidemic()
    >>> sure = tether.robust(case.mdp, case.path, assume="nothing")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = sure.write(f"{folder}/outbreak.drn", k=6, m=4)
    >>> made.states, made.shift, made.question
    (116, 72.0, 'R{"reward"}max=? [ C<=8 ]')
    """

    file: str
    format: str
    states: int
    choices: int
    transitions: int
    question: str
    shift: float
    is_exact: bool


@dataclass(slots=True)
class _Node:
    """A state of the interval model: where it is, and its choices (action, reward, [(node, low, high)])."""

    t: int
    state: int
    changes: int
    earned: float
    choices: list[tuple[int, float, list[tuple[_Node, float, float]]]] = field(default_factory=list)
    feasible: bool = False
    number: int = -1


def write_intervals(
    robust: RobustRecord,
    file: str | os.PathLike[str],
    k: int | None = None,
    m: int = 1,
    *,
    rule: Rule = "definition",
    objective: Property | None = None,
    floor: float | None = None,
) -> IntervalModel:
    """Write the layered counterfactual interval model; see `tether.records.Robust.write`."""
    name = os.fspath(file)
    format = _FORMATS.get(os.path.splitext(name)[1].lower())
    if format is None:
        known = ".drn (Storm), .nm or .prism (PRISM)"
        raise FileError(Problem(f"the name must end in {known}, to say which tool it is for", file=name, value=name))
    least = (_FLOOR if format == "prism" else 0.0) if floor is None else floor
    if not 0.0 <= least < 1e-3:
        raise QueryError(f"floor must be at least 0 and below 0.001, not {floor!r}")
    if robust.confidence is not None:
        why = "with confidence= steps may lead where nobody was seen to go, and the file has no state for that"
        raise QueryError(Problem(why, fix="leave out confidence=, or ask tether itself", argument="confidence"))
    robust, wanted = robust.in_question(objective)
    k, m = robust.limits(k, m, rule=rule, objective=wanted)
    cf = asked(robust.cf, wanted, widely=True)
    T, question = cf.T, tether(robust.models.possible, rule, "support", wanted)
    ended = np.zeros(cf.mdp.n_states, bool) if wanted is None else wanted.on(cf.mdp).ended
    layers = _explore(asked_set(robust.models, wanted), question.thresholds(k), k, m, least, ended)
    nodes = _feasible(layers)
    rewards = [value for node in nodes for value in _rewards(node, cf)]
    lift = max(0.0, -min(rewards))
    if not any(value + lift for value in rewards):
        lift += 1.0  # Storm takes rewards that are all 0 for none
    text = _drn if format == "drn" else _prism
    with written(name) as partial, partial.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(text(cf, nodes, lift))
    # Each of the T + 1 actions of a path is shifted, the last one included; and, with R(s, a, s'), each arrival.
    arrivals = T if cf.mdp.rewards.by_entry else 0
    return IntervalModel(
        name,
        format,
        len(nodes) + 1,
        sum(len(node.choices) for node in nodes) + sum(node.t == T for node in nodes) + 1,
        sum(len(row) for node in nodes for _, _, row in node.choices) + sum(node.t == T for node in nodes) + 1,
        'R{"reward"}maxmin=? [ F "done" ]' if format == "prism" else f'R{{"reward"}}max=? [ C<={T + 1} ]',
        lift * (T + 1 + arrivals),
        robust.assume != "stability" and robust.gamma == 1.0,
    )


def _explore(
    models: ModelSet, thresholds: Thresholds, k: int, m: int, least: float, ended: Flags
) -> list[dict[Any, _Node]]:
    """All nodes that allowed pairs can lead to under some model of the set, layer by layer.

    Where a property is decided (``ended``), the episode stays to its end, and nothing there is a change.
    """
    graph, mdp = thresholds.graph, thresholds.graph.mdp
    form, T = mdp.form, graph.T
    start = _Node(0, int(graph.observation.states[0]), min(m, T), 0.0)
    layers: list[dict[Any, _Node]] = [{(start.state, start.changes, 0, 0.0): start}]
    for t in range(T):
        observed = int(graph.observation.actions[t])
        after: dict[Any, _Node] = {}
        places = _pair_places(thresholds, t)
        for (state, changes, run, _), node in layers[t].items():
            if ended[state]:
                key = state, min(changes, T - t - 1), 0, 0.0
                there = after.setdefault(key, _Node(t + 1, state, key[1], 0.0))
                node.choices.append((int(form.pair_action[form.pair_start[state]]), 0.0, [(there, 1.0, 1.0)]))
                continue
            offset = int(thresholds.offsets[t][places[state, run]])
            pairs = np.arange(form.pair_start[state], form.pair_start[state + 1])
            costs = is_change(form, np.full(pairs.size, state), pairs, observed)
            kappa = thresholds.kappa[t][offset : offset + pairs.size]
            allowed = pairs[(kappa <= k) & (costs <= changes)]
            influenced = np.isin(allowed, thresholds.influenced[t])
            bounds = models.row_bounds(t, allowed)
            _, entries, _ = expand(mdp, graph.layers[t].edits, allowed)
            possible = set(entries.tolist())  # also outcomes whose bounds are lost in rounding
            scale, rewards = mdp.discount**t, mdp.rewards.at(t)
            for pair, is_influenced, ends in zip(allowed.tolist(), influenced.tolist(), bounds, strict=True):
                left = min(changes - int(costs[pair - pairs[0]]), T - t - 1)
                onward = 0 if thresholds.nodes[t].runs.size == 0 or is_influenced else run + 1
                begin = int(form.row_start[pair])
                here = [i for i in range(ends[0].size) if begin + i in possible]
                low, high = _fitting(ends[0][here], np.maximum(ends[1][here], _LEAST), least)
                row = []
                for i, entry in enumerate(begin + one for one in here):
                    earned = scale * float(rewards[entry]) if mdp.rewards.by_entry else 0.0
                    onto = int(form.next_state[entry])
                    key = onto, left, 0 if ended[onto] else onward, earned
                    there = after.setdefault(key, _Node(t + 1, onto, left, earned))
                    row.append((there, float(low[i]), float(high[i])))
                gain = 0.0 if mdp.rewards.by_entry else scale * float(rewards[pair])
                node.choices.append((int(form.pair_action[pair]), gain, row))
        layers.append(after)
    return layers


def _pair_places(thresholds: Thresholds, t: int) -> dict[tuple[int, int], int]:
    nodes = thresholds.nodes[t]
    runs = np.zeros(nodes.size, np.int64) if nodes.runs.size == 0 else nodes.runs
    return {key: i for i, key in enumerate(zip(nodes.states.tolist(), runs.tolist(), strict=True))}


def _fitting(low: Floats, high: Floats, least: float) -> tuple[Floats, Floats]:
    """Ends with a row between them, despite rounding; lower ends of possible outcomes are at least ``least``."""
    low = np.minimum(np.maximum(low, least), high)
    excess, lack = low.sum() - 1.0, 1.0 - high.sum()
    if excess > 0.0:
        low[np.argmax(low)] -= excess * (1.0 + 1e-9) + 1e-16
    if lack > 0.0:
        high[np.argmax(high)] += lack * (1.0 + 1e-9) + 1e-16
    return low, high


def _feasible(layers: list[dict[Any, _Node]]) -> list[_Node]:
    """The nodes from which the limits can be kept to the end, numbered; without choices that may lead to others."""
    for node in layers[-1].values():
        node.feasible = True
    for layer in layers[-2::-1]:
        for node in layer.values():
            node.choices = [one for one in node.choices if all(there.feasible for there, _, _ in one[2])]
            node.feasible = bool(node.choices)
    reached, seen = [next(iter(layers[0].values()))], {id(next(iter(layers[0].values())))}
    for node in reached:
        for there in (there for _, _, row in node.choices for there, _, _ in row):
            if id(there) not in seen:
                seen.add(id(there))
                reached.append(there)
    for number, node in enumerate(reached):
        node.number = number
    return reached


def _final(node: _Node, cf: CounterfactualRecord) -> float:
    """What the end of the episode, or what follows the record, is worth."""
    final = cf.mdp.final_reward
    return 0.0 if final is None else cf.mdp.discount**cf.T * float(final[node.state])


def _rewards(node: _Node, cf: CounterfactualRecord) -> Iterator[float]:
    if _arrives(cf, node):
        yield node.earned
    if node.t == cf.T:
        yield _final(node, cf)
    yield from (reward for _, reward, _ in node.choices)


def _lines(
    cf: CounterfactualRecord, node: _Node, lift: float, done: int
) -> Iterator[tuple[int, float, list[tuple[int, float, float]]]]:
    """The choices of a node: action (-1 to end the episode), shifted reward, and where it leads."""
    if node.t == cf.T:
        yield -1, _final(node, cf) + lift, [(done, 1.0, 1.0)]
    for action, reward, row in node.choices:
        yield action, reward + lift, [(there.number, low, high) for there, low, high in row]


def _arrives(cf: CounterfactualRecord, node: _Node) -> bool:
    """Whether something is earned on the way into a node."""
    return cf.mdp.rewards.by_entry and node.t > 0


def _arrival(cf: CounterfactualRecord, node: _Node, lift: float) -> float:
    """What is earned on the way into a node, as its own reward."""
    return node.earned + lift if _arrives(cf, node) else 0.0


def _labels(cf: CounterfactualRecord, nodes: list[_Node]) -> dict[str, list[int]]:
    """The numbers of the nodes of each label of the model."""
    sets: dict[str, Ints] = dict(cf.mdp.label_sets)
    names = distinct_names(["done", "init", "deadlock", *sets], _NOT_IN_LABELS)[3:]
    return {
        name: [node.number for node in nodes if bool(np.isin(node.state, states))]
        for name, states in zip(names, sets.values(), strict=True)
    }


def _in_words(cf: CounterfactualRecord, node: _Node) -> str:
    name = repr(cf.mdp.states[node.state]).replace("\\n", " ")
    return f"t = {node.t}, {name}, changes left: {node.changes}"


def _number(value: float) -> str:
    return spelled(np.array([value]))[0]


def _drn(cf: CounterfactualRecord, nodes: list[_Node], lift: float) -> Iterator[str]:
    names, done = [*action_names(cf.mdp), "end"], len(nodes)
    of_node: dict[int, str] = {}
    for label, numbers in _labels(cf, nodes).items():
        for number in numbers:
            of_node[number] = f"{of_node.get(number, '')} {label}"
    choices = sum(len(node.choices) + (node.t == cf.T) for node in nodes) + 1
    yield "@type: MDP\n@value_type: double-interval\n@parameters\n\n@reward_models\nreward\n"
    yield f"@nr_states\n{done + 1}\n@nr_choices\n{choices}\n@model\n"
    for node in nodes:
        init = " init" if node.number == 0 else ""
        yield f"state {node.number} [{_number(_arrival(cf, node, lift))}]{init}{of_node.get(node.number, '')}\n"
        yield f"//{_in_words(cf, node)}\n"
        for action, reward, row in _lines(cf, node, lift, done):
            yield f"\taction {names[action]} [{_number(reward)}]\n"
            yield from (f"\t\t{to} : [{_number(low)}, {_number(high)}]\n" for to, low, high in row)
    yield f"state {done} [0] done\n\taction end [0]\n\t\t{done} : [1, 1]\n"


def _prism(cf: CounterfactualRecord, nodes: list[_Node], lift: float) -> Iterator[str]:
    names, done = [*action_names(cf.mdp), "end"], len(nodes)
    yield f"mdp\n\nmodule episode\n\ts : [0..{done}] init 0;\n"
    rewards = []
    for node in nodes:
        yield f"\t// {node.number}: {_in_words(cf, node)}\n"
        arrival = _arrival(cf, node, lift)
        if arrival:
            rewards.append(f"\ts={node.number} : {_number(arrival)};\n")
        for action, reward, row in _lines(cf, node, lift, done):
            updates = " + ".join(f"[{_number(low)},{_number(high)}]:(s'={to})" for to, low, high in row)
            yield f"\t[{names[action]}] s={node.number} -> {updates};\n"
            if reward:
                rewards.append(f"\t[{names[action]}] s={node.number} : {_number(reward)};\n")
    yield f'\t[end] s={done} -> [1,1]:(s\'={done});\nendmodule\n\nlabel "done" = s={done};\n'
    for label, numbers in _labels(cf, nodes).items():
        yield f'label "{label}" = {"|".join(f"s={number}" for number in numbers) or "false"};\n'
    yield 'rewards "reward"\n'
    yield from rewards
    yield "endrewards\n"
