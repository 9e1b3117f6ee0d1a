"""Learning: counts, probabilities and mean rewards against a count by hand in fractions; and what is left out.

Rows are learned apart here, with a number as prior; tests/learning/test_pooling.py is about pooled rows.
"""

import pickle
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import Tally, logs

import tether
from tether.learning.kinds import gather_kinds
from tether.learning.learn import learn as learn_by_default
from tether.model.counts import Counts
from tether.observation.episodes import Episodes

END = "(end)"
PRIORS = st.sampled_from([Fraction(0), Fraction(1), Fraction(1, 2), Fraction(3), Fraction(1, 8)])


def read(log):
    return Episodes.from_columns(**log.columns())


def learn(episodes, prior=0.0, **options):
    return learn_by_default(episodes, prior, **options)


def learn_means(*args, **options):
    """Learn from a log at random, in which any reward may be empty: the mean of those that are not."""
    return learn(*args, empty_rewards="mean", **options)


def entries(mdp):
    """Every transition of a model but those of terminal states: (state, action, next state) → (P, count, R)."""
    found, form = {}, mdp.form
    terminal = {mdp.states[int(s)] for s in form.terminal}
    for s in range(mdp.n_states):
        for pair in range(form.pair_start[s], form.pair_start[s + 1]):
            for e in range(form.row_start[pair], form.row_start[pair + 1]):
                state, action = mdp.states[s], mdp.actions[int(form.pair_action[pair])]
                after = mdp.states[int(form.next_state[e])]
                reward = mdp.reward(state, action, after)
                if state not in terminal:
                    found[state, action, after] = form.probability[e], int(mdp.counts.transitions[e]), reward
                else:
                    assert (after, form.probability[e], mdp.counts.transitions[e], reward) == (state, 1.0, 0, 0.0)
    return found


def expected(log, prior=Fraction(0), minimum=1, end=END, possible=lambda _pair, row: row):
    """The same by hand, exactly; ``possible`` gives the outcomes that get the prior."""
    tally, found = Tally(log), {}
    for pair, row in tally.pairs(minimum, end).items():
        outcomes = {*row, *possible(pair, row)}
        total = sum(row.values()) + prior * len(outcomes)
        for after in outcomes:
            n = row.get(after, 0)
            reward = tally.mean(pair, after if pair in tally.times else None)
            found[*pair, after] = (n + prior) / total, n, reward
    return found


def check(mdp, wanted):
    found = entries(mdp)
    assert found.keys() == wanted.keys()
    for key, (probability, n, reward) in wanted.items():
        assert found[key][0] == pytest.approx(float(probability), rel=1e-15)
        assert found[key][1] == n
        assert found[key][2] == pytest.approx(float(reward), rel=1e-15, abs=1e-15)


# --- What is learned -----------------------------------------------------------------------------


@given(logs(), PRIORS)
def test_probabilities_counts_and_rewards_are_those_counted_by_hand(log, prior):
    check(learn_means(read(log), float(prior)), expected(log, prior))


@given(logs(), PRIORS.filter(bool))
def test_a_prior_over_all_states(log, prior):
    mdp = learn_means(read(log), float(prior), support="all")
    states = Tally(log).states  # without the end that may have been added
    check(mdp, expected(log, prior, possible=lambda _pair, _row: states))


@given(logs(), PRIORS.filter(bool), st.data())
def test_a_prior_over_what_a_function_or_a_model_says(log, prior, data):
    states = Tally(log).states
    pairs = list(Tally(log).pairs(1, END))
    said = {pair: data.draw(st.lists(st.sampled_from(states), min_size=1, unique=True)) for pair in pairs}
    unknown = data.draw(st.sets(st.sampled_from(pairs)))  # the model need not have them all
    wanted = expected(log, prior, possible=lambda pair, _row: said[pair])
    check(learn_means(read(log), float(prior), support=lambda s, a: said[s, a]), wanted)

    rows = [(*pair, j, 1 / len(said[pair])) for pair in pairs if pair not in unknown for j in said[pair]]
    if not rows:
        return
    ended = [s for s in states if s not in {row[0] for row in rows}]
    model = tether.MDP.from_table(*zip(*rows, strict=True), states=states, terminal=ended)

    def possible(pair, _row):
        s, a = pair
        return model.row(s, a)[0] if a in model.actions_in(s) else []

    check(learn_means(read(log), float(prior), support=model), expected(log, prior, possible=possible))


