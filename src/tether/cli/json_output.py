"""Answers as JSON: the library's records, numbers at full precision.

Fields may be added in later versions; none changes its meaning.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from tether._version import __version__


def print_json(command: str, **answer: Any) -> None:
    """Print an answer to standard output: on one line, or indented in a terminal."""
    from tether.explanation.answer_data import as_data

    out = sys.stdout.buffer  # JSON is UTF-8, whatever the terminal's encoding
    data = msgspec.json.encode({"command": command, "version": __version__, **as_data(answer)})
    pretty: bytes = msgspec.json.format(data, indent=2) if out.isatty() else data
    out.write(pretty + b"\n")
    out.flush()
