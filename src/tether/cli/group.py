"""The group of commands: which there are, and how errors, Ctrl-C and a closed pipe are handled."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import click

from tether._version import __version__
from tether.cli.doing import CONTINUED, DOING, EndedBySignal
from tether.cli.hints import hints
from tether.errors import SHOWN, Problem, QueryError, TetherError
from tether_start import is_shortage

_SECTIONS: dict[str, dict[str, str | None]] = {
    "Answers": {
        "explain": "explain",
        "review": "review",
        "sweep": "sweep",
        "choose-k": "sweep",
        "why": "why",
        "what-if": "what_if",
        "decisions": "decisions",
        "evaluate": "evaluate",
        "certify": "certify",
        "robust": "robust",
        "sample": "sample",
        "report": "report",
        "audit": "audit",
        "rules": "rules",
        "evaluate-rule": "rules",
        "compare": "rules",
    },
    "Models and episodes": {
        "check": "check",
        "convert": "convert",
        "simulate": "simulate",
        "learn": "learn",
        "cases": "cases",
    },
    "To look at": {"explore": "explore", "demo": "demo", "reproduce": None},
}

COMMANDS = {name: module for section in _SECTIONS.values() for name, module in section.items()}
"""Every command, and its module of this package, without ``_command``; None if a program beside the library has it."""

_ENTRY_POINTS = "tether.commands"
"""The group of entry points in which such a program names its command."""

HELP = """What should have been done differently, and is that answer still about this episode?

\b
Try:  tether explain case:epidemic
      tether explain MODEL PATH -k 3 -m 2"""

EPILOG = """\b
MODEL  a file (tether convert --help lists the formats), a saved model
       (MDP.save), an embedded case (case:sepsis), or an environment of
       Gymnasium (gym:FrozenLake-v1)
PATH   what happened: a file (CSV with columns t, state, action; JSON;
       Parquet), an episode of a log (log.csv#17), or a path of a case
       (case:sepsis-suboptimal); may be left out if MODEL is a case
k      the length of the tether: wherever the plan leads, it could be back
       on known ground (a step for which the episode tells how chance would
       have fallen) within k steps; T + 1 means no tether
m      how many of the T actions may change

\b
Every command that answers takes --json: it then prints its answer as JSON.
Exit codes: 0 success; 1 check found a problem, reproduce --check found a
changed number, choose-k found no k; 2 wrong use or bad input; 130 interrupted."""


class _Commands(click.Group):
    """Loads a command when it is needed; turns errors into a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = COMMANDS[name]
        if module is None:
            return _command_of_a_program(name)
        command: click.Command = getattr(import_module(f"tether.cli.{module}_command"), name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        near = get_close_matches(name.lower().replace("_", "-"), COMMANDS, n=1)
        if near and name not in COMMANDS and not name.startswith("-"):
            ctx.fail(f"No such command {name!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in _SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in section]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, one.get_short_help_str(formatter.width)) for name, one in commands if one is not None],
                    col_max=14,
                )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _translated(ctx):  # --version and --help are printed here
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _translated(ctx):
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a closed pipe is handled
            if isinstance(result, int):
                ctx.exit(result)
            return result


def _command_of_a_program(name: str) -> click.Command:
    """The command that an installed program brings; without the program, one that says so."""
    for point in entry_points(group=_ENTRY_POINTS, name=name):
        command: click.Command = point.load()
        return command

    @click.command(
        name, context_settings={"ignore_unknown_options": True}, add_help_option=False, short_help="Not installed."
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def missing(arguments: tuple[str, ...]) -> None:
        raise QueryError(
            f"'tether {name}' is not installed; install Tether again: pip install --force-reinstall tether"
        )

    return missing


@contextmanager
def _translated(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except TetherError as error:
        _say("\n".join([str(error), *hints(getattr(error, "problems", ())[:SHOWN])[:1]]))
        ctx.exit(2)
    except click.exceptions.NoArgsIsHelpError:  # which shows itself
        raise
    except click.UsageError as error:
        from tether.cli.screen import wrapped

        text = wrapped(f"Error: {error.format_message()}").removeprefix("Error: ")
        raise click.UsageError(text, error.ctx) from None
    except BrokenPipeError:
        # `| head` has read all it wanted. The rest of the buffer must go somewhere when Python ends.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        ctx.exit(0)
    except KeyboardInterrupt as stop:
        by = ctx.meta.get(CONTINUED)
        continued = f"; {by} continues where it stopped" if by else ""
        how, code = (str(stop), stop.code) if isinstance(stop, EndedBySignal) else ("interrupted", 130)
        click.echo(f"\ntether: {how}{continued}", err=True)
        ctx.exit(code)
    except Exception as error:
        if is_shortage(error):
            _say(_short_of_memory(ctx, error))
        elif isinstance(error, OSError):
            place = f"{error.filename}: " if error.filename else ""
            _say(f"{place}{error.strerror or error}")
        else:
            raise
        ctx.exit(2)


def _short_of_memory(ctx: click.Context, error: Exception) -> str:
    """What was being done when memory ran out, and what would need less memory."""
    doing: tuple[str, str] = ctx.meta.get(DOING, ("", ""))
    while_doing = f" while {doing[0]}" if doing[0] else ""
    detail = f" ({str(error).strip().splitlines()[-1].strip()})" if str(error).strip() else ""
    return f"there is not enough memory{while_doing}{detail}" + (f"; {doing[1]}" if doing[1] else "")


def _check_environment() -> None:
    """Refuse what libraries read when they are imported, and which would then be an error of theirs."""
    value = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if value and not (value.isdecimal() and int(value)):
        what = f"NUMBA_NUM_THREADS is {value}"
        raise QueryError(Problem(what, value=value, expectation="a number from 1", fix="set it, or remove it"))
    if "SOURCE_DATE_EPOCH" in os.environ:
        from tether.views.pages import date_of_page

        date_of_page(None)


def _say(sentence: str) -> None:
    from tether.cli.screen import wrapped

    click.echo(wrapped(f"tether: {sentence}"), err=True)


@click.group(cls=_Commands, help=HELP, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tether")
@click.pass_context
def main(ctx: click.Context) -> None:
    """The command ``tether``: the group of all commands."""
    _check_environment()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # no crash if the terminal cannot show a character
