"""How is the answer put into words? Records put the answer beside what happened; sentences are made last.

`explain`, `mistakes`, `decisions`, `outcome_chances` and `what_if` are the records. `answer_data` turns them into JSON,
`sentences` into sentences.
May import: learning, and what it may.
"""
