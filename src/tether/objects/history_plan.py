"""`HistoryPlan`: what users may ask of every plan that decides by all that was met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether._foundation.markup import Displayed, facts, paragraphs
from tether._foundation.words import number

if TYPE_CHECKING:
    import datetime
    import os
    import pathlib

    from tether.explanation.verdicts import Nouns


class HistoryPlan(Displayed):
    """A plan for hidden types, or with a limit on whole paths."""

    def report(
        self,
        file: str | os.PathLike[str] = "report.html",
        *,
        title: str | None = None,
        date: datetime.date | None = None,
        certificate: bool = True,
        nouns: Nouns | None = None,
        source: str = "",
    ) -> pathlib.Path:
        """Write the answer as one self-contained HTML file: verdicts and steps; also the types, where they are hidden.

        ``nouns`` says what an episode and a step are called; ``source`` names the model.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.grid_world()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plan.report(f"{folder}/budget.html").name
        'budget.html'
        """
        from tether.views.history_page import write_history

        asked: Any = self
        return write_history(asked, file, title=title, date=date, certificate=certificate, nouns=nouns, source=source)

    def _repr_html_(self) -> str:
        asked: Any = self
        k = f"{asked.k}" if asked.k <= asked.cf.T else "no tether"
        values = [("value", number(asked.value)), ("observed", number(asked.observed_value))]
        rows = [("k, m", f"{k}, {asked.m}"), *values, ("gain", number(asked.gain))]
        return paragraphs(asked.explain().verdicts(str).lines) + self._picture() + facts(rows)

    def _picture(self) -> str:
        """A drawing for a notebook, where there is one."""
        return ""
