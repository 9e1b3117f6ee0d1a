"""Storm's direct encoding (DRN): a whole model in one text file, as Storm's documentation describes it."""

from tether.io.drn.drn_reader import read_drn
from tether.io.drn.drn_writer import write_drn

__all__ = ["read_drn", "write_drn"]
