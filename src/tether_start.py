"""What runs before the package is imported: the start of the command ``tether``, and of the processes of an audit.

It stands beside the package, not in it: whatever is in a package is imported after the package itself.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

_kept: dict[str, Any] = {}
"""In a worker process: what the parent sent, and standard error as it was."""

_SHORT = "failed to map segment", "annot allocate memory", "can't start new thread", "Failed to launch worker thread"
"""What the system, Python and Arrow say where memory runs out."""

_LEAST = 1 << 30
"""Bytes of address space that loading the libraries takes at least. With fewer some of them crash, or wait for ever."""

_LOOK = 0.2
"""Seconds between two looks at whether the parent is alive."""


def main() -> None:
    """Load the command line and run it; Ctrl-C while it loads ends it with 130 and without a traceback."""
    signal.signal(signal.SIGINT, _leave)
    os.environ["MPLBACKEND"] = "agg"  # figures go into files: a backend that is not installed is no reason to fail
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # for a standard stream that was closed, which is None
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
        most = _address_space()
        if most < _LEAST:
            sys.stderr.write(
                f"tether: this process may use {int(most) >> 20:,} MB of address space, and needs {_LEAST >> 20:,} MB; "
                "raise the limit: ulimit -v unlimited\n"
            )
            sys.exit(2)
        if most < float("inf"):  # Arrow's own allocator reserves 1 GB at once, which libraries loaded later then lack
            os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        try:
            from tether.cli import main as run
        except (ImportError, MemoryError) as error:
            if not is_shortage(error):
                raise
            sys.stderr.write("tether: there is not enough memory to start\n")
            sys.exit(2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(prog_name="tether")


def _address_space() -> float:
    """How many bytes of address space this process may use; infinite without a limit, or where there is none."""
    try:
        import resource
    except ImportError:  # Windows
        return float("inf")
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return float("inf") if soft == resource.RLIM_INFINITY else soft


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that memory, or room for another thread, ran out; also while a library is loaded."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _SHORT)


def start_worker(parent: int, what: bytes) -> None:
    """In a worker process: keep what was sent, print nothing until `show_errors`, and end with the parent.

    Standard output is the parent's: what a policy prints goes to standard error, not into the answer.
    """
    _kept["sent"], _kept["errors"] = what, os.dup(2)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)  # libraries that cannot be loaded print this; the parent tells it, in a sentence

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def show_errors() -> None:
    """In a worker process that is ready: let whatever is printed appear on standard error."""
    os.dup2(_kept["errors"], 1)
    os.dup2(_kept["errors"], 2)


def sent() -> bytes:
    """In a worker process: the model and the question, pickled. They are decoded when the package is imported."""
    what: bytes = _kept["sent"]
    return what


def _leave(_signal: int, _frame: FrameType | None) -> None:
    # At once, and not by an exception: imports under way would catch it, or call it an error of their own.
    sys.stderr.write("\ntether: interrupted\n")
    sys.stderr.flush()
    os._exit(130)
