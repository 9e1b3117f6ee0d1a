"""What is to be expected of a policy? Exactly, or drawn: on the counterfactual MDP and on the plain model.

May import: plan, and what it may.
"""
