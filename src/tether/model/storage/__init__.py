"""A model on disk: a directory of plain ``.npy`` files and ``model.json``, which says what they are.

The arrays are those of `tether.model.form`, one file each, and are mapped into memory, not copied, when a model is
opened: processes that open the same model share it. Every number is checked when a version of the files is first
opened (`tether.model.storage.checked`); after that, only what a question touches is ever read.

Names 0 … n-1 are stored as n, a few thousand others as JSON, more as columns (`tether.model.storage.writing_names`).
`tether.MDP.save` and `tether.MDP.load` are the way in.
"""

from tether.model.storage.files import in_memory, load, save

__all__ = ["in_memory", "load", "save"]
