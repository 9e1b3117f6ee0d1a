"""Models from Gymnasium's tables: the environments themselves, played and solved, and tables by hand."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.errors import ModelError, QueryError
from tether.io import record
from tether.io.gym import from_gymnasium

IDS = ["FrozenLake-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v4"]


def make(name, **options):
    try:
        return gymnasium.make(name, **options)
    except gymnasium.error.Error as error:  # an older version may not have it yet
        pytest.skip(str(error))


def refuse(env, kind=QueryError):
    with pytest.raises(kind) as caught:
        from_gymnasium(env)
    return str(caught.value)


# --- Environments --------------------------------------------------------------------------------


def expected_value(P, steps, n):
    """The best expected sum of rewards over so many steps, straight from the table: an end is worth nothing more."""
    values = np.zeros(n)
    for _ in range(steps):
        worth = [
            [sum(p * (r + (not over) * values[j]) for p, j, r, over in outcomes) for outcomes in P[s].values()]
            for s in range(n)
        ]
        values = np.array([max(of_actions) for of_actions in worth])
    return values


@pytest.mark.compiled
@pytest.mark.parametrize("name", IDS)
def test_it_is_solved_as_the_table_is(name):
    env = make(name)
    P = env.unwrapped.P
    mdp = from_gymnasium(env)
    assert mdp.n_states == len(P)
    assert mdp.n_actions == len(P[0])
    starts = np.flatnonzero(env.unwrapped.initial_state_distrib)
    solution = mdp.solve(12)
    expected = expected_value(P, 12, len(P))
    for s in starts[:20].tolist():
        assert solution.value(s) == pytest.approx(expected[s], abs=1e-12)


def test_frozen_lake():
    """By hand: from 14, right of which is the goal, a step to the right slips up, right or down, a third each."""
    mdp = from_gymnasium(make("FrozenLake-v1"))
    assert mdp.row(14, 2)[0] == (10, 14, 15)
    np.testing.assert_allclose(mdp.row(14, 2)[1], 1 / 3, rtol=1e-15)
    assert mdp.reward(14, 2, 15) == 1
    assert mdp.reward(14, 2, 14) == 0
    for end in (5, 7, 11, 12, 15):  # the holes of the 4×4 map, and the goal
        assert [mdp.row(end, a)[0] for a in range(4)] == [(end,)] * 4
        assert mdp.reward(end, 0) == 0
    assert mdp.labels["goal"] == {15}
    assert mdp.labels["hole"] == {5, 7, 11, 12}
    assert mdp.row(0, 0)[1].tolist() == pytest.approx([2 / 3, 1 / 3])  # two slips against the wall are one entry


@pytest.mark.compiled
def test_frozen_lake_in_the_long_run():
    """14/17 = 0.8235 is the chance of ever reaching the goal on the slippery 4×4 map, as textbooks give it."""
    solution = from_gymnasium(make("FrozenLake-v1")).solve(2000)
    assert solution.value(0) == pytest.approx(14 / 17, abs=1e-6)


@pytest.mark.parametrize("name", IDS)
def test_episodes_are_paths_of_the_model(name):
    """The recipe of the docstring; rewards are those the environment gave."""
    env = make(name)
    mdp = from_gymnasium(env)
    for seed in range(5):
        env.action_space.seed(seed)
        state, _ = env.reset(seed=seed)
        states, actions, rewards, over = [state], [], [], False
        while not over and len(actions) < 60:
            actions.append(env.action_space.sample())
            state, reward, terminated, truncated, _ = env.step(actions[-1])
            states.append((state, "end") if terminated and (state, "end") in mdp.states else state)
            rewards.append(reward)
            over = terminated or truncated
        path = tether.Path(states, actions)
        tether.observation.path.observe(mdp, path)  # raises where a step is impossible
        for s, a, j, reward in zip(path.states, path.actions, path.states[1:], rewards, strict=False):
            listed = [(r, p) for p, after, r, _ in env.unwrapped.P[s][a] if after == (j[0] if type(j) is tuple else j)]
            if len({r for r, _ in listed}) == 1:  # slipping off the cliff and back to the start are one transition
                assert mdp.reward(s, a, j) == reward
            else:
                mean = sum(r * p for r, p in listed) / sum(p for _, p in listed)
                assert mdp.reward(s, a, j) == pytest.approx(mean)


def test_taxi_has_no_more_states_than_it_lists():
    """Rides that are over before they begin are in its table, but in no episode."""
    env = make("Taxi-v4")
    assert from_gymnasium(env).n_states == 500
    twins = [state for state in from_gymnasium(env.unwrapped.P).states if isinstance(state, tuple)]
    assert len(twins) == 4  # of the table alone nobody knows where episodes start; one for each destination


@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1"])
def test_an_environment_without_a_table(name):
    message = refuse(make(name))
    assert message.startswith(f"{name} has no table of transitions (unwrapped.P), as FrozenLake-v1")


# --- Tables --------------------------------------------------------------------------------------


def test_a_state_entered_with_the_end_absorbs_whatever_its_rows_say():
    mdp = from_gymnasium({0: {0: [(1.0, 1, 5.0, True)]}, 1: {0: [(1.0, 0, 7.0, False)]}})
    assert mdp.row(1, 0)[0] == (1,)
    assert mdp.reward(1, 0) == 0
    assert mdp.reward(0, 0) == 5


def test_a_state_entered_both_ways_gets_a_twin():
    table = {0: {"a": [(0.25, 1, 1.0, True), (0.75, 1, 2.0, False)]}, 1: {"a": [(1.0, 0, 3.0, False)]}}
    mdp = from_gymnasium(table)
    assert list(mdp.states) == [0, 1, (1, "end")]
    assert dict(zip(*mdp.row(0, "a"), strict=True)) == {1: 0.75, (1, "end"): 0.25}
    assert mdp.reward(0, "a", (1, "end")) == 1
    assert mdp.reward(0, "a", 1) == 2
    assert mdp.row(1, "a")[0] == (0,)
    assert mdp.row((1, "end"), "a")[0] == ((1, "end"),)


class Env:
    """An environment as far as this package is concerned."""

    def __init__(self, P, starts):
        self.P = P
        self.initial_state_distrib = starts
        self.unwrapped = self


def test_where_episodes_start_decides_what_is_entered():
    """State 2 is never in an episode, so its move into 1 that goes on does not count; a start goes on itself."""
    table = {
        0: {0: [(1.0, 1, 0.0, True)]},
        1: {0: [(1.0, 0, 0.0, False)]},
        2: {0: [(1.0, 1, 0.0, False)]},
    }
    assert from_gymnasium(Env(table, [1, 0, 0])).n_states == 3
    assert from_gymnasium(Env(table, [0.5, 0, 0.5])).n_states == 4
    assert from_gymnasium(Env(table, [0.5, 0.5, 0])).states[3] == (1, "end")
    assert from_gymnasium(Env(table, [1.0])).n_states == 4  # of another length: nothing is known
    assert from_gymnasium(table).n_states == 4


def test_the_same_transition_twice_is_one():
    mdp = from_gymnasium({0: {0: [(0.1, 0, 4.0, False), (0.3, 0, 8.0, False), (0.6, 1, 0.7, False)]}, 1: {}})
    assert mdp.row(0, 0)[1].tolist() == [0.4, 0.6]
    assert mdp.reward(0, 0, 0) == 7.0  # (0.1·4 + 0.3·8) / 0.4
    assert mdp.reward(0, 0, 1) == 0.7
    assert mdp.row(1, 0)[0] == (1,)  # without actions: an end


def test_lists_and_numpy_and_states_only_led_to():
    one, two = np.int64(1), np.int64(2)
    mdp = from_gymnasium([[[(np.float64(1.0), one, np.float32(0.5), np.bool_(False))]], [[(1.0, two, 0, True)]]])
    assert list(mdp.states) == [0, 1, 2]
    assert all(type(state) is int for state in mdp.states)
    assert mdp.reward(0, 0) == 0.5
    assert mdp.row(2, 0)[0] == (2,)


@st.composite
def tables(draw):
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    outcome = st.tuples(st.integers(1, 5), st.integers(0, n - 1), st.integers(-3, 3), st.booleans())
    table = {}
    for s in range(n):
        table[s] = {}
        for a in range(m):
            drawn = draw(st.lists(outcome, min_size=1, max_size=4))
            total = sum(weight for weight, *_ in drawn)
            table[s][a] = [(weight / total, j, float(r), over) for weight, j, r, over in drawn]
    return table


@given(tables())
def test_any_table_is_worth_what_its_episodes_are(table):
    """Four steps from every state that is not an end, uniformly random, by the table's own rules."""
    over = {j for row in table.values() for outcomes in row.values() for _, j, _, ends in outcomes if ends}
    on = {j for row in table.values() for outcomes in row.values() for _, j, _, ends in outcomes if not ends}
    if set(table) == over - on:  # every state is an end, and nothing is left
        assert "no transitions" in refuse(table, ModelError)
        return
    mdp = from_gymnasium(table)
    values, ours = np.zeros(len(table)), dict.fromkeys(mdp.states, 0.0)
    for _ in range(4):
        values = np.array(
            [
                np.mean([sum(p * (r + (not over) * values[j]) for p, j, r, over in row) for row in table[s].values()])
                for s in table
            ]
        )
        ours = {
            s: np.mean(
                [sum(p * (mdp.reward(s, a, j) + ours[j]) for j, p in zip(*mdp.row(s, a), strict=True)) for a in there]
            )
            for s in mdp.states
            if (there := mdp.actions_in(s))
        }
    for s in set(table) - (over - on):
        assert ours[s] == pytest.approx(values[s], abs=1e-12)


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("FrozenLake-v1", "expected an environment, not its name: gymnasium.make('FrozenLake-v1')"),
        (None, "NoneType has no table of transitions"),
        ({0: 3}, "P[0] is 3; expected P = {state: {action: ["),
        ({0: {0: 3}}, "P[0][0] is 3; expected P = {state: {action: ["),
        ({0: {0: [3]}}, "P[0][0] lists 3; expected (probability, next_state, reward, terminated)"),
        ({0: {0: [(1, 0, 0)]}}, "P[0][0] lists (1, 0, 0); expected (probability, next_state"),
        ({0: {0: [("x", 0, 0, True)]}}, "lists ('x', 0, 0, True)"),
        ({0: {0: [(1, [0], 0, True)]}}, "lists (1, [0], 0, True)"),
        ({0: {0: [(-1, 0, 0, True)]}}, "its probability must be 0 or more"),
        ({0: {0: [(1, 0, float("nan"), True)]}}, "both it and the reward finite"),
    ],
)
def test_what_is_no_table(env, text):
    assert text in refuse(env)


