"""Models in files: what a file says of itself, and what comes back."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel, LatentClassifier, MixtureOfExpertsRegressor

from ..describe import answers, refusal
from ..registry import Group
from ..tables import complete, mixed, numbers, outputs

SCENARIOS = Group()
FEW: Any = {"max_iter": 2, "n_init": 1, "random_state": 0}


def stored(model: Any, folder: str) -> tuple[Any, dict[str, Any]]:
    path = Path(folder) / "model.latentia"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read(archive.namelist()[0])) if archive.namelist()[0].endswith("json") else {}
        facts = {
            "members": len(archive.namelist()),
            "first": archive.namelist()[0],
            "kinds": " ".join(sorted({name.rsplit(".", 1)[-1] for name in archive.namelist()})),
            "keys": " ".join(sorted(manifest)),
        }
    return latentia.load(path), facts


@SCENARIOS
def round_trips() -> dict[str, Any]:
    table, words = numbers(), mixed()
    X, y, *_ = outputs()
    models = {
        "mixture": (GaussianMixtureClassifier(2, unlabeled=-1, **FEW).fit(table.X, table.y), table.new),
        "factors": (LatentClassificationModel(1, 1, **FEW).fit(words.X, words.y), words.new),
        "stack": (
            LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(table.X, table.truth),
            table.new,
        ),
        "experts": (MixtureOfExpertsRegressor(2, **FEW).fit(X, y), X[:5]),
    }
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, rows) in models.items():
            back, facts = stored(model, folder)
            found[name] = facts | {
                "same": repr(back) == repr(model),
                "type": type(back).__name__,
                **answers(back, rows),
            }
            found[name]["attributes"] = " ".join(sorted(n for n in vars(back) if n not in model.get_params()))
    return found


@SCENARIOS
def refusals() -> dict[str, Any]:
    table = complete()
    model = GaussianMixtureClassifier(1, callback=lambda step: None, **FEW).fit(table.X, table.y)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.latentia"
        model.save(path)
        found["callback"] = latentia.load(path).callback is None
        content = path.read_bytes()

        def told(name: str, data: bytes) -> str:
            other = Path(folder) / name
            other.write_bytes(data)
            return refusal(latentia.load, other).replace(folder, "folder")

        found["unfitted"] = refusal(GaussianMixtureClassifier().save, path)
        found["missing"] = refusal(latentia.load, Path(folder) / "none").replace(folder, "folder")
        found["folder"] = refusal(latentia.load, folder).replace(folder, "folder")
        found["empty"] = told("empty", b"")
        found["text"] = told("text", b"hello, world" * 30)
        found["cut"] = told("cut", content[: len(content) // 2])
        for name, change in CHANGES.items():
            found[name] = told(name, _changed(path, change))
        found["nowhere"] = refusal(model.save, Path(folder) / "no" / "file").replace(folder, "folder")
    return found


def _changed(path: Path, change: Any) -> bytes:
    """A file whose manifest is another one."""
    import io

    out = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as other:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".json"):
                manifest = json.loads(content)
                change(manifest)
                content = json.dumps(manifest).encode()
            other.writestr(name, content)
    return out.getvalue()


def _set(key: str, value: Any) -> Any:
    return lambda manifest: manifest.__setitem__(key, value)


CHANGES = {
    "format": _set("format", "other"),
    "version": _set("format_version", 99),
    "no_class": lambda manifest: manifest.clear(),
}


@SCENARIOS
def values() -> dict[str, Any]:
    """Options of all kinds come back."""
    table = complete()
    options: dict[str, Any] = {
        "priors": {0: 0.2, 1: 0.5, 2: 0.3},
        "loss_matrix": np.array(LOSSES),
        "n_components": [1, 2, 1],
    }
    model = GaussianMixtureClassifier(covariance="full", **options, **FEW).fit(
        table.X.astype(np.float32), table.y.astype(str).astype(float)
    )
    with tempfile.TemporaryDirectory() as folder:
        back, facts = stored(model, folder)
    return facts | {
        "priors": repr(back.priors),
        "losses": back.loss_matrix,
        "components": repr(back.n_components),
        "classes": back.classes_,
        "dtype": str(back.means_.dtype),
        "record": {n: v for n, v in back.training_record_.items() if n != "seconds"},
    }


LOSSES = [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [1.5, 3.0, 0.0]]
