"""What follows the record of an episode: what is done then, and what each state is worth when it begins.

Nothing was observed there, so it is a question about the plain model (`tether.conditioning.horizon`), answered once for
each objective. Whoever acts, the worth of a state at T is

    U_H = the final reward        U_t(s) = Σ_a π(a|s) · (R_t + γ·Σ_s' P(s'|s,a)·U_{t+1}(s'))        t = H - 1 … T

with the best action in place of π where the best acts. Without a horizon usual practice goes on until the episode ends:
in a state that is absorbing and earns nothing. If some state leads to no such end, it goes on for as many steps as the
longest episode of the log has.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, places_among, read_only, summed
from tether.conditioning.counterfactual_record import CounterfactualRecord, check_not_stuck
from tether.conditioning.edited_rows import Rows
from tether.conditioning.horizon import Ends, Horizon, Rest
from tether.conditioning.layers import expand, walking
from tether.core.chain import Chain, Decide, Link, Taken, Visits
from tether.model.form import all_pair_states
from tether.model.model_record import ModelRecord
from tether.model.practice import practice
from tether.model.product import model_itself
from tether.model.properties import Decided, Property
from tether.model.side_by_side import copied_model, shifted
from tether.observation.changes import nothing_left
from tether.plan.resting import asked_model, resting_model
from tether.plan.rewards import ExpectedRewards, without_rewards
from tether.plan.solution import backward_values, choice_type
from tether.plan.standard import Standard, is_best
from tether.plan.walks import build_chain, or_rest

_FOLLOWED = 200
"""How many steps of usual practice, at most, are drawn one by one."""


def rest_of(
    mdp: ModelRecord,
    after: Horizon,
    T: int,
    states: Ints,
    world: ModelRecord,
    decided: Decided | None,
    objective: Property | None = None,
    minimise: bool = False,
) -> Rest:
    """What follows a record of T steps in ``world``, the model in which the values are returns.

    ``decided`` says where it rests, ``states`` are those that matter at T.
    """
    if after.until is None:
        counts, shares = model_itself(mdp).counts, Standard(mdp, "usual").shares
        assert counts is not None
        assert shares is not None
        decide = Standard(mdp, "usual").decide(0)
        ends = how_they_end(world, shares)
        if ends is None:
            return _followed(world, decided, T, T + counts.longest, states, decide)
        return Rest(_FOLLOWED, decide, ends.worth, ends.worth, world.final_reward, ends)
    if is_best(after.then):
        rest = _best(world, decided, T, _onward(world, states, after.until - T), minimise)
    else:
        decide = Standard(mdp, after.then, objective, minimise).decide(after.until)
        rest = _followed(world, decided, T, after.until, states, decide)
    if decided is None or world.final_reward is None:
        return rest
    # A path on which the property was decided before T ends there, in a state that perhaps nobody is in at T.
    return replace(rest, worth=read_only(np.where(decided.ended, world.final_reward, rest.worth)))


def _onward(world: ModelRecord, states: Ints, steps: int) -> list[Ints]:
    """Where some states can lead, for so many steps; the states themselves first."""
    layers, reached = [], read_only(np.asarray(states, np.int32))
    with walking(world) as walk:
        for _ in range(steps):
            layers.append(reached)
            reached = walk.onward(reached, Rows.none())
    return layers


def _best(world: ModelRecord, decided: Decided | None, T: int, layers: list[Ints], minimise: bool) -> Rest:
    """The best decisions from T on, in the states of each time, which are those that matter."""
    every, until = [np.empty(0, np.int32)] * T + layers, T + len(layers)
    choices = [np.full((layer.size, 1), -1, dtype=choice_type(world)) for layer in every]
    worth = np.zeros(world.n_states)
    for t, table in backward_values(world, decided, every, choices, minimise):
        if t == T:
            states = every[T] if layers else np.arange(world.n_states)
            worth[states] = table[states, 1]
            break
    first = world.form.pair_start

    def decide(t: int, visits: Visits) -> Taken:
        check_not_stuck(world, t, visits.states)
        local = choices[t][places_among(every[t], visits.states), 0].astype(np.int64)
        return Taken.for_certain(first[visits.states] + local)

    final = world.final_reward
    return Rest(until - T, decide, read_only(0.0 - worth if minimise else worth), final, final)


def _followed(world: ModelRecord, decided: Decided | None, T: int, until: int, states: Ints, decide: Decide) -> Rest:
    rest = Rest(until - T, decide, np.zeros(world.n_states), world.final_reward, world.final_reward)
    worth = np.zeros(world.n_states)
    worth[states] = expected_after(world, decided, T, rest, states, world.final_reward)
    return replace(rest, worth=read_only(worth))


def chain_after(world: ModelRecord, ended: Flags | None, T: int, rest: Rest, start: Visits) -> Chain:
    """The chain of what follows the record, from some nodes at T.

    Usual practice that goes on until the episode ends is one step: what it earns on the way is taken at its mean.
    """
    return step_by_step(world, ended, T, rest, start) if rest.ends is None else _at_once(world, rest, start, ended)


def step_by_step(world: ModelRecord, ended: Flags | None, T: int, rest: Rest, start: Visits) -> Chain:
    """The chain of what follows the record, step by step; usual practice for at most `_FOLLOWED` steps."""
    return build_chain(world, lambda _t: None, start, rest.decide, rest.steps, ended, first=T)


def _at_once(world: ModelRecord, rest: Rest, start: Visits, ended: Flags | None) -> Chain:
    """One step to the ends of the episode, from some nodes."""
    ends = rest.ends
    assert ends is not None
    chance = ends.chance[start.states]
    source, column = np.nonzero(chance)
    used, target = np.unique(column, return_inverse=True)
    last, none = ends.states[used], np.zeros(used.size, np.int64)
    earned = ends.worth[start.states]
    if rest.final is not None:
        earned = earned - world.discount * chance[:, used] @ rest.final[last]
    pairs = world.form.pair_start[start.states].astype(np.int64)  # what is done on the way is not said
    taken = Taken(np.arange(start.size), pairs, np.ones(start.size), start.changes, start.runs)
    link = Link(source, target.reshape(-1), pairs[source], chance[source, column], earned[source], source)
    return Chain((start, Visits(last, none, none)), (taken,), (link,), ended)


def expected_after(
    world: ModelRecord, decided: Decided | None, T: int, rest: Rest, states: Ints, final: Floats | None
) -> Floats:
    """What follows the record is worth in each of ``states``, if the end is worth ``final``."""
    chain = chain_after(world, None if decided is None else decided.ended, T, rest, _visits(states))
    last = chain.visits[-1].states
    return _expected(chain, world.discount, np.zeros(last.size) if final is None else final[last])


def chances_after(world: CounterfactualRecord, final: Floats, states: Ints | None = None) -> Floats:
    """The expectation of ``final`` at the end, for each state at T; ``world`` knows what follows the record.

    Of states other than ``states``, by default those that the episode can reach, it is ``final`` itself.
    """
    rest, states = world.rest, world.graph.last_states if states is None else states
    if rest is None:
        return final
    found = final.astype(np.float64)
    if rest.ends is not None:
        found[states] = rest.ends.chance[states] @ final[rest.ends.states]
        return found
    mdp = replace(without_rewards(world.mdp), discount=1.0)
    ended = world.graph.ended
    chain = chain_after(mdp, None if ended is None else ended.mask, world.T, rest, _visits(states))
    found[states] = _expected(chain, 1.0, final[chain.visits[-1].states])
    return found


def _visits(states: Ints) -> Visits:
    wide = np.asarray(states, np.int64)
    return Visits(wide, np.zeros_like(wide), np.zeros_like(wide))


def _expected(chain: Chain, discount: float, value: Floats) -> Floats:
    """Expected return from each first node of a chain, if its last nodes are worth ``value``."""
    for link, here in zip(reversed(chain.links), reversed(chain.visits[:-1]), strict=True):
        value = summed(link.source, link.probability * (link.reward + discount * value[link.target]), here.size)
    return value


def tables_after(
    mdp: ModelRecord,
    after: Horizon,
    objective: Property | None,
    minimise: bool,
    finals: Floats,
    probability: Floats | None = None,
    shares: Floats | None = None,
) -> tuple[Floats, Floats]:
    """What every state is worth at each time up to the horizon, and the expectations of ``finals`` at the end.

    Two arrays (times, states) and (times, states, columns of ``finals``); times are 0 … H, or one time if usual
    practice goes on to the end of the episode. With ``probability`` there are copies of the model side by side, one row
    each; in all of them what is best in the model itself is done, or each of their pairs with its share.
    """
    base, decided = asked_model(mdp, objective)
    world, n = base, 1
    if probability is not None:
        n, model = len(probability), copied_model(mdp, probability)
        if decided is None:
            world = model
        else:
            decided = Decided(np.tile(decided.ended, n), np.tile(decided.holds, n))
            world = resting_model(model, decided)
        finals = np.tile(finals, (n, 1))
    every = np.arange(world.n_states)
    if after.until is None:
        assert mdp.counts is not None
        ends = how_they_end(world, np.tile(practice(mdp).shares, n) if shares is None else shares)
        if ends is not None:
            return ends.worth[None], (ends.chance @ finals[ends.states])[None]
        after = Horizon(mdp.counts.longest, "usual")
    until = after.until
    assert until is not None
    if is_best(after.then):
        alone = None if decided is None else Decided(decided.ended[: base.n_states], decided.holds[: base.n_states])
        rest = _best(base, alone, 0, [np.arange(base.n_states, dtype=np.int32)] * until, minimise)
    else:
        decide_alone = Standard(mdp, after.then, objective, minimise).decide(until)
        rest = Rest(until, decide_alone, np.zeros(base.n_states), None, None)
    decide = rest.decide if n == 1 else in_copies(rest, world, n).decide
    value, chance = np.empty((until + 1, every.size)), np.empty((until + 1, *finals.shape))
    value[until] = 0.0 if world.final_reward is None else world.final_reward
    chance[until] = finals
    rewards, stuck = ExpectedRewards(world), np.diff(world.form.pair_start) == 0
    visits = _visits(every[~stuck])
    for t in range(until - 1, -1, -1):
        taken = decide(t, visits) if decided is None else or_rest(world, t, visits, decide, decided.ended)
        owner, entry, probability = expand(world, None, taken.pairs)
        earned = taken.probability * rewards.of_pairs(t, every.astype(np.int32))[taken.pairs]
        source, to, each = (
            visits.states[taken.source],
            world.form.next_state[entry],
            probability * taken.probability[owner],
        )
        value[t] = summed(source, earned, every.size)
        value[t] += world.discount * summed(source[owner], each * value[t + 1][to], every.size)
        for column in range(finals.shape[1]):
            chance[t, :, column] = summed(source[owner], each * chance[t + 1][to, column], every.size)
        value[t, stuck], chance[t, stuck] = np.inf if minimise else -np.inf, finals[stuck]
    return value, chance


def side_by_side(rest: Rest, world: ModelRecord, decided: Decided | None, T: int, states: Ints, n: int) -> Rest:
    """Decisions after the record, unchanged, in ``world``: ``n`` copies of a model that differ in their probabilities.

    ``states`` are those of all copies at T.
    """
    copied = in_copies(rest, world, n)
    if rest.ends is not None:
        ends = how_they_end(world, np.tile(rest.ends.shares, n))
        if ends is not None:
            return replace(copied, worth=ends.worth, last=ends.worth, ends=ends)
        copied = replace(copied, ends=None)  # in some copy a state leads to no end
    worth = np.zeros(world.n_states)
    worth[states] = expected_after(world, decided, T, copied, states, copied.last)
    return replace(copied, worth=read_only(worth))


def in_copies(rest: Rest, world: ModelRecord, n: int) -> Rest:
    """Decisions and worths, unchanged, in each of ``n`` copies of the states of a model."""
    n_states, n_pairs = world.n_states // n, world.n_pairs // n

    def decide(t: int, visits: Visits) -> Taken:
        copy, alone = np.divmod(visits.states, n_states)
        taken: Taken = rest.decide(t, Visits(alone, visits.changes, visits.runs))
        return replace(taken, pairs=taken.pairs + copy[taken.source] * n_pairs)

    last, final = (None if one is None else np.tile(one, n) for one in (rest.last, rest.final))
    ends = rest.ends
    if ends is not None:
        chance = np.kron(np.eye(n), ends.chance).astype(np.float64, copy=False)
        ends = Ends(np.tile(ends.shares, n), shifted(ends.states, n, n_states), chance, np.tile(ends.worth, n))
    return Rest(rest.steps, decide, np.tile(rest.worth, n), last, final, ends)


def how_they_end(world: ModelRecord, shares: Floats) -> Ends | None:
    """How episodes end if each pair is taken with its share; None if some state leads to no end.

    An episode ends in a state that is absorbing and earns nothing. With M the chain of the shares among the other
    states, N its way to the ends, r the expected reward of a step, and γ the discount:

        chances = (I - M)⁻¹·N        worth = (I - γM)⁻¹·(r + γN·final reward)
    """
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    form, n = world.form, world.n_states
    lengths, states = np.diff(form.row_start), all_pair_states(form.pair_start)
    state, weight = np.repeat(states, lengths), np.repeat(shares, lengths) * form.probability
    rewards = ExpectedRewards(world).of_pairs(0, np.arange(n, dtype=np.int32))
    step = summed(states, shares * rewards, n)
    stop = nothing_left(form, 0, np.arange(n)) & (step == 0)
    if not _all_end(form.next_state, state, weight, stop):
        return None
    ends, going = np.flatnonzero(stop), np.flatnonzero(~stop)
    final = np.zeros(n) if world.final_reward is None else world.final_reward
    chance, worth = np.zeros((n, ends.size)), np.where(stop, final, 0.0)
    chance[ends, np.arange(ends.size)] = 1.0
    if going.size:
        chain = csc_array((weight, (state, form.next_state)), shape=(n, n))[going]
        among, out, same = chain[:, going], chain[:, ends].toarray(), eye_array(going.size)
        solved = splu(csc_array(same - among))
        chance[going] = np.clip(solved.solve(out), 0.0, 1.0)
        discounted = solved if world.discount == 1.0 else splu(csc_array(same - world.discount * among))
        worth[going] = discounted.solve(step[going] + world.discount * out @ final[ends])
    return Ends(shares, ends, chance, read_only(worth))


def _all_end(next_state: Ints, state: Ints, weight: Floats, stop: Flags) -> bool:
    """Whether every state leads to one of ``stop``."""
    used = weight > 0
    state, next_state, reached = state[used], next_state[used], stop.copy()
    while True:
        found = reached.copy()
        found[state[reached[next_state]]] = True
        if np.array_equal(found, reached):
            return bool(reached.all())
        reached = found
