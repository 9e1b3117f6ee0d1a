"""How is a result drawn? Functions of numbers, and of results that draw themselves; Matplotlib axes out.

They stand below the results, so that ``result.plot()`` imports downwards; `drawable` says what they read of a result.
Figures of what later folders compute are in `tether.views.figures`, which lists all of them.
May import: influence, and what it may.
"""
