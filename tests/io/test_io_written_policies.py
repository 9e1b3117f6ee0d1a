"""Plans and policies as schedulers of Storm and strategies of PRISM: read again by ourselves, and by an own reader."""

import json
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import FEWER, RULES, worlds

import tether
from tether.errors import FileError, QueryError
from tether.io import open_policy, read_model, write_model, write_policy
from tether.io.valuations import valuation_class


def drn_choices(file):
    """The choices of a DRN file in its order: (state, action, reward, row), and its states by label."""
    choices, labels = [], {}
    for line in file.read_text().splitlines():
        words = line.split()
        if words[:1] == ["state"]:
            state = int(words[1])
            for label in words[3:]:
                labels.setdefault(label, []).append(state)
        elif words[:1] == ["action"]:
            choices.append((state, words[1], float(words[2].strip("[]")), {}))
        elif len(words) == 3 and words[1] == ":" and choices:
            choices[-1][3][int(words[0])] = float(words[2])
    return choices, labels


def tra_choices(file):
    """The choices of PRISM's files by state and name of action: (reward of each next state, row)."""
    rows = {}
    for line in file.read_text().splitlines()[1:]:
        s, choice, after, chance, *action = line.split()
        row = rows.setdefault((int(s), action[0] if action else choice), (int(choice), {}))
        row[1][int(after)] = float(chance)
    earned = {}
    for line in file.with_suffix(".trew").read_text().splitlines()[1:]:
        s, choice, after, reward = line.split()
        earned[int(s), int(choice), int(after)] = float(reward)
    return {
        (s, action): (sum(p * earned.get((s, choice, to), 0.0) for to, p in row.items()), row)
        for (s, action), (choice, row) in rows.items()
    }


def followed(start, steps, taken):
    """What a policy earns from a state: ``taken(state)`` has the reward and the row of its choice."""
    mass, total = {start: 1.0}, 0.0
    for _ in range(steps):
        after = {}
        for state, weight in mass.items():
            reward, row = taken(state)
            total += weight * reward
            for to, chance in row.items():
                after[to] = after.get(to, 0.0) + weight * chance
        mass = after
    return total


@FEWER
@pytest.mark.parametrize("rule", RULES)
@given(world=worlds(), minimise=st.booleans(), data=st.data())
def test_a_plan_is_a_scheduler_of_the_model_that_is_written(tmp_path_factory, rule, world, minimise, data):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    goal = data.draw(st.sampled_from([None, *(s for s in world.states if s != world.path.states[0])]))
    about = {"rule": rule, "minimise": minimise, "objective": None if goal is None else tether.reach(goal)}
    place, plan = tmp_path_factory.mktemp("policy"), world.cf.plan(k, m, **about)
    near = pytest.approx(plan.value, abs=1e-9, rel=1e-9)
    shifts = {name: world.cf.write(place / name, k, m, **about).shift for name in ("episode.drn", "episode.tra")}
    plan.write(place / "best.json")
    plan.write(place / "best.txt")

    choices, labels = drn_choices(place / "episode.drn")
    written = json.loads((place / "best.json").read_text())
    said = dict(enumerate(one["c"] for one in written))
    assert list(said) == list(range(1 + max(state for state, *_ in choices)))
    comments = re.findall(r"^//\[(.*)\]$", (place / "episode.drn").read_text(), re.MULTILINE)
    for i, one in enumerate(written):  # states are told by their variables, or by their number
        spelled = [f"{name}={value}" for name, value in one["s"].items()] if comments else []
        assert " & ".join(spelled) == comments[i] if comments else one["s"] == i

    def of_scheduler(state):
        (choice,) = said[state]
        where, action, reward, row = choices[choice["index"]]
        assert (where, [action], 1.0) == (state, choice["labels"], choice["prob"])
        return reward, row

    assert followed(labels["init"][0], world.T + 1, of_scheduler) == near

    rows = tra_choices(place / "episode.tra")
    values = [line.partition(":") for line in (place / "episode.sta").read_text().splitlines()[1:]]
    chosen = dict(line.split("=") for line in (place / "best.txt").read_text().splitlines())
    strategy = {int(state): chosen.get(value) for state, _, value in values}
    found = followed(0, world.T + 1, lambda state: rows[state, strategy[state]])
    assert found - shifts["episode.tra"] == near
    for model, policy in (("episode.drn", "best.json"), ("episode.tra", "best.txt")):
        read = read_model(place / model)
        found = read.evaluate(open_policy(place / policy, read), world.T + 1).value
        assert found - shifts[model] == near


