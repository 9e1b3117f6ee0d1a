"""How is the answer told? Records of an answer beside what happened; sentences are made last.

May import: evaluation, and what it may.
"""
