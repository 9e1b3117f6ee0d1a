"""Storm's direct encoding (DRN): a whole model in one text file, as Storm's documentation describes it."""

from tether.io.drn.read import read_drn
from tether.io.drn.write import write_drn

__all__ = ["read_drn", "write_drn"]
