"""Reports, Studio and commands where something is missing, too much, or goes wrong."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from latentia import GaussianMixtureClassifier, LatentClassificationModel, ProbitEmbeddingClassifier

from ..describe import refusal
from ..registry import Group
from ..tables import complete, label_matrix, mixed
from .commands import make_table, shell
from .reports import sections

SCENARIOS = Group()
FEW: Any = {"max_iter": 2, "n_init": 1, "random_state": 0}


@SCENARIOS.with_(is_slow=True)
def reports_of_gaps() -> dict[str, Any]:
    """Of rows that lack columns which the model has seen, of a part of the rows, without labels, of one class."""
    table = mixed()
    model = LatentClassificationModel(1, 1, unlabeled_weight=0.3, **FEW).fit(table.X, table.y)
    empty = table.new.assign(price=np.nan, color=None, size=3.0)
    X, Y, new, _ = label_matrix()
    labels = ProbitEmbeddingClassifier(2, max_iter=2).fit(X, Y)
    unknown = np.full((12, 3), -1)
    unknown[:5, 0] = 1
    with patch("latentia.apps.report.facts.MAX_PREDICTED", 20), patch("latentia.apps.report.facts.MAX_POINTS", 9):
        part = sections(model, table.X, table.y)
    return {
        "empty": sections(model, empty, table.new_y),
        "part": part,
        "labels": sections(labels, new, unknown),
        "no_labels": sections(labels, new, None),
        "shape": refusal(sections, labels, new, unknown[:, :2]),
    }


@SCENARIOS.with_(is_slow=True)
def reports_of_whole_numbers() -> dict[str, Any]:
    """Integers are reported as the same numbers are as floats."""
    table = complete()
    X = np.round(table.X * [10.0, 1.0, 100.0, 3.0]).astype(np.int64)
    model = GaussianMixtureClassifier(1, covariance="full", **FEW).fit(X, table.y)
    whole, floats = sections(model, X, table.y), sections(model, X.astype(float), table.y)
    return {"alike": whole == floats, "whole": whole}


@SCENARIOS
def what_separates() -> dict[str, Any]:
    from latentia.apps.report.facts import Facts

    table = mixed()
    model = LatentClassificationModel(1, 1, unlabeled_weight=0.3, **FEW).fit(table.X, table.y)
    facts = Facts.of(model, table.X, table.y)
    return {"separation": facts.separation, "groups": facts.groups, "kinds": " ".join(facts.kinds)}


@SCENARIOS
def parts_of_reports() -> dict[str, Any]:
    from latentia.apps.report import facts, svg

    groups = np.array([0, 0, 1, 1])
    plot = svg.Plot((-1e9, 1e9), (2.0, 2.0))
    plot.axes("across", "up")
    return {
        "variance": [facts._variance_share(np.array(v), groups[: len(v)]) for v in ([1.0, 2, 5, 7], [3.0] * 4, [1.0])],
        "dependence": [
            facts._dependence(np.array(v, dtype=int), groups[: len(v)])
            for v in ([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1], [2, 2, 2, 2], [])
        ],
        "same": [
            facts._same_labels(np.array([0, -1, 1, 1]), [1, 2]),
            facts._same_labels(np.array([0, 1, 1]), [2, 1]),
            facts._same_labels(np.zeros((3, 0)), None),
            facts._same_labels(np.array([0]), None),
            facts._same_labels(np.array([[1, 0], [1, -1]]), [2, 0]),
        ],
        "widened": [*svg._widen((2.0, 2.0)), *svg._widen((-300.0, -300.0)), *svg._widen((1.0, 1.5))],
        "crowded": plot.draw("title", "description"),
    }


@SCENARIOS
def studio_before_a_fit() -> dict[str, Any]:
    """Choices, tables to try, code to take along, and what is refused on the way."""
    import pandas as pd

    from latentia.apps.studio import choices, take_along, uploads
    from latentia.apps.studio.examples import example_table
    from latentia.apps.studio.table_view import TableView
    from latentia.apps.studio.workspace import Workspace
    from latentia.apps.tables.table_files import Table

    view, space = TableView(example_table("iris")), Workspace()
    chosen = choices.choose(view, "species", {"petal width": "left out"}, "best")
    wide = pd.DataFrame({f"a column with a long name {k}": pd.array([k, 1, 2] * 4, "Int64") for k in range(4)})
    whole = TableView(Table("wide.parquet", wide.assign(y=[1, 2, None] * 4), is_text=False))
    numbered = choices.choose(whole, "y", {"a column with a long name 1": "count"}, "fast")
    lists = pd.DataFrame({"l": [[1], [2], [3]], "same": [1.0, 1.0, 1.0], "far": [1.0, np.inf, 1.0], "y": list("aba")})
    odd = TableView(Table("odd.parquet", lists, is_text=False))
    many = types.SimpleNamespace(multilabel_=False, n_features_in_=301)

    class Failing:
        def __init__(self, error: Exception):
            self.error = error

        def classifier(self) -> Any:
            raise self.error

    def failed(error: Exception) -> str:
        from latentia.apps.studio.fit_job import FitJob

        job = FitJob(Failing(error), lambda *_: None)  # type: ignore[arg-type]
        job.start()
        job.wait(30)
        return f"{job.phase} {job.is_running} {job.message}"

    return {
        "iris": str(view.describe()),
        "odd": str(odd.describe()),
        "code": take_along.fit_code(chosen, None),
        "stopped": take_along.fit_code(chosen, 3),
        "wide": take_along.fit_code(numbered, None),
        "table": take_along.table_file(numbered).decode(),
        "long": take_along._listed([f"column {k}" for k in range(12)]),
        "failed": [failed(e) for e in (ValueError("column 'a' is odd"), MemoryError(), RuntimeError("broken"))],
        "refused": [
            refusal(choices.choose, view, "species", {}, "most"),
            refusal(choices.choose, view, "none", {}, "fast"),
            refusal(choices.choose, view, "species", {"petal width": "binary"}, "fast"),
            refusal(choices.choose, odd, "y", {}, "fast"),
            refusal(example_table, "none"),
            refusal(space.start_fit, "a", {}, "fast"),
            refusal(space.fit_progress),
            refusal(space.describe_map),
            refusal(space.file, "code.py"),
            refusal(uploads.check_size, Table("t", pd.DataFrame(np.zeros((100_001, 2))), is_text=False)),
            refusal(uploads.check_size, Table("t", pd.DataFrame(np.zeros((2, 301))), is_text=False)),
            refusal(uploads.check_size, Table("t", pd.DataFrame(np.zeros((2, 1))), is_text=False)),
            refusal(uploads.check_model, types.SimpleNamespace(multilabel_=True)),
            refusal(uploads.check_model, many),
        ],
    }


@SCENARIOS
def ellipses_of_classes() -> dict[str, Any]:
    from latentia.apps.studio.planes import PrincipalPlane, plane_of

    table = mixed()
    model = LatentClassificationModel(1, 1, **FEW).fit(table.X, table.y)
    groups = np.arange(44) % 7 // 3
    groups[:2] = 3  # of too few rows
    plane = plane_of(model, table.X, groups)
    points = plane.place(table.X)
    drawn = plane.ellipses(points, groups, 5)
    return {
        "kind": isinstance(plane, PrincipalPlane),
        "points": np.abs(points),  # directions have no sign
        "ellipses": [len(e) if e else -1 for e in drawn],
        "radii": [abs(v) for e in drawn if e for k, v in e.items() if k in ("a", "b")],
    }


@SCENARIOS
def values_for_machines() -> dict[str, Any]:
    import json

    import pandas as pd

    from latentia.apps.cli.output_files import plain

    frame = pd.DataFrame({"a": [1.5, np.nan], "b": pd.array([1, None], dtype="Int64"), "c": ["x", None]})
    values = [np.array([[1, 2], [3, 4]]), np.float32(0.5), np.bool_(True), np.int64(3), pd.NA, float("inf"), None]
    return {
        "values": json.dumps(plain(values)),
        "frame": json.dumps(plain({"rows": frame, 3: (1, "a"), "path": Path("a/b")})),
    }


@SCENARIOS.with_(is_slow=True)
def usual_choices() -> dict[str, Any]:
    """What `compare` puts beside the library's classifiers, on a table of all kinds of columns."""
    from latentia.apps.cli.usual_choices import usual_choices

    table = mixed()
    frame = table.X.drop(columns=["old"])
    found = {}
    for name, model in usual_choices(frame, 3).items():
        if "forest" in name:
            model[-1].set_params(n_estimators=5)
        model.fit(frame, table.truth)
        proba = model.predict_proba(table.new.drop(columns=["old"]))
        found[name] = proba if "regression" in name else list(proba.shape)  # trees differ between versions
        found[f"{name}, options"] = str(model[-1])
    return found


