"""Where the command ``tether`` starts: before anything large is imported, so that Ctrl-C is understood from the first.

It stands beside the package, not in it: whatever is in a package is imported after the package itself.
"""

import os
import signal
import sys
from types import FrameType

__all__ = ["main"]


def main() -> None:
    """Load the command line and run it; Ctrl-C while it loads ends it with 130 and without a traceback."""
    signal.signal(signal.SIGINT, _leave)
    from tether.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run(prog_name="tether")


def _leave(_signal: int, _frame: FrameType | None) -> None:
    # At once, and not by an exception: imports under way would catch it, or call it an error of their own.
    sys.stderr.write("\ntether: interrupted\n")
    sys.stderr.flush()
    os._exit(130)
