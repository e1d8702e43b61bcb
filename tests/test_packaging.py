"""What the package says of itself: one version, types, links that lead somewhere, a command line."""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

import latentia

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def hatch_build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {latentia.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{latentia.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_package_is_typed_and_has_addresses():
    assert (Path(latentia.__file__).parent / "py.typed").exists()
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())


@pytest.mark.parametrize("repository", [None, "https://example.org/latentia"])
def test_links_of_the_readme_lead_somewhere_outside_of_the_repository(repository):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert relative and all((ROOT / target).exists() for target in relative)
    published = hatch_build().absolute_links(text, repository)
    targets = re.findall(r"\]\(([^)]+)\)", published)
    assert all(target.startswith(("https:", "http:", "#")) for target in targets)
    assert any(target.startswith("https://example.org/latentia/blob/main/docs") for target in targets) == bool(
        repository
    )


def test_the_package_is_a_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["latentia", "--help"])
    monkeypatch.delitem(sys.modules, "latentia.__main__", raising=False)
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("latentia", run_name="__main__")  # as python -m latentia does
    assert "latentia [OPTIONS] COMMAND" in capsys.readouterr().out
