"""The page, first as data, then in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.report.page.build import content, page
from fgai_bench.statistics.results import Results
from tests.report_fixtures import load

ROOT = Path(__file__).parents[2]


def test_the_page_needs_no_network(small: Path) -> None:
    text = page(Results.read(small))
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "@import" not in text
    assert text == page(Results.read(small))


def test_gaps_travel_with_their_reason(broken: Path) -> None:
    rows = {row["defense"]: row for row in content(Results.read(broken))["rows"] if row["dataset"] == "amazon-cs"}
    assert rows["at"]["cells"]["score"]["text"] == "OOM"
    assert rows["at"]["cells"]["score"]["gaps"] == {"0, 1": "OOM: needs 214 GiB"}
    assert rows["rich"]["cells"]["score"]["unequal"]
    assert rows["rich"]["cells"]["score"].get("rank") is None


def look_at(browser: Any, path: Path, width: int = 1400, height: int = 900, state: str = "") -> Any:
    """Load a page afresh in a window of this size, as a phone where it is narrow."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    load(browser, path.as_uri() + state)
    return browser


@pytest.fixture(scope="module")
def written(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the store with gaps."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(Results.read(broken)), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Any, written: Path) -> Any:
    """That page, freshly loaded, with all its rows."""
    yield look_at(browser, written, state="#view=gat")
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
        numbers = [float(text.split()[0].rstrip("†‡°")) for text in texts if text[0].isdigit()]
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
    assert opened.execute_script("return document.getElementById('count').textContent").startswith(
        f"1 of {everything} "
    )
    choose(opened, "filter-dataset", "")
    choose(opened, "filter-defense", "")
    assert len(column(opened, "score")) == everything


@pytest.mark.page
def test_the_address_restores_what_the_table_shows(opened: Any, written: Path) -> None:
    choose(opened, "filter-dataset", "amazon-photo")
    choose(opened, "filter-attack", "injection")
    click(opened, "#board th button[data-key=g_jsd]")
    before, state = column(opened, "g_jsd"), opened.execute_script("return location.hash")
    look_at(opened, written, state=state)
    assert column(opened, "g_jsd") == before
    assert opened.execute_script("return document.getElementById('filter-dataset').value") == "amazon-photo"
    look_at(opened, written, state="#view=gat&defense=ln&dataset=nowhere&sort=-nothing")
    assert set(column(opened, "defense")) == {"LN"}  # what a state names and is not there is left out


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
def test_two_looks(opened: Any) -> None:
    back = "return getComputedStyle(document.body).backgroundColor"
    first = opened.execute_script(back)
    click(opened, "#look")
    assert opened.execute_script(back) != first
    click(opened, "#look")
    assert opened.execute_script(back) == first


# Of the elements of a selector: how many there are, and how many lie in the window, none of them empty.
SEEN = """
const all = [...document.querySelectorAll(arguments[0])];
const inside = all.filter((node) => {
  const box = node.getBoundingClientRect();
  const whole = box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
  return box.width && whole && node.innerText.trim();
});
return [all.length, inside.length];
"""


def seen(browser: Any, selector: str) -> tuple[int, int]:
    total, inside = browser.execute_script(SEEN, selector)
    return total, inside


@pytest.mark.page
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (400, 850)])
def test_the_first_screen_of_the_committed_results_answers(browser: Any, width: int, height: int) -> None:
    committed = ROOT / "results" / "page.html"
    look_at(browser, committed, width, height)
    cells, _ = seen(browser, ".matrix td")
    assert cells == 15 * 6 + 8 * 3  # GAT's rows, tuned ones and others, on six graphs; eight on the links of three
    best, in_sight = seen(browser, "#matrix td.first")
    assert (best, in_sight >= 7) == (9, True)  # all four with searched settings; two of arXiv are further down
    text = browser.execute_script("return document.querySelector('.matrix td.first').innerText")
    assert re.fullmatch(r"\.\d{3} → \.\d{3}\s+\[\.\d+, \.\d+\]", text)
    assert seen(browser, "#said p") == (3, 3)
    assert seen(browser, "#sentences li") == (9, 0)  # graph by graph: behind a summary
    command = browser.execute_script("return document.querySelector('#commands').textContent").splitlines()[0]
    assert command.startswith("fgai-bench run --suite node ")
    points = "return document.querySelectorAll('#explanations path.explained').length"
    assert browser.execute_script(points) == 5 * 5  # defenses, explainers
    for selector in ("html", ".wide"):  # neither the page nor its long table scrolls sideways
        wide, room = browser.execute_script(
            "const box = document.querySelector(arguments[0]); return [box.scrollWidth, box.clientWidth]", selector
        )
        assert wide <= room
    assert browser.get_log("browser") == []


@pytest.mark.page
def test_the_figure_shows_points_and_nulls(browser: Any, asked: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(Results.read(asked)), encoding="utf-8")
    look_at(browser, path)
    assert browser.execute_script("return document.querySelectorAll('#explanations path.explained').length") == 2 * 2
    levels = "return [...document.querySelectorAll('#explanations text.level')].map(node => node.textContent)"
    assert browser.execute_script(levels) == ["null: random", "null: uniform"]
    assert seen(browser, "#explanations figure") == (1, 1)
    choose(browser, "explained-place", "truth / infection")
    caption = browser.execute_script("return document.querySelector('#explanations svg').textContent")
    assert "AUROC against the edges that truly matter" in caption
    enter = """
        const point = document.querySelector("path.explained");
        point.dispatchEvent(new PointerEvent("pointerenter", {clientX: 9, clientY: 9}));
        return [document.getElementById("tip").textContent, document.getElementById("tip").hidden];
    """
    text, hidden = browser.execute_script(enter)
    assert ("stable 0." in text, hidden) == (True, False)
    assert browser.get_log("browser") == []


@pytest.mark.page
def test_everything_can_be_done_from_the_keyboard(browser: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    look_at(browser, ROOT / "results" / "page.html")
    focused = """const on = document.activeElement; return [on.tagName, on.value, getComputedStyle(on).outlineStyle]"""

    def press(*keys: str) -> list[str]:
        for key in keys:
            ActionChains(browser).send_keys(key).perform()
        return list(browser.execute_script(focused))

    assert press(Keys.TAB) == ["INPUT", "gat", "solid"]
    assert press(Keys.ARROW_RIGHT)[:2] == ["INPUT", "gatv2"]
    assert (
        browser.execute_script("return document.querySelector('#sentences strong').textContent")
        == "Amazon-Photo, GATv2"
    )
    assert set(column(browser, "model")) == {"GATv2"}  # the table follows
    assert "view=gatv2" in browser.current_url
    browser.execute_script("document.querySelector('#board td[data-key=score] button').focus()")
    press(Keys.ENTER)
    assert browser.execute_script("return document.getElementById('detail').open")
    press(Keys.ESCAPE)
    assert not browser.execute_script("return document.getElementById('detail').open")
    assert browser.execute_script("return document.activeElement.closest('td').dataset.key") == "score"
    bare = """
        const all = (selector) => [...document.querySelectorAll(selector)];
        return [...all("th").filter((th) => !th.scope), ...all("select").filter((select) => !select.labels.length),
                ...all("main table").filter((table) => !table.caption)].map((node) => node.outerHTML);
    """
    assert browser.execute_script(bare) == []  # headings have a scope, controls a label, tables a caption
