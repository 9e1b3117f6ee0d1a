"""The page of rules: one screen for each rule, in words that can be taken to a meeting."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tether._foundation.words import counted, percent, percents
from tether._version import __version__
from tether.conditioning.model_sets import EVERY_MODEL, IN_SHORT
from tether.explanation.verdicts import Nouns
from tether.figures.output import inline_svg
from tether.figures.rule_bars import plot_rules
from tether.ruling.rule_results import EvaluatedRule, RulesRecord, range_in_words, whole
from tether.views.pages import date_of_page, drawing, facts_of, write_page
from tether.views.report.drawings import Drawing


def write_rules(
    rules: RulesRecord,
    file: str | os.PathLike[str],
    *,
    title: str | None = None,
    about: Mapping[str, Any] | None = None,
    date: dt.date | None = None,
    nouns: Nouns | None = None,
) -> Path:
    """Write the page of rules; see `tether.records.Rules.report`."""
    facts, day, say = facts_of(about), date_of_page(date), nouns or Nouns()
    shown = rules.chosen or (() if rules.searched else tuple(rules))
    named = {"date": day.isoformat(), "made by": f"Tether {__version__}", **rules.settings, **facts}
    return write_page(
        file,
        "rules.html",
        day,
        nouns=say,
        title=title or "What should be done from now on?",
        under=say(_source(rules)),
        source=str(facts.get("model file", "")),
        lead=_lead(rules),
        rules=[_screen(rules, number, one) for number, one in enumerate(shown)],
        table=_table(rules),
        picture=_overview(rules, say) if len(rules) > 1 else None,
        placebo=_placebo(rules),
        settings=[(name, str(value)) for name, value in named.items() if value is not None and value is not False],
    )


def _source(rules: RulesRecord) -> str:
    episodes = counted(rules[0].episodes, "episode") if len(rules) else "a log"
    return f"Rules from {episodes}"


def _lead(rules: RulesRecord) -> str:
    if nothing := rules.nothing():
        return " ".join(nothing)
    one = (rules.chosen or tuple(rules))[0]
    return f"{one.rule} {one.split()[0]}"


def _screen(rules: RulesRecord, number: int, judged: EvaluatedRule) -> dict[str, Any]:
    cards = [
        (
            "Touched",
            f"{judged.touched:,}",
            f"of {counted(judged.episodes, 'episode')}, in {counted(judged.steps, 'step')}",
        )
    ]
    headline, bars = "", []
    which = f"these {number + 1} rules" if judged.on_top_of else "the rule"
    if judged.bad:
        bad = judged.bad_noun.capitalize()
        cards.append((f"{bad} averted", whole(judged.saved), _ranges(judged, "saved")))
        cards.append((f"{bad} caused", whole(judged.lost), _ranges(judged, "lost")))
        before, after = percents(judged.bad_before, judged.bad_after)
        headline = f"{before} end in {judged.bad_noun} as usual, {after} with {which}"
        bars = [_bar("as usual", before, judged.bad_before), _bar(f"with {which}", after, judged.bad_after)]
    if not judged.objective:
        cards.append(
            ("Helped, harmed", f"{whole(judged.helped)}, {whole(judged.harmed)}", "episodes that end better, worse")
        )
    if judged.held_out:
        name, gain = "Held-out gain per episode", (judged.held_out_gain, judged.held_out_low, judged.held_out_high)
        if judged.on_top_of:
            name = "What this rule adds, held out"
            gain = judged.held_out_added, judged.held_out_added_low, judged.held_out_added_high
        cards.append((name, judged.amount(gain[0]), f"90 % interval {judged.between(*gain[1:])}"))
    share = rules.shares[number] if number < len(rules.shares) else float("nan")
    reached = f"{percent(min(share, 1.0))} of what the best policy of the model would gain" if share > 0 else ""
    return {
        "sentence": str(judged.rule),
        "on_top_of": [str(other) for other in judged.on_top_of],
        "cards": cards,
        "headline": headline,
        "bars": bars,
        "split": judged.split(),
        "means": judged.means(),
        "check": judged.check(),
        "hidden": judged.hidden() or _no_number(judged),
        "verdict": _verdict(judged),
        "reached": reached,
        "shares": _shares(judged),
    }


def _bar(name: str, percent: str, share: float) -> tuple[str, list[dict[str, Any]]]:
    """A bar of all episodes: those that end badly, and the others."""
    parts = [{"side": "bad", "share": share, "text": ""}, {"side": "", "share": 1.0 - share, "text": ""}]
    return f"{name}: {percent.removesuffix(' %')} of 100", parts


def _verdict(judged: EvaluatedRule) -> str:
    """Whether the check on held-out episodes confirms the gain."""
    if not judged.held_out:
        return "No episodes were held out: nothing checks this gain."
    sign = -1.0 if judged.minimise else 1.0
    low, high = sorted((sign * judged.held_out_added_low, sign * judged.held_out_added_high))
    what = "adds something to the rules before it" if judged.on_top_of else "helps"
    if low > 0:
        return f"The held-out episodes confirm that it {what}."
    if high < 0:
        return "The held-out episodes say that it does harm."
    return f"The held-out episodes leave open whether it {what}."


def _no_number(judged: EvaluatedRule) -> list[str]:
    """Why no number says how strong hidden reasons must be to undo the gain."""
    if judged.gamma_star is None:
        return ["How strong hidden reasons must be to undo the gain was not computed: the model is large."]
    return ["In the plain model it gains nothing, so there is no gain that hidden reasons could undo."]


def _shares(judged: EvaluatedRule) -> str:
    if judged.saved_share is None or judged.lost_share is None:
        return ""
    saved, lost = (f"{percent(low)} to {percent(high)}" for low, high in (judged.saved_share, judged.lost_share))
    return (
        f"For any such log, under {EVERY_MODEL}: of those who end in {judged.bad_noun}, {saved} would not have; "
        f"of the others, {lost} would have."
    )


def _table(rules: RulesRecord) -> dict[str, Any]:
    columns = ("rule", "touched", "gain per episode", "helped", "harmed", "averted", "caused", "held-out gain")
    rows = []
    for one in rules:
        held = one.bare(one.held_out_gain) if one.held_out else "–"
        ends = (whole(one.saved), whole(one.lost)) if one.bad else ("–", "–")
        numbers = (
            f"{one.touched:,}",
            one.bare(one.gain),
            whole(one.helped),
            whole(one.harmed),
            *ends,
            held,
        )
        before = f" (with the {counted(len(one.on_top_of), 'rule')} before it)" if one.on_top_of else ""
        rows.append((f"{one.rule}{before}", *numbers))
    unit = f"; gains in {rules.unit}" if rules.unit else ""
    return {"title": f"The rules that were replayed, best first{unit}", "columns": columns, "rows": rows}


def _overview(rules: RulesRecord, say: Nouns) -> Drawing:
    label = "; ".join(f"{one.rule} helped {whole(one.helped)}, harmed {whole(one.harmed)}" for one in rules)
    most = rules[int(np.argmax([one.helped for one in rules]))]
    caption = f"{most.rule} It helps {whole(most.helped)} episodes and harms {whole(most.harmed)}"
    return Drawing(caption, drawing(inline_svg(plot_rules(rules, episodes=say("episodes")), "rules", say(label))))


def _placebo(rules: RulesRecord) -> str:
    if rules.placebo is None:
        return ""
    what, shown = rules.placebo or "none", "show" if rules.placebo > 1 else "shows"
    return f"Placebo: of 19 logs with the actions permuted within each state, {what} {shown} as much as this log."


def _ranges(judged: EvaluatedRule, name: str) -> str:
    """The range of a number whatever the causal model is, and the one if luck may be related, if that is wider."""
    near, wide = (tuple(getattr(judged, f"{name}_{end}") for end in ends) for ends in _ENDS)
    more = "" if range_in_words(*near) == range_in_words(*wide) else f"; {range_in_words(*wide)} if it may be related"
    return f"{_range(*near)}{more}"


_ENDS = ("low", "high"), ("related_low", "related_high")


def _range(low: float, high: float) -> str:
    return f"{range_in_words(low, high)} under {IN_SHORT}"
