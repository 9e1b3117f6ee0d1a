"""A process that is stopped while files take their place."""

from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def stopped_after(files, monkeypatch):
    """What is done within stops once so many files have taken the place of others."""
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