@SCENARIOS.with_(is_slow=True)
def commands() -> dict[str, Any]:
    classes = "x,y\n" + "".join(f"{k * 7 % 11},{chr(97 + k % 23)}\n" for k in range(92))
    binary = "flag,size,kind\n" + "".join(f"{['yes', 'no', ''][k % 3]},{k * 5 % 7},{'ab'[k % 2]}\n" for k in range(30))
    with shell(table=make_table(), classes=classes, binary=binary, other="flag,size\ntrue,1\nFALSE,2\n,3\n") as run:
        found = {
            "report": run("fit", "table.csv", "-t", "kind", "-o", "m", "--report", "r.html", "--effort", "fast"),
            "page": str(len(run.text("r.html")) > 10_000) + " table.csv" * ("kind in table.csv" in run.text("r.html")),
            "explained": run("explain", "m", "table.csv", "-o", "e.csv", "--json").split("}}")[-1],
            "header": run.text("e.csv").splitlines()[0],
            "classes": [
                line
                for line in run("fit", "classes.csv", "-t", "y", "-o", "c", "--effort", "fast").splitlines()
                if line.startswith("classes of")
            ],
            "flags": run("fit", "binary.csv", "-t", "kind", "-o", "b", "--effort", "fast", "-q"),
            "other": run("predict", "b", "other.csv"),
        }
        with patch("latentia.apps.cli.training_commands.read_table", side_effect=MemoryError):
            found["early"] = run("fit", "table.csv", "-t", "kind", "-o", "n", "--report", "s.html")
        found["written"] = str(sorted(path.name for path in Path(".").iterdir()))
    return found
