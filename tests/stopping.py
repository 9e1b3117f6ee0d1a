"""A process that is stopped while it moves files into place."""

from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def stopped_after(files, monkeypatch):
    """The body is interrupted after this many files were moved into place."""
    replace, done = Path.replace, []

    def stops(self, other):
        if len(done) == files:
            raise KeyboardInterrupt
        done.append(self)
        return replace(self, other)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stops)
        with pytest.raises(KeyboardInterrupt):
            yield
    assert len(done) == files
