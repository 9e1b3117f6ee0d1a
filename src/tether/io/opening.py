"""What may stand for a model or a path where only text can be given: on a command line, in a settings file.

A model is a file, also one that `MDP.save` wrote, an embedded case (``case:sepsis``), or an environment of Gymnasium
(``gym:FrozenLake-v1``). A path is a file, an episode of a log (``log.csv#17``), or a path of a case
(``case:sepsis-suboptimal``).
"""

from __future__ import annotations

import os
import re
import warnings
from ast import literal_eval
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from tether.errors import FileError, PathError, Problem, QueryError
from tether.io.embedded import PREFIX, case_names, is_case, is_typed_case, open_case, open_typed_case
from tether.io.names_as_text import find_index, in_names_of
from tether.mdp import MDP
from tether.model.several_types import LIST_OF_TYPES
from tether.observation.path import Path, observe

if TYPE_CHECKING:
    from tether.io.models import Format


def open_model(source: str | os.PathLike[str], **options: Any) -> MDP:
    """The model a source names.

    Parameters
    ----------
    source : str or path
        A file that `tether.io.read_model` reads, or that `MDP.save` wrote, ``case:`` and the name of an
        embedded case, or ``gym:`` and the name of an environment of Gymnasium.
    **options
        How to read it (``format``, ``columns``, ``order``, ``terminal``), for `tether.io.read_model`.

    Examples
    --------
    >>> from tether.io import open_model
    >>> open_model("case:grid-world")
    <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
    """
    source = os.fspath(source)
    if is_typed_case(source) or os.path.isfile(os.path.join(source, LIST_OF_TYPES)):
        message = "these are the models of several hidden types, and this is asked of one model"
        which = "tether explain, review, sweep, decisions, certify, report and explore take them"
        how = f"{which}, in Python tether.io.read_types; or name one model"
        raise FileError(Problem(message, file=source, fix=how))
    if is_case(source) and not os.path.exists(source):
        _no_options(source, "an embedded case", options)
        return open_case(source)[0].mdp
    if is_environment(source) and not os.path.exists(source):
        _no_options(source, "an environment of Gymnasium", options)
        return open_environment(source)
    must_exist(source)
    from tether.io.models import read_model

    return read_model(source, **options)


def open_path(source: str | os.PathLike[str], mdp: MDP | None = None, **options: Any) -> Path:
    """The path a source names.

    Parameters
    ----------
    source : str or path
        A file that `tether.io.read_path` reads, an episode of a log, ``log.csv#17``, or ``case:`` and a name.
    mdp : MDP, optional
        Its model. The names of the model decide what the words of a text file mean.
    **options
        ``columns``: the names of the columns in a file; ``time`` and ``step``: its column of times, and how far apart
        they are. See `tether.io.read_episodes`. An episode of a log is by default read as the log of a learned model
        was.

    Examples
    --------
    >>> from tether.io import open_path
    >>> open_path("case:toy")
    <Path: 4 steps, 's0' –'a0'→ 's2' –'a0'→ 's5' –'a0'→ 's7' –'a0'→ 's7'>
    """
    source = os.fspath(source)
    if is_case(source) and not os.path.exists(source):
        _no_options(source, "an embedded case", options)
        path = open_typed_case(source)[1] if is_typed_case(source) else open_case(source)[1]
        return path if mdp is None else in_names_of(mdp, path)
    if "#" in source[1:] and not os.path.exists(source):
        log, _, episode = source.rpartition("#")
        options = read_as_learned(mdp, options)
        skip = mdp is not None and mdp.counts is not None and mdp.counts.skipped > 0
        path = _open_episode(log, episode, options, skip)
        return path if mdp is None else _allowed(mdp, in_names_of(mdp, path), log, episode, options)
    must_exist(source)
    from tether.io.paths import read_path

    return read_path(source, mdp, **options)


def read_as_learned(mdp: MDP | None, options: dict[str, Any]) -> dict[str, Any]:
    """How to read a log beside a model: as the model's own log was, except for what is given.

    Examples
    --------
    >>> from tether.io.opening import read_as_learned
    >>> read_as_learned(None, {"time": "hour", "step": None})
    {'time': 'hour'}
    """
    given = {name: value for name, value in options.items() if value}
    if mdp is None or mdp.counts is None or mdp.counts.reading is None:
        return given
    known = mdp.counts.reading.options
    columns = {**known.get("columns", {}), **given.get("columns", {})}
    return {**known, **given, **({"columns": columns} if columns else {})}


