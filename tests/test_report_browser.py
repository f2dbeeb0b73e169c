# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: plots are drawn, tables are sorted, nothing is reported on its console."""

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from runners.report_command import make_report
from tests.browser import chromium, command, console, show
from tests.results_folder import make_folder
from tests.test_report import spoil

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("browser") / "run")
    make_report(folder, None, None, ())
    return folder / "report.html"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)])
def test_every_plot_is_drawn_and_nothing_is_wider_than_the_page(
    browser: webdriver.Chrome, report: Path, scheme: str, width: int
) -> None:
    show(browser, report, scheme, width)
    plots = browser.find_elements(By.CSS_SELECTOR, ".plot")
    assert len(plots) == 9
    for plot in plots:
        marks = plot.find_elements(By.CSS_SELECTOR, "svg .mark-symbol path, svg .mark-line path, svg .mark-rect path")
        assert marks, plot.get_attribute("data-spec")
        assert plot.find_element(By.CSS_SELECTOR, "svg").size["height"] > 100
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert console(browser) == []


def test_one_block_is_drawn_without_intervals(browser: webdriver.Chrome, tmp_path: Path) -> None:
    make_report(make_folder(tmp_path / "one", {"a": (100.0,), "b": (150.0,)}), None, None, ())
    show(browser, tmp_path / "one" / "report.html")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".plot svg")) == 8
    assert console(browser) == []


def test_plots_follow_the_colour_scheme(browser: webdriver.Chrome, report: Path) -> None:
    inks = []
    for scheme in ("light", "dark"):
        show(browser, report, scheme)
        label = browser.find_element(By.CSS_SELECTOR, ".plot svg .role-axis-label text")
        page = browser.find_element(By.TAG_NAME, "html")
        inks.append((label.value_of_css_property("fill"), page.value_of_css_property("color")))
    for fill, ink in inks:
        assert numbers(fill) == numbers(ink)
    assert inks[0] != inks[1]


def numbers(colour: str) -> list[str]:
    """Red, green and blue."""
    return colour.partition("(")[2].strip(")").replace(" ", "").split(",")[:3]


def column(browser: webdriver.Chrome, number: int) -> list[str]:
    return [c.text for c in browser.find_elements(By.CSS_SELECTOR, f"#table-speed tbody tr > :nth-child({number})")]


def test_tables_are_sorted_by_the_keyboard(browser: webdriver.Chrome, report: Path) -> None:
    show(browser, report)
    heads = browser.find_elements(By.CSS_SELECTOR, "#table-speed thead th")
    number = 1 + [head.text for head in heads].index("tok/s per GPU")
    before = column(browser, number)
    heads[number - 1].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert heads[number - 1].get_attribute("aria-sort") == "ascending"
    ascending = column(browser, number)
    assert ascending == sorted(before, key=lambda text: float(text.split()[0]))
    heads[number - 1].find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    assert heads[number - 1].get_attribute("aria-sort") == "descending"
    assert column(browser, number) == ascending[::-1]


def test_everything_has_a_name_for_those_who_listen(browser: webdriver.Chrome, report: Path) -> None:
    show(browser, report)
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    assert len(browser.find_elements(By.TAG_NAME, "h1")) == 1
    for plot in browser.find_elements(By.CSS_SELECTOR, ".plot"):
        assert plot.accessible_name
    for table in browser.find_elements(By.TAG_NAME, "table"):
        assert table.find_element(By.TAG_NAME, "caption").get_attribute("textContent")
        assert all(th.get_attribute("scope") for th in table.find_elements(By.TAG_NAME, "th"))
    levels = [int(h.tag_name[1]) for h in browser.find_elements(By.CSS_SELECTOR, "h1, h2, h3, h4")]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("class") == "skip"


def test_what_strangers_wrote_does_not_run(browser: webdriver.Chrome, report: Path, tmp_path: Path) -> None:
    shutil.copytree(report.parent, tmp_path / "spoilt")
    spoil(tmp_path / "spoilt")
    make_report(tmp_path / "spoilt", None, None, ())
    show(browser, tmp_path / "spoilt" / "report.html")
    assert console(browser) == []
    assert not browser.find_elements(By.TAG_NAME, "img")


def test_it_prints(browser: webdriver.Chrome, report: Path) -> None:
    show(browser, report, "dark")
    command(browser, "Emulation.setEmulatedMedia", media="print")
    label = browser.find_element(By.CSS_SELECTOR, ".plot svg .role-axis-label text")
    assert numbers(label.value_of_css_property("fill")) == ["0", "0", "0"]
    assert not browser.find_element(By.TAG_NAME, "nav").is_displayed()
    assert command(browser, "Page.printToPDF")["data"].startswith("JVBERi")
