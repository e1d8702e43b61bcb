"""Scenarios by group and name."""

from __future__ import annotations

import importlib
import json
import pkgutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from . import scenarios
from .digest import Leaf, digest
from .quick import few_steps

ANSWERS = Path(__file__).parent / "answers"
HERE = str(Path(__file__).parent)


class Scenario(NamedTuple):
    """A function of no arguments, how well its numbers repeat on other machines, and whether it takes long."""

    run: Callable[[], Any]
    rtol: float = 1e-6
    is_slow: bool = False


class Group(dict[str, Scenario]):
    """Scenarios of one file; used as a decorator, or filled by `add`."""

    def __call__(self, run: Callable[[], Any]) -> Callable[[], Any]:
        self.add(run.__name__, run)
        return run

    def add(self, name: str, run: Callable[[], Any], rtol: float = 1e-6, is_slow: bool = False) -> None:
        assert name not in self, name
        self[name] = Scenario(run, rtol, is_slow)

    def with_(self, rtol: float = 1e-6, is_slow: bool = False) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """A decorator for what repeats less well, or takes over a quarter of a second: that is for the matrix."""

        def add(run: Callable[[], Any]) -> Callable[[], Any]:
            self.add(run.__name__, run, rtol, is_slow)
            return run

        return add


def groups() -> dict[str, Group]:
    """All of them, by the names of their files."""
    names = sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__))
    return {name: importlib.import_module(f"{scenarios.__name__}.{name}").SCENARIOS for name in names}


def answer(scenario: Scenario) -> dict[str, Leaf]:
    """What a scenario returns now, with the warnings that a user would see (but of fits that end early: most do)."""
    clock = patch("time.perf_counter", return_value=0.0)  # so that no answer says how long it took
    with clock, few_steps(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = scenario.run()
    said = [str(w.message) for w in caught if w.category is UserWarning and w.filename.startswith(HERE)]
    return digest(found | {f"warning {k}": text for k, text in enumerate(said)})


def stored(group: str) -> dict[str, dict[str, Any]]:
    """What the scenarios of a group returned when they were written down."""
    path = ANSWERS / f"{group}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(group: str, found: dict[str, dict[str, Leaf]]) -> None:
    """A line for each leaf."""
    lines = []
    for name in sorted(found):
        leaves = [
            f"  {json.dumps(path)}: {json.dumps(leaf.stored(), ensure_ascii=False)}"
            for path, leaf in found[name].items()
        ]
        lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(leaves) + "\n}")
    (ANSWERS / f"{group}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
