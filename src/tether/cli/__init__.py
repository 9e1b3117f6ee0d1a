"""The command line: parse, call, print. It computes nothing itself; each command calls one function of the library.

A command is a small file here, loaded when it is called, so that ``tether --help`` is fast.
May import: everything.
"""

from tether.cli.group import main

__all__ = ["main"]