def test_probabilities_are_checked():
    assert "state 0, action 1: probabilities sum to 0.5" in refuse({0: {1: [(0.5, 0, 0, False)]}}, ModelError)
    assert "no transitions" in refuse({}, ModelError)


# --- Recordings ----------------------------------------------------------------------------------


class Watched:
    """An environment, and all it paid."""

    def __init__(self, env):
        self.env, self.paid = env, []

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, action):
        found = self.env.step(action)
        self.paid.append(float(found[1]))
        return found


def test_a_recording_keeps_what_the_environment_paid():
    """On a slippery cliff a fall (-100) and a step against the wall (-1) are one transition: the model averages."""
    differing = 0
    for seed in range(4):
        env = Watched(make("CliffWalking-v1", is_slippery=True))
        path = record(env, seed=seed, max_steps=60)
        assert path.rewards == tuple(env.paid)
        mdp = from_gymnasium(env)
        steps = zip(path.states, path.actions, path.states[1:], strict=False)
        differing += abs(sum(mdp.reward(*step) for step in steps) - sum(env.paid)) > 1
        tether.counterfactual(mdp, path)  # a path that the model knows
    assert differing


def test_a_recording_is_in_the_names_of_the_model():
    env = make("FrozenLake-v1", is_slippery=False)
    mdp = from_gymnasium(env).with_names(actions=["left", "down", "right", "up"])
    route = dict(zip([0, 4, 8, 9, 13, 14], ["down", "down", "right", "down", "right", "right"], strict=True))
    path = record(env, route.__getitem__, mdp=mdp, seed=0)
    assert path == tether.Path([0, 4, 8, 9, 13, 14, 15], list(route.values()), [0, 0, 0, 0, 0, 1])
    assert record(env, route.__getitem__, mdp=mdp, max_steps=2).T == 2
    assert record(env, seed=3) == record(env, seed=3)


