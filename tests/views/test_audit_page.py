"""The overview of an audit: what it says is what the tables say, whatever the names are."""

import datetime as dt

import numpy as np
import pytest
from pages import EVIL, Page, read

import tether
from tether.views.figures import plot_gains, plot_ranked_gains

DAY = dt.date(2026, 1, 2)


def grid_audit(n=12, **options):
    mdp = tether.cases.grid_world().mdp
    log = {f"p{seed}": mdp.simulate("optimal", 8 + seed % 3, rng=seed, noise=0.4) for seed in range(n)}
    return tether.audit(mdp, log, **{"k": 4, "m": 2, "workers": 1, **options})


def broken():
    mdp = tether.cases.grid_world().mdp
    good = mdp.simulate("optimal", 8, rng=1, noise=0.4)
    return tether.audit(mdp, {"fine": good, "odd": tether.Path([0, 15], ["right"])}, k=3, certify=False)


def table(page, first):
    """The table of a page whose first column has this name."""
    return next(one for one in page.tables if one[0][0] == first)


def test_the_page_says_what_the_tables_say(tmp_path):
    audit = grid_audit()
    file = audit.report(tmp_path / "audit.html", reports=1, date=DAY, about={"log file": "ward.csv"})
    page = read(file)
    top, only = audit.top(200), audit.top(200, by="hindsight")
    rows = table(page, "episode")
    assert [row[0] for row in rows[1:]] == [*top.column("episode").to_pylist(), *only.column("episode").to_pylist()]
    shown = dict(zip(rows[0], rows[1], strict=True))
    for name, value in (
        ("cost of mistakes", top.column("claimed")[0].as_py()),
        ("what hindsight adds", top.column("gain")[0].as_py()),
    ):
        assert shown[name].startswith(f"{value:.4g}"[:3])
    links = [value for name, value in page.attributes if name == "href" and "/" in value]
    assert links == ["audit-episodes/0001.html"]
    first = read(tmp_path / links[0])
    assert f"Episode {rows[1][0]}" in (tmp_path / links[0]).read_text(encoding="utf-8")
    assert "What made this report" in first.headings
    matrix = next(one for one in page.tables if one[0][-1] == "all")
    cells = {(row["observed"], row["counterfactual"]): row["episodes"] for row in audit.outcomes.to_pylist()}
    for row in matrix[1:-1]:
        for name, cell in zip(matrix[0][1:-1], row[1:-1], strict=True):
            shown = cell.split()[0]
            wanted = cells[row[0], name]
            assert shown == "<0.1" if 1e-6 < wanted < 0.05 else float(shown) == pytest.approx(wanted, abs=0.05)
    gained = int(audit.is_gained().sum())
    helped = next(one for one in page.tables if one[0][:2] == ["ended", "episodes"])
    assert sum(int(row[1]) for row in helped[1:]) == 12
    assert sum(int(row[2]) for row in helped[1:]) == top.num_rows
    assert sum(int(row[3]) for row in helped[1:]) == gained
    done = table(page, "in the state")
    best = audit.decisions.slice(0, 1).to_pylist()[0]
    assert done[1][:4] == [str(best["state"]), best["action"], best["best"], str(best["times"])]
    turned = [str(best[name]) for name in ("mistakes", "gained", "lost")]
    assert done[1][4:7] == turned
    assert done[0][4:7] == ["mistakes", "gained", "lost"]
    assert best["gained"] + best["lost"] > 0
    verdicts = audit.table.column("verdict").to_pylist()
    holds = sum(one == "holds" for one, some in zip(verdicts, audit.is_gained(), strict=True) if some)
    assert f"{holds}" in page.parts["For the analyst"]
    assert "2026-01-02" in page.parts["What made this page"]
    assert "ward.csv" in page.parts["What made this page"]
    again = audit.report(tmp_path / "again.html", reports=0, date=DAY).read_bytes()
    assert again == audit.report(tmp_path / "again.html", reports=0, date=DAY).read_bytes()


def test_reports_to_which_nothing_leads_any_more_are_removed(tmp_path):
    audit = grid_audit(6, certify=False)
    folder = tmp_path / "audit-episodes"
    folder.mkdir()
    for name in ("0007.html", "notes.html"):
        (folder / name).write_text("before")
    audit.report(tmp_path / "audit.html", reports=0)
    assert [file.name for file in folder.iterdir()] == ["notes.html"]


def test_episodes_without_an_answer_are_listed(tmp_path):
    page = read(broken().report(tmp_path / "audit.html", reports=0))
    assert "odd" in page.parts["Episodes without an answer"]
    assert broken().problems.column("problem")[0].as_py()[:30] in page.parts["Episodes without an answer"]


