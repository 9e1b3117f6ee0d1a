"""``tether explore``: an interactive page in the browser."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from tether.cli.doing import READING, spoken
from tether.cli.helping import command
from tether.cli.options import Episode, about_an_episode_or_none, as_json

if TYPE_CHECKING:
    from tether.explorer.offered import Audited, Offered, Opening


@command(
    epilog="""\b
Examples:
  tether explore
  tether explore case:sepsis
  tether explore model.csv path.csv
  tether explore learned-model log.csv --no-browser"""
)
@about_an_episode_or_none
@click.option(
    "--audit",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False),
    help="The directory that tether audit wrote for this log: the list is then ranked by mistakes.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port.  [default: any free one]")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--listen",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Another address lets other machines in: whoever has the printed address sees the model.",
)
@as_json
def explore(
    episode: Episode,
    audit: str | None,
    port: int,
    no_browser: bool,
    listen: str,
    as_json: bool,
) -> None:
    """Try k, m and "what if" on a page in your browser.

    PATH may also be a log of many episodes: the page then has a list of them. MODEL may be a directory with the models
    of several types, for somebody who does not see the type. Without MODEL it opens the embedded
    cases. The page is served to this machine only, until Ctrl-C.
    """
    from tether.explorer.safety import is_loopback
    from tether.explorer.server import Explorer

    serving = Explorer(_offered(episode, audit), port, listen)
    if not is_loopback(listen):
        click.echo(
            f"tether: warning: listening on {listen}: other machines can reach this page. Whoever has the address "
            "below sees the model and its episodes.",
            err=True,
        )
    click.echo("the explorer runs until Ctrl-C; open this address:", err=True)
    if as_json:
        from tether.cli.json_output import print_json

        print_json("explore", address=serving.address)
    else:
        click.echo(serving.address)
    sys.stdout.flush()  # a reader at the other end of a pipe waits for it
    if not no_browser:
        click.launch(serving.address)
    serving.run()


def _offered(episode: Episode, audit: str | None) -> Offered:
    """What the words on the command line offer."""
    from tether.explorer.offered import Cases, LogEpisodes, One
    from tether.io.typed_models import is_types

    if not episode.model:
        return Cases()
    if is_types(episode.model):
        return _of_types(episode, audit)
    nouns = spoken()
    if _is_log(episode):
        from tether.cli.screen import progress
        from tether.io.logs import read_episodes
        from tether.io.opening import read_as_learned

        mdp = episode.open()
        with progress() as say:
            say(f"reading {episode.path}", READING)
            episodes = read_episodes(episode.path, mdp, **read_as_learned(mdp, episode.reading_path))
        found = None if audit is None else _audited(audit)
        return LogEpisodes(mdp, episodes, _opening(episode, "#{episode}"), found, nouns, episode.beyond(mdp))
    if audit is not None:
        raise click.UsageError("--audit goes with a log of many episodes as PATH.")
    from tether.io.embedded import words_of

    return One(episode.replay(), episode.path_source, _opening(episode), nouns, words_of(episode.model))


def _of_types(episode: Episode, audit: str | None) -> Offered:
    """An episode of somebody whose type was never recorded; MODEL is a directory of types."""
    from tether.cli.described import title_of_path
    from tether.cli.explaining_types import first_of, opened_types, path_about_types
    from tether.explorer.offered import OfTypes
    from tether.io import open_path
    from tether.objects.counterfactual_object import counterfactual

    if audit is not None or episode.horizon is not None or episode.then != "best":
        raise click.UsageError("--audit, --horizon and --then are not for types: leave them out.")
    source, types, nouns = path_about_types(episode), opened_types(episode, {}, None), spoken()
    cf = counterfactual(types, open_path(source, first_of(types), **episode.reading_path))
    return OfTypes(cf, title_of_path(source, nouns.episode), nouns)


def _audited(directory: str) -> dict[Any, Audited]:
    """What an audit found, by episode."""
    from tether.auditing.directory import open_tables
    from tether.explorer.offered import AUDITED, audit_of

    return audit_of(open_tables(directory).read("episodes", AUDITED))


def _is_log(episode: Episode) -> bool:
    """Whether PATH is a table with a column of episodes."""
    path = episode.path
    if path is None or not os.path.exists(path):
        return False
    from tether.io.columns import read_columns
    from tether.io.files import table_kind

    rename = {name: theirs for name, theirs in episode.path_columns.items() if name == "episode"}
    return table_kind(path) is not None and "episode" in read_columns(
        path, [], ["episode"], rename, text=["episode"], blank=["episode"]
    )


def _opening(episode: Episode, of_log: str = "") -> Opening:
    """The words that open the episode on the command line, and the lines that open it in Python."""
    from tether.explorer.offered import Opening

    words = [episode.model, *([] if episode.path is None else [f"{episode.path}{of_log}"]), *episode.words]
    lines = ["import tether", "", f"mdp = tether.io.open_model({_call(episode.model, **episode.reading)})"]
    if episode.discount is not None:
        lines.append(f"mdp = mdp.with_objective(discount={episode.discount!r})")
    if episode.final_reward:
        lines.append(f"mdp = mdp.with_objective(final_reward={episode.final_reward!r})")
    if of_log:
        opened = f"tether.io.read_episodes({_call(episode.path, 'mdp', **episode.reading_path)})[{{episode!r}}]"
    else:
        opened = f"tether.io.open_path({_call(episode.path_source, 'mdp', **episode.reading_path)})"
    return Opening(tuple(words), (*lines, f"path = {opened}"))


def _call(first: Any, *names: str, **options: Any) -> str:
    return ", ".join([repr(first), *names, *(f"{name}={value!r}" for name, value in options.items())])
