"""What should be done from now on? Rules for everybody: found in a log, and judged on everyone they touch.

`conditions` and `edits` say what a rule is, `one_rule` has its record. `practised` is usual practice with rules.
`counting` reads the log once, `searching` ranks rules by these counts, `replaying` replays the episodes of a batch.
`deciding_rules` puts it together, `rule_results` has what is returned; `comparing` compares groups of episodes.
May import: auditing, and what it may.
"""
