"""Is a pair still about this episode? One-step tests (`one_step`), the four rules and their thresholds κ (`rules`,
`kappa`), why a pair is allowed or not (`why`), the classes of the paper's figures (`classes`), how far influence
reaches (`coverage`).

May import: conditioning, and what it may.
"""
