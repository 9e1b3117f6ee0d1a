"""How sure an answer is when the model was learned: draws from its posterior, and what becomes of a plan in them."""
