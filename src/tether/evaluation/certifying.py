"""`tether.certify`: of a plan or policy for one episode, also where its type was never recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from tether.evaluation.certificate import Certificate, certificate_of
from tether.model.properties import Property, make_property
from tether.plan.typed_record import TypedRecord

if TYPE_CHECKING:
    from tether.conditioning.counterfactual_record import CounterfactualRecord
    from tether.evaluation.typed_certificate import TypedCertificate


@overload
def certify(
    cf: CounterfactualRecord,
    policy: Any,
    *,
    gamma: float = 1.0,
    practice: Any = None,
    objective: Property | None = None,
    minimise: bool = False,
) -> Certificate: ...


@overload
def certify(
    cf: TypedRecord,
    policy: Any,
    *,
    gamma: float = 1.0,
    practice: Any = None,
    objective: Property | None = None,
    minimise: bool = False,
) -> TypedCertificate: ...


def certify(
    cf: CounterfactualRecord | TypedRecord,
    policy: Any,
    *,
    gamma: float = 1.0,
    practice: Any = None,
    objective: Property | None = None,
    minimise: bool = False,
) -> Certificate | TypedCertificate:
    """What holds for a plan or policy under every causal model of an episode.

    Parameters
    ----------
    cf : CounterfactualMDP
        The model and the observed episode. Every causal model that agrees with both counts, whatever its mechanism is,
        if in it the luck of one step says nothing about the luck of another. With hidden types the answer is a
        `tether.records.TypedCertificate`.
    policy : Plan or policy
        A plan for the same episode, or a policy as `CounterfactualMDP.evaluate` takes it. A policy must have an action
        in every state that some causal model can lead to.
    gamma : float
        Allow for hidden causes of actions and outcomes, that changed the odds of every action at most so many times
        (Γ of the marginal sensitivity model; 1: none).
    practice : policy, optional
        How often each action is usually taken in each state: a policy of the state, or "random". By default it is
        usual practice in the log of a learned model (`tether.practice`), and every action equally often in any other
        model.
    objective, minimise
        How the policy is judged: by the probability of a property instead of the return, and whether less is better.
        A plan is judged by its own objective.

    Returns
    -------
    Certificate
        Its range under every causal model, and under every one that is counterfactually stable; the guaranteed gain,
        the breakdown point, and a verdict; what is left with hidden causes, and if luck is related over time.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> tether.certify(cf, "random").verdict
    'holds'
    >>> print(tether.certify(cf, "observed"))
    Every causal model that agrees with the model and the episode gives the observed return.
    >>> tether.certify(cf, "random", objective=tether.reach("over")).verdict
    'holds'
    """
    how: dict[str, Any] = {"gamma": gamma, "practice": practice, "objective": objective, "minimise": minimise}
    if not isinstance(cf, TypedRecord):
        return certificate_of(cf, policy, **how)
    from tether.evaluation.typed_certificate import certify_typed

    return certify_typed(cf, policy, gamma, practice, make_property(objective), minimise)
