"""Published experiments, computed again beside the published numbers.

They are those of the paper, of its follow-up (`robust`), of Tsirtsis et al. 2021 (`few_changes`) and of Oberst and
Sontag 2019 (`off_policy`). Each is a file with one function that computes a `Section`: comparisons, figures and
sentences. `study.reproduce` puts them together, `page.write` writes them out.
May import: views, and what they may.
"""

from tether.reproduce.study import CASES, Study, check, reproduce

__all__ = ["CASES", "Study", "check", "reproduce"]
