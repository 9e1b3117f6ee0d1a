"""How is an answer shown? Figures, and a report as one page.

May import: ruling, auditing, and what it may.

>>> import tether
>>> from tether.views import figures
>>> case = tether.cases.epidemic()
>>> figures.plot_values(tether.counterfactual(case.mdp, case.path).sweep()).get_xlabel()
'actions that may change, m'
"""

from tether.views import figures

__all__ = ["figures"]
