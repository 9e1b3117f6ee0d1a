"""Small pieces of HTML: escaped whatever they hold, and the shaded table against the numbers it shades."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pages import EVIL, Page

from tether._foundation.markup import escaped, facts, heat, html_table, shortened, typeset, with_minus_signs
from tether._foundation.words import cut, cut_apart


@given(st.text())
def test_any_text_stays_text(text):
    for made in (escaped(text), shortened(text), typeset(text), facts([(text, text)]), html_table([text], [[text]])):
        page = Page(f"<div>{made}</div>")
        assert page.tags <= {"div", "table", "tr", "th", "td"}
        made.encode("utf-8")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_a_text_is_read_back_as_it_was(text):
    assert Page(f"<p>{escaped(text)}</p>").text.strip("\n") == text.replace("\N{NO-BREAK SPACE}", " ")


def test_what_no_page_may_hold_is_replaced():
    assert escaped("a\x00b\ud800") == "a\N{REPLACEMENT CHARACTER}b?"
    assert "<" not in escaped(EVIL)


def test_long_texts_are_cut():
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert len(shortened("x" * 1000)) == 160


@given(st.lists(st.text("ab…", max_size=14), max_size=12), st.integers(7, 10))
def test_names_that_are_cut_stay_apart(names, most):
    short = cut_apart(names, most)
    assert [len(one) <= most for one in short] == [True] * len(names)
    assert len(set(zip(names, short, strict=True))) == len(set(names)) == len(set(short))
    assert [one for name, one in zip(names, short, strict=True) if len(name) <= most and one != name] == []


def test_minus_signs():
    assert with_minus_signs("from -3 to -.5, not -x, 3-4, gumbel-max") == "from −3 to −.5, not -x, 3-4, gumbel-max"


def test_long_tables_lose_their_middle():
    table = Page(html_table(["n"], [[i] for i in range(100)])).tables[0]
    assert [row[0] for row in table[1:25]] == [str(i) for i in range(24)]
    assert table[25] == ["… 71 more …"]
    assert [row[0] for row in table[26:]] == [str(i) for i in range(95, 100)]
    assert len(Page(html_table(["n"], [[i] for i in range(30)])).tables[0]) == 31


VALUES = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 5.0, 5.0, 10.0]])


def test_neighbours_that_are_the_same_are_one():
    made = heat(np.arange(1, 4), np.arange(4), VALUES, 0.0, (3, 2), merge=True).html()
    assert Page(made).tables[0] == [
        ["k, m", "m = 0", "m = 1 … 2", "m = 3"],
        ["k = 1 … 2", "0.00", "0.00", "0.00"],
        ["k = 3", "0.00", "5.00", "10.00"],
    ]
    outlined = re.findall(r"<td style='[^']*outline:[^']*'>([^<]*)</td>", made)
    assert outlined == ["5.00"]


def test_only_what_gains_is_shaded_the_more_the_darker():
    made = heat(np.arange(1, 4), np.arange(4), VALUES, 0.0).html()
    cells = re.findall(r"<td style='([^']*)'>([^<]*)</td>", made)
    assert len(cells) == 12
    shade = {text: re.findall("background:#(..)(..)(..)", style) for style, text in cells}
    assert shade["0.00"] == []
    light, dark = (sum(int(part, 16) for part in shade[text][0]) for text in ("5.00", "10.00"))
    assert dark < light


def test_less_is_shaded_where_less_is_a_gain():
    limits = np.arange(1, 4), np.arange(4)
    more = re.findall("<td style='([^']*)'>", heat(*limits, VALUES, 0.0).html())
    assert re.findall("<td style='([^']*)'>", heat(*limits, -VALUES, 0.0, minimise=True).html()) == more
    assert not any(
        "background" in style for style in re.findall("<td style='([^']*)'>", heat(*limits, -VALUES, 0.0).html())
    )


def test_rows_that_do_not_follow_each_other_stay_apart():
    made = heat(np.array([1, 5, 3]), np.arange(2), np.zeros((3, 2)), 0.0, merge=True).html()
    assert [row[0] for row in Page(made).tables[0][1:]] == ["k = 1", "k = 5", "k = 3"]


def test_a_large_table_keeps_its_ends_and_its_mark():
    values = np.arange(101 * 101, dtype=float).reshape(101, 101)
    made = heat(np.arange(1, 102), np.arange(101), values, 0.0, (38, 41), merge=True, wide=12, suggested=77).html()
    head, *rows = Page(made).tables[0]
    assert head[1] == "m = 0"
    assert head[-1] == "m = 100"
    assert "m = 41" in head
    assert head[1:5] == ["m = 0", "m = 1", "m = 2", "m = 3"]
    assert len(head) <= 13
    names = [row[0] for row in rows]
    assert names[0] == "k = 1"
    assert names[-1] == "k = 101"
    assert "k = 38" in names
    assert "k = 77" in names
    assert len(names) <= 24
    for row in rows:
        k = int(row[0].removeprefix("k = "))
        for name, cell in zip(head[1:], row[1:], strict=True):
            m = int(name.removeprefix("m = "))
            assert float(cell.replace(",", "")) == values[k - 1, m]


def test_numbers_have_the_digits_that_matter():
    def shown(values):
        table = np.array([values])
        return Page(heat(np.array([1]), np.arange(table.size), table, 0.0).html()).tables[0][1][1:]

    assert shown([0.0, 12345.678]) == ["0", "12,346"]
    assert shown([0.0, 0.00123456]) == ["0.000000", "0.001235"]
    assert shown([-0.0001, 50.0]) == ["0.00", "50.00"]
    assert shown([-np.inf, 1.0]) == ["–", "1.000"]
