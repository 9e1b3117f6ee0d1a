"""`MDP`: a finite Markov decision process that can be built, solved, simulated and evaluated.

Its data and look-ups are those of `tether.model.model_record.ModelRecord`, which the lower folders take. It stands
above `tether.evaluation`, which answers its questions.
May import: evaluation, and what it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from tether._foundation.checks import random_generator, whole_number
from tether._foundation.kinds_of_records import Shown
from tether.model.form import TOLERANCE, Form
from tether.model.from_arrays import form_from_arrays
from tether.model.from_function import form_from_function
from tether.model.from_table import form_from_table
from tether.model.model_record import ModelRecord
from tether.model.names import Names
from tether.model.properties import Property

if TYPE_CHECKING:
    from tether.evaluation.evaluate import Evaluation
    from tether.observation.episodes import Episodes
    from tether.observation.path import Path
    from tether.plan.solution import Solution


class MDP(Shown, ModelRecord):
    """A finite Markov decision process. Build it with one of the ``from_…`` methods.

    Attributes
    ----------
    states, actions : Names
        The names, in the model's order: immutable sequences.
    form : Form
        The arrays (read-only); see `tether.model.form`.
    horizon : int or None
        The longest episode that the model is valid for. It is limited if the model was explored to a
        horizon, or if rewards are given for a number of steps.
    discount : float
        The factor for each step by which a reward comes later; 1 by default. Set by `with_objective`.
    final_reward : array (states,) or None
        Reward of the state in which an episode ends. Set by `with_objective`.
    counts : Counts or None
        How often each transition was seen, for a model learned from episodes.
    place : SavedFile or None
        Where the model is on disk, if it was opened from there and not changed since.
    label_sets : LabelSets
        The labels that were given, as indices. Set by `with_labels`; `labels` shows them by name.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_table(
    ...     state=["sick", "sick", "sick", "well"],
    ...     action=["treat", "treat", "wait", "wait"],
    ...     next_state=["well", "sick", "sick", "well"],
    ...     probability=[0.8, 0.2, 1.0, 1.0],
    ...     reward=[-1, -1, 0, 10],
    ... )
    >>> mdp
    <MDP: 2 states, 2 actions, 3 pairs, 4 transitions>
    >>> mdp.actions_in("sick")
    ('treat', 'wait')
    >>> mdp.row("sick", "treat")
    (('sick', 'well'), array([0.2, 0.8]))
    """

    __slots__ = ()
    _internal = frozenset({"entries", "find_pair", "label_sets", "names_of", "place"})

    @classmethod
    def from_arrays(
        cls,
        P: Any,
        R: Any = None,
        *,
        states: Iterable[Any] | None = None,
        actions: Iterable[Any] | None = None,
        terminal: Iterable[Any] | Callable[[Any], bool] = (),
        tolerance: float = TOLERANCE,
        reward_axes: str | None = None,
    ) -> Self:
        """Build a model from arrays.

        Parameters
        ----------
        P : array (S, A, S), or sequence of A sparse (S, S) matrices
            ``P[s, a, s']``, or ``P[a][s, s']``. An all-zero row: the action is not available there.
        R : array, optional
            ``(S, A)`` or ``(S, A, S)``, with an optional leading time axis ``(T, …)``; or a sequence of
            A sparse (S, S) matrices. Read only where P is not zero. None: no rewards (all 0).
        states, actions : iterable of hashable, optional
            Names; 0 … n-1 by default.
        terminal : iterable of names, or callable, optional
            States without rows where episodes end: absorbing under every action, reward 0. A list, or a function
            of a state's name that gives True or False.
        tolerance : float
            How far from 1 the sum of a row may be. Within it, rows are normalised, and `describe` says by how much.
        reward_axes : {"sa", "sas", "tsa", "tsas"}, optional
            The axes of R, for the one case that its shape does not decide: with S = A = T, a cube is read as "sas".

        Examples
        --------
        >>> import numpy as np, tether
        >>> P = np.zeros((2, 1, 2))
        >>> P[0, 0] = [0.5, 0.5]
        >>> P[1, 0] = [0.0, 1.0]
        >>> tether.MDP.from_arrays(P, [[0.0], [1.0]], states=["start", "goal"]).row("start", 0)
        (('start', 'goal'), array([0.5, 0.5]))
        """
        parts = form_from_arrays(
            P,
            R,
            states=states,
            actions=actions,
            terminal=terminal,
            tolerance=tolerance,
            reward_axes=reward_axes,
        )
        return cls._of(*parts)

    @classmethod
    def from_table(
        cls,
        state: Any,
        action: Any,
        next_state: Any,
        probability: Any,
        reward: Any = None,
        *,
        states: Iterable[Any] | None = None,
        actions: Iterable[Any] | None = None,
        terminal: Iterable[Any] | Callable[[Any], bool] = (),
        tolerance: float = TOLERANCE,
    ) -> Self:
        """Build a model from columns of equal length, one row per transition.

        Parameters
        ----------
        state, action, next_state : sequence of hashable
            Lists, arrays or dataframe columns.
        probability : sequence of float
            Rows of probability 0 are left out.
        reward : sequence of float, optional
            The reward of each transition.
        states, actions : iterable of hashable, optional
            The names, in their order. By default whole numbers come in ascending order, other names in
            the order in which they first appear, the column ``state`` before ``next_state``.
        terminal, tolerance
            As in `from_arrays`.

        Examples
        --------
        >>> import tether
        >>> tether.MDP.from_table(["on"], ["press"], ["off"], [1.0], terminal=["off"])
        <MDP: 2 states, 1 action, 2 pairs, 2 transitions>
        """
        parts = form_from_table(
            state,
            action,
            next_state,
            probability,
            reward,
            states=states,
            actions=actions,
            terminal=terminal,
            tolerance=tolerance,
        )
        return cls._of(*parts)

    @classmethod
    def from_function(
        cls,
        initial: Any,
        actions: Callable[[Any], Iterable[Any]],
        step: Callable[[Any, Any], Mapping[Any, float]],
        reward: Callable[..., float] | None = None,
        horizon: int | None = None,
        *,
        terminal: Iterable[Any] | Callable[[Any], bool] = (),
        tolerance: float = TOLERANCE,
        max_states: int | None = None,
    ) -> Self:
        """Build a model from functions, exploring only states that can be reached.

        Parameters
        ----------
        initial : hashable, or list of hashable
            The state, or states, episodes start in.
        actions : callable
            ``actions(s)`` gives the names of the actions available in ``s``.
        step : callable
            ``step(s, a)`` gives ``{next state: probability}``.
        reward : callable, optional
            ``reward(s, a)`` or ``reward(s, a, next_state)``.
        horizon : int, optional
            Explore only this many steps: the model is then valid for episodes of up to that length that
            begin in ``initial``.
        terminal : iterable of names, or callable, optional
            States where episodes end: ``actions`` and ``step`` are not called for them; they are absorbing under every
            action, with reward 0. A list, or a function of a state's name that returns True or False.
        tolerance : float
            As in `from_arrays`.
        max_states : int, optional
            Stop with an error beyond this many states, instead of filling the memory.

        Examples
        --------
        >>> import tether
        >>> mdp = tether.MDP.from_function(
        ...     0, lambda s: ["stay", "up"], lambda s, a: {s + (a == "up"): 1.0}, lambda s, a: s, horizon=3
        ... )
        >>> mdp.n_states, mdp.horizon
        (4, 3)
        >>> mdp = tether.MDP.from_function(
        ...     1, lambda s: ["bet"], lambda s, a: {s - 1: 0.5, s + 1: 0.5}, terminal=lambda s: s in (0, 3)
        ... )
        >>> mdp.states, mdp.labels
        (Names(1, 0, 2, 3), Labels(0: 1 state, 3: 1 state))
        """
        states, acts, form = form_from_function(
            initial, actions, step, reward, horizon, terminal=terminal, tolerance=tolerance, max_states=max_states
        )
        explored_all = bool(np.all(np.diff(form.pair_start) > 0))
        return cls._of(states, acts, form, None if explored_all else horizon)

    @classmethod
    def _of(cls, states: Names, actions: Names, form: Form, horizon: int | None = None) -> Self:
        limits = [limit for limit in (horizon, form.rewards.horizon) if limit is not None]
        return cls(states, actions, form, min(limits) if limits else None)

    def solve(self, steps: int | None = None, *, objective: Property | None = None, minimise: bool = False) -> Solution:
        """The optimal plan of the plain model over some steps: what to do and what to expect in every state.

        Parameters
        ----------
        steps : int, optional
            How many; by default the horizon of the model, if it has one.
        objective : `tether.reach` (goal), `tether.avoid` (bad) or `tether.until` (hold, goal), optional
            A property instead of the return: values are then the probability that it holds within the steps.
        minimise : bool
            Ask for the smallest value, not the largest.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.solve(11).action(0, 0)
        'down'
        >>> round(tether.cases.grid_world().mdp.solve(11, objective=tether.avoid("danger")).value(0), 4)
        0.999
        """
        from tether.plan.solution import solve

        return solve(self, steps, objective, minimise)

    @overload
    def simulate(
        self,
        policy: Any = "random",
        steps: int | None = None,
        *,
        n: None = None,
        start: Any = None,
        rng: Any = None,
        noise: float = 0.0,
    ) -> Path: ...
    @overload
    def simulate(
        self,
        policy: Any = "random",
        steps: int | None = None,
        *,
        n: int,
        start: Any = None,
        rng: Any = None,
        noise: float = 0.0,
    ) -> Episodes: ...
    def simulate(
        self,
        policy: Any = "random",
        steps: int | None = None,
        *,
        n: int | None = None,
        start: Any = None,
        rng: Any = None,
        noise: float = 0.0,
    ) -> Path | Episodes:
        """Draw one episode of the plain model: an observed path for trying things out.

        Parameters
        ----------
        policy : "optimal", "random", callable, mapping or array
            Who acts; see `tether.plan.policy`. A plan acts as ``plan.on(mdp)``. By default any available action, each
            equally likely.
        steps : int, optional
            As in `solve`.
        n : int, optional
            How many episodes to draw, as `tether.Episodes`; by default one, as a `tether.Path`.
        start : hashable, optional
            The state in which it starts; by default the only state with the label ``init``, or else the first of the
            model. If several states have that label, one must be given.
        rng : int or numpy Generator, optional
        noise : float
            Probability of taking, at each step, any available action instead.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.simulate("optimal", 6, rng=0, noise=0.1)
        <Path: 6 steps, 0 –'down'→ 4 –'right'→ 0 … –'right'→ 8>
        >>> len(tether.cases.grid_world().mdp.simulate("random", 6, n=10, rng=0))
        10
        """
        from tether.evaluation.plain import simulate

        about: Any = {"start": start, "noise": noise}
        if n is None:
            return simulate(self, policy, steps, rng=rng, **about)
        from tether.observation.episodes import Episodes

        if isinstance(policy, str) and policy == "optimal":
            policy = self.solve(steps)  # once for all
        generator = random_generator(rng)
        drawn = [simulate(self, policy, steps, rng=generator, **about) for _ in range(whole_number("n", n, 1))]
        return Episodes.from_paths(drawn)

    def evaluate(
        self, policy: Any, steps: int | None = None, *, start: Any = None, objective: Property | None = None
    ) -> Evaluation:
        """Exactly what to expect of a policy in the plain model, without an observation.

        Parameters
        ----------
        policy, steps, start
            As in `simulate`.
        objective
            A property instead of the return, as in `solve`.

        Examples
        --------
        >>> import tether
        >>> tether.cases.grid_world().mdp.evaluate("optimal", 11, start=0)
        <Evaluation: 11 steps, return 540.8 ± 131.4>
        """
        from tether.evaluation.plain import evaluate_nominal

        return evaluate_nominal(self, policy, steps, start=start, objective=objective)
