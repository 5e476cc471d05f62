"""The numbers of the pages: all of them are filled from the committed files, and filling again changes nothing."""

from __future__ import annotations

import re

import pytest

from docs import fill, values


@pytest.mark.parametrize("page", fill.PAGES)
def test_filling_a_page_changes_nothing(page):
    text = (fill.ROOT / page).read_text(encoding="utf-8")
    assert "<!-- value: " in text or "<!-- table: " in text
    assert fill.filled(text) == text, f"`make tables` would change {page}"


def test_every_query_is_asked_by_a_page():
    pages = "".join((fill.ROOT / page).read_text(encoding="utf-8") for page in fill.PAGES)
    for kind, known in (("value", values.VALUES), ("table", values.TABLES)):
        assert set(re.findall(rf"<!-- {kind}: (\w+)", pages)) == set(known)


def test_a_value_and_a_table_replace_what_stood_there(monkeypatch):
    monkeypatch.setitem(values.VALUES, "twice", lambda number: str(2 * int(number)))
    monkeypatch.setitem(values.TABLES, "small", lambda *names: [["", *names], ["AT", *"12"]])
    page = 'so <!-- value: twice 21 -->{}<!-- /value -->.\n\n<!-- table: small a "b c" -->\n{}\n<!-- /table -->\n'
    made = page.format("42", "\n| | a | b c |\n| --- | --- | --- |\n| AT | 1 | 2 |\n")
    assert fill.filled(page.format("old", "old")) == made
    assert fill.filled(made) == made


@pytest.mark.parametrize(
    ("page", "error", "words"),
    [
        ("text\n<!-- value: claims -->1<!-- /value -->", ValueError, "may not begin a line"),
        ("- <!-- value: claims -->1<!-- /value -->", ValueError, "may not begin a line"),
        ("of <!-- value: claims -->1 more", ValueError, "not closed"),
        ("<!-- table: steps -->\nmore", ValueError, "not closed"),
        ("of <!-- value: nothing -->1<!-- /value -->", KeyError, "nothing"),
        ('of <!-- value: clean gat mine cora -->1<!-- /value -->', LookupError, "0 rows"),
    ],
)  # fmt: skip
def test_a_wrong_mark_is_refused(page, error, words):
    with pytest.raises(error, match=words):
        fill.filled(page)
