"""The paper's models against slow twins that apply its rules word for word, and its numbers."""

import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from twins import exact_row, normalised, tv

import tether


def observed_return(case, name):
    path = case.paths[name]
    return sum(case.mdp.reward(s, a) for s, a in zip(path.states, path.actions, strict=False))


@pytest.mark.parametrize("name", ["toy", "grid_world", "epidemic", "sepsis"])
def test_every_path_can_have_happened(name):
    case = getattr(tether.cases, name)()
    for path in case.paths.values():
        assert path.last_recorded
        cf = tether.counterfactual(case.mdp, path)  # raises where a step is impossible
        assert cf.T == path.T
    assert case.path is next(iter(case.paths.values()))


def test_a_case_prints_in_one_line_and_cannot_be_changed():
    case = tether.cases.grid_world()
    assert repr(case) == "<Case grid world: 16 states, 4 actions; paths observed>"
    with pytest.raises(TypeError):
        case.paths["another"] = case.path


def test_every_case_says_what_happened_and_what_its_actions_mean():
    """In words: the stories agree with the paths, and no action is an abbreviation."""
    grid, epidemic, sepsis = tether.cases.grid_world(), tether.cases.epidemic(), tether.cases.sepsis()
    for case in (tether.cases.toy(), grid, epidemic, sepsis):
        assert case.stories.keys() == case.paths.keys()
        assert case.story == next(iter(case.stories.values()))
        for story in case.stories.values():
            assert story[0].isupper()
            assert story.endswith(".")
            assert "\n" not in story
    for case in (grid, epidemic, sepsis):
        assert all(action.islower() for action in {case.words.get(action, action) for action in case.mdp.actions})
        assert case.words.keys() <= set(case.mdp.actions)
    assert grid.path.actions[:3] == ("right", "right", "down")
    assert set(grid.path.states[3:]) == {6}
    assert epidemic.story.endswith("in 7 steps; the number of infected people went from 1 to 9.")
    small = tether.cases.epidemic(population=20, steps=1).story
    assert small.startswith("Nobody was vaccinated in 1 step; the number of infected people went from 1 to ")
    died, discharged = sepsis.mdp.labels["died"], sepsis.mdp.labels["discharged"]
    worst, other = sepsis.paths["catastrophic"], sepsis.paths["suboptimal"]
    assert [state in died for state in worst.states[:5]] == [False, False, False, True, True]
    assert not (died | discharged) & set(other.states)
    assert [worst.actions[:3], other.actions] == [
        ("ventilation + vasopressors", *["antibiotics + ventilation"] * 2),
        ("ventilation + vasopressors", *["antibiotics + ventilation"] * 9),
    ]
    assert all(path.states[0].diabetic for path in sepsis.paths.values())
    assert tether.cases.Case("another", grid.mdp, grid.paths).story == ""


def test_a_case_pickles():
    assert pickle.loads(pickle.dumps(tether.cases.epidemic())).words == tether.cases.epidemic().words
    case = pickle.loads(pickle.dumps(tether.cases.grid_world()))
    assert repr(case) == "<Case grid world: 16 states, 4 actions; paths observed>"
    assert case.path == tether.cases.grid_world().path
    assert case.mdp.labels["goal"] == {15}
    with pytest.raises(TypeError):
        case.paths["another"] = case.path


def test_outcomes_have_labels():
    """By the words of each case: where the pit is, when nobody is infected, how many signs are death."""
    assert dict(tether.cases.grid_world().mdp.labels) == {"goal": {15}, "danger": {6}}
    for epidemic in (tether.cases.epidemic(), tether.cases.epidemic(population=20, steps=3)):
        mdp = epidemic.mdp
        assert dict(mdp.labels) == {"over": {state for state in mdp.states if state.I == 0}}
    mdp = tether.cases.sepsis().mdp
    assert list(mdp.labels) == ["died", "discharged"]
    assert mdp.labels["died"] == {state for state in mdp.states if state.abnormal >= 3}
    treated = {state for state in mdp.states if any((state.antibiotics, state.vasopressors, state.ventilation))}
    assert mdp.labels["discharged"] == {state for state in mdp.states if state.abnormal == 0} - treated