def _open_episode(log: str, word: str, options: dict[str, Any], skip_broken: bool) -> Path:
    """An episode of a log; ``skip_broken``: the others may be broken, as in the log of the model."""
    must_exist(log)
    from tether.io.logs import read_episodes, read_sound_episodes

    if skip_broken:
        found = read_sound_episodes(log, **options)
        episodes = found.episodes
        if find_index(episodes.ids, word) in found.broken:
            raise FileError(found.broken[find_index(episodes.ids, word)])
    else:
        episodes = read_episodes(log, **options)
    i = find_index(episodes.ids, word)
    try:
        return episodes[word if i < 0 else episodes.ids[i]]
    except QueryError as error:
        raise QueryError([replace(problem, file=log) for problem in error.problems]) from None


def _allowed(mdp: MDP, path: Path, log: str, episode: str, options: dict[str, Any]) -> Path:
    """The path of an episode; if it is impossible in the model, the error names the rows of the log."""
    try:
        observe(mdp, path)
    except PathError as error:
        from tether.io.logs import LogPlaces

        places = LogPlaces(log, options)
        raise PathError([places.located(episode, one) for one in error.problems], error.total) from None
    return path


def _no_options(source: str, what: str, options: dict[str, Any]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise QueryError(f"{source} is {what}, not a file: {', '.join(given)} cannot be given with it")


def names_in(source: str, format: str | None = None) -> Literal["columns", "arrays"] | None:
    """What the file of a model has that may go by other names; None for models that have neither columns nor arrays.

    Examples
    --------
    >>> from tether.io.opening import names_in
    >>> names_in("clinic.csv"), names_in("clinic.npz"), names_in("clinic.txt", "csv"), names_in("case:toy")
    ('columns', 'arrays', 'columns', None)
    """
    found = _format(source, format)
    return None if found is None else found.named


def _format(source: str, format: str | None) -> Format | None:
    """The format that is given, or that the suffix of a file means."""
    from tether.io.models import FORMATS, format_by_suffix
    from tether.model.storage import is_saved_model

    if format is None:
        format = None if is_saved_model(source) else format_by_suffix(source)
    return FORMATS.get(format or "")


def rewards_left_out(source: str, format: str | None = None) -> dict[str, Any]:
    """The option of `open_model` with which a model is read without its rewards; empty if there is no such option.

    Examples
    --------
    >>> from tether.io.opening import rewards_left_out
    >>> rewards_left_out("dice.tra"), rewards_left_out("clinic.npz"), rewards_left_out("clinic.csv")
    ({'reward_model': False}, {'rewards': None}, {})
    """
    found = _format(source, format)
    return {} if found is None or found.no_rewards is None else dict([found.no_rewards])


def must_exist(source: str) -> None:
    """If a file does not exist, say so, and what may be meant."""
    if os.path.exists(source):
        return
    name = source.lower().replace("_", "-")
    near = f"; did you mean {PREFIX}{name}?" if name in case_names() else ""
    folder = os.path.dirname(source)
    if not near and folder and not os.path.isdir(folder):
        near = f", nor a directory {folder}"
    raise FileError(Problem(f"there is no such file{near}", file=source)) from FileNotFoundError(source)


_PREFIX = "gym:"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def is_environment(source: str) -> bool:
    """Whether a source names an environment.

    >>> is_environment("gym:FrozenLake-v1"), is_environment("case:toy")
    (True, False)
    """
    return source.startswith(_PREFIX)


def open_environment(source: str) -> MDP:
    """The model of an environment with a table of transitions; options for making it follow a ``?``."""
    name, _, query = source.removeprefix(_PREFIX).partition("?")
    try:
        import gymnasium
    except ImportError:
        message = f"{source}: this needs Gymnasium: pip install 'tether[gymnasium]'"
        raise QueryError(Problem(message, value=source)) from None
    from tether.io.gym import from_gymnasium

    options = dict(_option(source, part) for part in query.split("&") if part)
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            environment = gymnasium.make(name, **options)
    except Exception as error:  # environments can raise anything; what was warned of before, the error says again
        message = f"{source}: Gymnasium does not make it: {str(error) or type(error).__name__}"
        raise QueryError(Problem(message, value=source)) from None
    for one in noted:
        warnings.warn(_COLOURS.sub("", str(one.message)), one.category, stacklevel=2)
    return from_gymnasium(environment)


def _option(source: str, part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    if not (name and equals):
        raise QueryError(Problem(f"{source}: expected NAME=VALUE after the ?, not {part!r}", value=source))
    try:
        return name, literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
