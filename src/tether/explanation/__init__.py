"""How is the answer told? Records of an answer beside what happened; sentences are made last.

`explain`, `decisions`, `outcomes` and `what_if` are the records; `answers` makes JSON of them, `arrow` tables;
`sentences` tells them.
May import: evaluation, and what it may.
"""