def test_nothing_to_gain_and_nothing_answered(tmp_path):
    mdp = tether.cases.grid_world().mdp
    best = mdp.simulate("optimal", 4, rng=1)
    page = read(tether.audit(mdp, [best], k=1, m=0).report(tmp_path / "none.html"))
    assert "Nothing, in any episode." in page.text
    assert "script" not in page.tags
    page = read(tether.audit(mdp, [tether.Path([0, 15], ["right"])]).report(tmp_path / "wrong.html"))
    assert "No episode was answered." in page.text


def test_a_policy_is_told_with_its_losses(tmp_path):
    mdp = tether.cases.grid_world().mdp
    log = [mdp.simulate("optimal", 8, rng=seed, noise=0.2) for seed in range(12)]
    audit = tether.audit(mdp, log, policy="random", certify=False)
    page = read(audit.report(tmp_path / "audit.html"))
    assert f"Something to lose {int(audit.is_lost().sum())} " in page.text
    rows = table(page, "episode")
    gains = audit.table.column("gain").to_pylist()
    assert [int(row[0]) for row in rows[1:]] == sorted(
        (i for i, gain in enumerate(gains) if abs(gain) > 1e-6), key=lambda i: -gains[i]
    )
    with pytest.raises(tether.QueryError, match="this audit is about a policy"):
        audit.report(tmp_path / "audit.html", reports=1)
    with pytest.raises(tether.QueryError, match="this audit is about a policy"):
        audit.plan(0)


def test_names_are_shown_and_never_run(tmp_path):
    """States, actions, labels and ids that are scripts; the page has one script, whose digest its policy names."""
    P = np.zeros((3, 2, 3))
    P[0] = [[0, 0.9, 0.1], [0, 0.1, 0.9]]
    P[1, :, 1] = P[2, :, 2] = 1.0
    name = EVIL.replace("\x00", "").replace("\ud800", "")
    mdp = tether.MDP.from_arrays(
        P, np.zeros((3, 2)), states=["start", name, "well"], actions=["wait", f"{name}!"]
    ).with_objective(final_reward=[0, -1, 1])
    mdp = mdp.with_labels({f"{name}?": [name]})
    audit = tether.audit(mdp, {f"{name}#": tether.Path(["start", name], ["wait"])}, k=2, m=1)
    text = audit.report(tmp_path / "audit.html", reports=1, title=name).read_text(encoding="utf-8")
    assert text.count("<script") == 1
    assert "<img" not in text
    page = Page(text)
    assert f"{name}#" in page.text
    assert f"{name}?" in page.text
    assert "<script>alert" not in (tmp_path / "audit-episodes" / "0001.html").read_text(encoding="utf-8")


def test_states_and_outcomes_of_fields_are_told_with_the_names_of_the_fields(tmp_path):
    rows = ["episode,t,status,lactate,action"]
    for i, end in enumerate(["died", "well", "well"] * 40):
        rows += [f"{i},0,sick,high,{'wait' if i % 3 == 0 else 'treat'}", f"{i},1,{end},low,"]
    (tmp_path / "log.csv").write_text("\n".join([*rows, ""]))
    columns = {"state": ["status", "lactate"]}
    mdp = tether.learn(tether.io.read_episodes(tmp_path / "log.csv", columns=columns), prior=1)
    mdp = mdp.with_objective(final_reward=lambda state: float(state.status == "well"))
    audit = tether.audit(mdp, tmp_path / "log.csv", k=2, certify=False, columns=columns)
    page = read(audit.report(tmp_path / "audit.html", reports=0))
    assert table(page, "in the state")[1][:3] == ["status sick, lactate high", "wait", "treat"]
    assert table(page, "episode")[1][1] == "status died, lactate low"
    assert "Learned from 120 episodes" in page.parts["What made this page"]


def test_an_objective_is_told(tmp_path):
    audit = grid_audit(12, k=6, objective=tether.reach("goal"))
    page = read(audit.report(tmp_path / "audit.html", reports=0))
    assert "in place of a return" in page.text
    assert "Does it hold under other causal models?" not in page.text
    episode = audit.top(1).column("episode")[0].as_py()
    assert audit.plan(episode).gain == audit.top(1).column("gain")[0].as_py()


def test_gains_drawn():
    ax = plot_gains([-1.0, 0.5, 3.0, np.nan, 0.0])
    below = sum(bar.get_height() for bar in ax.patches if bar.get_x() < -1e-9)
    assert (below, sum(bar.get_height() for bar in ax.patches)) == (1, 3)
    many = plot_ranked_gains(np.arange(1.0, 100_001.0))
    x, y = many.lines[0].get_data()
    assert x.size <= 400
    assert (x[0], y[0], x[-1], y[-1]) == (1, 100_000.0, 100_000, 1.0)
    for draw in (plot_gains, plot_ranked_gains):
        with pytest.raises(tether.QueryError, match="nothing to draw"):
            draw([0.0, np.nan])
