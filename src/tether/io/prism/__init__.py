"""PRISM's explicit files: ``.tra``, ``.sta``, ``.lab``, ``.srew`` and ``.trew``, as its manual describes them."""

from tether.io.prism.prism_reader import read_prism
from tether.io.prism.prism_writer import write_prism

__all__ = ["read_prism", "write_prism"]
