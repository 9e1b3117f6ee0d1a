"""What is asked of one observed episode beside plans: policies, decisions, other actions, states; its model as data.

`tether.objects.counterfactual_object` adds the questions that are answered by plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tether._foundation.arrow import as_pandas
from tether._foundation.kinds_of_records import Shown
from tether.conditioning.counterfactual_record import CounterfactualRecord

if TYPE_CHECKING:
    import os

    import pandas
    import pyarrow
    from matplotlib.axes import Axes

    from tether.evaluation.evaluate import Evaluation
    from tether.evaluation.trajectories import Trajectories
    from tether.explanation.decisions import Decisions
    from tether.explanation.mistakes import Review
    from tether.explanation.what_if import WhatIf
    from tether.explorer.notebook import Inline
    from tether.influence.classes import Classes
    from tether.influence.one_step import GivenInfluence as Influence
    from tether.influence.rules import GivenRule as Rule
    from tether.io.conversion import EpisodeModel
    from tether.mdp import MDP
    from tether.model.properties import Property
    from tether.plan.plan_record import PlanRecord
    from tether.plan.tether_record import TetherRecord
    from tether.plan.unfolded import CounterfactualRows


class EpisodeQuestions(Shown, CounterfactualRecord):
    """A model conditioned on an observed path, with what is asked of it beside plans."""

    __slots__ = ()

    def evaluate(
        self, policy: Any, *, influence: str | Influence = "support", objective: Property | None = None
    ) -> Evaluation:
        """Exactly what to expect under any policy, and how much of it the observation influences.

        Parameters
        ----------
        policy : "observed", "optimal", "random", callable, mapping, array or Plan
            See `tether.plan.policy`.
        influence
            When a pair counts as influenced, as in `plan`.
        objective
            A property instead of the return, as in `plan`: the value is the probability that it holds. An episode
            ends where the property is decided. A plan for a property is evaluated for that property.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.evaluate("observed").value
        -38.0
        >>> cf.evaluate(lambda state: "V_I" if "V_I" in case.mdp.actions_in(state) else "NIL").tailoring
        <Tailoring: 0.00 of 7 steps influenced, longest uninfluenced run 7 (probability 1)>
        """
        from tether.evaluation.evaluate import evaluate_policy

        return evaluate_policy(self, policy, influence, objective)

    def sample(self, policy: Any, n: int = 5, rng: Any = 0, *, objective: Property | None = None) -> Trajectories:
        """Draw ``n`` episodes under any policy, with the luck of this one.

        Policies that are drawn with the same seed meet the same noise: draw i of one and draw i of the other differ
        only by what is done. Under Gumbel-max it is the noise of the causal model.

        Parameters
        ----------
        policy, objective
            As in `evaluate`.
        n : int
        rng : int or numpy Generator
            The same seed gives the same noise; None gives another each time.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> plan, done = cf.plan(k=7, m=4), cf.sample("observed", 1000)
        >>> done.returns.std(), (cf.sample(plan, 1000).returns > done.returns).mean()
        (np.float64(0.0), np.float64(1.0))
        """
        from tether.evaluation.trajectories import sample_policy

        return sample_policy(self, policy, n, rng, objective)

    def decisions(
        self,
        objective: Property | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        minimise: bool = False,
    ) -> Decisions:
        """Which decisions mattered: for every step and every action available there, what would have followed.

        All numbers are exact: the expected return if only this action had been different; the best return with this
        action and at most m changes in all, without a tether; the probability that the observed outcome would not have
        happened; and the shortest tether that allows the action.

        Parameters
        ----------
        objective : Property, optional
            Evaluate decisions by the probability of a property (see `tether`); by default, by the return. With a
            property, the observed outcome is that it held, or that it did not.
        m : int
            How many actions may change in all, from 1, for the best return.
        rule, influence
            What a tether is; see `tether`.
        minimise : bool
            Less is better.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> decisions = tether.counterfactual(case.mdp, case.path).decisions()
        >>> [(row.action, row.value, row.needed_k) for row in decisions.at(0)[:2]]
        [('NIL', -38.0, 1), ('V_I', -1.0, 8)]
        """
        from tether.explanation.decisions import decide

        return decide(self, objective, m, rule, influence, minimise)

    def review(
        self,
        against: Any = "best",
        *,
        objective: Property | None = None,
        minimise: bool = False,
        horizon: int | None = None,
    ) -> Review:
        """Mistake or luck: what could be known when it was decided, and what only chance did.

        Decisions are judged by the plain model: no causal model is needed. Only `tether.records.Review.foreseeable`
        uses the counterfactual MDP.

        Parameters
        ----------
        against : "best", "usual", or a policy
            What decisions are judged against; see `tether.review`.
        objective, minimise
            What is asked for instead of the largest return; see `tether`.
        horizon : int, optional
            Over how many steps; by default up to the horizon of this counterfactual MDP. See `tether.review`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> review = tether.counterfactual(case.mdp, case.path).review()
        >>> review, round(review.foreseeable, 3)
        (<Review: expected -1, mistakes 35.86, luck -1.141, observed -38>, 37.0)
        """
        from tether.explanation.mistakes import review_counterfactual

        return review_counterfactual(self, against, objective, minimise, horizon)

    def what_if(
        self,
        actions: Mapping[int, Any] | None = None,
        best_from: int | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
    ) -> WhatIf:
        """Other actions at some steps, or the best from some step on: exactly what would have followed.

        Parameters
        ----------
        actions : mapping of time to action
            What to do instead, whatever the state is then; all other steps are done as observed. If an action is not
            available, the observed one is taken; if that is not available either, the best one.
        best_from : int, optional
            From this time on the best actions, without a tether and with any number of changes.
        rule, influence
            What `WhatIf.needed_k` means; see `tether`.
        objective
            A property in place of the return; see `tether`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> asked = tether.counterfactual(case.mdp, case.path).what_if({5: "V_I"})
        >>> round(asked.value, 3), asked.observed_value, asked.needed_k
        (-37.111, -38.0, 3)
        """
        from tether.explanation.what_if import what_if

        return what_if(self, {} if actions is None else actions, best_from, rule, influence, objective)

    def enough_k(
        self,
        m: int = 1,
        share: float = 0.9,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> int | None:
        """The shortest tether that gives at least ``share`` of what the longest one gives; None if none gains anything.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).enough_k(m=2)
        7
        """
        from tether.plan.tether_record import tether

        return tether(self, rule, influence, objective, minimise).enough_k(m, share)

    def classify(
        self,
        *,
        t: int,
        k: int | None = None,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        rollout: str = "counterfactual",
    ) -> Classes:
        """Class of each state at time t = 0 … T: observed, influenced and reachable, and so on.

        Parameters
        ----------
        t : int
        k : int, optional
            The length of the tether; left out: the one that `plan` takes.
        rule, influence, objective, minimise
            What "within k" means, and what is enough; see `tether`.
        rollout : {"counterfactual", "nominal"}
            What "reachable" means: through the counterfactual MDP, exactly; or through the nominal rows, as
            the paper draws it.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).classify(t=2, k=2, rollout="nominal")["s6"]
        'influenced and reachable'
        """
        from tether.plan.tether_record import tether

        return tether(self, rule, influence, objective, minimise).classify(t=t, k=k, rollout=rollout)

    def to_arrays(self, *, rule: Rule = "definition", influence: str | Influence = "support") -> CounterfactualRows:
        """Every row that s_0 can reach, entry by entry, as arrays in the indices of the model.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> rows = tether.counterfactual(toy.mdp, toy.path).to_arrays()
        >>> rows.t.size, rows.probability[:2], rows.nominal[:2]  # what was observed rules s3 out
        (8, array([1., 0.]), array([0.5, 0.5]))
        """
        from tether.plan.tether_record import tether
        from tether.plan.unfolded import rows_of

        return rows_of(tether(self, rule, influence))

    def to_arrow(self, *, rule: Rule = "definition", influence: str | Influence = "support") -> pyarrow.Table:
        """Every row that s_0 can reach, as a table: one row per t, state, action and next state.

        Further columns: ``probability`` with the observation, ``nominal`` without it, ``strength`` (total variation
        between the two rows), ``influenced``, and ``kappa``, the smallest k that allows the pair.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> tether.counterfactual(toy.mdp, toy.path).to_arrow().column_names[:5]
        ['t', 'state', 'action', 'next_state', 'probability']
        """
        from tether.plan.tether_record import tether
        from tether.plan.unfolded import rows_table

        return rows_table(tether(self, rule, influence))

    def to_pandas(self, *, rule: Rule = "definition", influence: str | Influence = "support") -> pandas.DataFrame:
        """The table of `to_arrow` as a pandas one; pandas must be installed.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> rows = tether.counterfactual(toy.mdp, toy.path).to_pandas()
        >>> len(rows), rows["influenced"].dtype
        (8, dtype('bool'))
        """
        return as_pandas(self.to_arrow(rule=rule, influence=influence))

    def to_mdp(
        self,
        k: int | None = None,
        *,
        changes: int | None = None,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
    ) -> MDP:
        """The counterfactual MDP, pruned to what is allowed within k, as an ordinary MDP with states (t, state).

        Parameters
        ----------
        k : int, optional
            By default T + 1: everything is allowed.
        changes : int, optional
            How many actions may change (m): states are then (t, state, changes left). By default changes are not
            counted.
        rule, influence, objective
            As in `plan`. With an objective the return is the probability of the property.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> mdp = cf.to_mdp(k=7, changes=4)
        >>> mdp.states[0], round(mdp.solve(cf.T).value(mdp.states[0]), 3), round(cf.plan(k=7, m=4).value, 3)
        ((0, 9, 1, 20, 4), -11.278, -11.278)
        """
        from tether.plan.tether_record import tether

        return _unfolded_mdp(tether(self, rule, influence, objective), k, changes, done=False)

    def write(
        self,
        file: str | os.PathLike[str],
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
    ) -> EpisodeModel:
        """Write `to_mdp` for Storm (``.drn``), PRISM (``.tra``) or as any other format, with the question to ask.

        Its answer, less ``shift``, is the value of ``plan(k, m)``, whose defaults these are. Only files for PRISM have
        a shift: PRISM takes no rewards below 0.

        The written model has one step more than the episode, to the state labelled "done", which earns the final
        reward. Its states have the variables of the model's states, t and changes_left; it has the model's labels.

        Examples
        --------
        >>> import tempfile, tether
        >>> grid = tether.cases.grid_world()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = tether.counterfactual(grid.mdp, grid.path).write(f"{folder}/fall.tra", k=6, m=1)
        >>> made.question, made.shift
        ('Rmax=? [ C<=12 ]', 1200.0)
        """
        from tether.io.conversion import write_unfolded
        from tether.plan.tether_record import tether

        tied = tether(self, rule, influence, objective, minimise)
        return write_unfolded(_unfolded_mdp(tied, tied.length(k, m), m, done=True), file, self.T + 1, minimise)

    def plot(
        self,
        k: int | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        rollout: str = "counterfactual",
        label: Callable[[Any], str] = str,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the states over time by class, for one k; returns the axes. See `tether.views.figures.plot_classes`.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> ax = tether.counterfactual(toy.mdp, toy.path).plot(k=1)
        >>> ax.get_legend().get_texts()[0].get_text()
        'observed'
        """
        from tether.views.figures import plot_classes

        options: Any = {"rule": rule, "influence": influence, "objective": objective, "minimise": minimise}
        return plot_classes(self, k, ax, rollout=rollout, label=label, **options)

    def explore(self, height: int = 800) -> Inline:
        """An interactive page: k, m, "what if" and "why?", below the cell of a notebook, or in any browser.

        It is served to this machine only, until the program ends or ``stop()`` of the returned object is called. Needs
        the extra ``explorer``.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> page = tether.counterfactual(toy.mdp, toy.path).explore()
        >>> page.address[:17]
        'http://127.0.0.1:'
        >>> page.stop()
        """
        from tether.explorer.notebook import explore

        return explore(self, height)


