"""Benchmark data: a folder of files named by LATENTIA_DATA, else scikit-learn's `fetch_openml`.

One function per layout:

- `load_table`       ``NAME.csv.gz``: features, then ``class``; an empty cell is missing
- `load_mixed`       the same, with columns that are not continuous as categories of text
- `load_splits`      ``ida_NAME.npz``: X, y in {-1, +1}, and published training/test row numbers
- `load_multilabel`  ``NAME.npz``: X, an indicator matrix Y, training and test row numbers
- `load_images`      ``mnist.npz``, ``usps.npz``: training and test images
- `load_digits`      ``semeion.npz``: binary digits
- `load_documents`   ``reuters_r90_*.npz``: sparse 0/1 words, three binary topics

`load(name)` finds the layout by name. A copy from OpenML is accepted only if it has the rows, features and classes
listed here; its columns may have other names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Shape(NamedTuple):
    rows: int
    features: int
    classes: int
    openml: int | None = None  # number of a copy with the same rows, if one is known


TABLES = {
    "balance-scale": Shape(625, 4, 3, 11),
    "breast": Shape(683, 9, 2, 15),
    "breast-w-missing": Shape(699, 9, 2, 15),
    "crabs": Shape(200, 5, 4),
    "credit-approval": Shape(690, 15, 2),
    "diabetes": Shape(768, 8, 2, 37),
    "glass": Shape(214, 9, 6, 41),
    "glass2": Shape(163, 9, 2),
    "heart": Shape(270, 13, 2, 53),
    "heart-cleveland": Shape(303, 13, 5),
    "hepatitis": Shape(155, 19, 2),
    "iris": Shape(150, 4, 3, 61),
    "segment": Shape(2310, 19, 7),
    "tae": Shape(151, 5, 3, 48),
    "thyroid": Shape(215, 5, 3, 40682),
    "votes": Shape(435, 16, 2, 56),
    "wdbc": Shape(569, 30, 2, 1510),
    "wine": Shape(178, 13, 3, 187),
}

#: The tables that both the folder and table 3 of "Latent classification models" have.
PAPER_TABLES = (
    "balance-scale",
    "breast",
    "crabs",
    "diabetes",
    "glass",
    "glass2",
    "heart",
    "iris",
    "tae",
    "thyroid",
    "wine",
)

_CONTINUOUS = {
    "hepatitis": "age bilirubin alk_phosphate sgot albumin protime".split(),
    "credit-approval": "A2 A3 A8 A11 A14 A15".split(),
    "heart-cleveland": "age trestbps chol thalach oldpeak".split(),
    "votes": [],
}
_BINARY = {
    "hepatitis": (
        "sex steroid antivirals fatigue malaise anorexia liver_big liver_firm spleen_palpable spiders ascites varices "
        "histology"
    ).split(),
    "heart-cleveland": "sex fbs exang".split(),
}


class Table(NamedTuple):
    """Rows (a data frame), labels (strings) and the kind of each column."""

    X: Any
    y: np.ndarray
    kinds: tuple[str, ...]  # "continuous", "binary" or "categorical"


class Split(NamedTuple):
    """Data with published training and test rows."""

    X: np.ndarray
    y: np.ndarray  # labels, or an indicator matrix (N, L)
    train: np.ndarray  # row numbers; (splits, rows) where there are several splits
    test: np.ndarray


def folder() -> Path | None:
    """The folder named by the environment variable LATENTIA_DATA, or None if it is not set."""
    name = os.environ.get("LATENTIA_DATA")
    if not name:
        return None
    if not Path(name).is_dir():
        raise FileNotFoundError(f"LATENTIA_DATA must name a folder, got {name!r}")
    return Path(name)


def kinds(name: str, columns: Any) -> tuple[str, ...]:
    """The kind of each column of a table; continuous unless known to be otherwise."""
    if name not in _CONTINUOUS:
        return ("continuous",) * len(columns)
    binary = _BINARY.get(name, [])
    return tuple(
        "continuous" if c in _CONTINUOUS[name] else "binary" if c in binary else "categorical" for c in columns
    )


def load_table(name: str) -> Table:
    """A table by name: from the folder, else from OpenML."""
    import pandas

    if name not in TABLES:
        raise ValueError(f"name must be one of {sorted(TABLES)}, got {name!r}")
    if folder() is None:
        X, y = _from_openml(name)
    else:
        frame = pandas.read_csv(_file(f"{name}.csv.gz"), keep_default_na=False, na_values=[""], dtype={"class": str})
        X, y = frame.drop(columns="class"), frame["class"].to_numpy(dtype=str)
    expected, found = TABLES[name], (len(X), X.shape[1], len(set(y)))
    if found != expected[:3]:
        raise ValueError(f"{name}: expected (rows, features, classes) = {tuple(expected[:3])}, the copy has {found}")
    return Table(X, y, kinds(name, X.columns))


def load_numbers(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A table of numbers as float64 (NaN where missing) and its labels."""
    table = load_table(name)
    return table.X.to_numpy(dtype=np.float64), table.y


