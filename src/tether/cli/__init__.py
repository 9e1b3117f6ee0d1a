"""The command line: parse, call, print. It computes nothing itself; each command mirrors one call of the library.

A command is a small file here, loaded when it is called: ``tether --help`` must not wait for what it does not need.
May import: everything.
"""

from tether.cli.group import main

__all__ = ["main"]
