"""What no answer can know: hindsight, unobserved confounding, what the model leaves out. Every report says it."""

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
            "The plan knows how each observed step ended. Nobody could know that at the time. It says what would have "
            "helped in this episode. It is not a rule for the next one, and not a verdict on those who decided.",
        ),
        (
            "Hidden causes",
            "The model assumes that the effect of an action depends on the state and on nothing else. Perhaps those "
            "who decided saw more than the state contains, and this also affects the outcome. Then effects are mixed "
            "up with reasons, and the answer can be wrong in either direction. No number on this page measures that.",
        ),
        ("What the model leaves out", _left_out(explanation)),
    ]


def _left_out(explanation: Explanation) -> str:
    mdp = explanation.plan.cf.mdp
    kept = f"The model describes every moment by one of {counted(mdp.n_states, 'state')}, and what was done by one of "
    text = f"{kept}{counted(mdp.n_actions, 'action')}. Differences within a state count as chance. "
    if mdp.counts is None:
        return f"{text}The probabilities are taken as given: how wrong they are is not known here."
    source = counted(mdp.counts.episodes, "episode") if mdp.counts.episodes else "a log"
    text += f"The model was learned from {source}. What these never show is impossible in the model, "
    return f"{text}and what they show rarely is known poorly."
