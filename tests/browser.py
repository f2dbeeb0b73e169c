# SPDX-License-Identifier: Apache-2.0
"""A real browser without a window, driven by its own driver; nothing is fetched for it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def programs() -> tuple[str, str]:
    """Browser and driver; skips where there is none."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("NO BROWSER: the report is not looked at; apt-get install chromium chromium-driver")
    return browser, driver


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    browser, driver = programs()
    options = Options()
    options.binary_location = browser
    for flag in (*FLAGS, "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield found
    finally:
        found.quit()


def console(browser: webdriver.Chrome) -> list[Any]:
    """What was reported since the last time."""
    return list(browser.get_log("browser"))  # type: ignore[no-untyped-call]


def command(browser: webdriver.Chrome, name: str, **arguments: Any) -> Any:
    """One of DevTools."""
    return browser.execute_cdp_cmd(name, arguments)


def show(browser: webdriver.Chrome, page: Path, scheme: str = "light", width: int = 1280) -> None:
    """Open a report as wide as told, and wait until all its plots are drawn."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    command(browser, "Emulation.setEmulatedMedia", features=features)
    command(
        browser, "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 640
    )
    browser.get(page.resolve().as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.documentElement.dataset.drawn"))
