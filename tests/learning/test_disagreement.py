"""Where the return and the outcome disagree it is said before the advice; what is still under way is told apart."""

import numpy as np
import pytest
from pages import read

import tether
from tether.evaluation.disagreement import disagreement_of

ENDS = ["well", "dead"]


def ward(reward=9.0):
    """A drug that earns a lot and heals less often than rest."""
    done = ["rest"] * 2 + ["drug"] * 2
    return tether.MDP.from_table(
        ["sick"] * 4, done, ENDS * 2, [0.9, 0.1, 0.5, 0.5], [1.0, 0.0, reward, 0.0], terminal=ENDS
    )


def plan_of(mdp, end):
    return tether.counterfactual(mdp, tether.Path(["sick", end], ["rest"])).plan(k=1, m=1)


def test_marks_decide_and_where_nothing_is_marked_the_names_do():
    mdp = ward()
    assert [mdp.labels.side(name) for name in ("well", "dead", "sick")] == ["good", "bad", ""]
    marked = mdp.with_labels({"ill": ["sick"]}, bad=["ill"], good="dead")
    assert [marked.labels.side(name) for name in ("well", "dead", "ill", "dead, ill")] == ["", "good", "bad", "bad"]
    assert marked.labels.on_side("bad").tolist() == [state == "sick" for state in mdp.states]
    assert marked.with_labels({"ill": None}).labels.side("ill") == ""
    assert marked.with_labels(good="ill").labels.side("ill") == "good"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"good": "cured"}, "the model has no such label; its labels are 'well', 'dead'"),
        ({"good": "well", "bad": ["well"]}, "cannot be both good and bad"),
        ({"bad": 3}, "takes the name of a label"),
    ],
)
def test_marks_of_what_is_no_label_are_refused(given, said):
    with pytest.raises(tether.ModelError, match=said):
        ward().with_labels(**given)


def test_marks_are_saved_and_belong_to_the_model(tmp_path):
    from tether.logs.fingerprint import digest_of_model

    mdp = ward().with_labels(good="dead")
    mdp.save(tmp_path / "ward")
    for same in (tether.MDP.load(tmp_path / "ward"), mdp.in_memory()):
        assert (same.labels.side("dead"), same.labels.side("well")) == ("good", "")
    assert digest_of_model(mdp) != digest_of_model(ward())


def test_a_gain_with_a_worse_end_is_said_before_the_advice():
    explanation = plan_of(ward(), "well").explain()
    found = explanation.disagreement
    # By hand: rest led to well, which the drug keeps in 5 of 9 such episodes.
    assert [found.good, found.observed_good, found.bad, found.observed_bad] == pytest.approx([5 / 9, 1.0, 4 / 9, 0.0])
    answer = explanation.answer(repr)
    first = answer.warning[0]
    assert explanation.sentences()[: len(answer.mistake) + 1] == [*answer.mistake, first]
    assert len(answer.mistake) == 2
    assert first == (
        "The plan gains return, but makes a good end less likely (56 % instead of certain) and a bad end likelier "
        "(44 % instead of 0 %)."
    )
    assert explanation.verdicts().worse_end.startswith(first)


@pytest.mark.parametrize(
    ("mdp", "end"), [(ward(), "dead"), (ward(0.5), "well"), (ward().with_labels(good="dead"), "well")]
)
def test_where_they_agree_nothing_is_said(mdp, end):
    plan = plan_of(mdp, end)
    assert disagreement_of(plan) is None
    assert "gains return, but" not in " ".join(plan.explain().sentences())


@pytest.fixture(scope="module")
def audited():
    """A log with a costly cure: waiting saves its price, and some who got well would not have."""
    truth = tether.MDP.from_table(
        ["sick"] * 6,
        ["wait"] * 3 + ["treat"] * 3,
        ["sick", "well", "dead"] * 2,
        [0.3, 0.35, 0.35, 0.1, 0.7, 0.2],
        [-1.0, 0.0, -2.0, -9.0, -8.0, -10.0],
        terminal=ENDS,
    )
    rng = np.random.default_rng(5)
    log = []
    for _ in range(300):
        path = truth.simulate(
            {"sick": {"wait": 0.5, "treat": 0.5}, "well": "wait", "dead": "wait"}, 3, start="sick", rng=rng
        )
        T = next((t for t, state in enumerate(path.states) if state in ENDS), 3)
        log.append(
            tether.Path(
                path.states[: T + 1],
                path.actions[:T],
                [truth.reward(*s) for s in zip(path.states, path.actions, path.states[1:], strict=False)][:T],
            )
        )
    mdp = tether.learn(log)
    return mdp, log, tether.audit(mdp, log, certify=False)


