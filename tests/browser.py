"""Debian's Chromium, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.needs import missing

OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000")


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser that keeps what pages complain of and ask for; the test is skipped without one, see `needs`."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        missing("Chromium and its driver", "chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for each in OPTIONS:
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()