# --- Toy -----------------------------------------------------------------------------------------


def test_toy():
    toy = tether.cases.toy()
    assert toy.mdp.n_states == 8
    assert toy.mdp.n_pairs == 10  # ten rows, one of them with two outcomes
    assert toy.mdp.n_transitions == 11
    assert toy.path.states == ("s0", "s2", "s5", "s7", "s7")
    assert toy.mdp.row("s0", "a0")[1].tolist() == [0.5, 0.5]


# --- Grid World ------------------------------------------------------------------------------------


def test_grid_world_moves():
    """Every row, from coordinates: 0.9 for the chosen move, 0.1/3 for each other, walls keep you in place."""
    mdp = tether.cases.grid_world().mdp
    assert mdp.n_states == 16
    assert list(mdp.actions) == ["up", "right", "down", "left"]
    step = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
    for s, chosen in product(range(16), mdp.actions):
        expected = dict.fromkeys(range(16), Fraction(0))
        if s in (6, 15):
            expected[s] = Fraction(1)
        else:
            for move, (down, right) in step.items():
                y, x = s // 4 + down, s % 4 + right
                after = 4 * y + x if 0 <= y < 4 and 0 <= x < 4 else s
                expected[after] += Fraction(9, 10) if move == chosen else Fraction(1, 30)
        labels, row = mdp.row(s, chosen)
        assert list(labels) == [j for j, x in expected.items() if x]
        np.testing.assert_allclose(row, [float(x) for x in expected.values() if x], rtol=1e-14)


def test_grid_world_rewards_and_path():
    grid = tether.cases.grid_world()
    # A few of the paper's table, R(s, a): beside the pit, into the goal, and the ends.
    assert grid.mdp.reward(2, "down") == grid.mdp.reward(5, "right") == grid.mdp.reward(7, "left") == -100
    assert grid.mdp.reward(11, "down") == grid.mdp.reward(14, "right") == grid.mdp.reward(15, "up") == 100
    assert [grid.mdp.reward(9, a) for a in grid.mdp.actions] == [1, 3, 4, 2]
    assert grid.path.T == 11
    assert grid.path.states == (0, 1, 2, *[6] * 9)
    assert grid.path.actions == ("right", "right", "down", *["up"] * 8)
    assert observed_return(grid, "observed") == -897  # as published: 1 + 2 - 100 - 8·100


# --- Epidemic ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def epidemic():
    return tether.cases.epidemic()


@cache
def marked(M, n, N):
    """How many of N people drawn one by one from M are among the n marked, as exact probabilities."""
    if N == 0:
        return {0: Fraction(1)}
    chances: dict[int, Fraction] = {}
    for k, chance in marked(M, n, N - 1).items():
        hit = Fraction(n - k, M - (N - 1))
        for after, share in ((k + 1, hit), (k, 1 - hit)):
            if share:
                chances[after] = chances.get(after, 0) + chance * share
    return chances


def test_epidemic_states_in_order(epidemic):
    mdp = epidemic.mdp
    assert mdp.n_states == 11 * 11 * 21 == 2541
    assert mdp.states[0] == (0, 0, 0)
    assert mdp.states[1] == (0, 0, 1)  # V fastest
    assert mdp.states[21] == (0, 1, 0)
    assert mdp.states[11 * 21] == (1, 0, 0)
    assert mdp.states[(9 * 11 + 1) * 21 + 20] == (9, 1, 20)
    assert repr(mdp.states[1]) == "(0, 0, 1)"
    assert mdp.states[1].V == 1


