"""Answers that were frozen before the engine was rewritten: the same questions have the same answers now.

To look at one of them: ``Frozen(frozen()[model]).ask(*frozen()[model]["questions"][question][:2])``.
"""

import pytest
from frozen_questions import KINDS, Frozen, differences, frozen

GROUPS = 20


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_answers_are_the_frozen_ones(group):
    wrong = []
    for i in range(group, len(frozen()), GROUPS):
        world = Frozen(frozen()[i])
        for j, (kind, given, expected, *marks) in enumerate(world.stored["questions"]):
            off = differences(expected, world.ask(kind, given))
            wrong += [f"model {i}, question {j}, {kind} {given}{marks or ''}: {one}" for one in off]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:25])


def test_every_kind_of_question_is_asked():
    asked = [kind for model in frozen() for kind, *_ in model["questions"]]
    assert len(asked) > 1_900
    assert set(asked) == set(KINDS)
