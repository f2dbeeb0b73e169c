# SPDX-License-Identifier: Apache-2.0
"""The service in a real browser with the real light pair: from the form to the verdicts, by mouse and keyboard."""

from collections.abc import Iterator
from typing import Final

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.browser import chromium, command, console
from tests.test_service_queue import PATIENCE_S, PORT, SERVICE, _environment, service, state_of, until

pytestmark = pytest.mark.light
assert _environment
HERE: Final = f"http://127.0.0.1:{SERVICE}"
FIELDS: Final = {
    "name": "seen",
    "concurrency": "1, 2",
    "prefix_tokens": "",
    "prefix_count": "",
    "input_low": "60",
    "input_high": "70",
    "output_low": "6",
    "output_high": "10",
    "max_model_len": "256",
    "max_num_seqs": "4",
    "blocks": "2",
    "window_s": "0.3",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with service(tmp_path_factory.mktemp("seen")) as (found, _):
        yield found


def find(browser: webdriver.Chrome, css: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, css)


def submit_form(browser: webdriver.Chrome) -> str:
    """Fill the form in, see its YAML follow, add a port, send it; the run's name."""
    browser.get(f"{HERE}/new")
    for name, value in FIELDS.items():
        field = find(browser, f"[name={name}]")
        field.clear()
        field.send_keys(value)
    config = find(browser, "#config")
    WebDriverWait(browser, 30).until(lambda _: "window_s: 0.3" in str(config.get_property("value")))
    config.send_keys(Keys.CONTROL, Keys.END)
    config.send_keys(f"port: {PORT}\n")
    find(browser, "button[value=submit]").click()
    WebDriverWait(browser, 60).until(lambda b: "/runs/" in b.current_url)
    return browser.current_url.rpartition("/")[2]


def test_from_the_form_to_verdicts_report_and_difference(browser: webdriver.Chrome, client: httpx.Client) -> None:
    first = submit_form(browser)
    WebDriverWait(browser, PATIENCE_S).until(lambda b: b.find_elements(By.ID, "table"))
    assert find(browser, "h1 .badge").text == "finished"
    assert find(browser, "section.verdict h2").text.startswith("triton-llamacpp: ")
    assert "llamacpp-openai" in find(browser, "#table").text
    find(browser, "a[href$='/report']").click()
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.documentElement.dataset.drawn"))
    assert browser.find_elements(By.CSS_SELECTOR, "figure svg")
    second = submit_form(browser)
    until(lambda: state_of(client, second) == "finished")
    browser.get(f"{HERE}/diff")
    Select(find(browser, "[name=before]")).select_by_value(first)
    Select(find(browser, "[name=after]")).select_by_value(second)
    find(browser, "main form button").click()
    assert "times what it was" in find(browser, "section.verdict").text
    assert not [line for line in console(browser) if line["level"] == "SEVERE"]


def test_a_run_is_cancelled_with_the_keyboard(browser: webdriver.Chrome, client: httpx.Client) -> None:
    run = submit_form(browser)
    button = find(browser, ".live button.danger")
    button.send_keys(Keys.ENTER)
    WebDriverWait(browser, PATIENCE_S).until(lambda b: find(b, "h1 .badge").text == "cancelled")
    assert state_of(client, run) == "cancelled"
    assert find(browser, "form[action$='/resume'] button").is_displayed()


@pytest.mark.usefixtures("client")
def test_a_config_that_is_wrong_says_where_and_keeps_what_was_typed(browser: webdriver.Chrome) -> None:
    browser.get(f"{HERE}/new")
    config = find(browser, "#config")
    config.clear()
    config.send_keys("name: x\nblocks: many\n")
    find(browser, "button[value=submit]").click()
    told = find(browser, "#trouble")
    assert "config: blocks: 'many'" in told.text
    assert browser.switch_to.active_element == told
    assert "blocks: many" in str(find(browser, "#config").get_property("value"))


@pytest.mark.parametrize("path", ["/", "/new", "/engines", "/diff"])
@pytest.mark.usefixtures("client")
def test_pages_fit_a_phone(browser: webdriver.Chrome, path: str) -> None:
    command(browser, "Emulation.setDeviceMetricsOverride", width=360, height=780, deviceScaleFactor=1, mobile=True)
    browser.get(HERE + path)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    command(browser, "Emulation.clearDeviceMetricsOverride")
    assert wide <= 360


@pytest.mark.usefixtures("client")
def test_the_first_stop_of_the_keyboard_skips_to_the_content(browser: webdriver.Chrome) -> None:
    browser.get(f"{HERE}/")
    find(browser, "body").send_keys(Keys.TAB)
    first = browser.switch_to.active_element
    assert first.text == "Skip to content"
    first.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "content"