def test_an_audit_says_it_before_the_gains_and_lists_these_apart(audited):
    _, _, audit = audited
    rows = audit.table.to_pylist()
    worse = [row for row in rows if row["worse_end"] and row["gain"] > 0]
    assert 0 < len(worse) == audit.summary.worse_ends
    for row in worse:
        ends = {one["outcome"]: one["probability"] for one in row["ends"]}
        assert ends.get("well", 0) < (row["outcome"] == "well") or ends.get("dead", 0) > (row["outcome"] == "dead")
    sentences = audit.sentences()
    assert sentences[3].startswith(  # after what is chance, how episodes ended, and mistakes
        f"The return and the outcome disagree: {len(worse)} of {len(audit.summary.gained)} plans"
    )
    ids = {row["episode"] for row in worse}
    assert ids == set(audit.top(300, "worse_end").column("episode").to_pylist())
    assert ids.isdisjoint(audit.top(300, "gain").column("episode").to_pylist())


def test_what_is_still_under_way_counts_among_no_gains(audited):
    mdp, log, audit = audited
    left = [i for i, path in enumerate(log) if path.states[-1] == "sick"]
    assert left
    assert audit.summary.unfinished == len(left)
    rows = audit.table.to_pylist()
    assert {rows[i]["outcome"] for i in left} == {"still under way"}
    assert {rows[i]["worse_end"] for i in left} == {None}
    assert any(rows[i]["gain"] > 0.01 for i in left)
    assert audit.summary.gained.size == sum(
        row["gain"] > 1e-9 * max(1, abs(row["observed"])) for i, row in enumerate(rows) if i not in left
    )
    assert {*left}.isdisjoint(audit.top(300, "gain").column("episode").to_pylist())
    assert any("still under way are not counted" in sentence for sentence in audit.sentences())
    told = tether.counterfactual(mdp, log[left[0]]).plan(k=2, m=1).explain(draws=0, certificate=False).sentences()
    assert any(sentence.startswith("The episode is still under way") for sentence in told)


def test_a_return_in_which_dying_costs_nothing_is_told():
    def log(cost):
        ended = [(["sick", "well"], [1.0]), (["sick", "dead"], [-cost]), (["sick", "sick"], [0.0])]
        return [tether.Path(states, ["wait"], rewards) for states, rewards in ended] * 4

    alike = tether.learn(log(0.0))
    assert alike.learned.like_dead == ("dead",)
    assert "to be still under way counts like dead" in " ".join(alike.learned.details(str))
    told = tether.counterfactual(alike, log(0.0)[1], horizon=4).plan(k=2, m=1).explain(draws=0, certificate=False)
    assert any(sentence.startswith("At the horizon, to be still under way") for sentence in told.sentences())
    assert tether.learn(log(5.0)).learned.like_dead == ()
    assert tether.learn(log(0.0)[:2]).learned.like_dead == ()  # nobody is still under way
    assert alike.with_objective(final_reward={"sick": 0.5}).learned.like_dead == ()


def test_shares_and_bars_are_of_the_episodes_that_ended(audited, tmp_path):
    _, log, audit = audited
    left = sum(path.states[-1] == "sick" for path in log)
    some = audit.summary.gained.size
    assert any(f"in {some:,} of the other {len(log) - left:,} (" in sentence for sentence in audit.sentences())
    page = read(audit.report(tmp_path / "audit.html", reports=0, nouns=tether.records.Nouns("patient", "day")))
    ended = f"How {len(log) - left:,} patients ended, and would have ended, without those that are still under way"
    assert ended in " ".join(" ".join(page.parts.values()).split())
    listed = next(one for one in page.tables if one[0][0] == "patient")
    assert any("day 0: " in cell for row in listed[1:] for cell in row)
    assert not any("step 0: " in cell for row in listed[1:] for cell in row)
