"""Policies from outside: every form of one policy means the same, as enumeration says; and bad ones are refused."""

import numpy as np
import pandas
import pyarrow as pa
import pytest
from enumerate import Law, assert_evaluates, assert_tailored, by_plan, by_table, hits_of, tables
from hypothesis import given
from hypothesis import strategies as st
from worlds import in_package, rules_and_criteria, worlds

import tether

SMALL = {"max_states": 4, "max_steps": 3}


@st.composite
def given_policies(draw, **options):
    """A world and a policy for it, as a table of answers."""
    world = draw(worlds(**SMALL))
    return world, draw(tables(world, **options))


def agree(one, other):
    """Two evaluations are the same, to the last bit but for the order of sums."""
    assert one.mean == pytest.approx(other.mean, rel=1e-12, abs=1e-12)
    assert one.std == pytest.approx(other.std, rel=1e-9, abs=1e-9)
    for t in range(one.T + 1):
        assert one.distribution(t)[0] == other.distribution(t)[0]
        assert one.distribution(t)[1] == pytest.approx(other.distribution(t)[1], abs=1e-14)
    assert one.tailoring.run_at_least == pytest.approx(other.tailoring.run_at_least, abs=1e-12)


def single(table):
    """The one action of each answer."""
    return {where: next(iter(answer)) for where, answer in table.items()}


def as_shares(world, table):
    array = np.zeros((world.T, len(world.states), len(world.actions)))
    for (t, s), answer in table.items():
        for a, share in answer.items():
            array[t, world.states.index(s), world.actions.index(a)] = share
    return array


def as_indices(world, table):
    array = np.zeros((world.T, len(world.states)), dtype=int)
    for (t, s), a in single(table).items():
        array[t, world.states.index(s)] = world.actions.index(a)
    return array


# --- One policy, many forms ------------------------------------------------------------------------


@given(given_policies(mixed=True), rules_and_criteria())
def test_a_stochastic_policy_of_time_and_state(given_policy, asked):
    world, table = given_policy
    _, criterion = asked
    influence = in_package(criterion)
    outlook = world.cf.evaluate(lambda t, s: table[t, s], influence=influence)
    law = Law(world, by_table(table))
    assert_evaluates(outlook, law)
    assert_tailored(outlook, law, hits_of(world, criterion))
    agree(outlook, world.cf.evaluate(table, influence=influence))
    agree(outlook, world.cf.evaluate(as_shares(world, table), influence=influence))


@given(given_policies(mixed=True, timed=False))
def test_a_stochastic_policy_of_the_state(given_policy):
    world, table = given_policy
    outlook = world.cf.evaluate(lambda s: table[0, s])
    assert_evaluates(outlook, Law(world, by_table(table)))
    agree(outlook, world.cf.evaluate({s: answer for (_, s), answer in table.items()}))
    agree(outlook, world.cf.evaluate(as_shares(world, table)[0]))
    agree(outlook, world.cf.evaluate(lambda s, strict=True: table[0, s]))
    agree(outlook, world.cf.evaluate(lambda *where: table[where]))


@given(given_policies(mixed=False))
def test_a_deterministic_policy_of_time_and_state(given_policy):
    world, table = given_policy
    choice = single(table)
    outlook = world.cf.evaluate(lambda t, s: choice[t, s])
    assert_evaluates(outlook, Law(world, by_table(table)))
    agree(outlook, world.cf.evaluate(choice))
    agree(outlook, world.cf.evaluate({(np.int64(t), s): a for (t, s), a in choice.items()}))
    agree(outlook, world.cf.evaluate(as_indices(world, table)))
    agree(outlook, world.cf.evaluate(as_indices(world, table).astype(np.uint8)))
    agree(outlook, world.cf.evaluate(as_shares(world, table)))


@given(given_policies(mixed=False, timed=False))
def test_a_deterministic_policy_of_the_state(given_policy):
    world, table = given_policy
    choice = {s: a for (_, s), a in single(table).items()}
    outlook = world.cf.evaluate(choice.get)  # a builtin, of the state
    assert_evaluates(outlook, Law(world, by_table(table)))
    agree(outlook, world.cf.evaluate(choice))
    agree(outlook, world.cf.evaluate(as_indices(world, table)[0]))


@given(worlds(**SMALL))
def test_at_random(world):
    even = {
        (t, s): dict.fromkeys(there, 1 / len(there))
        for s in world.states
        if (there := world.available(s))
        for t in range(world.T)
    }
    outlook = world.cf.evaluate("random")
    assert_evaluates(outlook, Law(world, by_table(even)))
    assert_tailored(outlook, Law(world, by_table(even)), hits_of(world, ("support", 0.0)))


