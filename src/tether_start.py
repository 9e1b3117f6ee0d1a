"""What runs before the package is imported: the start of the command ``tether``, and of the processes of an audit.

It stands beside the package, not in it: whatever is in a package is imported after the package itself.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType

__all__ = ["main", "watch_parent"]

_LOOK = 0.2
"""Seconds between two looks at whether the parent is alive."""


def main() -> None:
    """Load the command line and run it; Ctrl-C while it loads ends it with 130 and without a traceback."""
    signal.signal(signal.SIGINT, _leave)
    from tether.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run(prog_name="tether")


def watch_parent(parent: int) -> None:
    """In a process that works for another one: end with it, however it ends, and print to standard error only."""
    os.dup2(2, 1)  # standard output is the parent's: what a policy prints must not get into its answer

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _leave(_signal: int, _frame: FrameType | None) -> None:
    # At once, and not by an exception: imports under way would catch it, or call it an error of their own.
    sys.stderr.write("\ntether: interrupted\n")
    sys.stderr.flush()
    os._exit(130)
