"""Storm's direct encoding (DRN): a whole model in one text file, as Storm's documentation describes it."""

from tether.io.drn.read import read_drn, read_drn_labels
from tether.io.drn.write import write_drn

__all__ = ["read_drn", "read_drn_labels", "write_drn"]
