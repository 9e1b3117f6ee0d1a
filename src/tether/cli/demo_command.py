"""``tether demo``: two episodes, and what should have been done differently."""

from __future__ import annotations

from tether.cli.helping import command
from tether.cli.json_output import print_json
from tether.cli.options import as_json


@command(
    epilog="""\b
Example:
  tether demo"""
)
@as_json
def demo(as_json: bool) -> None:
    """Two patients, and what should have been done differently.

    Leaves a report of each in tether-demo/, to open in a browser.
    """
    from tether.cli import demo as shown
    from tether.explanation.answer_data import explanation_data

    if not as_json:
        shown.main()
        return
    stories = []
    for story, source in zip(shown.stories(), ("case:ward", "case:sepsis"), strict=True):
        named = {"model": source, "path": source}
        stories.append(
            {"title": story.title, "explanations": [named | explanation_data(one) for one in story.explanations()]}
        )
    print_json("demo", stories=stories)
