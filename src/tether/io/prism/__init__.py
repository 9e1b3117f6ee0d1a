"""PRISM's explicit files: ``.tra``, ``.sta``, ``.lab``, ``.srew`` and ``.trew``, as its manual describes them."""

from tether.io.prism.read import read_prism
from tether.io.prism.write import write_prism

__all__ = ["read_prism", "write_prism"]
