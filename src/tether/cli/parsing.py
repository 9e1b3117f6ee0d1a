"""What the words of an option mean: tests of influence, properties, columns by other names, values of states."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import click

from tether.errors import QueryError

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord
    from tether.model.properties import Property


STEPS = "tether.steps"
"""Over how many steps an objective asks for a return, in ``ctx.meta``."""

_SMALLEST, _REWARD_MODEL = "tether.smallest", "tether.reward_model"


def influence_of(_ctx: click.Context, param: click.Parameter, value: str) -> Any:
    """The test of influence in a word: ``support``, ``tv:0.5``, ``effective:0.1``."""
    from tether.influence.one_step import effective, tv

    name, _, eps = value.partition(":")
    try:
        if name == "tv":
            return tv(float(eps))
        if name == "effective":
            return effective(float(eps or 0.0))
    except QueryError as error:
        raise click.BadParameter(str(error), param=param) from None
    except ValueError:
        pass
    if value != "support":
        message = f"{value!r} is not 'support', 'tv:EPS' or 'effective:EPS', as in tv:0.5"
        raise click.BadParameter(message, param=param)
    return value


def prior_of(_ctx: click.Context, param: click.Parameter, value: str) -> float | str:
    """``pooled``, or a number."""
    if value == "pooled":
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not 'pooled' or a number, as in 0.5", param=param) from None


def objective_of(ctx: click.Context, param: click.Parameter, value: str | None) -> Property | None:
    """``avoid died``, ``until safe goal``; or as PRISM and Storm write it, also with a direction, and for returns."""
    from tether.model.properties import parse_property
    from tether.model.property_language import parse_return

    if value is None:
        return None
    smallest = re.match(r"\s*Pmin\s*=", value) is not None
    try:
        returns = parse_return(value)
        found = None if returns else parse_property(re.sub(r"^\s*Pmin", "P", value))
    except QueryError as error:
        raise click.BadParameter(str(error), param=param) from None
    if returns is not None:
        smallest = bool(returns.smallest)
        names = {one.name for one in ctx.command.params}
        if returns.name is not None and "reward_model" in names:
            ctx.meta[_REWARD_MODEL] = returns.name
            also_named(ctx, param, ctx.params.get("reward_model"))
        if returns.steps is not None:
            if "path" not in names:
                message = f"{value!r}: a bound on the steps of a return goes with one episode, not with a log"
                raise click.BadParameter(message, param=param)
            ctx.meta[STEPS] = returns.steps
    if smallest:
        if all(one.name != "minimise" for one in ctx.command.params):
            message = f"{value!r}: nothing is chosen here, so there is no smallest or largest; leave out min"
            raise click.BadParameter(message, param=param)
        ctx.meta[_SMALLEST] = True
    return found


def also_smallest(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    """``--minimise``, also as part of the objective. Options that are not given are processed after the others."""
    return bool(value or ctx.meta.get(_SMALLEST, False))


def also_named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """``--reward-model``, also as part of the objective."""
    name: str | None = ctx.meta.get(_REWARD_MODEL)
    if None not in (value, name) and value != name:
        raise click.BadParameter(f"{value!r}, but the objective asks for {name!r}", param=param)
    return name if value is None else value


def subject_to_of(_ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[Property, float] | None:
    """A property and how likely it may be, from text such as ``reach died 0.1``."""
    if value is None:
        return None
    words, _, limit = value.rpartition(" ")
    try:
        most = float(limit)
    except ValueError:
        words = ""
    if not words:
        message = f"{value!r}: expected a property and a probability, as in 'reach died 0.1'"
        raise click.BadParameter(message, param=param)
    wanted = objective_of(_ctx, param, words)
    assert wanted is not None
    return wanted, most


_REWARDS = ("discount", "final_reward", "reward_model", "state_rewards", "transition_rewards")


def refuse_rewards(objective: Property | None) -> None:
    """An error if options are about rewards although a property is asked for: no reward counts then."""
    ctx = click.get_current_context()
    given = [param.opts[0] for param in ctx.command.params if param.name in _REWARDS and ctx.params.get(param.name)]
    if objective is not None and given:
        raise click.UsageError(
            f"{' and '.join(given)}: this is about rewards, and with --objective '{objective}' none counts. "
            "Leave out one or the other."
        )


def renamed_columns(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """The names of columns, from options written ``OURS=YOURS``; ``OURS=`` leaves a column out."""
    columns = {}
    for value in values:
        ours, equals, theirs = value.partition("=")
        if not (equals and ours):
            raise click.BadParameter(f"{value!r}: expected OURS=YOURS, as in state=s", param=param)
        columns[ours.strip()] = theirs.strip()
    return columns


def refuse_columns_alone(policy: str | None, columns: dict[str, str]) -> None:
    """``--policy-column`` is about the file of ``--policy``: an error without it."""
    if policy is None and columns:
        raise click.UsageError("--policy-column is about the file of --policy, and there is no --policy.")


def worth_of(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Values of states, from options written ``STATE=VALUE``."""
    worth = {}
    for value in values:
        state, _, number = value.rpartition("=")
        try:
            worth[state] = float(number)
        except ValueError:
            state = ""
        if not state:
            raise click.BadParameter(f"{value!r}: expected STATE=VALUE, as in dead=-100", param=param)
    return worth