def load_mixed(name: str) -> Table:
    """A table whose binary and categorical columns are pandas categories of text, also where the file has codes."""
    table = load_table(name)
    X = table.X.copy()
    for column, kind in zip(X.columns, table.kinds, strict=True):
        if kind != "continuous":
            text = X[column].map(lambda v: v if isinstance(v, str) or v != v else f"{v:g}")
            X[column] = text.astype("category")
    return table._replace(X=X)


def load_splits(name: str) -> Split:
    """banana, image, twonorm or thyroid as prepared by Rätsch; thyroid comes without splits."""
    with np.load(_file(f"ida_{name}.npz")) as data:
        return Split(data["X"], data["y"].astype(np.int64), data["train_idx"], data["test_idx"])


def load_multilabel(name: str) -> Split:
    """emotions, scene or medical."""
    with np.load(_file(f"{name}.npz")) as data:
        return Split(data["X"], data["Y"].astype(np.int64), data["train_idx"], data["test_idx"])


def load_label_names(name: str) -> list[str]:
    """The names of the labels of emotions, scene or medical."""
    with np.load(_file(f"{name}.npz")) as data:
        return [str(label) for label in data["label_names"]]


def load_images(name: str) -> Split:
    """mnist (0 to 255) or usps (-1 to 1): all images in one array, the training images first."""
    with np.load(_file(f"{name}.npz")) as data:
        X = np.concatenate([data["X_train"], data["X_test"]])
        y = np.concatenate([data["y_train"], data["y_test"]]).astype(np.int64)
        n_train = len(data["y_train"])
        if "scale" in data:
            X = X * float(data["scale"])
    return Split(X, y, np.arange(n_train), np.arange(n_train, len(y)))


def load_usps_surrogate() -> Split:
    """usps in a random half-and-half split with the class counts of the binary-data paper."""
    images = load_images("usps")
    with np.load(_file("usps.npz")) as data:
        return images._replace(train=data["surrogate_train_idx"], test=data["surrogate_test_idx"])


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """semeion: 1593 handwritten digits of 16 x 16 zeros and ones."""
    with np.load(_file("semeion.npz")) as data:
        return data["X"], data["y"].astype(np.int64)


def load_documents(topic: str = "earn") -> Split:
    """reuters: sparse 0/1 words; y is 1 for documents of the topic (earn, acq or crude)."""
    from scipy import sparse

    if topic not in ("earn", "acq", "crude"):
        raise ValueError(f"topic must be 'earn', 'acq' or 'crude', got {topic!r}")
    X = sparse.load_npz(_file("reuters_r90_X.npz")).tocsr()
    with np.load(_file("reuters_r90_meta.npz")) as meta:
        return Split(X, meta[f"y_{topic}"].astype(np.int64), meta["train_idx"], meta["test_idx"])


#: The loader of each name.
LOADERS = {
    **{name: load_table for name in TABLES},
    **{
        f"ida_{name}": (lambda full: load_splits(full.removeprefix("ida_")))
        for name in ("banana", "image", "thyroid", "twonorm")
    },
    **{name: load_multilabel for name in ("emotions", "medical", "scene")},
    **{name: load_images for name in ("mnist", "usps")},
    "semeion": lambda name: load_digits(),
    **{
        f"reuters-{topic}": (lambda full: load_documents(full.removeprefix("reuters-")))
        for topic in ("earn", "acq", "crude")
    },
}


def load(name: str) -> Any:
    """Any data set of the registry."""
    if name not in LOADERS:
        raise ValueError(f"name must be one of {sorted(LOADERS)}, got {name!r}")
    return LOADERS[name](name)


def standardize(train: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """Every array less the training part's mean, over its standard deviation; NaN stays NaN, constants become 0."""
    train = np.asarray(train, dtype=np.float64)
    mean, scale = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return tuple((np.asarray(part, dtype=np.float64) - mean) / scale for part in (train, *others))


def _file(name: str) -> Path:
    where = folder()
    if where is None:
        raise FileNotFoundError(f"{name} is needed: set LATENTIA_DATA to the folder that holds it")
    if not (where / name).is_file():
        raise FileNotFoundError(f"{name} is not in the folder LATENTIA_DATA={where}")
    return where / name


def _from_openml(name: str) -> tuple[Any, np.ndarray]:
    from sklearn.datasets import fetch_openml

    number = TABLES[name].openml
    if number is None:
        raise FileNotFoundError(f"{name} has no copy on OpenML: set LATENTIA_DATA to a folder with {name}.csv.gz")
    X, y = fetch_openml(data_id=number, as_frame=True, return_X_y=True)
    if name == "breast":  # the complete rows of breast-w-missing
        complete = X.notna().all(axis=1)
        X, y = X[complete], y[complete]
    return X.reset_index(drop=True), np.asarray(y).astype(str)
