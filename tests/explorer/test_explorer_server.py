"""The explorer's server: who is let in, what an address says, what labels cannot do."""

from __future__ import annotations

import html

import pytest
from asking import KEYS, ask
from pages import walk

from tether.errors import QueryError
from tether.explorer.app import make_app
from tether.explorer.offered import One
from tether.explorer.panels import parts
from tether.explorer.safety import Keys
from tether.explorer.view import Choices, View, read_view

pytestmark = pytest.mark.compiled

EVIL = [
    "<script>document.title='run'</script>",
    "\"'><img src=x onerror=alert(1)>",
    "nul \x00 and \ud800",
    "x" * 10_000,
    "שלום \u202e turned",
]


# ---- who is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"cookie": "tether-8000=wrong"}, 403),
        ({"cookie": "tether-8001=right"}, 403),
        ({"x-tether-token": "wrong"}, 403),
        ({"x-tether-token": "right"}, 200),
        ({"cookie": "tether-8000=right"}, 200),
        ({"cookie": "tether-8000=right", "host": "localhost:8000"}, 200),
        ({"cookie": "tether-8000=right", "host": "evil.example:8000"}, 421),
        ({"cookie": "tether-8000=right", "host": "127.0.0.1:8001"}, 421),
        ({"cookie": "tether-8000=right", "origin": "http://evil.example"}, 403),
        ({"cookie": "tether-8000=right", "origin": "null"}, 403),
        ({"cookie": "tether-8000=right", "origin": "http://127.0.0.1:8000"}, 200),
        ({"cookie": "tether-8000=right", "sec-fetch-site": "cross-site"}, 403),
        ({"cookie": "tether-8000=right", "sec-fetch-site": "same-site"}, 403),
        ({"cookie": "tether-8000=right", "sec-fetch-site": "same-origin"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/", "/part/episodes", "/take/nothing"])
def test_who_is_let_in(app, headers, status, path):
    found = ask(app, path, headers=headers).status_code
    assert found == (404 if status == 200 and path == "/take/nothing" else status)


def test_the_token_of_the_address_is_kept_in_a_cookie(app):
    found = ask(app, "/?token=right", headers={})
    assert found.status_code == 200
    assert found.headers["set-cookie"] == "tether-8000=right; Path=/; HttpOnly; SameSite=Strict"
    assert ask(app, "/?token=wrong", headers={}).status_code == 403
    assert "set-cookie" not in ask(app, "/?token=wrong", headers={}).headers
    assert "right" not in found.text  # and not in the page


@pytest.mark.parametrize("path", ["/", "/part/controls", "/static/main.js", "/nothing", "/?token=wrong"])
def test_the_rules_are_on_every_response(app, path):
    found = ask(app, path)
    rules = dict(rule.split(" ", 1) for rule in found.headers["content-security-policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"


def test_bounds(app):
    assert ask(app, "/part/controls", method="POST", content=b"x").status_code == 405
    assert ask(app, "/part/controls", content=b"x").status_code == 413
    assert ask(app, "/part/controls?q=" + "x" * 20_000).status_code == 414


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e%2fapp.py",
        "/static/..%2f..%2fpyproject.toml",
        "/take/..%2freport.html",
        "/part/..%2fpage",
        "/part/page",
    ],
)
def test_requests_cannot_name_files(app, path):
    assert ask(app, path).status_code == 404


@pytest.mark.parametrize("key", ["/etc/passwd", "pyproject.toml", "case:../sepsis", "gym:FrozenLake-v1", "0"])
def test_only_what_is_offered_is_opened(app, key):
    found = ask(app, f"/part/limits?e={key}")
    assert "there is no episode" in found.text
    assert "problem" in found.text


def test_the_keys_of_other_addresses():
    anywhere = Keys("t", "0.0.0.0", 80)
    assert anywhere.is_host("10.1.2.3:80")
    assert anywhere.is_host("[::1]:80")
    assert not anywhere.is_host("evil.example:80")
    assert Keys.made("127.0.0.1", 1).token != Keys.made("127.0.0.1", 1).token
    assert len(Keys.made("127.0.0.1", 1).token) >= 24  # 144 bits


# ---- the view --------------------------------------------------------------------------------------------------------


def test_an_address_comes_back():
    view = View("7", 3, 2, "assured", "tv:0.25", tab="if", chosen=Choices(((2, 1), (None, 4))), beside=Choices(), t=3)
    query = dict(part.split("=") for part in view.address()[1:].split("&"))
    assert read_view(query) == view
    assert View().address() == "?"
    assert view.chosen.choosing(2, 5).made == ((None, 4), (2, 5))
    assert view.chosen.best(1).made == ((None, 1),)


@pytest.mark.parametrize(
    "query",
    [
        {"k": "0"},
        {"k": "three"},
        {"k": "9" * 30},
        {"m": "-1"},
        {"rule": "none"},
        {"influence": "x"},
        {"influence": "tv:y"},
        {"influence": "tv:7"},
        {"tab": "x"},
        {"if": "1"},
        {"if": "a:b"},
        {"q": "x" * 300},
    ],
)
def test_what_is_wrong_with_an_address_is_said(query):
    with pytest.raises(QueryError):
        read_view(query)


# ---- labels cannot do anything ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evil():
    states, actions = [f"{one}{i}" for i, one in enumerate(EVIL)], [f"{one}!" for one in EVIL[:3]]
    return make_app(One(walk(5, 3, states, actions), EVIL[0]), KEYS)


@pytest.mark.parametrize(
    "name", [name for name in parts() if name not in ("controls", "chart", "sure", "ladder", "rungs")]
)
def test_labels_are_shown_and_never_run(evil, name):
    found = ask(evil, f"/part/{name}?m=2&if=1:0&tab=why").text
    assert "problem" not in found
    assert "<script" not in found
    assert "<img" not in found
    assert "\x00" not in found
    assert "\u202e" not in found or name == "steps"  # whose cells are blocks of their own: it ends there
    assert "x" * 2001 not in found
    if name in ("if", "why", "steps"):
        assert html.escape(EVIL[0], quote=False).replace("'", "&#39;") in found