@given(world=worlds(), data=st.data())
def test_policies_are_read_as_they_were_written(tmp_path_factory, world, data):
    """With chances, with time, for some states only; in the names of the model and of the written files."""
    mdp, place = world.cf.mdp, tmp_path_factory.mktemp("policy")
    timed = data.draw(st.booleans())
    policy = {}
    for t in range(2 if timed else 1):
        for state in mdp.states:
            actions = mdp.actions_in(state)
            if actions and data.draw(st.booleans()):
                some = data.draw(st.lists(st.sampled_from(actions), min_size=1, unique=True))
                policy[(t, state) if timed else state] = dict.fromkeys(some, 1.0 / len(some))
    assume(policy)
    write_policy(policy, mdp, place / "best.txt", steps=2)
    expected = dict(policy)
    if timed and all(policy.get((0, s)) == policy.get((1, s)) for s in mdp.states):
        expected = {state: answer for (t, state), answer in policy.items() if t == 0}
    assert {at: pytest.approx(answer) for at, answer in open_policy(place / "best.txt", mdp).items()} == expected
    if not timed:
        write_policy(policy, mdp, place / "best.json")
        found = open_policy(place / "best.json", mdp)
        assert {state: found[state] for state in policy} == {s: pytest.approx(a) for s, a in policy.items()}
        assert found.keys() == policy.keys()


SWITCH = valuation_class(["on", "x"])
LAMP = tether.MDP.from_table(
    [SWITCH((True, 0)), SWITCH((True, 0)), SWITCH((False, 1))],
    ["go left", "go_left", "max"],
    [SWITCH((False, 1)), SWITCH((True, 0)), SWITCH((True, 0))],
    [1.0] * 3,
)
LIT = (True, 0)


def test_names_are_those_of_the_written_model(tmp_path):
    policy = {(True, 0): {"go left": 0.25, "go_left": 0.75}, (False, 1): {"max": 1.0}}
    for suffix, text in ((".txt", "(true,0)=0.25:go_left_2+0.75:go_left\n(false,1)=max_\n"), (".json", None)):
        write_policy(policy, LAMP, tmp_path / f"best{suffix}")
        assert open_policy(tmp_path / f"best{suffix}", LAMP) == policy
        assert text is None or (tmp_path / "best.txt").read_text() == text
    entries = json.loads((tmp_path / "best.json").read_text())
    assert [entry["s"] for entry in entries] == [{"on": True, "x": 0}, {"on": False, "x": 1}]
    for name in ("lamp.drn", "lamp.tra"):
        write_model(LAMP, tmp_path / name)
        read = read_model(tmp_path / name)
        found = open_policy(tmp_path / f"best{'.json' if name == 'lamp.drn' else '.txt'}", read)
        value = read.evaluate(found, 3).outcomes()
        assert [one.probability for one in value] == [one.probability for one in LAMP.evaluate(policy, 3).outcomes()]


def test_many_variables_without_names_are_in_their_order(tmp_path):
    """Storm sorts them as text: v10 comes before v2."""
    states = [tuple(range(i, i + 12)) for i in range(3)]
    mdp = tether.MDP.from_table(states, ["a", "b", "a"], states[1:] + states[:1], [1.0] * 3)
    write_policy({states[1]: "b"}, mdp, tmp_path / "best.json")
    entries = json.loads((tmp_path / "best.json").read_text())
    for entry in entries:
        entry["s"] = {name: entry["s"][name] for name in sorted(entry["s"])}
    (tmp_path / "best.json").write_text(json.dumps(entries))
    assert open_policy(tmp_path / "best.json", mdp) == {states[1]: {"b": 1.0}}