def test_epidemic_rows(epidemic):
    """Every row of every state, from people drawn one by one; beyond ten people, cut at ten infected.

    As in the released table, somebody must be left: nothing is said of an empty population.
    """
    mdp = epidemic.mdp
    for S, I, V in mdp.states:  # noqa: E741 - the paper's name
        people = {"NIL": (S, I, V)}
        if I > 0 and V > 0:
            people["V_I"] = (S, I - 1, V - 1)
        if S > 0 and V > 0:
            people["V_S"] = (S - 1, I, V - 1)
        available = {action: left for action, left in people.items() if left[0] + left[1] > 0}
        assert mdp.actions_in((S, I, V)) == tuple(available)
        for action, (s, i, v) in available.items():
            spread = marked(s + i, min(s, i), s)
            kept = {(s - k, i + k, v): chance for k, chance in spread.items() if i + k <= 10}
            labels, row = mdp.row((S, I, V), action)
            assert set(labels) == set(kept)
            total = sum(kept.values())
            np.testing.assert_allclose(row, [float(kept[j] / total) for j in labels], rtol=1e-13)
            assert mdp.reward((S, I, V), action) == -I


def test_epidemic_path_and_what_it_reaches(epidemic):
    assert epidemic.path.T == 7
    assert set(epidemic.path.actions) == {"NIL"}
    assert epidemic.path.states[0] == (9, 1, 20)
    assert epidemic.path.states[-1] == (1, 9, 20)
    assert observed_return(epidemic, "observed") == -38  # as published: -(1 + 2 + 3 + 6 + 8 + 9 + 9)
    cf = tether.counterfactual(epidemic.mdp, epidemic.path)
    # The size from s_0 without a constraint, checked independently when the method was written down.
    assert sum(len(cf.reachable(t)) for t in range(8)) == 215
    # A population of ten: no state beyond it is ever reached.
    assert all(S + I <= 10 for t in range(8) for S, I, _ in cf.reachable(t))  # noqa: E741


# --- Sepsis --------------------------------------------------------------------------------------

Signs = tuple[int, int, int, int]  # heart rate, systolic bp, oxygen, glucose
Chances = dict[Signs, Decimal]  # products of one- and two-digit decimals: exact
HR, BP, O2, GL = range(4)
TOP = (2, 2, 1, 4)
SHAPE = (2, 3, 3, 2, 5, 2, 2, 2)  # diabetic, the four signs, antibiotics, vasopressors, ventilation


def shifted(signs: Signs, sign: int, by: int) -> Signs:
    """The signs with one of them moved, clipped at the ends."""
    moved = list(signs)
    moved[sign] = min(max(moved[sign] + by, 0), TOP[sign])
    return tuple(moved)


def after_rule(chances: Chances, rule: Callable[[Signs], list[tuple[Signs, str]]]) -> Chances:
    """Apply a rule: it names what may happen to the signs and how likely; else nothing does."""
    result: Chances = {}
    for signs, chance in chances.items():
        outcomes = [(after, Decimal(x)) for after, x in rule(signs)]
        outcomes.append((signs, 1 - sum((x for _, x in outcomes), Decimal(0))))
        for after, x in outcomes:
            if x:
                result[after] = result.get(after, Decimal(0)) + chance * x
    return result


def move(sign: int, before: int, after: int, chance: str):
    """A rule: the sign goes from one level to another."""
    return lambda signs: [(shifted(signs, sign, after - before), chance)] if signs[sign] == before else []


def fluctuate(sign: int, chance: str):
    return lambda signs: [(shifted(signs, sign, 1), chance), (shifted(signs, sign, -1), chance)]


def vasopressors_for_a_diabetic(signs: Signs):
    return {
        0: [(shifted(signs, BP, 1), "0.5"), (shifted(signs, BP, 2), "0.4")],
        1: [(shifted(signs, BP, 1), "0.9")],
    }.get(signs[BP], [])


def vasopressors(signs: Signs):
    return [(shifted(signs, BP, 1), "0.7")] if signs[BP] < 2 else []


