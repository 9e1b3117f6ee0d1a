"""Many episodes of one model, batch after batch: the best plan of each within k, followed exactly, and certified.

The same numbers as the calls for a single episode give, bit for bit: every sum is taken in the same order. What differs
is what is looked at.

- Layers are what the model can reach without the observation: a superset, in which every value is the same.
- Whether a pair is allowed is asked for one k at a time, for the rule "definition" with influence by supports. A state
  with an influenced pair is at distance 1; of any other no row is edited, so that its distance comes from the states
  that any of its actions leads to.
- Edited rows of a step depend on (s_t, a_t, s_{t+1}) alone; they lie in a pool, for all pairs of the model that meet
  the observed support.
- With c changes left, V is kept for c < m; with all m left the episode is on its observed path, which is followed apart
  (METHOD: "the column c = m is needed at the observed states only").
- Of a certificate only the two worst cases are found: they say what is guaranteed, and the verdict.

`arrays` says what the kernels work on; `rows`, `layers`, `plan` (or `one_change`, where m is 1), `follow` and `certify`
are the steps of an answer, and `answer` takes them for every episode of a batch. `search` finds pairs and edited rows,
`sums` adds up in the order in which NumPy does.
"""
