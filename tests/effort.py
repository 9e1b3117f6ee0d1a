"""How much is tried where more tries find more: a part in ``make test``, all of it in ``make test-random``."""

import os

_ALL = os.environ.get("HYPOTHESIS_PROFILE") == "random"


def tries(few: int, many: int) -> int:
    """How many times something is tried: few in ``make test``, many in ``make test-random``."""
    return many if _ALL else few
