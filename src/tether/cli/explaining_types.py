"""``tether explain TYPES PATH``: an individual whose type was never recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tether.cli.doing import LIMITS, READING, spoken

if TYPE_CHECKING:
    from pathlib import Path

    from tether.cli.options import Episode, PlanOptions, QuestionOptions
    from tether.explanation.typed_explanation import TypedExplanation
    from tether.model.several_types import Types
    from tether.objects.types_object import TypedCounterfactual, TypedPlan


def sources_of(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """The models of types, from options written ``NAME=MODEL``."""
    found = {}
    for value in values:
        name, equals, model = value.partition("=")
        if not (name and equals and model):
            raise click.BadParameter(f"{value!r}: expected NAME=MODEL, as in diabetic=diabetic.csv", param=param)
        found[name] = model
    return found


def shares_of(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float] | None:
    """How likely types are, from options written ``NAME=SHARE``; None without any."""
    found = {}
    for value in values:
        name, _, share = value.rpartition("=")
        try:
            found[name] = float(share)
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter(f"{value!r}: expected NAME=SHARE, as in diabetic=0.2", param=param)
    return found or None


def about_types(episode: Episode, types: dict[str, str], prior: dict[str, float] | None) -> bool:
    """Whether the question is about types: MODEL is a directory, or ``--type`` was given."""
    from tether.io.typed_models import is_types

    if types or is_types(episode.model):
        return True
    if prior is not None:
        raise click.UsageError("--prior is about types: give --type NAME=MODEL, or a directory of types as MODEL.")
    return False


def explain_types(
    episode: Episode,
    limits: PlanOptions,
    types: dict[str, str],
    prior: dict[str, float] | None,
    certificate: bool,
    as_json: bool,
    refused: dict[str, Any],
) -> None:
    """Print the best plan for somebody who does not see the type."""
    from tether.cli.json_output import print_json
    from tether.explanation.typed_explanation import typed_data

    plan, source = planned_for_types(episode, limits, types, prior, refused)
    explanation = plan.explain(certificate=certificate)
    if as_json:
        print_json("explain", model=episode.model, path=source, **typed_data(explanation))
        return
    _print(explanation, source)


def report_types(
    episode: Episode,
    limits: PlanOptions,
    output: Path,
    title: str | None,
    certificate: bool,
    as_json: bool,
    refused: dict[str, Any],
) -> None:
    """Write the page of the best plan for somebody who does not see the type."""
    from tether.cli.described import title_of_path
    from tether.cli.json_output import print_json
    from tether.cli.screen import put
    from tether.explanation.typed_explanation import explain_typed, typed_data

    plan, source = planned_for_types(episode, limits, None, None, refused)
    nouns = spoken()
    title = title or title_of_path(source, nouns.episode)
    plan.report(output, title=title, certificate=certificate, nouns=nouns, source=episode.model)
    size = output.stat().st_size
    if as_json:
        data = typed_data(explain_typed(plan, certificate))
        print_json("report", model=episode.model, path=source, **data, file=str(output), bytes=size)
    else:
        put(f"{_limit(plan)}. Written to {output} ({size / 1000:.0f} kB).")


def planned_for_types(
    episode: Episode,
    limits: PlanOptions,
    types: dict[str, str] | None,
    prior: dict[str, float] | None,
    refused: dict[str, Any],
) -> tuple[TypedPlan, str]:
    """The best plan for somebody who does not see the type, and what names the episode.

    ``refused`` are options that only one model has.
    """
    from tether.cli.screen import progress

    limited = {"--subject-to": limits.subject_to, "--cost": limits.cost}
    cf, source = replayed_for_types(episode, types, prior, refused | limited)
    with progress() as say:
        say("planning", LIMITS)
        about = {"rule": limits.rule, "influence": limits.influence, **limits.judging}
        about |= limits.advising(first_of(cf.types))
        return cf.plan(limits.k, limits.m, **about), source


def certify_for_types(
    episode: Episode, limits: PlanOptions, gamma: float, practice: str | None, as_json: bool, refused: dict[str, Any]
) -> None:
    """Print what holds for the best plan of somebody who does not see the type, whatever the causal model is."""
    from tether.cli.json_output import print_json
    from tether.cli.screen import put
    from tether.io import open_policy

    plan, source = planned_for_types(episode, limits, None, None, refused)
    usual = None if practice is None else open_policy(practice, first_of(plan.cf.types))
    found = plan.certify(gamma, usual)
    if as_json:
        about = {"k": plan.k, "m": plan.m, "posterior": plan.cf.posterior, "verdict": found.verdict}
        print_json("certify", model=episode.model, path=source, **about, certificate=found)
        return
    put(f"{source}: the best plan for hidden types, under other causal models ({_limit(plan)}).", "", str(found))


def sweep_for_types(
    episode: Episode, ks: list[int] | None, ms: list[int] | None, question: QuestionOptions, as_json: bool
) -> None:
    """Print the value of the best plan of somebody who does not see the type, for every k and m."""
    from tether._foundation.words import number
    from tether.cli.heat_table import heat_tables
    from tether.cli.json_output import print_json
    from tether.cli.screen import progress, put

    cf, source = replayed_for_types(episode, None, None, {"--cost": question.cost})
    with progress() as say:
        say("planning for every k and m", LIMITS)
        about = question.tethering | question.judging | question.advising(first_of(cf.types))
        table = cf.sweep(ks, ms, **about)
    if as_json:
        numbers = {name: getattr(table, name) for name in ("ks", "ms", "values", "exact", "observed_value")}
        print_json("sweep", model=episode.model, path=source, T=cf.T, **numbers)
        return
    what = "expected return" if question.objective is None else f"chance that {question.objective.in_words}"
    put(f"{source}: the best {what} within k and m, not seeing the type; observed {number(table.observed_value)}.", "")
    put(*heat_tables(table))
    put("", f"k: length of the tether; k = {cf.T + 1}: no tether. m: how many actions may change.")
    if not all(table.exact):
        put("Some values are those of the best plans that were found: there are too many ways to act to compare all.")


def decisions_for_types(episode: Episode, m: int, question: QuestionOptions, as_json: bool) -> None:
    """Print which decisions mattered for somebody of a hidden type."""
    from tether.cli.json_output import print_json
    from tether.cli.screen import decimals, plain_table, progress, put

    other = (question.rule, str(question.influence)) != ("definition", "support")
    cf, source = replayed_for_types(episode, None, None, {"-m": m > 1, "--rule or --influence": other})
    with progress() as say:
        say("computing every other action", LIMITS)
        found = cf.decisions(**question.judging)
    if as_json:
        about = {"observed_value": found.observed_value, "posterior": cf.posterior, "decisions": found.rows}
        print_json("decisions", model=episode.model, path=source, T=cf.T, **about, sentences=found.sentences(str))
        return
    put(*found.sentences(episode.name), "")
    judged, value = found.review is not None, "return" if question.objective is None else "chance"
    names = ["t", "action", *(["mistake"] if judged else []), value, "strength", "from k"]
    table = plain_table(*names, right=[0, *range(2, len(names))])
    places = decimals(one for row in found.rows for one in (row.mistake, row.value) if one is not None)

    def text(value: float | None) -> str:
        return "–" if value is None else "0" if value == 0 else f"{value:,.{places}f}"

    last = max((row.t for row in found.rows if abs(row.gain or 0.0) > 0.0), default=-1)  # later nothing changes
    for row in found.rows:
        if row.t <= last:
            numbers = [*([row.mistake] if judged else []), row.value]
            done = episode.name(row.action) + (" *" if row.is_observed else "")
            cells = [*map(text, numbers), f"{row.strength:.2f}", str(row.needed_k)]
            table.add_row(str(row.t) if row is found.at(row.t)[0] else "", done, *cells)
    if last + 1 < cf.T:
        table.add_row(str(last + 1) if last + 2 == cf.T else f"{last + 1}–{cf.T - 1}", "any: nothing changes")
    put(table)
    put(
        f"* what was done. mistake: what it costs by what could be known at the time; 0 is the best. {value}: "
        "expected, had only this action been different. strength: how much the episode changes what is to be expected. "
        "from k: the shortest tether that allows the action for every type.",
        style="dim",
    )


def _limit(plan: TypedPlan) -> str:
    limit = "no tether" if plan.k > plan.cf.T else f"k = {plan.k}"
    return f"{limit}, m = {plan.m}"


def replayed_for_types(
    episode: Episode, types: dict[str, str] | None, prior: dict[str, float] | None, refused: dict[str, Any]
) -> tuple[TypedCounterfactual, str]:
    """The episode of somebody whose type was never recorded, and what names it; ``refused`` are not for types."""
    from tether.cli.screen import progress
    from tether.io import open_path
    from tether.learning.folds import unseen_types
    from tether.objects.counterfactual_object import counterfactual

    beyond = {"--horizon": episode.horizon, "--then": episode.then != "best"}
    given = [name for name, value in (refused | beyond).items() if value]
    if given:
        raise click.UsageError(f"{given[0]} is not for types: leave it out.")
    source = path_about_types(episode, types)
    with progress() as say:
        say("reading the models of the types", READING)
        opened = opened_types(episode, types or {}, prior)
        path = open_path(source, first_of(opened), **episode.reading_path)
        return counterfactual(unseen_types(opened, path), path), source


def path_about_types(episode: Episode, types: dict[str, str] | None = None) -> str:
    """What names the episode: PATH, the only word after ``--type``, or the embedded case itself.

    ``types`` is None in commands without ``--type``.
    """
    from tether.io.embedded import is_typed_case

    if types and episode.path is None:
        return episode.model
    if episode.path is None and is_typed_case(episode.model):
        return episode.model
    if types or episode.path is None:
        alone = "" if types is None else "PATH alone after --type, or "
        raise click.UsageError(f"expected {alone}TYPES PATH: a directory of types, and what happened.")
    return episode.path


def opened_types(episode: Episode, types: dict[str, str], prior: dict[str, float] | None) -> Types:
    """The types that the options name, or a directory, with the objective that is asked for."""
    from tether.io.names_as_text import find_name
    from tether.io.typed_models import open_types, read_types

    reading = episode.reading
    found = open_types(types, prior, **reading) if types else read_types(episode.model, prior, **reading)
    if episode.discount is not None:
        found = found.with_objective(discount=episode.discount)
    if episode.final_reward:
        states = first_of(found).states
        worth = {find_name(states, word, "state"): value for word, value in episode.final_reward.items()}
        found = found.with_objective(final_reward=worth)
    return found


def first_of(types: Types) -> Any:
    """The model of the first type: all have the same names."""
    return next(iter(types.models.values()))


def _print(explanation: TypedExplanation, source: str) -> None:
    from tether._foundation.words import percent, shown
    from tether.cli.described import title_of_path
    from tether.cli.screen import plain_table, put, under_headings

    nouns = spoken()
    first = explanation.verdicts(shown, nouns)
    put(f"{title_of_path(source, nouns.episode)} · {first.ended}", first.foreseen, first.hindsight, "")
    put(*under_headings(first, explanation.parts(shown)), "")
    names = list(explanation.plan.cf.types.models)
    table = plain_table("t", "what happened", "the plan", *(f"P({name})" for name in names), right=[0])
    steps = explanation.steps
    last = max((step.t for step in steps if explanation.plans(step)[1]), default=-1)  # then it is over for both
    for step in steps[: last + 1]:
        (state, done), (where, action) = explanation.happened(step), explanation.plans(step)
        mark = "*" if action and step.planned != step.action and step.changed > 0 else ""
        if not mark and action == done:
            planned = "the same"
        else:
            there = "" if step.planned_state == step.state else f"{where} ({percent(step.chance)})"
            planned = " → ".join(part for part in (there, action + mark) if part)
        shares = [percent(step.types[name]) for name in names]
        table.add_row(str(step.t), f"{state} → {done}" if done else state, planned, *shares)
    if last + 1 < len(steps):
        over = str(last + 1) if last + 2 == len(steps) else f"{last + 1}–{len(steps) - 1}"
        table.add_row(over, "ended", "most likely ended too", *("" for _ in names))
    put(table)
    put("* the action changes. % how likely, where it is not certain. P: how likely the type is before the step, by "
        "what happened so far.", style="dim")  # fmt: skip