def test_a_recording_takes_every_policy_that_the_model_takes():
    env = make("FrozenLake-v1", is_slippery=False)
    mdp = from_gymnasium(env)
    best = record(env, "optimal", seed=0, max_steps=6)
    assert (best.T, best.states[-1], best.rewards[-1]) == (6, 15, 1.0)  # there is no time for a way around
    assert record(env, "optimal", seed=0).states[-1] == 15  # the environment says how long it is played
    right = {state: {2: 0.5, 1: 0.5} for state in mdp.states}
    path = record(env, right, seed=1)
    assert set(path.actions) <= {1, 2}
    assert record(env, right, seed=1) == path
    with pytest.raises(QueryError, match="for how many steps is the policy to be the best"):
        record(Unnamed(env), "optimal")


class Unnamed:
    """An environment that does not say how long it is played."""

    spec = None

    def __init__(self, env):
        self.unwrapped = env.unwrapped


def test_an_end_that_can_also_be_passed_is_recorded_as_its_twin():
    class Env:
        initial_state_distrib = (1.0, 0.0)

        def __init__(self):
            self.P = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 1, 2.0, True)]}}

        def reset(self, seed=None):
            self.state = np.int64(0)
            return self.state, {}

        def step(self, action):
            ends = bool(self.state == 1)
            self.state = np.int64(1)
            return self.state, 2.0 * ends, ends, False, {}

    path = record(Env())
    assert path == tether.Path([0, 1, (1, "end")], [0, 0], [0, 2])
    assert tether.counterfactual(from_gymnasium(Env()), path).mdp.n_states == 3


