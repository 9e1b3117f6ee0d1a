"""Hypothesis profiles, and the cases that many tests ask for.

``default`` draws the same examples in every run. ``interpreted`` draws fewer, for kernels with the JIT off. ``quick``
draws a few, for work in progress. ``random`` draws many, and different ones in each run (``make test-random``).
"""

import functools
import gc
import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import tether
from tether.cases import icu_data

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "random",
    settings.get_profile("default"),
    derandomize=False,
    max_examples=500,
    print_blob=True,
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=8)
settings.register_profile("interpreted", settings.get_profile("default"), max_examples=15)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """Unpack the arrays of the installed ICU-Sepsis once per process: it takes a second. Hear Ctrl-C.

    A shell starts what runs in the background with Ctrl-C ignored; the processes that tests start and interrupt would
    inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unpack, unpacked = icu_data._arrays, functools.cache(icu_data._arrays)

    def arrays(file: Path):
        if "site-packages" not in file.parts:
            return unpack(file)
        return {name: array.copy() for name, array in unpacked(file).items()}

    icu_data._arrays = arrays


def pytest_collection_finish() -> None:
    """Imported modules stay until the end: the garbage collector need not search them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def toy():
    case = tether.cases.toy()
    return tether.counterfactual(case.mdp, case.path)


@pytest.fixture(scope="module")
def grid():
    case = tether.cases.grid_world()
    return tether.counterfactual(case.mdp, case.path)


@pytest.fixture(scope="module")
def epidemic():
    case = tether.cases.epidemic()
    return tether.counterfactual(case.mdp, case.path)


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    """The installed browser, headless; tests that need one are skipped if there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no page is opened in a browser here: none of {', '.join(BROWSERS)} is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]
        )
        yield browser
        browser.close()
