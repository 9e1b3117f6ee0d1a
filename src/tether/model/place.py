"""The place of a model on disk: it is pickled instead of the model's arrays.

A model that was opened from disk is mapped, and every process on the machine, or on a shared disk, can map it again. So
it is pickled as its place: the directory and a digest of ``model.json``. In two cases the contents are pickled instead:
if the directory is gone or has another version when the model is pickled; or if `MDP.in_memory` was called. If the
directory changes between pickling and unpickling, unpickling is an error; it never gives another model.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tether.errors import FileError, Problem

__all__ = ["Part", "Place", "opened_again", "pickled_as"]

Part = Literal["model", "form", "counts", "states", "actions"]


@dataclass(frozen=True, slots=True)
class Place:
    """A directory, and which version of a model was in it.

    Examples
    --------
    >>> import pickle, tempfile, tether
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.cases.sepsis().mdp.save(f"{folder}/sepsis")
    ...     small = pickle.dumps(tether.MDP.load(f"{folder}/sepsis"))
    ...     len(small) < 300, pickle.loads(small)
    (True, <MDP: 1,440 states, 8 actions, 11,520 pairs, 55,910 transitions>)
    """

    directory: str
    version: str

    @classmethod
    def of(cls, folder: Path, described: bytes) -> Place:
        """The place of a model, given its directory and its ``model.json``."""
        return cls(str(folder.absolute()), hashlib.sha256(described).hexdigest())

    def is_there(self) -> bool:
        """Whether the directory still has this version."""
        from tether.model.storage.meta import MODEL

        folder = Path(self.directory)
        try:
            return Place.of(folder, (folder / MODEL).read_bytes()) == self
        except OSError:
            return False


def pickled_as(place: Place | None, part: Part, contents: tuple[Any, ...]) -> tuple[Any, ...]:
    """The result of ``__reduce__`` for a model, or a part of one: its place, or otherwise its contents."""
    return (opened_again, (place, part)) if place is not None and place.is_there() else contents


def opened_again(place: Place, part: Part) -> Any:
    """A model, or a part of one, from where it was when it was pickled."""
    from tether.model.storage import load

    fix = "save the model there again, or pickle mdp.in_memory(), which carries all numbers along"
    if not Path(place.directory).exists():
        message = f"the model was there when it was pickled, and is not any more; {fix}"
        raise FileError(Problem(message, file=place.directory))
    mdp = load(place.directory)
    if mdp.place != place:
        message = f"another model was saved there since this one was pickled; {fix}"
        raise FileError(Problem(message, file=place.directory))
    return mdp if part == "model" else getattr(mdp, part)