def advising(mdp: ModelRecord, only: tuple[str, ...], never: tuple[str, ...], cost: tuple[str, ...]) -> dict[str, Any]:
    """Which changes may be advised, and what they cost, from ``--only``, ``--never`` and ``--cost``."""
    found: dict[str, Any] = {}
    for name, words in (("only", only), ("never", never)):
        if words:
            found[name] = [_change(mdp, f"--{name}", one) for one in words]
    if cost:
        found["cost"] = _prices(mdp, cost)
    return found


def _change(mdp: ModelRecord, option: str, text: str) -> dict[str, Any]:
    """``2``, ``2-4``, ``treat``, or ``step=2-4 state=sick action=treat``."""
    from tether.io.names_as_text import find_name

    if "=" in text:
        try:
            parts = [word.partition("=")[::2] for word in shlex.split(text)]
        except ValueError as error:
            raise click.UsageError(f"{option} {text!r}: {str(error).lower()}") from None
    else:
        parts = [("step" if _steps(text) else "action", text)]
    found: dict[str, Any] = {}
    for key, value in parts:
        if key not in ("step", "state", "action") or not value:
            message = f"{option} {text!r}: expected a step, an action, or 'step=2-4 state=STATE action=ACTION'"
            raise click.UsageError(message)
        if key == "step":
            found[key] = _steps(value)
            if not found[key]:
                raise click.UsageError(f"{option} {text!r}: {value!r} is no step; expected 2, or 2-4")
        elif key == "state" and value in mdp.labels:
            found[key] = value
        else:
            found[key] = find_name(mdp.states if key == "state" else mdp.actions, value, key)
    return found


def _steps(text: str) -> list[int]:
    """The steps of ``2`` or ``2-4``; none of any other text."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        return []
    return list(range(int(first), int(last if dash else first) + 1))


def _prices(mdp: ModelRecord, cost: tuple[str, ...]) -> float | dict[Any, float]:
    from tether.io.names_as_text import find_name

    found: dict[Any, float] = {}
    for text in cost:
        action, _, price = text.rpartition("=")
        try:
            amount = float(price)
        except ValueError:
            raise click.UsageError(f"--cost {text!r}: expected a price, as in 5, or ACTION=5") from None
        if not action:
            if len(cost) > 1:
                raise click.UsageError("--cost: give one price for all changes, or one for each action")
            return amount
        found[find_name(mdp.actions, action, "action")] = amount
    return found
