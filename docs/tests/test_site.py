"""The site in a real browser: nothing fetched from elsewhere, nothing wider than the screen, a search that finds.

Looks at docs/_build/html, which ``python3 tasks.py docs`` has built. Needs Chromium, and Playwright (extra `browser`).
"""

from __future__ import annotations

import functools
import http.server
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

SITE = Path(__file__).parents[1] / "_build" / "html"

PAGES = sorted(
    str(page.relative_to(SITE))
    for page in SITE.rglob("*.html")
    if page.relative_to(SITE).parts[0] not in ("_static", "source")
    and page.name not in ("search.html", "genindex.html")
)
WIDTHS = [400, 1400]  # pixels
SEARCHES = {
    "NaN": "guides/missing_values.html",
    "unlabeled": "guides/few_labels.html",
    "calibration": "guides/calibration.html",
    "Dask": "scaling_out.html",
    "save": "saving.html",
}

#: Boxes that leave the screen, and are not inside one that scrolls by itself.
TOO_WIDE = """() => {
    const inside = e => { for (let p = e.parentElement; p.tagName !== 'ARTICLE'; p = p.parentElement) {
        const how = getComputedStyle(p).overflowX;
        if (how === 'auto' || how === 'scroll' || how === 'hidden') return true; } return false; };
    return [...document.querySelectorAll('article *')]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !inside(e) && e.getClientRects().length)
        .map(e => e.tagName + '.' + e.className + ': ' + (e.textContent || '').slice(0, 60)).slice(0, 5); }"""

#: Code, equations and tables that must be scrolled to be read.
SCROLLS = """() => [...document.querySelectorAll('article pre, article .equation, article table')]
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.tagName + ': ' + e.textContent.slice(0, 50)).slice(0, 3)"""


def too_wide(page, width):
    return page.evaluate("document.scrollingElement.scrollWidth") > width or page.evaluate(TOO_WIDE)


@pytest.fixture(scope="module")
def address():
    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_no_page_is_wider_than_the_screen_or_asks_for_anything_elsewhere(browser, address):
    page = browser.new_page()
    asked, told, wide, scrolls = set(), [], {}, {}
    page.on("request", lambda request: asked.add(request.url))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.add_init_script("localStorage.setItem('mode', 'auto')")  # without it the theme complains once
    for k, name in enumerate(PAGES):
        page.goto(f"{address}/{name}", wait_until="domcontentloaded")
        for width in WIDTHS if k % 2 else WIDTHS[::-1]:  # a page begins as wide as the one before it ended
            page.set_viewport_size({"width": width, "height": 900})
            if too_wide(page, width):
                wide[name, width] = page.evaluate(TOO_WIDE)
            if width == max(WIDTHS):
                scrolls[name] = page.evaluate(SCROLLS)
    page.close()
    assert wide == {}
    assert {name: found for name, found in scrolls.items() if found} == {}, "on a large screen nothing scrolls sideways"
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    assert told == []
    assert len(PAGES) > 50


@pytest.mark.parametrize("scheme, is_light", [("light", True), ("dark", False)])
def test_colors_follow_the_reader(browser, address, scheme, is_light):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    for name in ("index.html", "gaussian_mixture.html", "gallery/uses/plot_calibration.html"):
        page.goto(f"{address}/{name}")
        shade = "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).every(v => v > 200)"
        assert page.evaluate(shade) == is_light
    context.close()


def test_a_page_that_is_too_wide_is_found(browser, address):
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(f"{address}/index.html")
    page.evaluate(
        "document.querySelector('article').insertAdjacentHTML('beforeend', '<p style=\"width: 900px\">x</p>')"
    )
    assert too_wide(page, 400)
    page.close()


@pytest.mark.parametrize("words, wanted", SEARCHES.items())
def test_the_search_finds(browser, address, words, wanted):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"{address}/search.html?q={words}")
    page.wait_for_selector("#search-results li a")
    page.wait_for_function("document.querySelector('#search-results .search-summary, #search-results p')")
    found = page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.getAttribute('href'))")
    places = [link.partition("?")[0].partition("#")[0] for link in found]
    assert wanted in places[:10], places[:10]
    page.close()


def test_equations_are_drawn_by_the_browser(browser, address):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"{address}/gaussian_mixture.html")
    heights = page.eval_on_selector_all(".equation math", "all => all.map(m => m.getBoundingClientRect().height)")
    assert len(heights) >= 4 and min(heights) > 15
    page.close()


@pytest.mark.parametrize(
    "clicks, wanted",
    [
        (["I have a table"], "predict_proba(new)"),
        (["I have a task", "Few labels, unlabeled rows"], "unlabeled_weight_"),
        (["I want the equations", "Latent classification models", "kinds.py"], "class Gaussian"),
        (["I want to extend it", "Add a kind of column", "columns.py"], "class ColumnModel"),
    ],
)
def test_from_the_front_page_in_three_clicks(browser, address, clicks, wanted):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"{address}/index.html")
    for words in clicks:
        cards = page.locator(".sd-card", has_text=words)
        with page.expect_navigation():
            (cards if cards.count() else page.locator("article a", has_text=words)).first.click()
    assert wanted in page.inner_text("article")
    page.close()