def test_what_prism_itself_writes(tmp_path):
    """Lines of its classes: with and without the values of variables, of older versions, of properties with steps."""
    file = tmp_path / "strat.txt"
    for text, wanted in (
        ("(true,0)=go left\n(false,1)=\n", {(True, 0): {"go left": 1.0}, (False, 1): {"max": 1.0}}),
        ("0=go_left\n1=?\n", {(True, 0): {"go_left": 1.0}}),
        ("0:go_left\n1:max\n", {(True, 0): {"go_left": 1.0}, (False, 1): {"max": 1.0}}),
        ("(true,0),0=go_left\n(true,0),1=go left\n", {(0, LIT): {"go_left": 1.0}, (1, LIT): {"go left": 1.0}}),
        ("0,3=0.5:go_left+0.5:go left\n", {(3, LIT): {"go_left": 0.5, "go left": 0.5}}),
    ):  # fmt: skip
        file.write_text(text)
        assert open_policy(file, LAMP) == wanted
    numbered = tether.MDP.from_table([0, 0, 1], [0, 1, 0], [1, 0, 1], [1.0] * 3)
    file.write_text("(0)=1\n(1)=0\n")
    assert open_policy(file, numbered) == {0: {1: 1.0}, 1: {0: 1.0}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(true,9)=max", "line 2: the model has no state '(true,9)'"),
        ("7=max", "line 2: the model has no state 7; is it the strategy"),
        ("(true,0)=fly", "line 2: the model has no action 'fly'"),
        ("(true,0)=", "line 2: a choice without a name is one of several there"),
        ("(true,0)=1", "line 2: found the number of a choice, 1, but its actions have names; export with type=actions"),
        ("()=max", "line 2: the model has no state ''"),
        ("(true,0)=0.5.5:go_left+0.5:max", "line 2: the probability is '0.5.5'; expected a number"),
        ("hello", "line 2: found 'hello'; expected a state and its choice"),
        ("(false,1)=max", "line 2: this was said before"),
    ],
)
def test_what_is_wrong_in_a_strategy_is_said(tmp_path, line, message):
    file = tmp_path / "strat.txt"
    file.write_text(f"(false,1)=max\n{line}\n")
    with pytest.raises(FileError) as caught:
        open_policy(file, LAMP)
    assert message in str(caught.value)


def test_what_cannot_be_written_is_said(tmp_path):
    grid = tether.cases.grid_world().mdp
    with pytest.raises(FileError, match=r"cannot be written as .csv; name it .json for Storm, .txt for PRISM"):
        write_policy("random", grid, tmp_path / "best.csv")
    with pytest.raises(QueryError, match="over how many steps"):
        write_policy(grid.solve(5), grid, tmp_path / "best.txt")
    with pytest.raises(QueryError, match="depends on time, which a scheduler of Storm"):
        write_policy(grid.solve(5), grid, tmp_path / "best.json", steps=5)
    with pytest.raises(QueryError, match="the policy says nothing"):
        write_policy({}, grid, tmp_path / "best.txt")
    with pytest.raises(QueryError, match="the policy names 'fly'"):
        write_policy({0: "fly"}, grid, tmp_path / "best.txt")
    case = tether.cases.epidemic()
    with pytest.raises(QueryError, match="a guaranteed plan is not written as a scheduler"):
        tether.robust(case.mdp, case.path, assume="nothing").plan(k=6, m=4).write(tmp_path / "best.json")
    assert not [*tmp_path.iterdir()]


def test_a_plan_of_the_plain_model(tmp_path):
    """The best policy over some steps as a strategy with time; in both forms of an array."""
    grid = tether.cases.grid_world().mdp
    best = grid.solve(5)
    write_policy(best, grid, tmp_path / "best.txt", steps=5)
    assert grid.evaluate(open_policy(tmp_path / "best.txt", grid), 5, start=0).value == pytest.approx(best.value(0))
    actions = np.array([[grid.actions.index(best.action(t, s)) for s in grid.states] for t in range(5)])
    write_policy(actions, grid, tmp_path / "array.txt", steps=5)
    assert (tmp_path / "array.txt").read_bytes() == (tmp_path / "best.txt").read_bytes()
    shares = np.full((16, 4), 0.25, np.float32)
    write_policy(shares, grid, tmp_path / "shares.json")
    write_policy("random", grid, tmp_path / "random.json")
    assert (tmp_path / "shares.json").read_bytes() == (tmp_path / "random.json").read_bytes()


def test_storm_and_we_have_the_same_best_scheduler_of_an_episode(tmp_path):
    """Storm's scheduler of the written model is worth what the plan is, and the plan is one of Storm's best."""
    stormpy = pytest.importorskip("stormpy")
    case = tether.cases.epidemic()
    cf = tether.counterfactual(case.mdp.with_rewards(lambda state, action: 1.0 + state.S), case.path)
    cf.write(tmp_path / "episode.drn", k=6, m=4)
    plan = cf.plan(k=6, m=4)
    plan.write(tmp_path / "best.json")
    options = stormpy.io.DirectEncodingParserOptions()
    options.build_choice_labeling = True
    model = stormpy.build_model_from_drn(str(tmp_path / "episode.drn"), options=options)
    (question,) = stormpy.parse_properties('R{"reward"}max=? [ F "done" ]')
    result = stormpy.model_checking(model, question, extract_scheduler=True)
    (tmp_path / "storm.json").write_text(result.get_scheduler().to_json_str(model))
    read = read_model(tmp_path / "episode.drn")
    values = [read.evaluate(open_policy(tmp_path / f, read), cf.T + 1).value for f in ("storm.json", "best.json")]
    assert [*values, result.get_value_vector()[0]] == pytest.approx([plan.value] * 3, abs=1e-9, rel=1e-9)
