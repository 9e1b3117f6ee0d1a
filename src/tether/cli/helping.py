"""``--help`` in groups: what is asked, how files are read, how sure the answer is, how it is written, how it runs."""

from __future__ import annotations

import functools

import click

_GROUPS = {
    "A type that was never recorded": ("types", "prior_of_types"),
    "How sure it is": ("certificate", "draws", "seed", "gamma", "practice", "folds", "holdout", "confidence"),
    "Words and pages": ("episode_name", "step_name", "features", "title", "reports", "hide_ids", "as_json"),
    "Reading what happened": (
        *("path_columns", "log_columns", "policy_columns", "where", "time", "step", "decimal", "encoding", "day_first"),
        *("fold_case", "skip_broken", "empty_rewards", "end"),
    ),
    "Reading MODEL": (
        *("format", "columns", "order", "reward_order", "terminal", "discount", "final_reward", "reward_model"),
        *("state_rewards", "transition_rewards", "constants", "tolerance"),
    ),
    "Running": ("workers", "scheduler", "fresh", "strict", "listen", "port", "no_browser"),
}
"""Headings, and the options below them; all others are what a command is about, and stand first."""


class Grouped(click.Command):
    """A command whose options stand in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command is about first; then each group that has an option."""
        heading = {name: title for title, names in _GROUPS.items() for name in names}
        if not any(parameter.name == "model" for parameter in self.params):  # --column is then about a log
            heading["columns"] = "Reading what happened"
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *_GROUPS)}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and any(row[1:]):  # an argument, which says nothing of itself, stands in the first line
                rows[heading.get(str(parameter.name), "Options")].append(row)
        for title, some in rows.items():
            if some:
                with formatter.section(title):
                    formatter.write_dl(some)


command = functools.partial(click.command, cls=Grouped)
"""As `click.command`, with the options of ``--help`` in groups."""
