"""The page, first as data, then in a real browser."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.report.page.build import content, page
from fgai_bench.report.results import Results


def test_the_page_needs_no_network(small: Path) -> None:
    text = page(Results.read(small))
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "@import" not in text
    assert text == page(Results.read(small))


def test_a_label_cannot_break_out_of_the_data(bench: Any, results_of: Any) -> None:
    made = bench()
    made.add("attack", results_of["attack"]("ln", 0), label="</script><b>", defense="ln", attack_label="injection")
    text = page(Results.read(made.close()))
    assert "</script><b>" not in text
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert data is not None
    assert json.loads(data[1])["rows"][0]["defense"] == "</script><b>"


def test_gaps_travel_with_their_reason(broken: Path) -> None:
    rows = {row["defense"]: row for row in content(Results.read(broken))["rows"] if row["dataset"] == "amazon-cs"}
    assert rows["at"]["cells"]["score"]["text"] == "OOM"
    assert rows["at"]["cells"]["score"]["gaps"]["0"] == "OOM: needs 214 GiB"
    assert rows["rich"]["cells"]["score"]["unequal"]
    assert rows["rich"]["cells"]["score"]["rank"] is None


@pytest.fixture
def opened(browser: Any, broken: Path, tmp_path: Path) -> Any:
    """The page of the store with gaps, freshly loaded."""
    path = tmp_path / "page.html"
    path.write_text(page(Results.read(broken)), encoding="utf-8")
    browser.set_window_size(1200, 1000)
    browser.get(path.as_uri())
    yield browser
    assert browser.get_log("browser") == []  # nothing went wrong on the console


def column(browser: Any, key: str) -> list[str]:
    script = (
        "return [...document.querySelectorAll(`#board tbody td[data-key=${arguments[0]}]`)].map(td => td.innerText)"
    )
    return [text.strip() for text in browser.execute_script(script, key)]


def click(browser: Any, selector: str) -> None:
    from selenium.webdriver.common.by import By

    browser.find_element(By.CSS_SELECTOR, selector).click()


def choose(browser: Any, identity: str, value: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element(By.ID, identity)).select_by_value(value)


@pytest.mark.page
def test_sorting(opened: Any) -> None:
    for arrow in ("descending", "ascending"):
        click(opened, "#board th button[data-key=score]")
        texts = [text for text in column(opened, "score") if text != "--"]  # a uniform attention predicts nothing
        numbers = [float(text.split("±")[0].split(" ")[0]) for text in texts if text[0].isdigit()]
        assert numbers == sorted(numbers, reverse=arrow == "descending")
        assert texts[-3:] == ["OOM", "timeout", "n/a"]  # gaps come last, whichever way
        head = opened.execute_script("return document.querySelector('th[data-key=score]').getAttribute('aria-sort')")
        assert head == arrow


@pytest.mark.page
def test_filtering(opened: Any) -> None:
    everything = len(column(opened, "score"))
    choose(opened, "filter-dataset", "amazon-cs")
    choose(opened, "filter-defense", "at")
    assert column(opened, "score") == ["OOM"]
    choose(opened, "filter-dataset", "")
    choose(opened, "filter-defense", "")
    assert len(column(opened, "score")) == everything


@pytest.mark.page
def test_a_cell_opens_its_seeds_ledger_and_provenance(opened: Any) -> None:
    choose(opened, "filter-dataset", "amazon-photo")
    choose(opened, "filter-defense", "ln")
    choose(opened, "filter-attack", "injection")
    click(opened, "#board td[data-key=score] button")
    text = opened.execute_script("return document.getElementById('detail').innerText")
    assert opened.execute_script("return document.getElementById('detail').open")
    for part in ("0.89", "0.9", "rank 1", "nodes 20", "edges 400", "gradient_calls 10", "abcdef0123456789", "fixture"):
        assert part in text
    click(opened, "#detail form button")
    assert not opened.execute_script("return document.getElementById('detail').open")


@pytest.mark.page
def test_hovering_explains_curves_and_edges(opened: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    for selector, part in (("#curves circle.point", "r = 0"), ("#graphs line.edge", "before")):
        target = opened.find_element(By.CSS_SELECTOR, selector)
        opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
        ActionChains(opened).move_to_element(target).perform()
        deadline = time.monotonic() + 5
        while part not in (said := opened.execute_script("return document.getElementById('tip').textContent")):
            assert time.monotonic() < deadline, said
            time.sleep(0.05)


@pytest.mark.page
def test_two_looks_and_a_phone(opened: Any) -> None:
    back = "return getComputedStyle(document.body).backgroundColor"
    first = opened.execute_script(back)
    click(opened, "#look")
    assert opened.execute_script(back) != first
    click(opened, "#look")
    assert opened.execute_script(back) == first
    opened.set_window_size(500, 800)
    wide, seen = opened.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= seen  # only the table scrolls sideways, in its own frame
