"""How much of an answer is about this episode, in sentences: the strength, then the known ground.

Two measures, two names. *Strength* is exact: the total variation between the counterfactual and the nominal row, the
part of the probability that the observation moves. *Known ground* is a step for which the episode tells how chance
would have fallen: it passes the test of influence, and k counts it. It may do so with a strength of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tether._foundation.rounding import ROUNDING
from tether._foundation.words import average, counted, percent

if TYPE_CHECKING:
    from tether.conditioning.counterfactual_record import CounterfactualRecord
    from tether.core.chain import Chain
    from tether.evaluation.evaluate import Evaluation
    from tether.evaluation.tailoring import Tailoring
    from tether.explanation.steps import ExplainedStep
    from tether.influence.rules import Rule


RARE = 0.05
"""Less likely changes than this are only counted, if there are others to list."""


_TELLS = "what happened tells how chance would have fallen there"


def left_to_chance(cf: CounterfactualRecord, chain: Chain) -> bool:
    """Whether some step, of the episode or of a policy's chain, has more than one possible outcome in the model.

    >>> import tether
    >>> mdp = tether.MDP.from_table(["here", "there"], ["go", "go"], ["there", "here"], [1.0, 1.0])
    >>> cf = tether.counterfactual(mdp, tether.Path(["here", "there"], ["go"]))
    >>> left_to_chance(cf, cf.evaluate("random").chain)
    False
    """
    start = cf.mdp.form.row_start
    taken = [cf.observation.pairs, *(decided.pairs for decided in chain.taken)]
    return any(bool(np.any(start[pairs + 1] - start[pairs] > 1)) for pairs in taken)


def strength(cf: CounterfactualRecord, outlook: Evaluation, steps: Sequence[ExplainedStep]) -> str:
    """How much of it is about this episode, from the first change on.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> explanation = cf.plan(k=3, m=1).explain()
    >>> strength(cf, explanation.outlook, explanation.steps)
    'From step 5 on, nothing in this is specific to this episode: it is what the model expects of anyone.'
    """
    if not left_to_chance(cf, outlook.chain):
        return "No step is random: the episode has no luck to keep, and the answer does not depend on it."
    tailoring, until = known_tailoring(outlook), "" if outlook.chain.ended is None else " until it is decided"
    changed = [step for step in steps if step.changed > 0]
    if not changed:
        mean = tailoring.mean_strength()
        over = f"the {counted(outlook.T, 'step')}" if not until else f"the steps{until}"
        return f"Nothing is changed. On average over {over}, the observation moves {percent(mean)} of the probability."
    return share_in_words(tailoring.about_episode, changed[0].t, until)


def share_in_words(share: float, first: int, until: str = "") -> str:
    """How much of a plan is about its episode, from the step of its first change on.

    >>> print(share_in_words(0.25, 2))
    From step 2 on, 25 % of it is about this episode: so much of the probability the observation moves.
    """
    if share <= ROUNDING:
        where = "Nothing in this" if first == 0 else f"From step {first} on, nothing in this"
        return f"{where} is specific to this episode: it is what the model expects of anyone."
    start = "" if first == 0 else f"From step {first} on, "
    return (
        f"{start}{percent(share)} of it is about this episode{until}: so much of the probability the observation moves."
    )


def influenced_steps(tailoring: Tailoring, k: int | None = None, rule: Rule = "definition") -> str:
    r"""How many steps are known ground, which k counts; with k, whether the longest stretch without one is shorter.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=6, m=1)
    >>> print(*influenced_steps(plan.evaluate().tailoring, k=6).split(". "), sep=".\n")
    2 of the 7 steps are on known ground: what happened tells how chance would have fallen there.
    The longest stretch off it is 5 steps, fewer than k = 6.
    """
    T, many, run = tailoring.chain.T, tailoring.expected_influenced_steps, tailoring.longest_run
    steps, decided = tailoring.expected_steps, ""
    if tailoring.chain.ended is not None:
        decided = " until it is decided"
    if run == 0:
        every = f"All {T} steps are" if not decided else f"Every step{decided} is"
        return f"{'The only step is' if T == 1 else every} on known ground: {_TELLS}."
    if many <= ROUNDING:
        return "No step is on known ground: what happened tells nowhere how chance would have fallen."
    certain = _is_whole(many) and _is_whole(steps)
    count = f"{round(many)}" if certain else f"On average {average(many)}"
    are = "is" if certain and round(many) == 1 else "are"
    chance = tailoring.longest_run_probability
    often = "" if chance > 0.9995 else f" (probability {f'{chance:.2g}' if chance >= 0.0005 else 'under 0.001'})"
    of = f"the {counted(round(steps), 'step')}" if _is_whole(steps) else f"{average(steps)} steps"
    text = f"{count} of {of}{decided} {are} on known ground: {_TELLS}. The longest stretch off it is "
    text += f"{counted(run, 'step')}{often}"
    if k is None or k > T:
        return f"{text}."
    if run < k:
        return f"{text}, fewer than k = {k}."
    means = "only keeps a way back possible"
    if rule in ("published", "printed"):
        means = "asks how near a step stays to what was observed, and not for known ground"
    return f"{text}, not fewer than k = {k}: the rule {rule!r} {means}."


def _is_whole(expected: float) -> bool:
    return abs(expected - round(expected)) <= 5e-4


def known_tailoring(outlook: Evaluation) -> Tailoring:
    """How tailored to its episode an evaluated policy is."""
    tailoring = outlook.tailoring
    assert tailoring is not None  # it was evaluated in an episode
    return tailoring
