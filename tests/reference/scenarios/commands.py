"""The command line: what each command prints and writes."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from ..quick import few_steps
from ..registry import Group

SCENARIOS = Group()


def make_table(n: int = 32, delimiter: str = ",", seed: int = 1) -> str:
    """Numbers, text, codes with leading zeros, gaps of several spellings, rows without a class."""
    rng = np.random.RandomState(seed)
    y = rng.randint(0, 3, n)
    lines = ["id;size;color;two;code;kind"]
    for k in range(n):
        cells = [
            f"{rng.normal() * 3 + 5 * y[k]:.3f}",
            ["red", "blue", "green"][rng.randint(3)],
            str(int(rng.uniform() < 0.2 + 0.3 * y[k])),
        ]
        cells = [["", "?", "NA", "n/a"][rng.randint(4)] if rng.uniform() < 0.1 else cell for cell in cells]
        lines.append(";".join([f"r{k}", *cells, f"00{k * k % 7 % 3}", ["no", "yes", "maybe"][y[k]] if k % 6 else ""]))
    return "\n".join(lines).replace(";", delimiter) + "\n"


class Shell:
    """A folder, and commands in it."""

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self, *arguments: str) -> str:
        from latentia.apps.cli.app import run

        out, err = io.StringIO(), io.StringIO()
        width = {"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), patch.dict(os.environ, width):
            try:
                code: Any = run(list(arguments))
            except SystemExit as end:
                code = f"exit {end.code}"
        return f"{code}\n{out.getvalue()}\n--\n{err.getvalue()}".replace(self.folder, "folder")

    def text(self, name: str) -> str:
        return Path(self.folder, name).read_text(encoding="utf-8").replace(self.folder, "folder")


@contextlib.contextmanager
def shell(**tables: str) -> Any:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), few_steps(by_default=True):
        for name, content in (tables or {"table": make_table()}).items():
            Path(folder, f"{name}.csv").write_text(content)
        yield Shell(folder)


@SCENARIOS.with_(is_slow=True)
def fit_and_ask() -> dict[str, Any]:
    with shell() as run:
        found = {
            "fit": run(
                "fit",
                "table.csv",
                "-t",
                "kind",
                "-o",
                "m.latentia",
                "--effort",
                "fast",
                "--ignore",
                "id",
                "--predictions",
                "p.csv",
            ),
            "predictions": run.text("p.csv"),
            "json": run(
                "fit",
                "table.csv",
                "-t",
                "kind",
                "-o",
                "n.latentia",
                "--effort",
                "fast",
                "--json",
                "--seed",
                "3",
                "--ignore",
                "id",
                "--ignore",
                "color",
                "--ignore",
                "code",
            ),
            "predict": run("predict", "m.latentia", "table.csv", "--keep", "id"),
            "impute": run("impute", "m.latentia", "table.csv", "--method", "mode", "-o", "filled.csv"),
            "filled": run.text("filled.csv"),
            "mean": run("impute", "m.latentia", "table.csv", "--json"),
            "sample": run("sample", "m.latentia", "-n", "4", "--seed", "2"),
            "sample_class": run("sample", "m.latentia", "-n", "3", "--class", "yes", "--json"),
            "explain": run("explain", "m.latentia", "table.csv", "-o", "cells.csv"),
            "cells": run.text("cells.csv"),
            "explain_json": run("explain", "m.latentia", "table.csv", "--json"),
            "report": run("report", "m.latentia", "table.csv", "-o", "r.html", "--title", "A title"),
        }
        refused = {
            "exists": ["fit", "table.csv", "-t", "kind", "-o", "m.latentia"],
            "effort": ["fit", "table.csv", "-t", "kind", "-o", "q", "--effort", "most"],
            "target": ["fit", "table.csv", "-t", "class", "-o", "q"],
            "ignore": ["fit", "table.csv", "-t", "kind", "-o", "q", "--ignore", "none"],
            "no_file": ["fit", "none.csv", "-t", "kind", "-o", "q"],
            "no_folder": ["fit", "table.csv", "-t", "kind", "-o", "none/q"],
            "method": ["impute", "m.latentia", "table.csv", "--method", "most"],
            "class": ["sample", "m.latentia", "--class", "perhaps"],
            "no_model": ["predict", "table.csv", "table.csv"],
            "keep": ["predict", "m.latentia", "table.csv", "--keep", "none"],
            "format": ["predict", "m.latentia", "table.csv", "-o", "p.xyz"],
            "rows": ["sample", "m.latentia", "-n", "0"],
            "command": ["nonsense"],
            "nothing": [],
            "option": ["fit", "table.csv", "--nonsense"],
            "other_table": ["predict", "m.latentia", "p.csv"],
        }
        return found | {f"refused {name}": run(*arguments) for name, arguments in refused.items()}


@SCENARIOS.with_(is_slow=True)
def comparisons() -> dict[str, Any]:
    from latentia.apps.cli import training_commands
    from latentia.apps.cli.usual_choices import usual_choices
    from latentia.estimators.latent_classification import LatentClassificationModel

    numbers_only = "\n".join(",".join(line.split(",")[k] for k in (1, 3, 5)) for line in make_table(24).splitlines())
    few = patch.dict(LatentClassificationModel.__init__.__kwdefaults__, {"max_iter": 2})

    def some(frame: Any, seed: int) -> dict[str, Any]:
        found = usual_choices(frame, seed)
        all_choices.update({name: " ".join(type(step).__name__ for step in model) for name, model in found.items()})
        return {name: model for name, model in found.items() if "ogistic" in name or "Bayes" in name}

    all_choices: dict[str, str] = {}
    with shell(table=numbers_only) as run, few, patch.object(training_commands, "usual_choices", some):
        said = run("compare", "table.csv", "-t", "kind", "--folds", "2", "-o", "c.csv")
        return {"compare": said, "columns": run.text("c.csv").splitlines()[0], "choices": all_choices}


@SCENARIOS
def readings() -> dict[str, Any]:
    """Delimiters, encodings and broken tables."""
    from latentia.apps.tables.class_labels import read_labels
    from latentia.apps.tables.failures import Failure
    from latentia.apps.tables.table_files import Reading, read_table
    from latentia.apps.tables.typed_columns import find_features, kind_of

    tables = {
        "semicolon": make_table(8, ";"),
        "tab": make_table(8, "\t"),
        "quoted": 'a,b\n"1,5","x ""y"""\n2,z\n',
        "decimal": "a;b\n1,5;x\n2,25;y\n",
        "short": "a,b,c\n1,2\n3,4,5\n",
        "long": "a,b\n1,2,3\n4,5\n",
        "same": "a,a\n1,2\n",
        "empty": "",
        "head": "a,b\n",
        "one": "a\n1\n2\n",
        "blank": "a,b\n1,\n,\n2,x\n\n3,y\n",
        "thousand": 'a,b\n"1,000",x\n"2,500",y\n',
        "space": " a , b \n 1 , x \n 2 , y \n",
        "bools": "a,b\ntrue,yes\nfalse,no\ntrue,yes\n",
        "dates": "a,b\n2020-01-02,x\n2020-02-03,y\n",
    }
    found: dict[str, Any] = {}
    with shell(**tables):
        for name in tables:
            try:
                table = read_table(f"{name}.csv", Reading())
                features = find_features(table, [n for n in table.names if n != "kind"])
                kinds = {n: kind_of(features.frame[n]) for n in features.frame}
                found[name] = {
                    "frame": table.frame,
                    "kinds": kinds,
                    "notes": list(features.notes),
                    "left_out": dict(features.left_out),
                }
                found[name]["cells"] = features.frame
                if "kind" in table.frame:
                    found[name]["labels"] = read_labels(table, "kind")
            except Failure as failure:
                found[name] = f"{failure.code} {failure}"
        Path("latin.csv").write_bytes("a,b\ngrün,1\nblau,2\n".encode("latin-1"))
        for encoding in ("utf-8", "latin-1", "nonsense"):
            try:
                found[f"latin {encoding}"] = read_table("latin.csv", Reading(encoding)).frame
            except Failure as failure:
                found[f"latin {encoding}"] = str(failure)
    return found


@SCENARIOS
def helps() -> dict[str, Any]:
    from latentia.apps.cli.app import app

    found = {}
    for command in app.registered_commands:
        parameters = [
            f"{name} {getattr(p.annotation, '__args__', '')} {[m.help for m in getattr(p.annotation, '__metadata__', ())]} {p.default}"
            for name, p in inspect.signature(command.callback, eval_str=True).parameters.items()
        ]
        found[command.callback.__name__] = f"{command.callback.__doc__} " + "; ".join(parameters)
    return found


@SCENARIOS
def main() -> dict[str, Any]:
    from latentia.__main__ import main as start

    out = io.StringIO()
    with (
        patch.object(sys, "argv", ["latentia", "--version"]),
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
    ):
        start()
    return {"version": out.getvalue().split()[0]}
