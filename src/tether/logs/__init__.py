"""Which episodes does a log have? A log in memory or in files, cut into batches of episodes.

`batches` cuts a log; one larger than memory comes in pieces (Parquet in `streamed`, text in `textlog`). `cohort` is one
batch in a model's indices; `fingerprint` notices that a log, a model or a question has changed.
May import: io, and what it may.
"""
