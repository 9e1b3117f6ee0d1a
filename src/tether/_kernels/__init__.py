"""Compiled loops: arrays in, arrays out; no objects, no errors, no options.

The modules here import numba, which takes a while: import them inside the function that needs
them, never at the top of a file. A caller checks and allocates; a kernel only loops.
May import: _foundation, errors.
"""
