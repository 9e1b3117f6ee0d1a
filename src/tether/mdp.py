"""`MDP`: a finite Markov decision process that can be solved, simulated and evaluated.

Its data and the ways to build it are those of `tether.model.model_record.ModelRecord`, which the lower folders take. It
stands above `tether.evaluation`, which answers its questions.
May import: evaluation, and what it may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether._foundation.kinds_of_records import Shown
from tether.model.model_record import ModelRecord
from tether.model.properties import Property

if TYPE_CHECKING:
    from tether.evaluation.evaluate import Evaluation
    from tether.observation.path import Path
    from tether.plan.solution import Solution

__all__ = ["MDP"]


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

    def simulate(
        self, policy: Any, steps: int | None = None, *, start: Any = None, rng: Any = None, noise: float = 0.0
    ) -> Path:
        """Draw one episode of the plain model: an observed path for trying things out.

        Parameters
        ----------
        policy : "optimal", "random", callable, mapping or array
            See `tether.plan.policy`.
        steps : int, optional
            As in `solve`.
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
        """
        from tether.evaluation.plain import simulate

        return simulate(self, policy, steps, start=start, rng=rng, noise=noise)

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
