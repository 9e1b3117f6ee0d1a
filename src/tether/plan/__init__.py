"""What should have been done? The best policy for k and m, or the value for all of them.

`tether_record` is the question, with κ computed once; `best_values` finds the plan, `plan_record`; `sweep` has the
values for all k and m; `limits` chooses k; `pareto` weighs value against influence; `robust_record` plans for the worst
causal model of a set.
May import: figures, and what they may.
"""