@given(logs(), st.integers(1, 4), PRIORS, st.sampled_from([END, None]))
def test_pairs_seen_too_seldom_stay_but_may_not_be_advised(log, minimum, prior, end):
    tally = Tally(log)
    kept = tally.pairs(1, end)
    if not kept:
        with pytest.raises(tether.ModelError, match="no pair of state and action was seen"):
            learn_means(read(log), float(prior), minimum=minimum, end=end)
        return
    mdp = learn_means(read(log), float(prior), minimum=minimum, end=end)
    check(mdp, expected(log, prior, 1, end))
    summary = mdp.learned
    assert {*summary.dropped} == {(*pair, 0) for pair in tally.unrecorded if pair not in kept}
    assert summary.pairs == len(kept)
    often = tally.pairs(minimum, end)
    for state in mdp.states:
        for action in mdp.actions_in(state):
            may = summary.advisable[mdp.pair_index(state, action)]
            assert may == (state in summary.terminal or (state, action) in often)
    assert summary.unadvisable == len(kept) - len(often)
    assert summary.few == sum(sum(row.values()) < 5 for row in kept.values())
    assert summary.times[0] == min(sum(row.values()) for row in kept.values())
    assert summary.times[2] == max(sum(row.values()) for row in kept.values())
    assert (summary.episodes, summary.minimum, summary.prior) == (len(log.paths), minimum, float(prior))
    left = {*tally.states, *(after for row in kept.values() for after in row)} - {s for s, _ in kept}
    assert {*summary.terminal} >= left
    assert not {*summary.terminal} & {s for s, _ in kept}


@given(logs(), PRIORS)
def test_every_observed_path_stays_possible(log, prior):
    mdp = learn_means(read(log), float(prior))
    for path in log.paths.values():
        assert tether.counterfactual(mdp, path, horizon=path.T).T <= path.T


@given(logs())
def test_mean_rewards_of_pairs(log):
    tally = Tally(log)
    mdp = learn_means(read(log), rewards="pair")
    assert not mdp.rewards.by_entry
    for pair in tally.pairs(1, END):
        given_rewards = tally.all_earned(pair)
        mean = sum(given_rewards, Fraction(0)) / len(given_rewards) if given_rewards else 0
        assert mdp.reward(*pair) == pytest.approx(float(mean), rel=1e-15, abs=1e-15)


