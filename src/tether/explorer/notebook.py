"""The explorer below a cell of a notebook: an iframe on a server of the same machine, one per process."""

from __future__ import annotations

import atexit
from typing import Any

from tether._foundation.markup import escaped
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.explorer.offered import OfTypes, One
from tether.explorer.server import Explorer
from tether.plan.typed_record import TypedRecord


class Inline:
    """A page that is being served: shown as an iframe in a notebook, by its address elsewhere.

    Examples
    --------
    >>> import tether
    >>> toy = tether.cases.toy()
    >>> page = tether.counterfactual(toy.mdp, toy.path).explore()
    >>> page.address.startswith("http://127.0.0.1:"), "<iframe" in page._repr_html_()
    (True, True)
    >>> page.stop()
    """

    def __init__(self, explorer: Explorer, height: int) -> None:
        self._explorer, self.height = explorer, height
        explorer.start()
        atexit.register(self.stop)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return self._explorer.address

    def stop(self) -> None:
        """End the server."""
        self._explorer.stop()
        atexit.unregister(self.stop)

    def _repr_html_(self) -> str:
        source = escaped(f"{self.address}&inline=1")
        return (
            f'<iframe src="{source}" width="100%" height="{self.height}" style="border:1px solid #ccc" '
            f'title="Tether explorer"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Explorer at {self.address}>"


def explore_types(cf: TypedRecord, height: Any = 800) -> Inline:
    """Serve an episode of somebody whose type was never recorded; see `TypedCounterfactual.explore`."""
    return Inline(Explorer(OfTypes(cf), framed=True), int(height))


def explore(cf: CounterfactualRecord, height: Any = 800) -> Inline:
    """Serve one episode, to be shown inline; see `CounterfactualMDP.explore`."""
    return Inline(Explorer(One(cf, "this episode"), framed=True), int(height))