@given(worlds(**SMALL))
def test_a_solution_is_a_policy(world):
    solution = world.cf.mdp.solve(world.T)
    table = {(t, s): {solution.action(t, s): 1.0} for t in range(world.T) for s in world.states if world.available(s)}
    assert_evaluates(world.cf.evaluate(solution), Law(world, by_table(table)))


@given(worlds(**SMALL), rules_and_criteria(), st.data())
def test_a_plan_is_a_policy(world, asked, data):
    rule, criterion = asked
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    hit = hits_of(world, criterion)
    outlook = world.cf.evaluate(plan, influence=in_package(criterion))
    law = Law(world, by_plan(world, plan, hit))
    assert_evaluates(outlook, law)
    assert_tailored(outlook, law, hit)


def test_the_observed_actions_are_a_policy(grid):
    outlook = grid.evaluate(lambda t, s: grid.path.actions[t])
    assert (outlook.mean, outlook.std) == (-897.0, 0.0)
    assert not outlook.changed.any()
    assert outlook.tailoring.expected_influenced_steps == 11


def test_the_look_up_of_a_table_is_a_function_of_the_state(grid):
    table = dict.fromkeys(grid.mdp.states, "down")
    assert grid.evaluate(table.__getitem__).value == grid.evaluate(table).value


def test_without_a_signature_it_is_asked_for_time_and_state(grid):
    class Opaque:
        __signature__ = "none"

        def __call__(self, t, s):
            return grid.path.actions[t]

    assert grid.evaluate(Opaque()).mean == -897.0


def between():
    """Stay here or go there, and back: staying here was observed, so what leads here is influenced, the rest is not."""
    rows = [("here", "stay", "here"), ("here", "go", "there"), ("there", "stay", "there"), ("there", "go", "here")]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), [1.0] * 4)
    return tether.counterfactual(mdp, tether.Path(["here"] * 5, ["stay"] * 4))


def test_a_run_begins_anew_after_every_influence():
    # There and back again, and there to stay: runs of 1 and 2. Or, half the time, first a wait: a run of 1.
    table = {(t, s): a for s in ("here", "there") for t, a in enumerate(["go", "go", "go", "stay"])}
    assert between().evaluate(table).tailoring.run_at_least.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    table[0, "here"] = {"go": 0.5, "stay": 0.5}
    tailoring = between().evaluate(table).tailoring
    # The other half: wait, there, back, and stay here: influenced but for one step.
    assert tailoring.run_at_least.tolist() == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert (tailoring.longest_run, tailoring.longest_run_probability) == (2, 0.5)
    assert tailoring.influenced.tolist() == [0.5, 0.5, 0.5, 0.5]


def test_what_is_never_done_leads_nowhere():
    outlook = between().evaluate(lambda s: {"stay": 1.0, "go": 0.0})
    for t in range(5):
        assert outlook.distribution(t)[0] == ("here",)


# --- States that are tuples ------------------------------------------------------------------------


def test_tables_of_states_that_are_tuples(epidemic):
    mdp = epidemic.mdp
    visited = [s for s in mdp.states if mdp.actions_in(s)]
    by_state = dict.fromkeys(visited, "NIL")
    by_time = {(t, s): "NIL" for t in range(7) for s in visited}
    assert epidemic.evaluate(by_state).mean == epidemic.evaluate(by_time).mean == -38.0
    first = {**by_state, (0, (9, 1, 20)): "V_I"}  # a time and a state go before a state
    assert epidemic.evaluate(first).changed.tolist()[0] == 1.0
    assert epidemic.evaluate(first).mean == -1.0


def pairs_model():
    """States (0, 0) … (1, 1) as tuples of two, beside the plain states 0 and 1: keys look like (time, state)."""
    states = [(0, 0), (0, 1), (1, 0), (1, 1), 0, 1]
    rows = [(s, a, s if a == "stay" else (1, 1), 1.0, states.index(s)) for s in states for a in ("stay", "go")]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), states=states)
    return tether.counterfactual(mdp, tether.Path([1, 1, 1], ["stay", "stay"]))


def test_a_key_that_is_a_state_is_that_state():
    cf = pairs_model()
    table = dict.fromkeys(cf.mdp.states, "stay")
    assert cf.evaluate(table).mean == 10.0
    table[0, 1] = "go"  # the state (0, 1), not the state 1 at t = 0
    assert cf.evaluate(table).mean == 10.0
    table[0, (0, 1)] = "go"
    assert cf.evaluate(table).mean == 10.0
    del table[1]
    table[0, (0, 0)] = "stay"
    with pytest.raises(tether.QueryError, match="says nothing for state 1 at t = 0, where it begins; say what it does"):
        cf.evaluate(table)


