"""A real browser for tests: Debian's Chromium, driven by Playwright (extra `browser`); they are skipped where one is missing.

A plugin of the tests here, and by their own conftest of those of the documentation.
"""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)

#: Without these, a browser looks for its maker's servers.
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra: browser)")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=CHROMIUM, args=QUIET + (["--no-sandbox"] if root else []), headless=True
        )
        yield started
        started.close()


def look_for_violations(page):
    """What axe-core's rules say of a page; of what is well they only count, for writing it down takes longer than the rules."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    return axe.Axe().run(page, options={"resultTypes": ["violations"]})
