"""The code in the documentation and in docstrings runs and prints what it says."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import json
import pkgutil
import re
from pathlib import Path

import pytest

import latentia

ROOT = Path(__file__).parents[1]
#: Quick ones; the other pages are tried in the matrix.
FIRST_PAGES = ("CONTRIBUTING.md", "docs/quick_start.md")
PAGES = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])


def code(page: Path) -> str:
    """The Python blocks of a page, everything else blanked so that line numbers stay."""
    lines, inside, kept = page.read_text(encoding="utf-8").splitlines(), False, []
    for line in lines:
        fence = line.startswith("```")
        inside = (line == "```python") if fence else inside
        kept.append("" if fence or not inside else line)
    return "\n".join(kept) + "\n"


def docstrings() -> list[doctest.DocTest]:
    """The docstrings of the package that have examples."""
    found = []
    for module in pkgutil.walk_packages(latentia.__path__, "latentia."):
        if not module.name.endswith("__main__"):
            found += doctest.DocTestFinder().find(importlib.import_module(module.name))
    return [docstring for docstring in found if docstring.examples]


DOCSTRINGS = docstrings()


def check(parsed: doctest.DocTest) -> None:
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(parsed, out=report.append)
    assert runner.failures == 0, "".join(report)


def later_in_matrix(page: Path):
    name = str(page.relative_to(ROOT))
    return pytest.param(page, id=name, marks=[] if name in FIRST_PAGES else [pytest.mark.matrix])


@pytest.mark.parametrize("page", [later_in_matrix(page) for page in PAGES])
def test_examples_run_and_print_what_they_say(page):
    check(doctest.DocTestParser().get_doctest(code(page), {}, page.name, str(page), 0))


@pytest.mark.parametrize("docstring", DOCSTRINGS, ids=lambda docstring: docstring.name)
def test_docstrings_run_and_print_what_they_say(docstring):
    if "plot" in docstring.name:
        pytest.importorskip("matplotlib")
    check(docstring)


@pytest.mark.parametrize("name", latentia.__all__)
def test_public_names_have_an_example(name):
    assert any(docstring.name.endswith(f".{name}") for docstring in DOCSTRINGS)


def documented_arguments(public: object) -> set[str]:
    """Arguments with a line of their own, `name : what it may be`, and those of a class that is referred to."""
    section = (inspect.getdoc(public) or "").partition("Parameters\n----------\n")[2].partition("\n---")[0]
    lines = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .+)?$", section, flags=re.MULTILINE)
    others = re.findall(r"others : as in `(\w+)`", section)
    names = {word.strip("*") for line in lines for word in line.split(", ")}
    return names.union(*(documented_arguments(getattr(latentia, other)) for other in others))


@pytest.mark.parametrize("name", [name for name in latentia.__all__ if name != "Comparison"])  # which `compare` returns
def test_every_argument_is_documented(name):
    public = getattr(latentia, name)
    assert set(inspect.signature(public).parameters) <= documented_arguments(public)


def test_what_a_fit_learns_is_documented(case, fits):
    """`training_record_` is for summaries and reports; a search over sizes refers to its model."""
    model = fits(case, "quick")
    learned = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")} - {"training_record_"}
    public = next(cls for cls in type(model).__mro__ if cls.__name__ in latentia.__all__)
    if not hasattr(model, "best_estimator_"):
        assert {name for name in learned if name not in public.__doc__} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_pages_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]+)`", text)
    linked = re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", text)
    missing = [name for name in named if not name.startswith("docs/_build") and not (ROOT / name).exists()]
    missing += [target for target in linked if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.matrix
def test_the_notebook_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    notebook = json.loads((ROOT / "docs/first_steps.ipynb").read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)  # it needs no file of the repository
    known: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec("".join(cell["source"]), known)
            assert printed.getvalue() == "".join(text for output in cell["outputs"] for text in output["text"])
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) == {"latentia", "numpy", "os", "sklearn", "tempfile"}
