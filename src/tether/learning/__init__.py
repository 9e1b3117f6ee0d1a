"""Which model do the logs support, and how sure is an answer that rests on it? Counts, a prior, a posterior.

May import: logs, and what they may.
"""
