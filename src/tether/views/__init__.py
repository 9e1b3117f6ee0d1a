"""How is it shown? Figures, and a report as one page.

May import: everything but the command line and the reproduction.

>>> import tether
>>> from tether.views import figures
>>> case = tether.cases.epidemic()
>>> figures.plot_values(tether.counterfactual(case.mdp, case.path).sweep()).get_xlabel()
'actions that may change, m'
"""
