"""The library tells a fix in Python; here it is said as it is typed."""

from __future__ import annotations

__all__ = ["hint"]

_OPTIONS = {
    "terminal=[": "--terminal STATE",
    "time='": "--time COLUMN --step SIZE",
    "columns=": "--column OURS=YOURS, or for PATH --path-column OURS=YOURS",
    "reward_model=": "--reward-model NAME",
    "empty_rewards=": "--empty-rewards zero|mean",
    "end=": "--end NAME",
    "mean_rewards=": "--mean-rewards",
    "state_rewards=": "--state-rewards FILE",
    "transition_rewards=": "--transition-rewards FILE",
    "reward_order=": "--reward-order AXES",
    "order=": "--order AXES",
    "format=": "--format NAME, or for what is written --to NAME",
    "mdp.save(": "a name without a suffix is a directory",
    "read_episodes": "name one of its episodes, FILE#ID",
}


def hint(message: str) -> str:
    """How to say on the command line what a message says in Python; nothing where it does not.

    >>> hint("give its rows, or declare it terminal (absorbing, reward 0): terminal=['d']")
    '(On the command line: --terminal STATE.)'
    """
    for argument, option in _OPTIONS.items():
        if argument in message:
            return f"(On the command line: {option}.)"
    return ""