def test_tables_of_pairs_by_time():
    states = [(0, 0), (0, 1)]
    rows = [(s, a, states[a == "go"], 1.0, states.index(s)) for s in states for a in ("stay", "go")]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), states=states)
    cf = tether.counterfactual(mdp, tether.Path([(0, 0)] * 4, ["stay"] * 3))
    late = {(t, s): "go" if t == 1 else "stay" for t in range(3) for s in states}
    assert cf.evaluate(late).likeliest(2) == ((0, 1), 1.0)
    assert cf.evaluate(late).likeliest(3) == ((0, 0), 1.0)
    assert cf.evaluate({(0, 0): "go", (0, 1): "go"}).likeliest(1) == ((0, 1), 1.0)


# --- Refused ---------------------------------------------------------------------------------------

UP = dict.fromkeys(range(16), "up")
LINE = np.zeros(16, dtype=int)
SHARES = np.full((16, 4), 0.25)
WIDE = pandas.DataFrame(SHARES, columns=["up", "right", "down", "left"])


def with_row(row):
    shares = SHARES.copy()
    shares[0] = row
    return shares


REFUSED = {
    "an action there is not": (
        lambda s: "fly",
        "t = 0: the policy names 'fly' in state 0; available are 'up', 'right', 'down', 'left'",
    ),
    "a list": (lambda s: ["up"], r"t = 0: the policy's answer in state 0 is an array of shape \(1,\).*4 probabilities"),
    "names there are not": (["up"] * 15 + ["fly"], "the policy: the model has no action 'fly'"),
    "lists of different lengths": ([[0.5, 0.5], [1.0]], "cannot be read as an array"),
    "a table without actions": (pa.table({"state": [0]}), "needs the columns state and action; it has state"),
    "a table that repeats itself": (pa.table({"state": [0, 0], "action": ["up", "up"]}), "two rows for state 0"),
    "too few numbers": (lambda s: [0.5, 0.5], r"an array of shape \(2,\).*return an action, or 4 probabilities"),
    "no action at all": (lambda s: None, "t = 0: the policy names None in state 0"),
    "an action among others": (lambda s: {"up": 0.5, "fly": 0.5}, "t = 0: the policy names 'fly' in state 0"),
    "too little": (
        lambda s: {"up": 0.5, "down": 0.25},
        r"t = 0: the policy's probabilities in state 0 are not a distribution: 0.5, 0.25 \(sum 0.75, not 1\)",
    ),
    "too much": (lambda s: {"up": 0.5, "down": 0.75}, r"not a distribution: 0.5, 0.75 \(sum 1.25, not 1\)"),
    "negative": (lambda s: {"up": 1.5, "down": -0.5}, r"not a distribution: 1.5, -0.5"),
    "not a number": (lambda s: {"up": np.nan, "down": 1.0}, "not a distribution: nan, 1"),
    "infinite": (lambda s: {"up": np.inf, "down": 1.0}, "not a distribution: inf, 1"),
    "nothing": (lambda s: {}, "not a distribution"),
    "words": (lambda s: {"up": "half", "down": 0.5}, "in state 0 are not numbers: 'half', 0.5"),
    "none": (lambda s: {"up": None}, "in state 0 are not numbers: None"),
    "a state left out": (
        dict.fromkeys(range(1, 16), "up"),
        "the policy says nothing for state 0 at t = 0, where it begins; say what it does there",
    ),
    "a time left out": (
        {(t, s): "up" for t in (0, 2) for s in range(16)},
        "the policy says nothing for state [0-9]+ at t = 1, which it leads to",
    ),
    "a state there is not": (UP | {16: "up"}, "the policy: the model has no state 16; it has 16 states, 0 … 15"),
    "a state there is not, at a time": (UP | {(3, 16): "up"}, "the policy at t = 3: the model has no state 16"),
    "a key of three": (UP | {(3, 1, 1): "up"}, r"the policy: the model has no state \(3, 1, 1\)"),
    "a time that is none": (UP | {("3", 1): "up"}, r"the policy: the model has no state \('3', 1\)"),
    "a name": ("greedy", "a policy by name is 'observed', 'optimal' or 'random', not 'greedy'"),
    "a list of actions": (
        ["up"] * 11,
        r"got \(11,\) of type int64",
    ),
    "a number": (3, "not a int"),
    "an index too large": (LINE + 4, "t = 0: the policy has action index 4 in state 0; there are 0 … 3"),
    "an index below 0": (LINE - 1, "t = 0: the policy has action index -1 in state 0; there are 0 … 3"),
    "too few steps": (np.zeros((3, 16), dtype=int), "t = 3: the policy array has only 3 steps"),
    "too few steps of shares": (np.stack([SHARES] * 2), "t = 2: the policy array has only 2 steps"),
    "a shape": (np.zeros((16, 5)), r"with S = 16 and A = 4; got \(16, 5\) of type float64"),
    "another shape": (np.zeros(15, dtype=int), r"got \(15,\) of type int"),
    "no shape": (np.array(1), r"got \(\) of type int"),
    "four axes": (np.zeros((1, 1, 16, 4)), r"got \(1, 1, 16, 4\) of type float64"),
    "floats for indices": (LINE.astype(float), r"got \(16,\) of type float64"),
    "truth values": (np.ones((16, 4), dtype=bool), r"got \(16, 4\) of type bool"),
    "single precision that does not sum": ((SHARES * 1.002).astype(np.float32), "sum 1.002, not 1"),
    "half precision that does not sum": ((SHARES * 1.01).astype(np.float16), "not a distribution"),
    "a wide table without states": (pa.table(WIDE[:5]), "must say the states"),
    "a wide table with a state twice": (WIDE.assign(state=3), "must say the states"),
    "shares that do not sum": (SHARES / 2, r"not a distribution: 0.125, 0.125, 0.125, 0.125 \(sum 0.5, not 1\)"),
    "shares that are nothing": (SHARES * 0, "not a distribution"),
    "a share below 0": (with_row([1.5, -0.5, 0, 0]), "not a distribution: 1.5, -0.5"),
    "a share that is no number": (with_row([np.nan, 1, 0, 0]), "not a distribution: nan, 1"),
}


