"""How many times something is tried, for tests that find more with more tries."""

import os

_ALL = os.environ.get("HYPOTHESIS_PROFILE") == "random"


def tries(few: int, many: int) -> int:
    """How many times something is tried: few in ``make test``, many in ``make test-random``."""
    return many if _ALL else few
