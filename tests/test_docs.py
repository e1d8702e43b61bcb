"""The code in the documentation runs and prints what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])


def code(page: Path) -> str:
    """The Python blocks of a page, everything else blanked so that line numbers stay."""
    lines, inside, kept = page.read_text(encoding="utf-8").splitlines(), False, []
    for line in lines:
        fence = line.startswith("```")
        inside = (line == "```python") if fence else inside
        kept.append("" if fence or not inside else line)
    return "\n".join(kept) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run_and_print_what_they_say(page):
    parsed = doctest.DocTestParser().get_doctest(code(page), {}, page.name, str(page), 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(parsed, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_pages_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]+)`", text)
    linked = re.findall(r"\]\(([\w./-]+\.md)\)", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [target for target in linked if not (page.parent / target).exists()]
    assert missing == []
