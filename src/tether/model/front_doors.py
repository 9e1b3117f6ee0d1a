"""The questions about a plain model, and how it is kept on disk: each method passes its question on.

The module that answers is imported when a method is called: solving, simulating and evaluating come later in the walk,
and the storage needs the model itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.evaluation.evaluate import Evaluation
    from tether.evaluation.plain import Solution
    from tether.model.mdp import MDP
    from tether.model.properties import Property
    from tether.observation.path import Path

__all__ = ["ModelDoors"]


class ModelDoors:
    """Methods of `tether.MDP`, the only class that has them.

    ``self`` is typed as Any, because its class is defined after this one.
    """

    __slots__ = ()

    def save(self: Any, file: str | os.PathLike[str]) -> None:
        """Write the model to one file, with everything it has: names, rewards, labels, counts, horizon, discount.

        The file appears when it is complete. An older saved model there is replaced in one step; any other file is not
        replaced. Names can be saved if they are numbers, texts, truth values or (named) tuples of these. Other programs
        can read the arrays: the file has the format safetensors.

        Examples
        --------
        >>> import tempfile, tether
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tether.cases.grid_world().mdp.save(f"{folder}/grid")
        ...     tether.MDP.load(f"{folder}/grid")
        <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
        """
        from tether.model.storage import save

        save(self, file)

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> MDP:
        """Open a model that `save` wrote; its arrays are mapped from disk, and shared between processes.

        First every byte is read and checked: a file that is damaged or cut off is an error. Names are decoded when one
        is first used.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.grid_world()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     case.mdp.save(f"{folder}/grid")
        ...     mdp = tether.MDP.load(f"{folder}/grid")
        ...     tether.counterfactual(mdp, case.path).plan(k=4, m=1).value
        -897.0
        """
        from tether.model.storage import load

        return load(file)

    def in_memory(self: Any) -> MDP:
        """A copy of the model with all its numbers in memory, and not on disk.

        A model that was opened from disk pickles as the name of its file, and is opened there again. This copy pickles
        with its numbers, for machines that do not share the disk. It is also independent of later changes of the file.

        Examples
        --------
        >>> import pickle, tempfile, tether
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tether.cases.grid_world().mdp.save(f"{folder}/grid")
        ...     text = pickle.dumps(tether.MDP.load(f"{folder}/grid").in_memory())
        >>> pickle.loads(text)
        <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
        """
        from tether.model.storage import in_memory

        return in_memory(self)

    def solve(
        self: Any, steps: int | None = None, *, objective: Property | None = None, minimise: bool = False
    ) -> Solution:
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
        from tether.evaluation.plain import solve

        return solve(self, steps, objective, minimise)

    def simulate(
        self: Any, policy: Any, steps: int | None = None, *, start: Any = None, rng: Any = None, noise: float = 0.0
    ) -> Path:
        """Draw one episode of the plain model: an observed path for trying things out.

        Parameters
        ----------
        policy : "optimal", "random", callable, mapping or array
            See `tether.evaluation.policy`.
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
        self: Any, policy: Any, steps: int | None = None, *, start: Any = None, objective: Property | None = None
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
        <Evaluation: 11 steps, return 540.8 ± 131>
        """
        from tether.evaluation.plain import evaluate_nominal

        return evaluate_nominal(self, policy, steps, start=start, objective=objective)
