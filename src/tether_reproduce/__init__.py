"""Published experiments, computed again beside the published numbers: the program behind ``tether reproduce``.

They are those of the paper, of its follow-up (`causal_sets`), of Tsirtsis et al. 2021 (`few_changes`) and of Oberst and
Sontag 2019 (`off_policy`). Each is a file with one function that computes a `Section`: comparisons, figures and
sentences (`findings`). `study.reproduce` puts them together, `study_page.write` writes them out, `exact_numbers.check`
says which exact numbers have changed. The program uses the library; nothing in the library imports it. The library's
command line finds `command.reproduce` by an entry point.
"""
