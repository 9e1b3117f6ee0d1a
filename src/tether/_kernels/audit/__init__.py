"""Many episodes of one model, batch after batch: the best plan of each within k, followed exactly, and certified.

The numbers are those of the calls for a single episode, bit for bit: every sum is taken in the same order. The
computation differs in these points:

- Layers are the states that the model can reach without the observation: a superset, with the same values.
- Whether a pair is allowed is computed for one k at a time, for the rule "definition" with influence by supports. A
  state with an influenced pair is at distance 1. Any other state has no edited row, so its distance follows from the
  states that any of its actions leads to.
- Edited rows of a step depend on (s_t, a_t, s_{t+1}) alone. They are kept in a pool, for all pairs of the model that
  meet the observed support.
- V is kept for c < m changes left. With all m left the episode is on its observed path, which is computed separately
  (METHOD: "the column c = m is needed at the observed states only").
- For a certificate only the two worst cases are found: the guarantee and the verdict follow from them.

`arrays` has the records that the kernels work on. `rows`, `layers`, `plan` (or `one_change`, if m is 1), `follow` and
`certify` are the steps of an answer; `answer` takes these steps for every episode of a batch. `search` finds pairs and
edited rows, `sums` adds up in the same order as NumPy.
"""
