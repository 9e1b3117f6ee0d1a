"""Digests of functions: equal in another process and on another line, different where anything else is said."""

import subprocess
import sys
import threading
from functools import lru_cache, partial, wraps

import numpy as np
import pytest

from tether._foundation.code_digest import digest_of_code

PROGRAM = """
import abc, dataclasses, enum, functools, json
import numpy as np
from tether._foundation.code_digest import digest_of_code

WARDS = {"icu", "ward", "home", "theatre"}

def helper(t):
    return t in frozenset({"a", "b", "c", "d"}) or helper

class Colour(enum.Enum):
    RED = {"x", "y", "z"}

@dataclasses.dataclass(frozen=True)
class Case:
    wards: frozenset = frozenset(WARDS)

    @functools.cached_property
    def many(self):
        return len(self.wards)

class Base(abc.ABC):
    __slots__ = ("names",)

class Policy(Base):
    def __init__(self):
        self.names = [{"u", "v", "w"}, np.arange(3)]

    def __call__(self, t, state):
        return super().__call__ if state in self.names else Case().many

def rule(t, state, action):
    return 5 if state in WARDS | {"p", "q", "r"} and Colour.RED else helper(t)

kinds = [rule, Policy(), Policy().__call__, functools.lru_cache(rule), functools.partial(rule, 1), np.exp]
print(json.dumps([digest_of_code(one) for one in kinds]))
"""


def test_another_process_and_another_place_give_the_same_digests(tmp_path):
    said = set()
    for number in range(2):
        file = tmp_path / f"script-{number}.py"
        file.write_text("\n" * 7 * number + PROGRAM)
        run = [sys.executable, file]
        environment = {"PYTHONHASHSEED": str(number), "PYTHONPATH": ":".join(sys.path)}
        said.add(subprocess.run(run, env=environment, capture_output=True, check=True, text=True).stdout)
    assert len(said) == 1
    assert "null" not in said.pop()


def near(limit):
    return lambda p: p > limit


def with_default(limit):
    def test(p, limit=limit):
        return p > limit

    return test


def wrapped(limit):
    inner = near(limit)

    @wraps(inner)
    def test(p):
        return inner(p)

    return test


class Rule:
    def __init__(self, limit):
        self.limits = {"here": [limit]}

    def ask(self, p):
        return p in self.limits


def of_class(limit):
    class Test:
        bound = limit

    return Test()


def of_a_cycle(limit):
    held = [limit]
    held.append(held)
    return lambda: held


@pytest.mark.parametrize(
    "made",
    [near, with_default, wrapped, Rule, of_class, of_a_cycle, lambda limit: partial(near(limit), 1),
     lambda limit: lru_cache(near(limit)), lambda limit: Rule(limit).ask, lambda limit: lambda: np.array([limit, 1.0]),
     lambda limit: near({limit, "a"})],
)  # fmt: skip
def test_what_says_something_else_has_another_digest(made):
    first, again, other = (digest_of_code(made(limit)) for limit in (0.5, 0.5, 0.6))
    assert first == again
    assert first[0] is not None
    assert other[0] not in (None, first[0])


def test_what_cannot_be_copied_has_no_digest(tmp_path):
    with (tmp_path / "a").open("w") as stream:
        for one in (threading.Lock(), stream, (number for number in range(3))):
            digest, why = digest_of_code(near([one]))
            assert digest is None
            assert "<lambda> uses something that cannot be compared with that of an earlier call (" in why
