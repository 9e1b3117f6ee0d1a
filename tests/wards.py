"""The ward of docs/learning-from-logs.md: what is usually done there, and its episodes up to their ends."""

import tether

HABIT = {"sick": {"wait": 0.7, "treat": 0.3}, "worse": {"wait": 0.4, "treat": 0.6}, "well": "wait", "dead": "wait"}


def until_the_end(path):
    """An episode without the steps after its end."""
    over = next((t for t, state in enumerate(path.states) if state in ("well", "dead")), path.T)
    return tether.Path(path.states[: over + 1], path.actions[:over])
