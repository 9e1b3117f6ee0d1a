"""Errors of the library give the fix in Python; here it is given as an option of the command line."""

from __future__ import annotations

from collections.abc import Iterable

from tether.errors import Problem

_OPTIONS = {
    "terminal": "--terminal STATE",
    "time": "--time COLUMN --step SIZE",
    "columns": "--column OURS=YOURS, for times --time COLUMN; for PATH --path-column, for the log of an audit "
    "--log-column",
    "outcome": "--column outcome=; for PATH --path-column, for the log of an audit --log-column",
    "start": "--start STATE",
    "step": "--step SIZE",
    "steps": "--steps 10",
    "tolerance": "if the file was rounded, --tolerance NUMBER",
    "constants": "--constants NAME=VALUE,…",
    "decimal": "--decimal ,",
    "encoding": "for a log --encoding NAME",
    "day_first": "--day-first",
    "reward_model": "--reward-model NAME",
    "empty_rewards": "--empty-rewards zero|mean",
    "end": "--end NAME",
    "fresh": "--fresh",
    "mean_rewards": "--mean-rewards",
    "state_rewards": "--state-rewards FILE",
    "transition_rewards": "--transition-rewards FILE",
    "reward_order": "--reward-order AXES",
    "order": "--order AXES",
    "transitions": "--column P=NAME",
    "rewards": "--column R=NAME, or --column R= if there are none",
    "format": "--format NAME, or for what is written --to NAME",
    "save": "a name without a suffix is a saved model",
    "read_episodes": "name one of its episodes, FILE#ID",
    "max_unpacked": "TETHER_MAX_UNPACKED='4 GB' before the command",
}


def hints(problems: Iterable[Problem]) -> list[str]:
    """The options of the command line for the Python arguments that problems name, each once.

    >>> hints([Problem("no row says what happens in state 'd'", argument="terminal"), Problem("the file is empty")])
    ['(On the command line: --terminal STATE.)']
    """
    known = dict.fromkeys(_OPTIONS[one.argument] for one in problems if one.argument in _OPTIONS)
    return [f"(On the command line: {option}.)" for option in known]
