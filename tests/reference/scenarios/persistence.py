"""Models in files: what a file says of itself, and what comes back."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel, MixtureOfExpertsRegressor

from ..describe import answers, refusal
from ..registry import Group
from ..tables import complete, mixed, numbers, outputs
from .stack import of_numbers

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


@SCENARIOS.with_(is_slow=True)
def round_trips() -> dict[str, Any]:
    table, words = numbers(), mixed()
    X, y, *_ = outputs()
    models = {
        "mixture": (GaussianMixtureClassifier(2, unlabeled=-1, **FEW).fit(table.X, table.y), table.new),
        "factors": (LatentClassificationModel(1, 1, **FEW).fit(words.X, words.y), words.new),
        "stack": (
            of_numbers(),
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


@SCENARIOS
def plain_values() -> dict[str, Any]:
    """Values of every type that a file may hold, there and back."""
    import datetime
    import fractions

    import pandas as pd
    from sklearn.model_selection import GroupKFold, KFold, RepeatedStratifiedKFold

    from latentia.persistence.format import Decoder, Encoder
    from latentia.table.frames import PlainValues

    times = pd.date_range("2020-01-01", periods=2, tz="Europe/Berlin")
    given: dict[str, Any] = {
        "scalars": [
            1,
            2.5,
            True,
            None,
            "text",
            np.float32(0.5),
            np.int64(7),
            np.bool_(True),
            np.str_("s"),
            float("nan"),
            -float("inf"),
        ],
        "tuples": ((1, 2), [3, (4,)], {"a": 1, 2: "b"}),
        "sets": [frozenset({1, 2}), slice(1, 5, 2), range(3), 3 + 4j, b"bytes"],
        "dates": [
            datetime.date(2020, 1, 2),
            datetime.datetime(2020, 1, 2, 3, 4, 5),
            datetime.timedelta(3, 5, 7),
            datetime.time(1, 2),
        ],
        "decimals": [fractions.Fraction(1, 3)],
        "pandas": [times[0], pd.Timedelta("3h"), pd.Period("2020-01", "M"), pd.Interval(1, 2, closed="left")],
        "dtype": [np.dtype("int32"), np.dtype("<U5")],
        "folds": [
            KFold(3, shuffle=True, random_state=2),
            RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=1),
        ],
        "group_folds": GroupKFold(2),
        "generators": [np.random.default_rng(3), np.random.RandomState(4)],
        "arrays": [
            np.arange(6).reshape(2, 3),
            np.array(["a", None, 1.5], dtype=object),
            np.array(["x", "yz"]),
            np.array([], dtype=bool),
        ],
        "function": len,
        "object": object(),
        "index": [
            PlainValues.from_index(pd.Index(list("abc"))),
            PlainValues.from_index(times),
            PlainValues.from_values([1, "a", None]),
        ],
    }
    found: dict[str, Any] = {}
    for name, value in given.items():
        for k, item in enumerate(value if isinstance(value, list) else [value]):
            encoder = Encoder()
            try:
                encoded = encoder.encode(item, name)
                back = Decoder(encoder.arrays).decode(encoded)
            except Exception as error:
                found[f"{name} {k}"] = f"{type(error).__name__}: {error}".partition(" at 0x")[0]
                continue
            told = (
                "a state"
                if "generators" in name
                else json.dumps(encoded)
                if len(json.dumps(encoded)) < 300
                else f"{len(json.dumps(encoded))} characters"
            )
            shown = back.uniform(size=2) if "generators" in name and hasattr(back, "uniform") else repr(back)
            found[f"{name} {k}"] = {"encoded": told, "back": shown}
    return found


@SCENARIOS
def damaged() -> dict[str, Any]:
    """Files that somebody has changed by hand."""
    table = complete()
    model = GaussianMixtureClassifier(1, covariance="diag", **FEW).fit(table.X, table.y)

    def other(key: str, value: Any) -> Any:
        return lambda manifest: manifest.update({key: value})

    changes: dict[str, Any] = {
        "class": lambda m: m.update({"class": "os.system"}),
        "arrays": lambda m: m.update({"arrays": "none"}),
        "fewer": lambda m: m["arrays"].pop(),
    }
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.latentia"
        model.save(path)
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith(".json"))))
        found["manifest"] = " ".join(sorted(manifest))
        found["versions"] = " ".join(str(v) for k, v in sorted(manifest.items()) if "format" in k)
        for key in sorted(manifest):
            changes[f"{key} is gone"] = lambda m, key=key: m.pop(key)
            changes[f"{key} is another"] = other(key, 7)
        for name, change in changes.items():
            changed = Path(folder) / "changed.latentia"
            changed.write_bytes(_changed(path, change))
            found[name] = refusal(latentia.load, changed).replace(folder, "folder")
        for name, make in {"compressed": zipfile.ZIP_DEFLATED, "twice": None, "more": None}.items():
            changed = Path(folder) / "changed.latentia"
            with zipfile.ZipFile(path) as archive, zipfile.ZipFile(changed, "w", make or zipfile.ZIP_STORED) as new:
                for member in archive.namelist():
                    new.writestr(member, archive.read(member))
                if name == "more":
                    new.writestr("arrays/../x", b"")
            found[name] = refusal(latentia.load, changed).replace(folder, "folder")
        flipped = bytearray(path.read_bytes())
        flipped[200] ^= 255
        (Path(folder) / "flipped").write_bytes(bytes(flipped))
        found["flipped"] = refusal(latentia.load, Path(folder) / "flipped").replace(folder, "folder").partition(" (")[0]
    return found


@SCENARIOS
def layouts() -> dict[str, Any]:
    """Arrays of every layout and type, through a file."""
    from latentia.persistence import format as array_members
    from latentia.persistence.format import Decoder, Encoder

    table = complete()
    base = np.arange(24.0).reshape(2, 3, 4)
    arrays = {
        "c": base,
        "f": np.asfortranarray(base),
        "swapped": base.transpose(1, 0, 2),
        "rotated": base.transpose(2, 0, 1),
        "strided": base[:, ::2, 1:],
        "reversed": base[::-1],
        "broadcast": np.broadcast_to(np.arange(3.0), (2, 3)),
        "scalar": np.array(2.5),
        "empty": np.zeros((0, 3)),
        "bool": base > 5,
        "int8": base.astype(np.int8),
        "float32": base.astype(np.float32),
        "text": np.array([["a", "bcd"], ["", "e"]]),
        "dates": np.array(["2020-01-01", "2021-05-05"], dtype="M8[D]"),
        "big": base.astype(">f8"),
        "complex": base * 1j,
    }
    found: dict[str, Any] = {
        "can": " ".join(f"{name} {array_members.can_be_member(array)}" for name, array in arrays.items())
    }
    model = GaussianMixtureClassifier(1, covariance="diag", **FEW).fit(table.X, table.y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.latentia"
        for name, array in arrays.items():
            model.extra_ = array
            try:
                model.save(path)
                back = latentia.load(path).extra_
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
                continue
            text = back.dtype.kind in "USM"
            found[name] = {
                "dtype": str(back.dtype),
                "values": back.astype(str) if text else back,
                "f": back.flags.f_contiguous,
            }
        del model.extra_
        model.other_ = object()
        found["refused"] = refusal(model.save, path).partition(" at 0x")[0]
        found["files"] = sorted(p.name for p in Path(folder).iterdir())
        with (
            patch("zipfile.ZipFile.writestr", side_effect=OSError(28, "No space left")),
            patch("zipfile.ZipFile.open", side_effect=OSError(28, "No space left")),
        ):
            del model.other_
            found["full"] = refusal(model.save, path).replace(folder, "folder")
        found["left"] = sorted(p.name for p in Path(folder).iterdir())
        found["still"] = latentia.load(path).classes_
    encoder = Encoder()
    tree_of = encoder.encode([base, base, base.transpose(1, 0, 2)], "x")
    return found | {
        "shared": json.dumps(tree_of),
        "arrays": len(encoder.arrays),
        "decoded": Decoder(encoder.arrays).decode(tree_of)[2],
    }
