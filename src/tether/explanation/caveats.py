"""What no answer can know: hindsight, unobserved confounding, what the model leaves out. Told with every report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether._foundation.words import counted

if TYPE_CHECKING:
    from tether.explanation.explain import Explanation

__all__ = ["cannot_know"]


def cannot_know(explanation: Explanation) -> list[tuple[str, str]]:
    """What the answer cannot know, each with a name.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> [name for name, _ in cannot_know(tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain())]
    ['Hindsight', 'Hidden causes', 'What the model leaves out']
    """
    return [
        (
            "Hindsight",
            "The plan knows how each observed step ended; nobody could know that at the time. It says what would have "
            "helped in this episode. It is no rule for the next one, and no verdict on those who decided.",
        ),
        (
            "Hidden causes",
            "The model takes an action's effect to depend on the state and on nothing else. If those who decided saw "
            "more than the state holds, and what they saw also bears on the outcome, then effects are mixed up with "
            "reasons, and the answer can be wrong in either direction. No number on this page measures that.",
        ),
        ("What the model leaves out", _left_out(explanation)),
    ]


def _left_out(explanation: Explanation) -> str:
    mdp = explanation.plan.cf.mdp
    kept = f"Of every moment only one of {counted(mdp.n_states, 'state')} is kept, and of what was done only one of "
    text = f"{kept}{counted(mdp.n_actions, 'action')}. Whatever differs within a state counts as chance. "
    if mdp.counts is None:
        return f"{text}The probabilities are taken as given: how far they are off is not known here."
    source = counted(mdp.counts.episodes, "episode") if mdp.counts.episodes else "a log"
    text += f"The model was learned from {source}: what these never show, it takes for impossible, "
    return f"{text}and what they show rarely is known poorly."