def sepsis_rules(diabetic: int, was: tuple[int, int, int], now: tuple[int, int, int]) -> list:
    """The rules that apply, in order; treatments are (antibiotics, vasopressors, ventilation)."""
    (was_abx, was_vaso, was_vent), (abx, vaso, vent) = was, now
    abx_off, vaso_off, vent_off = was_abx and not abx, was_vaso and not vaso, was_vent and not vent
    rules = []
    if abx:
        rules += [move(HR, 2, 1, "0.5"), move(BP, 2, 1, "0.5")]
    if abx_off:
        rules += [move(HR, 1, 2, "0.1"), move(BP, 1, 2, "0.1")]
    if vent:
        rules += [move(O2, 0, 1, "0.7")]
    if vent_off:
        rules += [move(O2, 1, 0, "0.1")]
    if vaso and diabetic:
        rules += [vasopressors_for_a_diabetic, lambda signs: [(shifted(signs, GL, 1), "0.5")]]
    elif vaso:
        rules += [vasopressors]
    if vaso_off:
        rules += [lambda signs: [(shifted(signs, BP, -1), "0.05" if diabetic else "0.1")]]
    if not abx and not abx_off:
        rules += [fluctuate(HR, "0.1")]
        if not vaso and not vaso_off:
            rules += [fluctuate(BP, "0.1")]
    if not vent and not vent_off:
        rules += [fluctuate(O2, "0.1")]
    if not vaso:
        rules += [fluctuate(GL, "0.3" if diabetic else "0.1")]
    return rules


def abnormal(signs: Signs) -> int:
    return sum(level != normal for level, normal in zip(signs, (1, 1, 1, 2), strict=True))


def is_end(signs: Signs, treatments: tuple[int, ...]) -> bool:
    return abnormal(signs) >= 3 or (abnormal(signs) == 0 and not any(treatments))


def state_reward(signs: Signs, treatments: tuple[int, ...]) -> int:
    if abnormal(signs) >= 3:
        return -1000
    return {2: -50, 1: 50, 0: 70 if any(treatments) else 1000}[abnormal(signs)]


