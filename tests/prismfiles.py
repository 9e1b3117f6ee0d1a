"""A small model in PRISM's explicit files, and how their tests read it."""

from pathlib import Path

import pytest

from tether.errors import FileError
from tether.io.prism import read_prism

# A robot in three rooms; choices of room 0 have labels, the one of room 1 has none, room 2 is a deadlock.
TRA = """\
3 3 4
0 0 0 0.25 go
0 0 1 0.75 go
0 1 0 1 wait
1 0 2 1
"""


def instead(line):
    """The file with another fourth line."""
    return TRA.replace("0 1 0 1 wait", line)


def save(folder, **texts):
    """Write files by their suffixes; returns the name of the ``.tra``."""
    for suffix, text in texts.items():
        Path(folder, f"robot.{suffix}").write_text(text, encoding="utf-8")
    return Path(folder, "robot.tra")


def refuse(folder, **texts):
    with pytest.raises(FileError) as caught:
        read_prism(save(folder, **texts))
    return caught.value


def message(folder, **texts):
    return str(refuse(folder, **texts)).replace(f"{folder}/", "")