@given(logs(), PRIORS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(log, prior, random):
    shuffled = list(log.rows)
    random.shuffle(shuffled)
    assert entries(learn_means(read(log._replace(rows=shuffled)), float(prior))) == entries(
        learn_means(read(log), float(prior))
    )


def test_simulated_episodes_are_counted_exactly():
    case = tether.cases.grid_world()
    paths = [case.mdp.simulate("random", 30, rng=seed, start=seed % 16) for seed in range(60)]
    wanted = {}
    for path in paths:
        for step in zip(path.states[:-1], path.actions, path.states[1:], strict=True):
            wanted[step] = wanted.get(step, 0) + 1
    mdp = learn(paths)
    assert {key: n for key, (_, n, _) in entries(mdp).items()} == wanted
    assert mdp.counts.transitions.sum() == 60 * 30


def test_labels_can_be_given():
    path = tether.Path([2, 0], ["x"])
    mdp = learn([path], states=range(4), actions=["y", "x"])
    assert list(mdp.states) == [0, 1, 2, 3]
    assert list(mdp.actions) == ["y", "x"]
    assert mdp.actions_in(2) == ("x",)
    assert mdp.learned.terminal == (0, 1, 3)  # never acted in


def test_equal_rewards_stay_what_they_are():
    paths = [tether.Path(["a", after], ["x"]) for after in "bcbcbcbc"]
    mdp = learn([tether.Path(path.states, path.actions, [0.1]) for path in paths])
    assert mdp.reward("a", "x", "b") == 0.1
    assert not mdp.rewards.by_entry  # the same whatever follows
    huge = learn([tether.Path(["a", "b"], ["x"], [-1e150])] * 3)
    assert huge.reward("a", "x") == -1e150


def test_a_mean_that_overflows_is_an_error_not_a_warning():
    paths = [tether.Path(["a", "b"], ["x"], [reward]) for reward in (-1.7e308, 1.7e308)]
    with pytest.raises(
        tether.ModelError, match="state 'a', action 'x', next state 'b': the reward inf is not a finite"
    ):
        learn(paths)


# --- Where a log ends ------------------------------------------------------------------------------


def test_a_state_only_ended_in_is_terminal():
    mdp = learn([tether.Path(["sick", "dead"], ["wait"]), tether.Path(["sick", "sick"], ["treat"])])
    assert mdp.actions_in("dead") == ("wait", "treat")
    assert mdp.row("dead", "treat")[0] == ("dead",)
    assert mdp.reward("dead", "treat") == 0.0


def test_an_outcome_that_was_never_recorded_is_the_end():
    log = Episodes.from_columns([1, 1], [0, 1], ["sick", "dead"], ["wait", "bury"], reward=[0, -1000])
    mdp = learn(log)
    assert mdp.row("dead", "bury")[0] == (END,)
    assert mdp.reward("dead", "bury") == -1000.0  # once: the end is absorbing, and earns nothing
    assert mdp.reward(END, "bury") == 0.0
    assert mdp.learned.end == END
    assert mdp.learned.terminal == (END,)
    assert tether.counterfactual(mdp, log[1]).plan(k=1, m=0).value == -1000.0
    assert learn(log, end="over").row("dead", "bury")[0] == ("over",)
    without = learn(log, end=None)
    assert without.learned.dropped == (("dead", "bury", 0),)
    assert without.learned.terminal == ("dead",)


def test_no_end_is_kept_that_nothing_leads_to():
    log = [tether.Path(["a", "b"], ["x"]), tether.Path(["a", "b"], ["x"]), tether.Path(["b"], ["y"])]
    assert END in learn(log).states
    rare = learn(log, end=None)
    assert END not in rare.states
    assert rare.learned.end is None
    assert rare.counts.end == -1


def test_a_living_state_with_the_name_of_the_end_is_not_taken_for_it():
    log = [tether.Path([END, "a"], ["x"]), tether.Path(["a"], ["y"])]
    with pytest.raises(tether.ModelError, match=r"lead to '\(end\)', but the log has a state of that name in which"):
        learn(log)
    mdp = learn(log, end="over")
    assert mdp.row("a", "y")[0] == ("over",)
    assert mdp.row(END, "x")[0] == ("a",)
    assert learn(log, end=None).learned.dropped == (("a", "y", 0),)
    # Where no end is needed the name is free, and a state in which nothing is done is as good as an end.
    assert learn(log[:1]).row(END, "x")[0] == ("a",)
    shared = learn([tether.Path(["a", END], ["x"]), tether.Path(["b"], ["y"])])
    assert shared.row("b", "y")[0] == shared.row("a", "x")[0] == (END,)


def test_an_outcome_that_was_recorded_elsewhere_is_not_the_end():
    mdp = learn([tether.Path(["a", "b"], ["x"]), tether.Path(["a"], ["x"])])
    assert mdp.row("a", "x")[0] == ("b",)
    assert END not in mdp.states
    assert mdp.counts.transitions.sum() == 1
    assert mdp.counts.unrecorded == 1


# --- In words --------------------------------------------------------------------------------------


def test_what_was_learned_in_sentences():
    paths = [
        tether.Path(["s", "s", "s", "t"], ["x", "x", "x"]),
        tether.Path(["s", "t"], ["y"]),
        tether.Path(["t"], ["x"]),
    ]
    summary = learn(paths, prior=0.5, minimum=2).learned
    assert str(summary).splitlines() == [
        "Learned from 3 episodes of 5 steps in all; 1 last outcome not recorded.",
        "3 pairs of state and action are available, seen 1 to 3 times (half of them at most 1); 3 of them fewer than 5 "
        "times.",
        "2 pairs seen fewer than 2 times may not be advised.",
        "No action is left in 1 state, taken for terminal (absorbing, reward 0): '(end)'.",
        "Pairs whose outcome was never recorded lead to '(end)'.",
        "Probabilities are posterior means: each possible outcome counts as seen 0.5 times more.",
    ]
    assert "reward 0): &#x27;(end)&#x27;." in summary._repr_html_()
    assert "<(end)>" in summary.sentences(lambda label: f"<{label}>")[3]


def test_what_was_learned_in_few_words():
    summary = str(learn([tether.Path(["a"] * 4, ["x", "y", "x"])], prior=1).learned)
    assert (
        "2 pairs of state and action are available, seen 1 to 2 times (half of them at most 1); 2 of them fewer"
        in summary
    )
    assert "counts as seen once more" in summary
    none = str(learn([tether.Path(["a"], ["x"]), tether.Path(["a", "a"], ["y"])], end=None).learned)
    assert "1 pair whose outcome was never recorded is not available: 'x' in 'a'." in none


def test_counts_show_themselves():
    path = tether.Path(["a", "a", "b"], ["x", "y"])
    assert repr(learn([path]).counts) == "<Counts: 2 transitions of 1 episode, prior 0>"
    few = learn([path, tether.Path(["a", "a"], ["x"])], minimum=2).counts
    assert repr(few) == "<Counts: 3 transitions of 2 episodes, prior 0; pairs seen fewer than 2 times are not advised>"


def test_counts_without_their_story():
    """A model that was saved keeps at least its counts and prior."""
    mdp = learn([tether.Path(["a", "a", "b"], ["x", "y"])], prior=1)
    bare = replace(mdp, counts=Counts(mdp.counts.transitions, 1.0))
    assert repr(bare.counts) == "<Counts: 2 transitions, prior 1>"
    assert str(bare.learned).splitlines()[0] == "Learned from 2 transitions."


def test_pickles_remember_counts():
    mdp = pickle.loads(pickle.dumps(learn([tether.Path(["a", "b"], ["x"])], prior=2)))
    assert mdp.counts.prior == 2.0
    with pytest.raises(ValueError, match="read-only"):
        mdp.counts.transitions[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        mdp.counts.dropped[...] = 5


def test_a_model_without_counts_was_not_learned():
    assert tether.cases.toy().mdp.learned is None
    with pytest.raises(tether.QueryError, match="not learned from episodes"):
        tether.practice(tether.cases.toy().mdp)


# --- What cannot be asked ----------------------------------------------------------------------------

PATH = tether.Path(["a", "b"], ["x"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": -1}, r"prior must be 'pooled', 0, or a number from 1e-12 to 1e\+12: .*; not -1"),
        ({"prior": float("nan")}, "prior must be 'pooled', 0, or"),
        ({"prior": float("inf")}, "prior must be 'pooled', 0, or"),
        ({"prior": 1e-300}, "prior must be 'pooled', 0, or"),
        ({"prior": "1"}, "prior must be 'pooled', 0, or"),
        ({"prior": True}, "prior must be 'pooled', 0, or"),
        ({"prior": 1, "support": "some"}, "support must be 'seen', 'all', an MDP or a function .*, not 'some'"),
        ({"prior": "pooled", "support": "all"}, "what followed any action of a state may follow all; support= goes"),
        ({"prior": "pool"}, "prior must be 'pooled', 0, or"),
        ({"support": "all"}, "with prior=0 only what was seen is possible"),
        ({"minimum": 0}, "minimum must be a whole number ≥ 1, not 0"),
        ({"empty_rewards": "none"}, "empty_rewards must be 'zero' or 'mean', not 'none'"),
        ({"rewards": "state"}, "rewards must be 'transition' or 'pair', not 'state'"),
        ({"prior": 1, "support": lambda s, a: "b"}, "state 'a', action 'x': expected a list of states, not 'b'"),
        ({"prior": 1, "support": lambda s, a: 5}, "expected a list of states, not 5"),
        ({"prior": 1, "support": lambda s, a: ["q"]}, "action 'x': the model has no state 'q'; .* in states="),
    ],
)  # fmt: skip
def test_questions_without_an_answer(options, message):
    with pytest.raises(tether.QueryError, match=message):
        learn([PATH], **options)


@pytest.mark.parametrize("episodes", [PATH, 5, None])
def test_what_is_no_log(episodes):
    with pytest.raises(tether.QueryError, match="expected Episodes, or a list of paths"):
        learn(episodes)


def test_a_file_is_read_as_the_episodes_in_it_are(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("patient,hour,state,action,reward\n1,0,a,x,2\n1,4,b,x,\n1,8,a,,\n2,0,a,x,1\n")
    reading = {"columns": {"episode": "patient"}, "time": "hour", "step": 4}
    episodes = tether.io.read_episodes(file, **reading)
    found = learn(str(file), prior=1, empty_rewards="zero", **reading)
    assert str(found.learned) == str(learn(episodes, prior=1, empty_rewards="zero").learned)
    with pytest.raises(tether.QueryError, match="columns, time, step say how to read a file; these episodes are read"):
        learn(episodes, **reading)
    with pytest.raises(tether.FileError, match="there is no such file"):
        learn(tmp_path / "other.csv")


def test_labels_that_are_not_given():
    with pytest.raises(tether.ModelError) as caught:
        learn([tether.Path([1, 2], ["x"])], states=["1"])
    assert [problem.value for problem in caught.value.problems] == [1, 2]
    assert "there is '1', a name of type str" in str(caught.value)


def test_a_prior_over_too_much_is_refused(monkeypatch):
    monkeypatch.setattr("tether.learning.prior._MOST", 1)
    with pytest.raises(tether.QueryError, match="support='all' makes 1 pairs × 2 states possible, too many for memory"):
        learn([PATH], prior=1, support="all")


def test_more_than_a_prior_it_is_the_counts_that_matter():
    """With many episodes the learned rows come close to those of the model that made them."""
    case = tether.cases.grid_world()
    paths = [case.mdp.simulate("random", 11, rng=seed, start=seed % 16) for seed in range(400)]
    mdp = learn(paths, prior=1, support=case.mdp, states=case.mdp.states, actions=case.mdp.actions)
    assert mdp.n_transitions == case.mdp.n_transitions
    assert np.array_equal(mdp.form.next_state, case.mdp.form.next_state)
    times = np.repeat(np.add.reduceat(mdp.counts.concentration, mdp.form.row_start[:-1]), np.diff(mdp.form.row_start))
    p = case.mdp.form.probability
    error = np.abs(mdp.form.probability - p)
    assert np.all(error <= 5 * np.sqrt(p * (1 - p) / times) + 5 / times)  # five standard errors, and the prior


# --- A log that comes in pieces ------------------------------------------------------------------------


@given(logs(), st.integers(1, 3), st.sampled_from([0.0, 1.0, "pooled"]), st.booleans(), st.integers(1, 3))
def test_a_log_in_pieces_gives_the_model_of_the_whole(log, size, prior, by_pair, minimum):
    """Pieces of some episodes each, in any order of names: the same rows, rewards, counts and pairs left out."""
    options = {
        "prior": prior,
        "minimum": minimum,
        "rewards": "pair" if by_pair else "transition",
        "empty_rewards": "zero",
    }
    whole_log = read(log)
    ids = list(whole_log)
    some = [log._replace(rows=[row for row in log.rows if row.episode in ids[i : i + size]]) for i in range(0, 5, size)]
    pieces = [read(part) for part in some if part.rows]
    try:
        whole = tether.learn(whole_log, **options)
    except tether.ModelError as error:
        with pytest.raises(tether.ModelError, match=re.escape(str(error))):
            tether.learn(gather_kinds(pieces), **options)
        return
    found = tether.learn(gather_kinds(pieces), **options)
    assert {*found.states} == {*whole.states}
    for state in whole.states:
        assert {*found.actions_in(state)} == {*whole.actions_in(state)}
        for action in whole.actions_in(state):
            outcomes, chances = whole.row(state, action)
            again = dict(zip(*found.row(state, action), strict=True))
            assert again == dict(zip(outcomes, chances, strict=True))
            for outcome in outcomes:
                assert found.reward(state, action, outcome) == whole.reward(state, action, outcome)
    summary, expected = found.learned, whole.learned
    assert {*summary.dropped} == {*expected.dropped}
    assert replace(summary, dropped=(), terminal=()) == replace(expected, dropped=(), terminal=())


def test_kinds_are_kept_once_and_asked_about_with_an_example():
    paths = [tether.Path(["a", "a", "b"], ["go", "go"], [1.0, -0.0], outcome="x")] * 3
    kinds = gather_kinds(tether.Episodes.from_paths({(n, i): path for i, path in enumerate(paths)}) for n in range(4))
    assert (kinds.times.tolist(), kinds.n_steps, kinds.episodes) == ([12, 12], 24, 12)
    some = [tether.Path(["a", "a"], ["go"], [None]), tether.Path(["a", "a", "a"], ["go", "go"], [1, 2])]
    with pytest.raises(tether.QueryError, match=r"empty in 1 step of 3 \(first: episode 0, step 0\), but not in all"):
        tether.learn(gather_kinds(tether.Episodes.from_paths({i: path}) for i, path in enumerate(some)))
    clash = [tether.Path(["a", "a"], ["go"], outcome="b"), tether.Path(["b", "a"], ["go"])]
    with pytest.raises(tether.ModelError, match="the outcome 'b' has the name of a state"):
        tether.learn(gather_kinds(tether.Episodes.from_paths([path]) for path in clash))


def test_a_dataframe_is_learned_from_as_its_file_would_be(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"patient": [1, 1, 2, 2], "day": [0, 1, 0, 1], "state": ["a", "b", "a", "a"], "action": ["x", None, "x", None]}
    )
    frame.to_csv(tmp_path / "log.csv", index=False)
    columns = {"episode": "patient", "t": "day"}
    one, other = (tether.learn(log, prior=1, columns=columns) for log in (frame, tmp_path / "log.csv"))
    assert one.row("a", "x")[0] == other.row("a", "x")[0] == ("a", "b")
    assert np.array_equal(one.row("a", "x")[1], other.row("a", "x")[1])
    with pytest.raises(tether.QueryError, match="skip_broken is about files"):
        tether.learn(frame, columns=columns, skip_broken=True)


def test_where_records_stop_is_no_outcome_of_a_log_that_names_its_outcomes():
    """Neither a last state in which nobody acted, nor one that a single step led back to."""
    paths = [tether.Path(["sick", "x"], ["wait"], outcome=outcome) for outcome in ("died", "home") for _ in range(4)]
    cut = [tether.Path(["sick", "last"], ["wait"]), tether.Path(["sick", "stays", "stays"], ["wait", "wait"])]
    mdp = tether.learn(paths + cut)
    assert set(mdp.labels) == {"died", "home"}
    assert mdp.learned.ended == (("died", 4), ("home", 4))
    assert mdp.learned.unfinished == 2
    assert set(mdp.learned.cut) == {"last", "stays"}
    assert any(
        one.startswith("What follows 2 states is not known, and counts 0, because records stop there")
        for one in mdp.learned.sentences()
    )
    audit = tether.audit(mdp, paths + cut, certify=False, folds=0)
    assert {row["observed"] for row in audit.outcomes.to_pylist()} == {"died", "home", "still under way"}
    assert audit.summary.unfinished == 2
    assert tether.counterfactual(mdp, cut[0]).is_under_way
    # Without outcomes in the log, such a state is the only end that there is.
    assert set(tether.learn(cut).labels) == {"last"}


def test_states_of_several_columns_are_listed_with_semicolons():
    paths = [tether.Path([("a", 1), ("b", n)], ["go"]) for n in range(3)]
    assert "('b', 0); ('b', 1); ('b', 2)." in str(tether.learn(paths).learned)
