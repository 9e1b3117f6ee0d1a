"""What the command line asks, the library asks by the same name and with the same defaults."""

import inspect

import click
import pytest

import tether
import tether.io
from tether.cli.group import COMMANDS, main
from tether.views import figures

CF = tether.records.CounterfactualMDP

CALLS = {
    "explain": {
        CF.plan: "k m rule influence objective minimise subject_to only never cost",
        tether.records.Plan.explain: "certificate draws seed",
    },
    "review": {CF.review: "against objective minimise"},
    "sweep": {CF.sweep: "ks ms rule influence objective minimise only never cost"},
    "choose-k": {CF.choose_k: "m at_least at_most about_at_least rule influence objective minimise only never cost"},
    "why": {CF.why: "k state action uninfluenced rule influence objective minimise"},
    "what-if": {CF.what_if: "best_from rule influence objective"},
    "decisions": {CF.decisions: "m rule influence objective minimise"},
    "evaluate": {CF.evaluate: "influence objective"},
    "certify": {CF.plan: "k m rule influence only never cost", tether.certify: "objective minimise gamma practice"},
    "robust": {
        tether.robust: "assume confidence gamma practice horizon then",
        tether.records.Robust.plan: "k m rule objective minimise only never cost",
    },
    "sample": {CF.plan: "k m rule influence objective minimise only never cost", tether.records.Plan.sample: "n seed"},
    "report": {
        CF.plan: "k m rule influence objective minimise subject_to only never cost",
        tether.records.Plan.report: "output title features draws seed certificate",
    },
    "audit": {
        tether.audit: "k m rule influence objective minimise horizon then only never cost policy where time step "
        "certificate gamma draws seed folds workers fresh strict",
        tether.records.Audit.report: "reports",
    },
    "rules": {
        tether.rules: "objective minimise bad where holdout seed time step workers fresh conditions edits depth most "
        "harm"
    },
    "evaluate-rule": {
        tether.evaluate_rules: "objective minimise bad where holdout seed time step workers fresh",
        tether.rule: "instead_of do",
    },
    "compare": {tether.compare: "objective minimise bad where time step"},
    "check": {tether.io.check: "influence"},
    "convert": {tether.io.convert: "to mean_rewards"},
    "simulate": {tether.MDP.simulate: "steps start seed n"},
    "learn": {
        tether.learn: "prior minimum support rewards empty_rewards end time step decimal encoding day_first fold_case "
        "skip_broken"
    },
}
for _name in (
    "explain",
    "review",
    "sweep",
    "choose-k",
    "why",
    "what-if",
    "decisions",
    "evaluate",
    "certify",
    "sample",
    "report",
):
    CALLS[_name] = {tether.counterfactual: "horizon then", **CALLS[_name]}
"""Each option, and the call whose parameter it is."""

SAME = {"seed": ("rng", "seed"), "output": ("file",), "certificate": ("certificate", "certify")}
"""Parameters that have another name there."""

FILES = {
    *("model", "path", "format", "columns", "order", "reward_order", "terminal", "discount", "final_reward"),
    *("reward_model", "state_rewards", "transition_rewards", "path_columns", "time", "step", "as_json", "log", "out"),
    *("log_columns", "policy", "policy_columns", "t", "tolerance", "constants"),
    *("types", "prior_of_types"),
}
"""What names files, columns and the answer's form; and what has no default in either."""

NOT_CALLS = {
    "episode_name",
    "step_name",
    "features",
    "output",
    "at",
    "hide_ids",
    "export",
    "scheduler",
    "by",
    "condition",
}
"""How an answer is shown, and where it goes to."""


def options(name):
    command = main.get_command(click.Context(main), name)
    with click.Context(command) as ctx:
        return {one.name: one.get_default(ctx) for one in command.params}


@pytest.mark.parametrize("name", CALLS)
def test_options_have_the_defaults_of_the_library(name):
    given, asked = options(name), {}
    for call, names in CALLS[name].items():
        parameters = inspect.signature(call).parameters
        for option in names.split():
            found = next(parameters[one] for one in SAME.get(option, (option,)) if one in parameters)
            asked[option] = found.default
    for option, default in asked.items():
        typed = given[option]
        typed = None if typed is click.core.UNSET or typed == () else typed
        assert (str(typed) if option == "output" else typed or None) == (default or None), option
    assert given.keys() - asked.keys() <= FILES | NOT_CALLS  # every option is of a call