def write_plan(plan: PlanRecord, file: str | os.PathLike[str]) -> None:
    """Write a plan as a scheduler of the model that `EpisodeQuestions.write` writes; see `Plan.write`."""
    from tether.io.policies import write_policy
    from tether.plan.tether_record import tether
    from tether.plan.unfolded import choices_in

    tied = tether(plan.cf, plan.rule, plan.influence, plan.objective, plan.minimise)
    made = _unfolded_mdp(tied, plan.k, plan.m, done=True)
    choices, ends = choices_in(plan, made.states), {made.states[int(s)] for s in made.form.terminal}
    for name in made.states:  # where the plan ends, nothing is to be chosen
        available = made.actions_in(name) if name not in choices else ()
        if len(available) == 1 or name in ends:
            choices[name] = available[0]
    write_policy(choices, made, file)


def _unfolded_mdp(tied: TetherRecord, k: int | None, m: int | None, *, done: bool) -> MDP:
    """The unfolded model of a question (`tether.plan.unfolded`), as an MDP that begins in its first state."""
    from tether.io.conversion import for_tools
    from tether.mdp import MDP
    from tether.plan.unfolded import unfolded

    states, actions, form, final, discount = unfolded(tied, k, m, done=done)
    mdp = MDP(states, actions, form, discount=discount, final_reward=final)
    if done:
        return for_tools(mdp, tied.cf.mdp)
    return mdp.with_labels({"init": [states[0]]})
