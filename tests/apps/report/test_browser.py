"""The report in a real browser: no errors, all figures drawn, readable on small and large screens, light and dark, by keyboard, and by axe-core's rules.

Needs Chromium, and Playwright with axe-core from the extra `browser`.
"""

import numpy as np
import pytest
from chromium import look_for_violations
from sklearn.datasets import load_digits
from test_report import mixed_table

from latentia import GaussianMixtureClassifier, LatentClassifier, write_report

pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

REPORTS = ["mixed", "digits"]
SCREENS = [(400, "light"), (1400, "dark")]  # no color depends on the width


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A table with gaps, text, unlabeled rows and names that look like HTML; many columns and classes."""
    folder = tmp_path_factory.mktemp("reports")
    X, y = mixed_table(hostile=True)
    stack = LatentClassifier(effort="fast", cv=2, random_state=0).fit(X, y)
    pixels, digit = load_digits(return_X_y=True)
    digit = np.where(np.arange(digit.size) % 10 == 0, -1, digit)
    mixture = GaussianMixtureClassifier(unlabeled=-1, random_state=0, tol=0.1).fit(pixels[:600], digit[:600])
    return {
        "mixed": write_report(stack, X, y, folder / "mixed.html"),
        "digits": write_report(mixture, pixels[:600], digit[:600], folder / "digits.html"),
    }


class Visit:
    """An open page, with what it asked for and complained of."""

    def __init__(self, browser, path, width, scheme):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.told, self.asked = [], []
        self.page.on("console", lambda message: self.told.append(message.text))
        self.page.on("pageerror", lambda error: self.told.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.context.close()


@pytest.mark.parametrize("width,scheme", SCREENS)
@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_drawn_and_accessible_on_every_screen(browser, reports, name, width, scheme):
    with Visit(browser, reports[name], width, scheme) as visit:
        page = visit.page
        assert visit.asked == [reports[name].as_uri()], "the page loads something"
        figures = page.eval_on_selector_all(
            "figure > svg", "all => all.map(s => [s.getBoundingClientRect().width, s.getBBox().width])"
        )
        assert len(figures) >= 3 and all(300 < shown < 640 and drawn > 200 for shown, drawn in figures)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, "the page scrolls sideways"
        text = page.eval_on_selector_all("figure > svg text", "all => all.map(t => t.getBoundingClientRect().height)")
        assert min(text) > 8  # pixels
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        found = look_for_violations(page)
        assert found.violations_count == 0, found.generate_report()
        assert visit.told == []


def test_the_rules_of_accessibility_find_what_is_wrong(browser, reports):
    with Visit(browser, reports["digits"], 1400, "light") as visit:
        visit.page.evaluate("document.documentElement.removeAttribute('lang')")
        visit.page.evaluate("document.querySelector('p').style.color = '#ddd'")
        found = {violation["id"] for violation in look_for_violations(visit.page).response["violations"]}
        assert found == {"html-has-lang", "color-contrast"}


def test_labels_of_axes_stay_apart_and_inside(browser, reports):
    overlap = """all => all.flatMap(svg => {
        const frame = svg.getBoundingClientRect();
        const boxes = [...svg.querySelectorAll('text:not(.label)')].map(t => t.getBoundingClientRect());
        const out = boxes.filter(b => b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 1);
        const hit = boxes.flatMap((a, i) => boxes.slice(i + 1).filter(
            b => a.left < b.right - 1 && b.left < a.right - 1 && a.top + 3 < b.bottom && b.top + 3 < a.bottom));
        return [out.length + hit.length];
    })"""
    for name in REPORTS:
        with Visit(browser, reports[name], 400, "light") as visit:
            found = visit.page.eval_on_selector_all("figure > svg", overlap)
            assert sum(found) == 0, (name, found)


def test_everything_can_be_reached_by_keyboard(browser, reports):
    with Visit(browser, reports["mixed"], 400, "light") as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0, (
            "the link is seen when it has the focus"
        )
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        wanted = page.evaluate("document.querySelectorAll('.scroll, pre').length")
        reached = set()
        for _ in range(wanted + 2):
            page.keyboard.press("Tab")
            kind = "document.activeElement.matches('.scroll, pre')"
            if page.evaluate(kind):
                place = "[...document.querySelectorAll('.scroll, pre')].indexOf(document.activeElement)"
                reached.add(page.evaluate(place))
        assert reached == set(range(wanted))
        page.focus(".scroll:has(#columns)")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(500)  # the page scrolls smoothly
        assert page.evaluate("document.querySelector('.scroll:has(#columns)').scrollLeft") > 0


def test_names_that_look_like_html_do_nothing(browser, reports):
    with Visit(browser, reports["mixed"], 1400, "light") as visit:
        dialogs = []
        visit.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        assert visit.page.evaluate("document.scripts.length + document.images.length") == 0
        assert "<script>alert(1)</script>" in visit.page.inner_text("main")
        assert dialogs == []
