"""How is the answer put into words? Records put the answer beside what happened; sentences are made last.

`explain`, `mistakes`, `decisions`, `outcomes` and `what_if` are the records. `answers` turns them into JSON, `arrow`
into tables, `sentences` into sentences.
May import: learning, and what it may.
"""
