"""What the core needs: terminal, figures and pages are loaded only where they are asked for."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

CORE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"click", "jinja2", "matplotlib", "rich", "starlette", "uvicorn"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import tempfile, tether
grid = tether.cases.grid_world()
plan = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=2)
print(round(plan.value, 3), len(plan.explain(certificate=False).sentences()) > 0)
log = grid.mdp.simulate("random", 6, n=8, rng=1)
learned = tether.learn(log)
with tempfile.TemporaryDirectory() as folder:
    log_file, model = f"{folder}/log.parquet", f"{folder}/model.drn"
    tether.io.write_episodes(log, log_file)
    tether.io.write_model(grid.mdp, model)
    print(len(tether.audit(tether.io.read_model(model).with_names(actions=list(grid.mdp.actions)), log_file, k=2,
                           certify=False, workers=1, out=f"{folder}/audit")))
print(learned.counts.episodes)
try:
    plan.plot()
except ModuleNotFoundError as error:
    print("no", error)
"""


def test_plans_audits_and_files_need_no_terminal_no_figures_and_no_pages():
    done = subprocess.run([sys.executable, "-c", CORE], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["4.24 True", "8", "8", "no matplotlib"], done.stderr


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    named = [line.partition(">=")[0] for line in project["dependencies"]]
    extras = [name for name in project["optional-dependencies"] if name not in ("dev", "coverage", "docs", "bench")]
    assert [name for name in (*named, *extras) if f"`{name}`" not in page] == []
