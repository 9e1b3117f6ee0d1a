"""The counterfactual interval model as Storm and PRISM read it: read back by other code, solved, compared."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import RULES, worlds

import tether


def read_drn(text):
    """(rewards of states, choices: state, reward, [(to, low, high)], labels), by regular expressions."""
    states, choices, labels = {}, [], {}
    for line in text.split("@model\n")[1].splitlines():
        if found := re.fullmatch(r"state (\d+) \[(\S+)\](.*)", line):
            here = int(found[1])
            states[here], labels[here] = float(found[2]), found[3].split()
        elif found := re.fullmatch(r"\taction (\w+) \[(\S+)\]", line):
            choices.append((here, float(found[2]), []))
        elif found := re.fullmatch(r"\t\t(\d+) : \[(\S+), (\S+)\]", line):
            choices[-1][2].append((int(found[1]), float(found[2]), float(found[3])))
        else:
            assert line.startswith("//"), line
    count = int(re.search(r"@nr_states\n(\d+)", text)[1]), int(re.search(r"@nr_choices\n(\d+)", text)[1])
    assert count == (len(states), len(choices))
    return states, choices, labels


def read_prism(text):
    states, choices = {}, []
    done = int(re.search(r"s : \[0\.\.(\d+)\] init 0;", text)[1])
    earned = {}
    body, rewards = text.split('rewards "reward"\n')
    for action, here, value in re.findall(r"^\t\[(\w+)\] s=(\d+) : (\S+);$", rewards, re.M):
        earned[action, int(here)] = float(value)
    arrivals = {int(here): float(value) for here, value in re.findall(r"^\ts=(\d+) : (\S+);$", rewards, re.M)}
    for action, here, updates in re.findall(r"^\t\[(\w+)\] s=(\d+) -> (.*);$", body, re.M):
        row = re.findall(r"\[([^,]+),([^\]]+)\]:\(s'=(\d+)\)", updates)
        choices.append(
            (int(here), earned.get((action, int(here)), 0.0), [(int(j), float(a), float(b)) for a, b, j in row])
        )
    for s in range(done + 1):
        states[s] = arrivals.get(s, 0.0)
    labels = {s: ["done"] if s == done else [] for s in range(done + 1)}
    assert f'label "done" = s={done};' in body
    return states, choices, labels


def guaranteed(states, choices, labels, sign=1):
    """max over choices of min (``sign`` = -1: max) over the intervals of the reward until done, by recursion."""
    by_state, known = {}, {}
    for s, reward, row in choices:
        by_state.setdefault(s, []).append((reward, row))

    def value(s):
        if "done" in labels[s]:
            return 0.0
        if s not in known:
            known[s] = states[s] + max(reward + worst(row) for reward, row in by_state[s])
        return known[s]

    def worst(row):
        rest, total = 1.0 - sum(low for _, low, _ in row), 0.0
        assert rest >= 0.0
        assert sum(high for *_, high in row) >= 1.0
        for to, low, high in sorted(row, key=lambda one: sign * value(one[0])):
            more = min(rest, high - low)
            rest, total = rest - more, total + (low + more) * value(to)
        return total

    return value(0)


@pytest.mark.parametrize("rule", RULES)
@given(world=worlds(), data=st.data())
def test_solved_by_other_code_it_gives_the_guaranteed_value(tmp_path_factory, rule, world, data):
    mdp, path = world.cf.mdp, world.path
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    assume = data.draw(st.sampled_from(["nothing", "stability", "published-stability", "published-monotonicity"]))
    sure = tether.robust(mdp, path, assume=assume)
    value = sure.plan(k, m, rule=rule).value
    file = tmp_path_factory.mktemp("made") / "episode.drn"
    made = sure.write(file, k, m, rule=rule)
    read = read_drn(file.read_text())
    assert made.states == len(read[0])
    assert min(read[0].values()) >= 0.0  # model checkers want no negative rewards
    assert min(reward for _, reward, _ in read[1]) >= 0.0
    found = guaranteed(*read) - made.shift
    near = 1e-9 * max(1.0, abs(value), abs(made.shift))
    assert made.is_exact == (assume != "stability")
    if made.is_exact:
        assert found == pytest.approx(value, rel=1e-9, abs=near)
        best = sure.best_possible(k, m, rule=rule)
        assert guaranteed(*read, sign=-1) - made.shift == pytest.approx(best, rel=1e-9, abs=near)
    else:  # the intervals are wider than the set
        assert found <= value + near


@pytest.mark.parametrize("rule", RULES)
@given(world=worlds(), data=st.data())
def test_the_guaranteed_probability_of_a_property(tmp_path_factory, rule, world, data):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    some = [state for state in world.states if state != world.path.states[0]]
    assume(some)
    kind = data.draw(st.sampled_from([tether.reach, tether.avoid]))
    wanted = kind(data.draw(st.lists(st.sampled_from(some), min_size=1, unique=True)))
    sets = st.sampled_from(["nothing", "published-stability", "published-monotonicity"])
    sure = tether.robust(world.cf.mdp, world.path, assume=data.draw(sets))
    file = tmp_path_factory.mktemp("made") / "episode.drn"
    made = sure.write(file, k, m, rule=rule, objective=wanted)
    read = read_drn(file.read_text())
    plan = sure.plan(k, m, rule=rule, objective=wanted)
    assert guaranteed(*read) - made.shift == pytest.approx(plan.value, abs=1e-9 * max(1.0, made.shift))
    best = sure.best_possible(k, m, rule=rule, objective=wanted)
    assert guaranteed(*read, sign=-1) - made.shift == pytest.approx(best, abs=1e-9 * max(1.0, made.shift))


@given(world=worlds())
def test_the_same_for_prism(tmp_path_factory, world):
    sure = tether.robust(world.cf.mdp, world.path, assume="nothing")
    file = tmp_path_factory.mktemp("made") / "episode.nm"
    made = sure.write(file, world.T + 1, world.T)
    read = read_prism(file.read_text())
    assert all(low > 0.0 for _, _, row in read[1] for _, low, _ in row)  # PRISM does not take 0
    value = sure.plan(world.T + 1, world.T).value
    assert guaranteed(*read) - made.shift == pytest.approx(value, abs=1e-6 * max(1.0, abs(value), made.shift))


def test_what_is_left_out_is_as_in_a_plan(tmp_path):
    case = tether.cases.epidemic()
    sure = tether.robust(case.mdp, case.path)
    plan = sure.plan()
    sure.write(tmp_path / "left-out.drn")
    sure.write(tmp_path / "given.drn", plan.k, 1)
    assert (tmp_path / "left-out.drn").read_text() == (tmp_path / "given.drn").read_text()


def test_what_is_said_and_refused(tmp_path):
    case = tether.cases.grid_world()
    sure = tether.robust(case.mdp, case.path, assume="nothing")
    made = sure.write(tmp_path / "grid.prism", k=6, m=1)
    text = (tmp_path / "grid.prism").read_text()
    assert made.question == 'R{"reward"}maxmin=? [ F "done" ]'
    assert text.startswith("mdp\n\nmodule episode\n")
    assert all(f'label "{name}" = ' in text for name in case.mdp.label_sets)
    assert made.choices == len(read_prism(text)[1])
    with pytest.raises(tether.FileError, match=r"must end in \.drn \(Storm\), \.nm or \.prism"):
        sure.write(tmp_path / "grid.csv")
    with pytest.raises(tether.QueryError, match="floor must be at least 0"):
        sure.write(tmp_path / "grid.nm", floor=0.5)
    sure.write(tmp_path / "again.prism", k=6, m=1)
    assert (tmp_path / "again.prism").read_text() == text


@given(world=worlds(), data=st.data())
def test_storm_answers_the_question_with_the_guaranteed_value(tmp_path_factory, world, data):
    stormpy = pytest.importorskip("stormpy", minversion="2.0")
    sure = tether.robust(world.cf.mdp, world.path, assume="nothing")
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    made = sure.write(tmp_path_factory.mktemp("made") / "episode.drn", k, m)
    model = stormpy.build_model_from_drn[stormpy.Interval](made.file)
    wanted = stormpy.parse_properties(made.question)[0]
    robustly = stormpy.UncertaintyResolutionMode.ROBUST
    found = stormpy.model_checking(model, wanted, uncertainty_resolution_mode=robustly).get_value(0)
    value = sure.plan(k, m).value
    assert found - made.shift == pytest.approx(value, abs=1e-9 * max(1.0, abs(value), made.shift))


@given(world=worlds())
def test_the_question_for_storm_counts_the_steps_to_the_end(tmp_path_factory, world):
    file = tmp_path_factory.mktemp("made") / "episode.drn"
    made = tether.robust(world.cf.mdp, world.path, assume="nothing").write(file, world.T + 1, world.T)
    _, choices, labels = read_drn(file.read_text())
    here, steps = {0}, 0
    while not any("done" in labels[s] for s in here):
        here, steps = {to for s, _, row in choices if s in here for to, _, _ in row}, steps + 1
    assert [labels[s] for s in here] == [["done"]]  # on every path at the same time
    assert made.question == f'R{{"reward"}}max=? [ C<={steps} ]'