class Tensor:
    """What a tensor of another library looks like."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self.values


class Agent:
    def __init__(self, returns):
        self.returns = returns

    def predict(self, state):
        return self.returns(state)


def test_policies_as_libraries_return_them(grid):
    """Networks return single precision, tensors and arrays of no dimension; agents have ``predict``."""
    softmax = np.exp(np.random.default_rng(0).normal(size=(16, 4))).astype(np.float32)
    softmax /= softmax.sum(axis=1, keepdims=True)
    expected = grid.evaluate(softmax.astype(float) / softmax.astype(float).sum(axis=1, keepdims=True))
    for policy in (
        softmax,
        softmax.tolist(),
        lambda s: softmax[s],
        lambda t, s: softmax[s].tolist(),
        Agent(lambda s: softmax[s]),
        lambda s: softmax[[s]],  # a batch of one
        pandas.DataFrame(softmax, columns=grid.mdp.actions),
        pa.table(pandas.DataFrame(softmax, columns=grid.mdp.actions)),
        pandas.DataFrame(softmax, columns=grid.mdp.actions, index=pandas.Index(range(16), name="cell")).iloc[::-1],
        pandas.DataFrame(softmax[:, ::-1], columns=list(grid.mdp.actions)[::-1]).assign(state=range(16)),
    ):
        agree(grid.evaluate(policy), expected)
    halves = softmax.astype(np.float16)
    assert np.abs(halves.sum(axis=1, dtype=float) - 1).max() > 1e-5
    exact = halves.astype(float) / halves.astype(float).sum(axis=1, keepdims=True)
    for policy in (halves, lambda s: halves[s]):
        agree(grid.evaluate(policy), grid.evaluate(exact))
    line = grid.evaluate(LINE)
    for policy in (
        LINE.tolist(),
        lambda s: LINE[s],
        lambda s: np.array(LINE[s]),
        lambda s: Tensor(np.array([LINE[s]])) and np.array([LINE[s]]),
        Agent(lambda s: (np.array(LINE[s]), None)),
        pa.table({"state": range(16), "action": [grid.mdp.actions[a] for a in LINE]}),
        [grid.mdp.actions[a] for a in LINE],
        np.array([[grid.mdp.actions[a] for a in LINE]] * grid.T),
        pandas.Series({s: grid.mdp.actions[LINE[s]] for s in reversed(range(16))}),
    ):
        agree(grid.evaluate(policy), line)


def test_a_wide_table_whose_rows_have_numbers():
    """States with names: the rows are those of the model, in its order, only where they are numbered so."""
    rng = np.random.default_rng(0)
    mdp = tether.MDP.from_arrays(
        rng.dirichlet([1, 1, 1], size=(3, 2)), rng.normal(size=(3, 2)), states="abc", actions="xy"
    )
    shares = rng.dirichlet([1, 1], size=3)
    frame, expected = pandas.DataFrame(shares, columns=mdp.actions), mdp.evaluate(shares, 3, start="a").mean
    mixed = frame.set_index(pandas.Index(mdp.states)).iloc[[2, 0, 1]]
    for policy in (frame, mixed):
        assert mdp.evaluate(policy, 3, start="a").mean == pytest.approx(expected, rel=1e-12)
    with pytest.raises(tether.QueryError, match="no state"):
        mdp.evaluate(frame.iloc[::-1], 3, start="a")


def test_a_policy_of_the_recorded_action(grid):
    """As recorded, except …: the third argument is what was done at that time."""
    assert grid.evaluate(lambda t, state, observed: observed).value == pytest.approx(-897)
    changed = grid.evaluate(lambda t, state, observed: "left" if t == 2 else observed)
    assert changed.value == pytest.approx(grid.what_if({2: "left"}).value)
    with pytest.raises(tether.QueryError, match="needs an observed episode"):
        grid.mdp.evaluate(lambda t, state, observed: observed, 5, start=0)


def test_an_audit_of_a_policy_of_the_recorded_action(grid, tmp_path):
    """It has no value for anyone: that would need a record. Its directory is continued only with the same decisions."""

    def policy(t, state, observed):
        return "left" if t == 2 else observed

    log = [grid.mdp.simulate("random", 4, start=0, rng=seed) for seed in range(4)]
    table = tether.audit(grid.mdp, log, policy=policy, out=tmp_path / "audit", certify=False).table
    alone = [tether.counterfactual(grid.mdp, path).evaluate(policy).value for path in log]
    assert table["value"].to_pylist() == pytest.approx(alone)
    assert table["model_value"].null_count == len(log)
    again = tether.audit(grid.mdp, log, policy=policy, out=tmp_path / "audit", certify=False)
    assert again.table["value"].to_pylist() == table["value"].to_pylist()
    other = lambda t, state, observed: "up" if t == 2 else observed  # noqa: E731
    with pytest.raises(tether.TetherError, match="other"):
        tether.audit(grid.mdp, log, policy=other, out=tmp_path / "audit", certify=False)


@pytest.mark.parametrize(("policy", "message"), REFUSED.values(), ids=REFUSED)
def test_policies_that_are_refused(grid, policy, message):
    with pytest.raises(tether.QueryError, match=message):
        grid.evaluate(policy)


def test_an_action_that_is_not_available_here(epidemic):
    # V_I is an action of the model; where nobody is infected it is not available.
    with pytest.raises(tether.QueryError, match=r"t = 1: the policy names 'V_I' in state \(9, 0, 19\)") as error:
        epidemic.evaluate(lambda s: "V_I")
    assert "; available are 'NIL', 'V_S'" in str(error.value)
    problem = error.value.problems[0]
    assert (problem.time, problem.state, problem.action, problem.value) == (1, (9, 0, 19), "V_I", "V_I")
    mdp = epidemic.mdp
    with pytest.raises(tether.QueryError, match="t = 1: the policy names 'V_I'"):
        epidemic.evaluate(np.full(mdp.n_states, mdp.actions.index("V_I")))
    shares = np.zeros((mdp.n_states, 3))
    shares[:, mdp.actions.index("V_I")] = 1.0
    with pytest.raises(tether.QueryError, match="t = 1: the policy names 'V_I'"):
        epidemic.evaluate(shares)


def test_sums_that_miss_1_by_rounding_are_normalised(grid):
    tenths = grid.evaluate(lambda s: {"up": 0.1, "right": 0.2, "down": 0.7 + 5e-6, "left": 0.0})
    labels, chance = tenths.distribution(11)
    assert chance.sum() == pytest.approx(1.0, abs=1e-14)
    assert set(tenths.actions(0)) == {"up", "right", "down"}  # what is never done is not listed
    with pytest.raises(tether.QueryError, match="not a distribution"):
        grid.evaluate(lambda s: {"up": 0.3, "down": 0.7 + 5e-5})
    assert len(labels) > 1


def test_a_test_of_influence_there_is_not(grid):
    with pytest.raises(tether.QueryError, match="influence must be 'support'"):
        grid.evaluate("random", influence="strong")


def test_what_a_policy_raises_is_the_users_own(grid):
    def broken(state):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        grid.evaluate(broken)
