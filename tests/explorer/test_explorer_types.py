"""The page about somebody whose type was never recorded: the answers of the library, for any limits."""

import html
import re

import pytest
from asking import KEYS, ask

import tether
from tether._foundation.words import number
from tether.explorer.app import make_app
from tether.explorer.offered import OfTypes

pytestmark = pytest.mark.compiled

EVIL = "<script>frail</script>"


def ward(dies):
    rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 0.9 - dies), ("sick", "wait", "well", 0.1)]
    rows += [("sick", "treat", "dead", 0.3), ("sick", "treat", "sick", 0.2), ("sick", "treat", "well", 0.5)]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), terminal=["dead", "well"])
    return mdp.with_labels({"died": ["dead"]}).with_objective(final_reward={"well": 1.0, "sick": 0.8})


@pytest.fixture(scope="module")
def cf():
    types = tether.Types({EVIL: ward(0.6), "robust": ward(0.05)}, prior={EVIL: 0.2, "robust": 0.8})
    return tether.counterfactual(types, tether.Path(["sick", "sick", "sick", "dead"], ["wait"] * 3))


@pytest.fixture(scope="module")
def page(cf):
    return make_app(OfTypes(cf), KEYS)


def shown(page, address):
    found = ask(page, address, headers={"x-tether-token": "right"})
    assert found.status_code == 200
    assert "<script>" not in found.text
    return found.text


@pytest.mark.parametrize("limits", [{}, {"m": 2}, {"k": 2, "m": 3}, {"k": 1, "m": 1}])
def test_the_page_has_the_answer_for_its_limits(page, cf, limits):
    text = shown(page, "/?" + "&".join(f"{name}={value}" for name, value in limits.items()))
    plan = cf.plan(**limits)
    plain = html.unescape(re.sub("<[^>]*>", " ", text))
    for sentence in plan.explain().sentences(str):
        assert " ".join(sentence.split()) in " ".join(plain.split())
    swept = cf.sweep()
    for k in swept.ks:
        for value in swept.values[k - 1].tolist():
            assert f">{number(value)}<" in text
    assert f"<b>{number(plan.value)}</b>" in text


def test_every_link_leads_to_an_answer(page):
    links = set(re.findall(r'href="([^"]*)"', shown(page, "/")))
    followed = [html.unescape(link) for link in links if link.startswith(("?", "one"))]
    assert len(followed) > 15
    for link in followed[:8] + [one for one in followed if one.startswith("one") or "objective" in one]:
        assert "token=right" in link
        found = ask(page, f"/{link}", headers={})
        assert found.status_code == 200
        assert "problem" not in found.text or link.startswith("one")


def test_each_type_has_its_own_explorer(page, cf):
    assert 'src="static/main.js"' in ask(page, "/one?e=1", headers={"x-tether-token": "right"}).text
    for key, name in enumerate(OfTypes(cf).names):
        best = cf.by_type[name].plan(m=1)
        found = ask(page, f"/part/sentences?e={key}", headers={"x-tether-token": "right"})
        assert found.status_code == 200
        assert number(best.value) in html.unescape(found.text)
    assert "there is no type" in shown(page, "/part/headline?e=7")


def test_a_property_can_be_wanted_and_a_wrong_address_is_explained(page):
    assert "chance" in shown(page, "/?objective=avoid:0")
    assert "the model has" in shown(page, "/?objective=avoid:99")
    assert "expected a whole number" in shown(page, "/?m=many")
    assert ask(page, "/", headers={}).status_code == 403


def test_a_notebook_opens_the_page(cf):
    inline = cf.explore()
    assert "<iframe" in inline._repr_html_()
    inline.stop()
    one = cf.explore("robust")
    assert one.address.startswith("http://127.0.0.1:")
    one.stop()
