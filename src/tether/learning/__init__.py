"""A model from episodes: counts, a prior, and what was left out."""
