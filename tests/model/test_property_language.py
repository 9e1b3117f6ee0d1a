"""Properties as PRISM and Storm write them: against the ones that are built by hand, and what is refused."""

from typing import NamedTuple

import pytest
from commands import json_of
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.model.properties import parse_property


class Cell(NamedTuple):
    x: int
    y: int
    wet: bool


STATES = [Cell(x, y, (x + y) % 2 == 0) for x in range(3) for y in range(3)]


@pytest.fixture(scope="module")
def mdp():
    rows = [(s, "go", STATES[(i + 1) % 9], 1.0) for i, s in enumerate(STATES)]
    found = tether.MDP.from_table(*zip(*rows, strict=True), states=STATES)
    return found.with_labels({"goal": [STATES[8]], "the edge": lambda s: s.x == 0, "none here": lambda s: s.x > 1})


ATOMS = [
    ('"goal"', lambda s: s == STATES[8]), ('"the edge"', lambda s: s.x == 0), ("wet", lambda s: s.wet),
    ("x=1", lambda s: s.x == 1),
    ("y >= 1", lambda s: s.y >= 1), ("x!=0", lambda s: s.x != 0), ("y<2", lambda s: s.y < 2),
    ("wet=false", lambda s: not s.wet), ("true", lambda s: True), ("false", lambda s: False),
]  # fmt: skip


def joined(children):
    """Formulas as text with what they mean in Python; always in parentheses, and precedence is tested by hand."""
    two = st.tuples(children, children)
    return st.one_of(
        children.map(lambda a: (f"!({a[0]})", lambda s: not a[1](s))),
        two.map(lambda ab: (f"({ab[0][0]}) & ({ab[1][0]})", lambda s: ab[0][1](s) and ab[1][1](s))),
        two.map(lambda ab: (f"({ab[0][0]})|({ab[1][0]})", lambda s: ab[0][1](s) or ab[1][1](s))),
        two.map(lambda ab: (f"({ab[0][0]}) => ({ab[1][0]})", lambda s: not ab[0][1](s) or ab[1][1](s))),
    )


FORMULAS = st.recursive(st.sampled_from(ATOMS), joined, max_leaves=6)


@given(FORMULAS, FORMULAS)
def test_formulas_mean_what_they_say(mdp, one, other):
    (hold, holds), (goal, is_goal) = one, other
    for text, built, members in (
        (f"P=? [ F {goal} ]", tether.reach, [is_goal]),
        (f"Pmax=?[G {goal}]", tether.avoid, [lambda s: not is_goal(s)]),
        (f"P=? [ ({hold}) U ({goal}) ]", tether.until, [holds, is_goal]),
    ):
        sets = [[s for s in STATES if member(s)] for member in members]
        if not all(sets):
            with pytest.raises(tether.QueryError, match="no state"):
                parse_property(text).on(mdp)
            continue
        found, expected = parse_property(text).on(mdp), built(*sets).on(mdp)
        assert found.holds.tolist() == expected.holds.tolist()
        assert found.ended.tolist() == expected.ended.tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('P=? [ F "goal" ]', "reach goal"),
        ('P=? [ F<=8 "goal" ]; ', "reach goal within 8"),
        ("reach(goal, within=8)", "reach goal within 8"),
        ('avoid("the edge")', "avoid 'the edge'"),
        ("reach(goal)&until('the edge', goal, within = 3)", 'P=? [ (F "goal") & ("the edge" U<=3 "goal") ]'),
        ('Pmax=? [ G !"the edge" ]', "avoid 'the edge'"),
        ('P=? [ true U "goal" ]', "reach goal"),
        ('P=? [ "the edge" U "goal" ]', "until 'the edge' goal"),
        ('P=? [ F "goal" | wet & x=1 ]', 'reach ("goal" | wet & x=1)'),
        ("P=? [ G (wet | x=1) ]", "avoid (!(wet | x=1))"),
        ("P=? [ G !(wet & x=1) ]", "avoid ((wet & x=1))"),
    ],
)
def test_how_they_read(mdp, text, said):
    assert str(parse_property(text)) == said
    assert parse_property(text) == parse_property(text)


