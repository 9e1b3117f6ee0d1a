"""The paper, reproduced: every figure and table of its experiments, beside the published ones.

Each case study is a file with one function that computes a `Section`: comparisons, figures and
sentences. `study.run` puts them together, `page.write` writes them out.
"""

from tether.reproduce.study import CASES, Study, check, reproduce

__all__ = ["CASES", "Study", "check", "reproduce"]