def test_every_command_that_answers_is_a_call():
    assert COMMANDS.keys() - CALLS.keys() == {"cases", "explore", "demo", "reproduce"}


def public_calls():
    for module in (tether, tether.records, tether.io, figures):
        for name in [name for name in getattr(module, "__all__", vars(module)) if name[0].isalpha()]:
            found = getattr(module, name)
            if inspect.isclass(found):
                shown = {one for one in dir(found) if not one.startswith("_")} - getattr(
                    found, "_internal", frozenset()
                )
                methods = {one: inspect.getattr_static(found, one) for one in sorted(shown)}
                yield from ((f"{name}.{one}", method) for one, method in methods.items() if inspect.isfunction(method))
            elif inspect.isfunction(found):
                yield name, found


def test_what_a_tether_means_is_said_by_keyword_with_one_default():
    wanted = {"rule": "definition", "influence": "support", "rollout": "counterfactual", "minimise": False}
    found = set()
    for name, call in public_calls():
        for parameter in inspect.signature(call).parameters.values():
            if parameter.name in wanted:
                found.add(parameter.name)
                assert parameter.kind is parameter.KEYWORD_ONLY, name
                assert parameter.default == wanted[parameter.name], name
    assert found == wanted.keys()


MEANS_ITS_OWN = {
    "CounterfactualMDP.pareto": "the trade-off takes the place of a tether",
    "Tethered.pareto": "the same",
}
"""Where k left out is no tether, and why; the documentation says so."""

LOOKED_UP = {
    *("Sweep.value", "Sweep.lost", "Sweep.plot", "SweepUncertainty.at", "Decisions.within", "plot_lost", "plot_sweep"),
    *("Robust.limits", "SavedSweep.value", "TypedSweep.value"),
}
"""Look-ups in an answer for some k or m, and what finds the defaults."""


def test_what_comes_first_then_k_then_m_with_one_default_each():
    met = set()
    for name, call in public_calls():
        if name in LOOKED_UP:
            continue
        parameters = [one for one in inspect.signature(call).parameters.values() if one.name != "self"]
        where = {one.name: (i, one.default) for i, one in enumerate(parameters)}
        for limit, default in (("k", None), ("m", 1)):
            if limit in where:
                met.add(name)
                assert where[limit][1] == default, name
        if {"k", "m"} <= where.keys():
            assert where["k"][0] + 1 == where["m"][0], name
        kinds = [one.kind for one in parameters]
        assert kinds == sorted(kinds), name
    assert met >= {
        *MEANS_ITS_OWN,
        "audit",
        "compare_mechanisms",
        "Robust.best_possible",
        "Robust.write",
        "plot_classes",
    }


def test_k_left_out_is_the_shortest_tether_that_is_enough_everywhere():
    case = tether.cases.epidemic()
    cf, sure = tether.counterfactual(case.mdp, case.path), tether.robust(case.mdp, case.path)
    for options in ({}, {"minimise": True}, {"objective": tether.reach("over")}, {"rule": "assured"}):
        k = cf.plan(**options).k
        assert (cf.why(0, **options)[0].k, cf.classify(t=0, **options).k) == (k, k)
        assert sure.best_possible(**options) == sure.best_possible(sure.plan(**options).k, 1, **options)
    assert cf.why(0, minimise=True)[0].k != cf.why(0)[0].k


def test_what_is_left_out_is_the_same_in_both():
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp, case.path)
    assert cf.choose_k(at_least=-30.0) == cf.choose_k(1, -30.0) == 6
    each = cf.why(0)
    assert [(one.state, one.action, one.k) for one in each] == [
        (case.path.states[0], action, cf.enough_k(1)) for action in case.mdp.actions_in(case.path.states[0])
    ]
    assert each[1].sentence == cf.why(0, case.path.states[0], "V_I", k=7).sentence
    assert cf.why(5, k=3, action="V_I").sentence == cf.why(5, case.path.states[5], "V_I", k=3).sentence
    assert repr(cf.classify(t=2)) == repr(cf.classify(t=2, k=7))
