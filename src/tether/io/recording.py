"""Episodes that are played in a Gymnasium environment, as observed paths. Gymnasium is not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

import numpy as np

from tether._foundation.checks import random_generator, whole_number
from tether.errors import Problem, QueryError
from tether.io.datasets import ends_of_their_own
from tether.io.gym import from_gymnasium, table_of
from tether.mdp import MDP
from tether.observation.episodes import Episodes
from tether.observation.path import Path
from tether.plan.policy import as_array, make_policy

Choose = Callable[[int, Any], int]
"""The index of the action at a time, in a state as the path names it."""

_BINS = "cut it into bins first, in a wrapper of the environment; see the guide 'From measurements to states'"


@overload
def record(
    env: Any,
    policy: Any = "random",
    *,
    n: None = None,
    mdp: MDP | None = None,
    seed: Any = None,
    max_steps: int | None = None,
) -> Path: ...
@overload
def record(
    env: Any, policy: Any = "random", *, n: int, mdp: MDP | None = None, seed: Any = None, max_steps: int | None = None
) -> Episodes: ...
def record(
    env: Any,
    policy: Any = "random",
    *,
    n: int | None = None,
    mdp: MDP | None = None,
    seed: Any = None,
    max_steps: int | None = None,
) -> Path | Episodes:
    """Play an episode, or several, of a Gymnasium environment: what happened, with the rewards of the environment.

    Parameters
    ----------
    env : gymnasium.Env
        With discrete actions, and observations that are whole numbers or made of them: an array, a tuple or a mapping
        of them becomes a tuple. With a table of transitions, states are those of `from_gymnasium`.
    policy : "random", "optimal", callable, object with ``predict``, mapping or array
        As in `tether.MDP.simulate`, by the names in the model. "optimal" and arrays need a model: that of the table, or
        ``mdp``. "optimal" is the best for the largest number of steps that may be played: ``max_steps``, or the limit
        of the environment.
    n : int, optional
        How many episodes to play, as `tether.Episodes`; by default one, as a `tether.Path`.
    mdp : MDP, optional
        The model: for an environment with a table, if its states or actions have other names (`tether.MDP.with_names`);
        for any other, one with the environment's own names, such as a learned one.
    seed : int, SeedSequence or numpy Generator, optional
        For the first ``env.reset``, and for the actions that are drawn.
    max_steps : int, optional
        When to stop at the latest; by default an episode is played until the environment ends it.

    Returns
    -------
    Path or Episodes
        With the rewards of the environment. In a model of a table, rewards of the same transition are averaged. Without
        a table the outcome is "terminated" where the environment ended the episode (in a learned model, the state to
        which its last action leads), unless its last state says so: one where none of the ``n`` episodes goes on or is
        cut off, or one that is absorbing in ``mdp``. An episode that was only cut off has no outcome.

    Examples
    --------
    >>> import gymnasium, tether
    >>> env = gymnasium.make("CliffWalking-v1", is_slippery=True)
    >>> path = tether.io.record(env, lambda state: 0 if state == 36 else 1, seed=1, max_steps=4)
    >>> path.T, len(path.rewards)
    (4, 4)

    Blackjack has no table: a model of it is learned.

    >>> env = gymnasium.make("Blackjack-v1")
    >>> tether.learn(tether.io.record(env, n=500, seed=1)).actions
    Names(0 … 1)
    """
    if isinstance(env, str):
        raise QueryError(f"expected an environment, not its name: gymnasium.make({env!r})")
    if not (max_steps is None or (isinstance(max_steps, int) and max_steps > 0)):
        raise QueryError(Problem(f"max_steps must be a whole number from 1, not {max_steps!r}", value=max_steps))
    rng = random_generator(seed, "seed")
    first = seed if isinstance(seed, int | np.integer) else None if seed is None else int(rng.integers(2**31))
    player = _Table(env, mdp) if table_of(env) is not None else _Spaces(env, mdp)
    choose = player.chooser(policy, rng, max_steps or _longest(env))
    if n is None:
        return _play(player, choose, None if first is None else int(first), max_steps)
    seeds = [None if first is None else int(first), *[None] * (whole_number("n", n, 1) - 1)]
    paths = [_play(player, choose, one, max_steps) for one in seeds]
    own = ends_of_their_own((path.states, path.T, path.outcome is not None) for path in paths)
    return Episodes.from_paths(
        [Path(path.states, path.actions, path.rewards) if path.states[-1] in own else path for path in paths]
    )


def _play(player: _Table | _Spaces, choose: Choose, seed: int | None, max_steps: int | None) -> Path:
    env = player.env
    observed, _ = env.reset(seed=seed)
    states, actions, rewards = [player.state(observed, ended=False)], list[Any](), list[float]()
    ended = cut_off = False
    while not (ended or cut_off) and (max_steps is None or len(actions) < max_steps):
        a = choose(len(actions), states[-1])
        observed, reward, ended, cut_off, _ = env.step(player.played[a])
        states.append(player.state(observed, ended=bool(ended)))
        actions.append(player.actions[a])
        rewards.append(float(reward))
    return Path(states, actions, rewards, player.outcome(states[-1], bool(ended)))


class _Table:
    """An environment with a table of transitions, in the names of its model."""

    def __init__(self, env: Any, mdp: MDP | None) -> None:
        self.env, self.table = env, from_gymnasium(env)
        self.mdp = self.table if mdp is None else mdp
        if (self.mdp.n_states, self.mdp.n_actions) != (self.table.n_states, self.table.n_actions):
            raise QueryError(f"mdp= is not the model of this environment: expected {self.table!r}, not {mdp!r}")
        self.played, self.actions = self.table.actions, self.mdp.actions

    def state(self, observed: Any, *, ended: bool) -> Any:
        """A state as the model names it; where an episode ends, it may be a twin."""
        state = observed.item() if isinstance(observed, np.generic) else observed
        s = self.table.states.find((state, "end")) if ended else -1
        s = self.table.states.find(state) if s < 0 else s
        if s < 0:
            raise QueryError(Problem(f"the environment came to a state that is not in its table: {state!r}", state))
        return self.mdp.states[s]

    def outcome(self, last: Any, ended: bool) -> None:
        """The last state says how the episode ended."""

    def chooser(self, policy: Any, rng: np.random.Generator, steps: int | None) -> Choose:
        """What the policy does."""
        return _of_model(self.mdp, policy, rng, steps)


class _Spaces:
    """An environment with a discrete space of actions, whose observations are the states."""

    def __init__(self, env: Any, mdp: MDP | None) -> None:
        self.env, self.mdp = env, mdp
        size, first = (getattr(getattr(env, "action_space", None), name, None) for name in ("n", "start"))
        if not isinstance(size, int | np.integer) or first is None:
            space = getattr(env, "action_space", None)
            what = f"the actions of {_name(env)} are not discrete: its action_space is {space!r}"
            raise QueryError(Problem(what, expectation="a space Discrete(n)", fix=_BINS.replace("it", "them", 1)))
        self.played = self.actions = range(int(first), int(first) + int(size))

    def state(self, observed: Any, *, ended: bool) -> Any:
        """A state: a whole number, or a tuple of what the observation is made of."""
        if isinstance(observed, Mapping):
            return tuple(self.state(observed[key], ended=ended) for key in sorted(observed))
        if isinstance(observed, tuple | list):
            return tuple(self.state(part, ended=ended) for part in observed)
        array = np.asarray(observed)
        if array.dtype.kind not in "iub":
            what = f"the observations of {_name(self.env)} are not discrete: found {observed!r}"
            raise QueryError(Problem(what, value=observed, fix=_BINS))
        return tuple(array.reshape(-1).tolist()) if array.ndim else array.item()

    def outcome(self, last: Any, ended: bool) -> str | None:
        """How the episode ended, where its last state does not say it; None where it was only cut off."""
        is_end = self.mdp is not None and self.mdp.states.find(last) in self.mdp.form.terminal.tolist()
        return "terminated" if ended and not is_end else None

    def chooser(self, policy: Any, rng: np.random.Generator, steps: int | None) -> Choose:
        """What the policy does; without a model it is asked in the state alone."""
        if self.mdp is not None:
            index = [self.actions.index(one) if one in self.actions else -1 for one in self.mdp.actions]
            if -1 in index:
                wrong = self.mdp.actions[index.index(-1)]
                raise QueryError(Problem(f"{_name(self.env)} has no action {wrong!r}", value=wrong, argument="mdp"))
        if isinstance(policy, str) and policy == "random":
            return lambda _t, _state: int(rng.integers(len(self.actions)))
        if self.mdp is not None:
            of_model = _of_model(self.mdp, policy, rng, steps)
            return lambda t, state: index[of_model(t, state)]
        if isinstance(policy, str) or as_array(policy) is not None:
            what = f"the policy {policy!r}" if isinstance(policy, str) else "a policy that is an array"
            fix = "give mdp=, such as one that was learned from its episodes"
            raise QueryError(Problem(f"{what} needs a model, and {_name(self.env)} has no table", fix=fix))
        alone = MDP.from_arrays(np.ones((1, len(self.actions), 1)), actions=self.actions)

        def choose(t: int, state: Any) -> int:
            here = policy
            if isinstance(policy, Mapping):
                here = {key: policy[key] for key in (state, (t, state)) if key in policy}
                if not here:
                    raise QueryError(Problem(f"the policy says nothing for state {state!r} at t = {t}", state, time=t))
            return _of_model(alone.with_names(states=[state]), here, rng, None)(t, state)

        return choose


def _of_model(mdp: MDP, policy: Any, rng: np.random.Generator, steps: int | None) -> Choose:
    """The index in a model of the action that a policy takes there."""
    if isinstance(policy, str) and policy == "random":
        return lambda _t, _state: int(rng.integers(mdp.n_actions))
    if isinstance(policy, str) and policy == "optimal" and steps is None:
        raise QueryError("for how many steps is the policy to be the best? Give max_steps=")
    made = make_policy(mdp, policy, steps or 1)

    def choose(t: int, state: Any) -> int:
        pairs, chances = zip(*made(t, mdp.state_index(state)), strict=True)
        pair = pairs[0] if len(pairs) == 1 else rng.choice(pairs, p=np.array(chances) / sum(chances))
        return int(mdp.form.pair_action[int(pair)])

    return choose


def _longest(env: Any) -> int | None:
    """After how many steps the environment ends an episode, where it says so."""
    return getattr(getattr(env, "spec", None), "max_episode_steps", None)


def _name(env: Any) -> str:
    return getattr(getattr(env, "spec", None), "id", None) or type(env).__name__
