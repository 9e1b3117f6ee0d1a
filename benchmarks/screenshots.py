"""The pictures of pages in README and docs: made anew by `make docs`, where a Chromium and playwright are installed.

The hero is drawn by the library alone; reports, audit and explorer are opened in a browser, as a reader does.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import HERE

import tether
import tether.views.figures
from tether.explorer.offered import Cases
from tether.explorer.server import Explorer
from tether.records import Nouns

FIGURES = HERE.parent / "docs" / "figures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def hero() -> None:
    """The picture of Tether: a sepsis patient, at most two changes; and three reviews."""
    figures = tether.views.figures
    patient, ward = tether.cases.sepsis(), Nouns("patient")
    plan = tether.counterfactual(patient.mdp, patient.path).plan(m=2)
    with figures.styled():
        replay = plan.explain().replay(str)
        figures.save(figures.plot_replay(replay, nouns=ward), str(FIGURES / "replay-sepsis.png"))
        for case in (patient, tether.cases.epidemic(), tether.cases.grid_world()):
            review = tether.review(case.mdp, case.path)
            figures.save(review.plot(), str(FIGURES / f"review-{case.name.replace(' ', '-')}.png"))


def audit_page(folder: Path) -> Path:
    """The overview of the log that docs/auditing-logs.md makes."""
    sepsis = tether.cases.sepsis().mdp
    log = {seed: sepsis.simulate("optimal", 6, start=sepsis.states[777], rng=seed, noise=0.3) for seed in range(300)}
    nouns = Nouns("patient", "step")
    return tether.audit(sepsis, log, k=4, m=1).report(
        folder / "audit.html", reports=0, about={"model": "case:sepsis"}, nouns=nouns
    )


def shoot(browser: Any, address: str, name: str, width: int, high: int, scheme: str = "light") -> None:
    """The first screen of a page."""
    page = browser.new_page(viewport={"width": width, "height": high}, color_scheme=scheme)
    page.goto(address)
    if address.startswith("http"):
        page.wait_for_selector("body[data-quiet]", timeout=120_000)
        page.click("#hints-off")
    page.screenshot(path=str(FIGURES / name))
    page.close()


def main() -> int:
    """All of them; only the hero, where there is no browser."""
    hero()
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        print("no browser: the pictures of pages stay as they are", file=sys.stderr)
        return 0
    explorer = Explorer(Cases())
    explorer.start()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        shoot(browser, audit_page(Path(folder)).as_uri(), "audit-page.png", 1100, 640)
        shoot(browser, explorer.address, "explorer.png", 1100, 760)
        shoot(browser, explorer.address, "explorer-phone.png", 400, 800, "dark")
        browser.close()
    explorer.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