def test_what_cannot_be_recorded():
    env = make("FrozenLake-v1")
    for options, message in (
        ({"policy": "clever"}, "a policy by name is 'observed', 'optimal' or 'random', not 'clever'"),
        ({"policy": "observed"}, "the policy 'observed' needs an observed episode"),
        ({"max_steps": 0}, "max_steps must be a whole number from 1, not 0"),
        ({"policy": lambda state: "jump"}, "t = 0: the policy names 'jump' in state 0; available are 0, 1, 2, 3"),
        ({"mdp": tether.cases.toy().mdp}, "mdp= is not the model of this environment"),
    ):
        with pytest.raises(QueryError) as caught:
            record(env, **options)
        assert message in str(caught.value)
    with pytest.raises(QueryError) as caught:
        record(env, lambda t, state: "jump" if t else 0, seed=0)
    problem = caught.value.problems[0]
    assert (problem.place, problem.time, problem.action, problem.next_state) == ("t = 1", 1, "jump", None)


def test_every_kind_of_policy_can_be_recorded():
    env = make("FrozenLake-v1", is_slippery=False)
    mdp = from_gymnasium(env)
    best = mdp.solve(8)  # a function of time and state
    path = record(env, best, seed=0, max_steps=8)
    assert path == record(env, "optimal", seed=0, max_steps=8)
    assert path.states[-1] == 15
    assert record(env, lambda state: {0: 0.5, 2: 0.5}, seed=1, max_steps=8).T <= 8
    assert record(env, np.zeros(mdp.n_states, dtype=int), seed=1, max_steps=2).actions == (0, 0)


def test_a_version_that_is_gone_is_one_sentence_and_no_warning(recwarn):
    with pytest.raises(tether.QueryError, match="Gymnasium does not make it"):
        tether.io.open_model("gym:Taxi-v0")
    assert not recwarn.list


def test_what_gymnasium_warns_of_is_plain_text():
    with pytest.warns(UserWarning, match="latest versioned environment") as noted:
        tether.io.open_model("gym:CliffWalking")
    assert not any("\x1b" in str(one.message) for one in noted)