@cache
def sepsis_row(s: int, action: int) -> tuple[dict[int, Decimal], int]:
    """Row and reward of a pair by index, by the rules."""
    diabetic, *rest = (int(x) for x in np.unravel_index(s, SHAPE))
    signs, was = tuple(rest[:4]), tuple(rest[4:])
    if is_end(signs, was):
        return {s: Decimal(1)}, state_reward(signs, was)
    now = (action // 4, action % 2, action // 2 % 2)  # action = 4·antibiotics + 2·ventilation + vasopressors
    chances = {signs: Decimal(1)}
    for rule in sepsis_rules(diabetic, was, now):
        chances = after_rule(chances, rule)
    row = {int(np.ravel_multi_index((diabetic, *after, *now), SHAPE)): x for after, x in chances.items()}
    likeliest = min(j for j, x in row.items() if x == max(row.values()))
    _, *rest = (int(x) for x in np.unravel_index(likeliest, SHAPE))
    return row, state_reward(tuple(rest[:4]), now)


@pytest.fixture(scope="module")
def sepsis():
    return tether.cases.sepsis()


def test_sepsis_states_and_actions_in_order(sepsis):
    mdp = sepsis.mdp
    assert mdp.n_states == 1440
    assert mdp.n_pairs == 11_520
    # 777 = ((((1·3 + 0)·3 + 0)·2 + 1)·5 + 2)·8 + 1: diabetic, heart rate and bp low, the rest normal, ventilated.
    assert mdp.states[777] == (True, "low", "low", "normal", "normal", False, False, True)
    assert mdp.states[777].abnormal == 2
    assert mdp.states[0] == (False, "low", "low", "low", "very low", False, False, False)
    assert mdp.states[1].ventilation
    assert mdp.states[2].vasopressors
    assert mdp.states[4].antibiotics
    assert mdp.states[8].glucose == "low"
    assert mdp.states[1439] == (True, "high", "high", "normal", "very high", True, True, True)
    assert list(mdp.actions) == [
        "no treatment",
        "vasopressors",
        "ventilation",
        "ventilation + vasopressors",
        "antibiotics",
        "antibiotics + vasopressors",
        "antibiotics + ventilation",
        "antibiotics + ventilation + vasopressors",
    ]
    assert str(mdp.states[777]) == ("heart rate low, bp low, oxygen normal, glucose normal, diabetic; on ventilation")


def test_sepsis_every_row_by_the_rules(sepsis):
    """All 11,520 rows and rewards."""
    form = sepsis.mdp.form
    for x in range(form.pair_action.size):
        s, action = divmod(x, 8)
        row, reward = sepsis_row(s, action)
        entries = slice(form.row_start[x], form.row_start[x + 1])
        labels = form.next_state[entries].tolist()
        assert labels == sorted(row)
        assert (
            max(abs(a - float(row[j])) for j, a in zip(labels, form.probability[entries].tolist(), strict=True)) < 1e-15
        )
        assert form.rewards.values[x] == reward


def test_sepsis_observed_returns(sepsis):
    path = sepsis.paths["catastrophic"]
    assert [sepsis.mdp.states.index(s) for s in path.states] == [777, 939, 941, *[949] * 8]
    assert [sepsis.mdp.actions.index(a) for a in path.actions] == [3, 6, 6, *[0] * 7]
    assert observed_return(sepsis, "catastrophic") == -6850  # what the exact table gives; the sampled one gives -6950
    path = sepsis.paths["suboptimal"]
    assert path.T == 10
    indices = [777, 939, 869, 869, 861, 861, 869, 861, 861, 853, 853]
    assert [sepsis.mdp.states.index(s) for s in path.states] == indices
    by_rules = [sepsis_row(s, a)[1] for s, a in zip(indices, [3, *[6] * 9], strict=False)]
    assert observed_return(sepsis, "suboptimal") == sum(by_rules)


def test_sepsis_overlap_without_influence(sepsis):
    """From t = 3 on the catastrophic patient is dead: 16 pairs per step overlap, and none is influenced."""
    mdp = sepsis.mdp
    cf = tether.counterfactual(mdp, sepsis.paths["catastrophic"])
    support = set(mdp.row(mdp.states[949], "no treatment")[0])
    overlapping = [(s, a) for s in mdp.states for a in mdp.actions if not support.isdisjoint(mdp.row(s, a)[0])]
    assert len(overlapping) == 16
    for t in range(3, 10):
        assert all(cf.strength(t, s, a) == 0.0 for s, a in overlapping)


def test_sepsis_counterfactual_rows_by_the_rules(sepsis):
    """Products of equal factors tie p_j / q_j all over: what is possible must not hang on rounding."""
    mdp = sepsis.mdp
    states, actions = [777, 939, 869, 869, 861, 861, 869, 861, 861, 853, 853], [3, *[6] * 9]
    cf = tether.counterfactual(mdp, sepsis.paths["suboptimal"])
    checked = 0
    for t in range(10):
        observed = sepsis_row(states[t], actions[t])[0]
        for s in cf.reachable(t):
            for action, a in enumerate(mdp.actions):
                asked = sepsis_row(mdp.states.index(s), action)[0]
                if asked.keys().isdisjoint(observed):
                    continue
                outcomes = sorted(asked.keys() | observed.keys())
                p, q = ([row.get(j, Decimal(0)) for j in outcomes] for row in (observed, asked))
                exact = exact_row(p, q, outcomes.index(states[t + 1]))
                labels, row = cf.row(t, s, a)
                assert [mdp.states.index(j) for j in labels] == [j for j, x in zip(outcomes, exact, strict=True) if x]
                np.testing.assert_allclose(row, [float(x) for x in exact if x], rtol=0, atol=1e-12)
                assert abs(cf.strength(t, s, a) - float(tv(exact, normalised(q)))) < 1e-12
                checked += 1
    assert checked == cf.n_edited
