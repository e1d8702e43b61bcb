"""Files of every format, and the parts of Studio that answer to no page."""

from __future__ import annotations

import asyncio
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from latentia import GaussianMixtureClassifier, LatentClassificationModel, ProbitEmbeddingClassifier

from ..describe import refusal
from ..digest import tree
from ..registry import Group
from ..tables import complete, label_matrix, mixed, numbers
from .commands import make_table, shell

SCENARIOS = Group()
FEW: Any = {"max_iter": 2, "n_init": 1, "random_state": 0}


@SCENARIOS
def formats() -> dict[str, Any]:
    import pandas as pd

    from latentia.apps.tables.class_labels import read_labels
    from latentia.apps.tables.failures import Failure
    from latentia.apps.tables.table_files import Reading, read_table
    from latentia.apps.tables.typed_columns import find_features, kind_of

    frame = pd.DataFrame(
        {
            "a": pd.array([1, None, 3], dtype="Int64"),
            "b": [0.5, None, 2.0],
            "c": ["x", None, "z"],
            "d": pd.array([True, None, False], dtype="boolean"),
        }
    )
    found: dict[str, Any] = {}

    def told(path: str, reading: Any = None) -> Any:
        try:
            table = read_table(path, reading or Reading())
        except Failure as failure:
            return f"{failure.code} {failure}"
        features = find_features(table, table.names)
        return {
            "text": table.is_text,
            "frame": table.frame,
            "kinds": " ".join(kind_of(features.frame[n]) for n in features.frame),
        }

    with shell():
        frame.to_parquet("a.parquet")
        frame.to_feather("a.feather")
        Path("b.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))
        Path("c.gz").write_bytes(gzip.compress(Path("a.parquet").read_bytes()))
        Path("cut.gz").write_bytes(gzip.compress(b"a,b\n1,x\n" * 50)[:30])
        Path("cut.parquet").write_bytes(Path("a.parquet").read_bytes()[:60])
        frame[:0].to_parquet("none.parquet")
        Path("t.tsv").write_text("a\tb\n1,5\tx\n2\ty\n")
        Path("x.xlsx").write_bytes(b"PK\x03\x04 and more")
        Path("zero.csv").write_bytes(b"a,b\n1,\x002\n")
        Path("quote.csv").write_text('a,b\n"1,2\n3,4\n')
        Path("after.csv").write_text('a,b\n"1"x,2\n3,4\n')
        Path("missing.csv").write_text("a,b\n1,-\n2,x\n-,y\n")
        Path("zeros.csv").write_text("a,b\n" + "".join(f"{k},{k % 3}\n" for k in range(60)) + "007,1\n")
        Path("slips.csv").write_text("a,b\n" + "".join(f"{k / 7},{k % 3}\n" for k in range(60)) + "unknown,1\n")
        Path("ids.csv").write_text(
            "id,day,when,b\n" + "".join(f"n{k},2020-{1 + k % 12:02d}-{1 + k % 28:02d},{k},{k % 3}\n" for k in range(80))
        )
        names = [
            "a.parquet",
            "a.feather",
            "b.csv.gz",
            "c.gz",
            "cut.gz",
            "cut.parquet",
            "none.parquet",
            "t.tsv",
            "x.xlsx",
            "zero.csv",
            "quote.csv",
            "after.csv",
        ]
        found |= {name: told(name) for name in names}
        found["missing"] = told("missing.csv", Reading(missing=frozenset({"-"})))
        found["delimiter"] = told("missing.csv", Reading(delimiter=";;"))
        found["other_delimiter"] = told("t.tsv", Reading(delimiter=","))
        for name in ("zeros.csv", "slips.csv", "ids.csv"):
            table = read_table(name, Reading())
            features = find_features(table, [n for n in table.names if n != "b"] if name == "ids.csv" else table.names)
            found[name] = {
                "notes": list(features.notes),
                "left_out": dict(features.left_out),
                "doubted": sorted(features.explained),
                "kinds": " ".join(kind_of(features.frame[n]) for n in features.frame),
            }
        table = read_table("ids.csv", Reading())
        found["classes"] = read_labels(table, "b")
        for target in ("id", "none"):
            found[f"labels {target}"] = refusal(read_labels, table, target)
        one = read_table("b.csv.gz", Reading())
        found["one_class"] = refusal(read_labels, type(one)("t", one.frame.assign(b="x"), True), "b")
    return found


@SCENARIOS.with_(is_slow=True)
def odd_commands() -> dict[str, Any]:
    """Models of other kinds, notes, all formats of output."""
    import pandas as pd

    ids = "id,size,kind\n" + "".join(f"name {k},{k % 7 + (k % 2) * 3},{'ab'[k % 2]}\n" for k in range(60))
    with shell(table=make_table(), ids=ids, one="a\nx\ny\n") as run:
        table = complete()
        X, Y, _, _ = label_matrix()
        GaussianMixtureClassifier(1, **FEW).fit(table.X, table.y).save("numbers.latentia")
        ProbitEmbeddingClassifier(1, max_iter=2).fit(X, Y).save("labels.latentia")
        pd.DataFrame(table.new).to_csv("rows.csv", index=False)
        pd.DataFrame(table.new[:, :2]).to_csv("short.csv", index=False)
        found = {
            "predict": run("predict", "numbers.latentia", "rows.csv"),
            "parquet": run("predict", "numbers.latentia", "rows.csv", "-o", "p.parquet", "--json"),
            "feather": run("predict", "numbers.latentia", "rows.csv", "-o", "p.feather"),
            "gzip": run("predict", "numbers.latentia", "rows.csv", "-o", "p.csv.gz"),
            "tsv": run("predict", "numbers.latentia", "rows.csv", "-o", "p.tsv", "-q"),
            "sample": run("sample", "numbers.latentia", "-n", "2"),
            "short": run("predict", "numbers.latentia", "short.csv"),
            "labels": run("predict", "labels.latentia", "rows.csv"),
            "no_explanation": run("explain", "numbers.latentia", "rows.csv"),
            "no_target": run("report", "numbers.latentia", "rows.csv", "-o", "r.html"),
            "notes": run("fit", "ids.csv", "-t", "kind", "-o", "i.latentia", "--effort", "fast"),
            "one_column": run("fit", "one.csv", "-t", "a", "-o", "q"),
            "folder": run("fit", "ids.csv", "-t", "kind", "-o", "."),
            "same": run("fit", "ids.csv", "-t", "kind", "-o", "x", "--report", "x"),
            "report": run("report", "i.latentia", "ids.csv", "-o", "r.html", "--json"),
        }
        found |= {
            "parquet_rows": pd.read_parquet("p.parquet"),
            "feather_rows": pd.read_feather("p.feather"),
            "gzip_rows": pd.read_csv("p.csv.gz"),
            "tsv_rows": run.text("p.tsv"),
        }
        return found


@SCENARIOS
def guarded() -> dict[str, Any]:
    """Which requests Studio answers."""
    from latentia.apps.studio.guard import Guard

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/api/error":
            raise RuntimeError
        body = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body["body"]})

    async def ask(path: str = "/api/state", method: str = "GET", body: bytes = b"hello", **headers: str | None) -> str:
        sent: list[Any] = []
        given = {
            "host": "127.0.0.1:80",
            "x-studio-token": "secret",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        scope = {"type": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "method": method}
        scope["headers"] = [(k.encode(), v.encode()) for k, v in given.items() if v is not None]

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await Guard(app, "secret", 80)(scope, receive, send)
        shown = sorted(f"{k.decode()}: {v.decode()}" for k, v in sent[0]["headers"]) if path == "/" else ""
        return f"{sent[0]['status']} {sent[-1]['body'].decode()[:200]} {shown}"

    async def all_answers() -> dict[str, str]:
        return {
            "page": await ask("/", x_studio_token=None),
            "state": await ask(),
            "no_token": await ask(x_studio_token=None),
            "wrong_token": await ask(x_studio_token="other"),
            "host": await ask(host="example.org"),
            "localhost": await ask(host="localhost:80"),
            "port": await ask(host="127.0.0.1:81"),
            "origin": await ask(origin="http://example.org"),
            "own_origin": await ask(origin="http://localhost:80"),
            "site": await ask(sec_fetch_site="cross-site"),
            "same_origin": await ask(sec_fetch_site="same-origin"),
            "same_site": await ask(sec_fetch_site="same-site"),
            "typed": await ask(sec_fetch_site="none"),
            "twice": await ask(host="127.0.0.1:80, localhost:80"),
            "null_origin": await ask(origin="null"),
            "head": await ask("/", method="HEAD"),
            "no_host": await ask(host=None),
            "method": await ask(method="PUT"),
            "post": await ask(method="POST"),
            "long": await ask("/" + "x" * 1200),
            "length": await ask(content_length="x"),
            "large": await ask(content_length=str(10**9)),
            "large_body": await ask(body=b"x" * (1 << 21)),
            "error": await ask("/api/error"),
        }

    return dict(asyncio.run(all_answers()))


@SCENARIOS.with_(is_slow=True)
def studio_of_models() -> dict[str, Any]:
    """Models from files, tables without labels, planes of models without factors."""
    from latentia.apps.studio.planes import plane_of
    from latentia.apps.studio.workspace import Workspace

    table, words = numbers(), mixed()
    import pandas as pd

    frame = pd.DataFrame(table.X, columns=list("abcd"))
    mixture = GaussianMixtureClassifier(1, covariance="full", unlabeled=-1, **FEW).fit(frame, table.y)
    kinds = LatentClassificationModel(1, 1, **FEW).fit(words.X, words.y)
    found: dict[str, Any] = {}
    for name, (model, X, y) in {
        "mixture": (mixture, frame, table.truth),
        "mixed": (kinds, words.X, words.truth),
    }.items():
        codes = np.searchsorted(model.classes_, y)
        plane = plane_of(model, X, codes)
        points = plane.place(X)
        found[name] = {"points": np.abs(points), "names": plane.axis_names, "caption": plane.caption}
        found[f"{name} ellipses"] = [
            {k: v % 180.0 if k == "angle" else abs(v) for k, v in e.items()}
            for e in plane.ellipses(points, codes, 3)
            if e
        ]
    workspace = Workspace()
    with tempfile.TemporaryDirectory() as folder:
        mixture.save(f"{folder}/m.latentia")
        frame.to_csv(f"{folder}/t.csv", index=False)
        content = Path(f"{folder}/m.latentia").read_bytes()
        opened = workspace.open_model(content, "m.latentia")
        workspace.open_path(f"{folder}/t.csv")
        workspace.open_path(f"{folder}/m.latentia")
    view = workspace.describe_map()
    found["opened"] = sorted(opened)
    found["view"] = {k: v for k, v in view.items() if isinstance(v, str | int | float | bool) and k != "origin"}
    found["code"] = workspace.file("code.py")[0].decode()
    found["no_table"] = refusal(workspace.file, "table.csv")
    found["example"] = (
        {k: (v if not isinstance(v, list) else len(v)) for k, v in Workspace().open_example("iris")["table"].items()}
        if _has_example()
        else None
    )
    empty = Workspace()
    for name, call in {
        "map": empty.describe_map,
        "fit": empty.fit_progress,
        "start": lambda: empty.start_fit("a", {}, "fast"),
        "stop": empty.stop_fit,
    }.items():
        found[f"empty {name}"] = refusal(call)
    return found | {"state": json.dumps(empty.describe())}


def _has_example() -> bool:
    from latentia.apps.studio.examples import LOADERS

    return "iris" in LOADERS


@SCENARIOS.with_(is_slow=True)
def drawing_board() -> dict[str, Any]:
    """The board on a quarter of the digits."""
    from sklearn.datasets import load_digits

    from latentia.apps.studio import board

    pixels, digit = load_digits(return_X_y=True)
    few = np.flatnonzero(digit < 4)[:90]

    def some(return_X_y: bool = True) -> Any:
        X, y = pixels[few], digit[few]
        return np.concatenate([X, X[:0]]), y

    with patch.object(board, "load_digits", some):
        made = board.Board()
        told = made.describe()
        drawn: list[float | None] = [*pixels[few[3]].tolist()[:32], *([None] * 32)]
        answer, empty = made.answer(drawn), made.answer([None] * 64)
    return {
        "told": {
            "side": told["side"],
            "ink": told["ink"],
            "classes": told["classes"],
            "examples": [len(e) for e in told["examples"]],
        },
        "answer": tree((np.array(answer["proba"]), np.round(answer["expected"], 1))),
        "given": [g["digit"] for g in answer["given"]],
        "empty": tree((np.array(empty["proba"]), np.round(empty["expected"], 1))),
    }


@SCENARIOS
def studio_columns() -> dict[str, Any]:
    import pandas as pd

    from latentia.apps.studio.columns import Column

    columns: dict[str, Any] = {
        "numbers": ("continuous", [0.5, 2.25, -1.0, None]),
        "whole": ("continuous", [3, 1, 9, 4]),
        "wide": ("continuous", [0, 500, 3, 100]),
        "edge": ("continuous", [0, 32, 3, 1]),
        "one": ("continuous", [2.5, 2.5]),
        "counts": ("count", [0, 2, 7, None]),
        "many_counts": ("count", [0, 2, 700, None]),
        "bools": ("binary", [True, False, None, True]),
        "bits": ("binary", [0, 1, 1, 0]),
        "words": ("categorical", ["b", "a", None, "c"]),
        "levels": ("ordinal", [3, 1, 2]),
        "text": ("continuous", ["1", "x"]),
        "empty": ("continuous", [None, None]),
    }
    found: dict[str, Any] = {}
    for name, (kind, cells) in columns.items():
        column = Column.of(name, kind, pd.Series(cells))
        grid = column.grid()
        found[name] = {
            "told": str(column.describe()),
            "grid": grid if isinstance(grid[0], str | bool) else np.array(grid, dtype=float),
        }
        found[name]["cells"] = " | ".join(
            refusal_or(column.value, text) for text in ("1", "2,5", "-3", "1.5", "abc", "true", "", " b ", "1e200", "0")
        )
        found[name]["texts"] = " | ".join(
            str(column.text(value)) for value in (None, 1.0, 2.5, True, "a", 1234567.25, 1e-9, float("nan"))
        )
        found[name]["array"] = str(column.array([None, *([1.0] if column.is_number else ["b"])]).tolist())
    return found


def refusal_or(call: Any, *args: Any) -> str:
    try:
        return repr(call(*args))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@SCENARIOS.with_(is_slow=True)
def ends_of_commands() -> dict[str, Any]:
    """Exit codes and texts of all that may happen in a command."""
    from latentia.apps.cli import answer_commands
    from latentia.apps.tables.failures import ExitCode

    odd: dict[str, Any] = {
        "os": OSError(28, "No space left", "out.csv"),
        "os_plain": OSError("broken"),
        "memory": MemoryError(),
        "interrupt": KeyboardInterrupt(),
        "bug": RuntimeError("a bug"),
        "value": ValueError("some  value\nhere"),
    }
    found: dict[str, Any] = {"codes": " ".join(f"{code.name}={code.value}" for code in ExitCode)}
    with shell() as run:
        for name, error in odd.items():
            with patch.object(answer_commands, "load_classifier", side_effect=error):
                found[name] = run("predict", "m.latentia", "table.csv")
        with (
            patch.dict("os.environ", {"LATENTIA_DEBUG": "1"}),
            patch.object(answer_commands, "load_classifier", side_effect=RuntimeError("seen")),
        ):
            found["debug"] = "Traceback" in run("predict", "m", "table.csv")
    return found


@SCENARIOS.with_(is_slow=True)
def every_option() -> dict[str, Any]:
    """Options of commands away from their defaults."""
    rng = np.random.RandomState(0)
    lines = [
        f"{rng.normal() + k % 2:.3f};{rng.normal() * 3:.2f};{'ja' if k % 2 else 'nein'};{k % 5 or '-'}"
        for k in range(24)
    ]
    content = "grösse;tiefe;antwort;rest\n" + "\n".join(lines) + "\n"
    from latentia.apps.cli import training_commands
    from latentia.estimators.latent_classification import LatentClassificationModel

    few = patch.dict(LatentClassificationModel.__init__.__kwdefaults__, {"max_iter": 2})
    with shell() as run, few, patch.object(training_commands, "usual_choices", lambda frame, seed: {}):
        Path("t.txt").write_bytes(content.encode("latin-1"))
        read = ["--encoding", "latin-1", "--delimiter", ";", "--missing", "-"]
        found = {
            "fit": run("fit", "t.txt", "-t", "antwort", "-o", "m.latentia", "--effort", "fast", *read),
            "again": run(
                "fit",
                "t.txt",
                "-t",
                "antwort",
                "-o",
                "m.latentia",
                "--effort",
                "fast",
                "--force",
                "--quiet",
                "--jobs",
                "1",
                *read,
            ),
            "predict": run("predict", "m.latentia", "t.txt", *read),
            "median": run("impute", "m.latentia", "t.txt", "--method", "median", *read),
            "explain": run("explain", "m.latentia", "t.txt", *read),
        }
        for seed in ("0", "1"):
            found[f"sample {seed}"] = run("sample", "m.latentia", "-n", "3", "--seed", seed)
            found[f"compare {seed}"] = run(
                "compare", "t.txt", "-t", "antwort", "--folds", "2", "--seed", seed, "--json", "--effort", "fast", *read
            )
        found["folds"] = run("compare", "t.txt", "-t", "antwort", "--folds", "3", "--ignore", "rest", *read)
        found["report"] = run("report", "m.latentia", "t.txt", "-o", "r.html", "-t", "antwort", *read)
        found["title"] = run.text("r.html").partition("<title>")[2][:60]
        found["none"] = run("report", "m.latentia", "t.txt", "-o", "r.html", *read)
        return found
