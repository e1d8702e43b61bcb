"""One trial of the arena: a table, a setting, a repeat and a method, and how well it did.

A table is split into stratified halves. Which rows train, which cells are deleted and which rows keep their label is
drawn from the table's name and the repeat alone: every method sees the same rows, the cells missing at 20 % are also
missing at 50 %, and the five labels a class are among the ten.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
import zlib
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from data import folder, load_mixed, load_numbers
from methods import make_classifier, make_imputer
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

#: Tables of numbers, and tables with text or code columns or with gaps of their own.
NUMERIC = (
    "iris", "wine", "wdbc", "glass", "glass2", "diabetes", "heart", "thyroid", "balance-scale", "breast", "crabs",
    "tae", "segment",
)  # fmt: skip
MIXED = ("credit-approval", "hepatitis", "heart-cleveland", "votes", "breast-w-missing")
#: Need no files: scikit-learn's own copies, and rows drawn at random.
BUNDLED = ("iris", "wine", "wdbc", "synthetic-mixed")
#: All names. heart-cleveland-2 tells healthy from not, as it is often used; no run has it by default.
NAMES = sorted({*NUMERIC, *MIXED, *BUNDLED, "heart-cleveland-2"})
ROWS_AT_MOST = 700  # of segment


class Setting(NamedTuple):
    gaps: float = 0.0  # share of the cells deleted, of training and test rows
    labels: int | None = None  # a class; the other training rows are unlabeled


SETTINGS = {
    "complete": Setting(),
    "gaps20": Setting(gaps=0.2),
    "gaps50": Setting(gaps=0.5),
    "few5": Setting(labels=5),
    "few10": Setting(labels=10),
    "few20": Setting(labels=20),
    "both": Setting(gaps=0.5, labels=10),
}
#: Share of the deleted cells, for the imputers.
IMPUTE_SETTINGS = {"impute10": 0.1, "impute30": 0.3, "impute50": 0.5}


class Trial(NamedTuple):
    """What names one row of the results, and how the method is made."""

    table: str
    setting: str
    repeat: int
    method: str
    expression: str = ""  # of an estimator of ours that has no name here


class Rows(NamedTuple):
    """Training and test rows; labels are codes 0, 1, ..., and -1 for an unlabeled training row."""

    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    n_classes: int


def default_tables() -> tuple[str, ...]:
    """All tables of the folder LATENTIA_DATA; without it, what scikit-learn brings along."""
    return BUNDLED if folder() is None else NUMERIC + MIXED


@lru_cache(maxsize=2)
def load(name: str) -> tuple[Any, np.ndarray]:
    """Rows (an array, or a data frame with category columns) and labels as codes."""
    if name == "synthetic-mixed":
        return synthetic_mixed()
    if name == "heart-cleveland-2":
        table = load_mixed("heart-cleveland")
        return table.X, (table.y != "0").astype(np.int64)
    if folder() is None and name in BUNDLED:
        from sklearn import datasets

        loader = {"iris": datasets.load_iris, "wine": datasets.load_wine, "wdbc": datasets.load_breast_cancer}[name]
        return loader(return_X_y=True)
    if name in MIXED:
        X, labels, _ = load_mixed(name)
    else:
        X, labels = load_numbers(name)
    y = np.unique(labels, return_inverse=True)[1]
    if len(y) > 2 * ROWS_AT_MOST:
        keep, _ = train_test_split(np.arange(len(y)), train_size=ROWS_AT_MOST, stratify=y, random_state=0)
        X, y = take(X, keep), y[keep]
    return X, y


def synthetic_mixed(n_rows: int = 240) -> tuple[Any, np.ndarray]:
    """Three classes, four numbers and two category columns, all of which tell something of the class."""
    import pandas

    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 3
    factor = rng.standard_normal((n_rows, 2)) + np.array([[0, 0], [2, 0], [0, 2]])[y]
    numbers = factor @ rng.standard_normal((2, 4)) + 0.5 * rng.standard_normal((n_rows, 4))
    shape = np.where(rng.random(n_rows) < 0.7, y, rng.integers(0, 3, n_rows))
    color = np.where(factor[:, 0] + rng.standard_normal(n_rows) > 1, "red", "blue")
    frame = pandas.DataFrame(numbers, columns=[f"x{i}" for i in range(4)])
    frame["shape"] = pandas.Categorical.from_codes(shape, ["round", "square", "flat"])
    frame["color"] = pandas.Categorical(color)
    return frame, y


def take(X: Any, rows: np.ndarray) -> Any:
    return X[rows] if isinstance(X, np.ndarray) else X.iloc[rows].reset_index(drop=True)


def with_gaps(X: Any, gaps: np.ndarray) -> Any:
    """A copy in which the marked cells are missing."""
    if isinstance(X, np.ndarray):
        return np.where(gaps, np.nan, X)
    return X.mask(gaps)


def draw(table: str, repeat: int, gaps: float = 0.0, labels: int | None = None) -> tuple[Rows, np.ndarray]:
    """The halves of a table with cells deleted and labels withheld; and which cells of the test rows were deleted."""
    X, y = load(table)
    rng = np.random.default_rng([zlib.crc32(table.encode()), repeat])
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=int(rng.integers(2**31)))
    deleted = rng.random(X.shape) < gaps
    order = rng.permutation(len(train))
    y_train = y[train]
    if labels is not None:
        kept = [order[y_train[order] == c][:labels] for c in np.unique(y)]
        y_train = np.where(np.isin(np.arange(len(train)), np.concatenate(kept)), y_train, -1)
    parts = [with_gaps(take(X, rows), deleted[rows]) if gaps else take(X, rows) for rows in (train, test)]
    return Rows(parts[0], y_train, parts[1], y[test], int(y.max()) + 1), deleted[test]


def log_loss(proba: np.ndarray, y: np.ndarray) -> float:
    """Mean of -log p(own class), p clipped at 2.2e-16 as by scikit-learn and by `latentia.compare`."""
    return float(-np.mean(np.log(np.clip(proba[np.arange(len(y)), y], np.finfo(float).eps, 1.0))))


def calibration_error(proba: np.ndarray, y: np.ndarray, n_bins: int = 10) -> float:
    """Expected calibration error of the top label: ten bins of equal width, |accuracy - confidence| weighted by rows."""
    confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == y
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gap = np.bincount(bins, correct - confidence, minlength=n_bins)
    return float(np.abs(gap).sum() / len(y))


class TimeIsUp(Exception):
    pass


@contextmanager
def time_limit(seconds: float | None):
    """Stop the body after so many seconds, where the system has alarms and once Python code has its turn again."""
    if not seconds or not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_):
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def classify(trial: Trial) -> dict[str, float]:
    """Fit on the training half, predict the test half, score.

    Methods that cannot use unlabeled rows get the labeled ones alone.
    """
    rows, _ = draw(trial.table, trial.repeat, *SETTINGS[trial.setting])
    model, takes_unlabeled = make_classifier(trial.method, trial.expression)
    X, y = rows.X_train, rows.y_train
    if not takes_unlabeled:
        X, y = take(X, np.flatnonzero(y >= 0)), y[y >= 0]
    start, cpu = time.perf_counter(), time.process_time()
    found = model.fit(X, y).predict_proba(rows.X_test)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    if -1 in model.classes_:
        raise ValueError(f"{trial.method} takes the mark of unlabeled rows for a class: add '@labeled' to its name")
    proba = np.zeros((len(rows.y_test), rows.n_classes))
    proba[:, np.asarray(model.classes_, dtype=int)] = found
    bad = ~np.isfinite(proba).all(axis=1)
    proba[bad] = 1 / rows.n_classes
    return {
        "log_loss": log_loss(proba, rows.y_test),
        "accuracy": float(np.mean(proba.argmax(axis=1) == rows.y_test)),
        "calibration": calibration_error(proba, rows.y_test),
        "bad_rows": int(bad.sum()),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


def impute(trial: Trial) -> dict[str, float]:
    """Root mean squared error of the deleted cells of the test half, in standard deviations of their columns.

    The imputer learns from the training half, which has as many gaps. Ours also learn from its labels; the labels of
    the test half are hidden from all.
    """
    rows, deleted = draw(trial.table, trial.repeat, gaps=IMPUTE_SETTINGS[trial.setting])
    X, _ = load(trial.table)
    whole, _ = draw(trial.table, trial.repeat)
    imputer = make_imputer(trial.method, trial.expression)
    start, cpu = time.perf_counter(), time.process_time()
    imputer.fit(rows.X_train, rows.y_train)
    fill = imputer.impute if hasattr(imputer, "impute") else imputer.transform
    completed = np.asarray(fill(rows.X_test), dtype=float)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    scale = np.nanstd(X, axis=0)
    scored = deleted & np.isfinite(whole.X_test) & (scale > 0)
    error = ((completed - whole.X_test) / np.where(scale > 0, scale, 1.0))[scored]
    return {"rmse": float(np.sqrt(np.mean(error**2))), "seconds": seconds, "cpu_seconds": cpu_seconds}


def run_trial(trial: Trial, limit: float | None = None) -> dict[str, Any]:
    """The scores of a trial; `status` says "ok", or what went wrong."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by latentia's own threads
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            with time_limit(limit):
                scores = (impute if trial.setting in IMPUTE_SETTINGS else classify)(trial)
            return {**trial._asdict(), **scores, "status": "ok"}
        except TimeIsUp:
            status = f"over {limit:g} s"
        except Exception as error:  # a method that fails is a result
            status = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return {**trial._asdict(), "status": status}