def test_a_variable_may_have_a_name_that_looks_like_operators():
    class Switch(NamedTuple):
        GG: bool

    off, on = Switch(False), Switch(True)
    mdp = tether.MDP.from_table([off, on], ["go", "go"], [on, on], [1.0, 1.0])
    for text in ("P=? [ F GG ]", "P=? [ !GG U GG ]", "P=? [ F GG=true ]"):
        assert parse_property(text).on(mdp).holds.tolist() == [s.GG for s in mdp.states]


def test_and_binds_more_than_or(mdp):
    found = parse_property('P=? [ F "goal" | wet & x=1 ]').on(mdp).holds
    assert found.tolist() == [s == STATES[8] or (s.wet and s.x == 1) for s in STATES]
    assert parse_property("P=? [ F !wet & x=1 ]").on(mdp).holds.tolist() == [not s.wet and s.x == 1 for s in STATES]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('P=? [ F<=n "goal" ]', "a bound is a whole number of steps.*not 'n'; give constants their values"),
        ('P=? [ F<0 "goal" ]', "there is no step before step 0; write <=0"),
        ('P=? [ F[5,2] "goal" ]', "a bound ends before it begins"),
        ('P=? [ F>=5000 "goal" ]', "a bound begins at step 100 at the latest"),
        ('P=? [ X<=2 "goal" ]', "X takes no bound; X is the next step"),
        ('P=? [ F wet & (G "goal") ]', r"& between a set of states and a path .* two ways; put parentheses"),
        ("P=? [ F P>0.5 [ F wet ] ]", "P within a property is not supported"),
        ('Pmin=? [ F "goal" ]', "minimise=True, --minimise"),
        ('P>=0.5 [ F "goal" ]', "a bound on the probability"),
        ("R=? [ C<=8 ]", "an expected reward is not a property; leave the objective out"),
        ('P=? [ GF "goal" ]', "GF is read as one name; put spaces between: G F"),
        ("filter(max, P=? [ F wet ])", "a filter over states is not taken.*write what is inside"),
        ('multi(P=? [ F "goal" ], P=? [ F wet ])', "several questions at once.*subject_to="),
        ("A [ G wet ]", "whether all paths.*whether it is 1"),
        ("E [ F wet ]", "whether some path"),
        ("S=? [ wet ]", "a long-run probability is not a property"),
        ("LRAmax=? [ wet ]", "a long-run average"),
        ("Tmin=? [ F wet ]", "expected times are not taken"),
        ('P=? [ F "goal"', "']' is missing before its end"),
        ('P=? [ F "goal" ] wet', "'wet' follows its end"),
        ('P=? [ "goal" ]', "no F, G or U"),
        ("P=? [ F x ]", "x is not true or false; compare it"),
        ("P=? [ F z=1 ]", "no variable 'z'; they have x, y, wet"),
        ('P=? [ F "gaol" ]', "no label or state called 'gaol'"),
        ('P=? [ F wet & "gaol" ]', "no label called 'gaol'"),
        ("P=? [ F x= ]", "x = is followed by no number"),
        ("P=? [ F ]", "set of states"),
        ("P=? [ F § ]", "'§' is not understood"),
        ("P=? [ F x=7 ]", "no state is in x=7"),
    ],
)
def test_what_is_refused(mdp, text, said):
    with pytest.raises(tether.QueryError, match=said):
        parse_property(text).on(mdp)


def test_in_calls_and_on_the_command_line(grid):
    plan = grid.plan(k=12, m=2, objective='P=? [ !"danger" U "goal" ]')
    by_hand = tether.until(lambda s: s not in grid.mdp.labels["danger"], "goal")
    assert plan.value == grid.plan(k=12, m=2, objective=by_hand).value
    assert "danger" in str(plan.explain())
    words = ["sweep", "case:grid-world", "--objective", 'P=? [ F "goal" ]']
    assert json_of(*words)["objective"] == "reach goal"
