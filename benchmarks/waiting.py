"""Where people wait: fits of ours beside a random forest of 300 trees on the same rows, in the same process.

    python benchmarks/waiting.py [cases] [growth] [--only credit names] [--limit 120] [--to benchmarks/results/waiting.md]

- cases:   tables with text columns, gaps, few labels or many classes, and the searches; the ratios are those that the
           project has promised to stay below.
- growth:  how the time grows with the levels of a column, the share of missing cells, the factors, and the classes.

A ratio is our seconds over the forest's (`RandomForestClassifier(300)`, one core as by default, the better of two fits;
its columns are filled and encoded beforehand, and it is given the labeled rows alone). Ours use as many cores as
OMP_NUM_THREADS allows; the CPU ratio counts the seconds of all. Each fit has a process of its own, which ends when the
limit (or, if later, the promise) is over: "> 300" is a fit that had not ended by then. `credit` needs LATENTIA_DATA, else it is a stand-in of the
same shape; `vehicle` is a stand-in: 846 rows drawn from three Gaussians a class.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from arena_trials import Rows, log_loss, take, with_gaps
from data import folder, load_mixed
from methods import evaluate
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from usual_choices import filled


class Case(NamedTuple):
    rows: Callable[[], Rows]
    expression: str  # an estimator of ours
    promise: float | None = None  # the ratio to stay below


def drawn(
    n_rows: int,
    n_numbers: int = 0,
    levels: tuple[int, ...] = (),
    n_classes: int = 2,
    gaps: float = 0.0,
    labels: int | None = None,
    modes: int = 1,
    text: bool = False,
) -> Rows:
    """Rows of a factor model: classes (of several modes) differ in four factors, which feed numbers and categories.

    As many test rows as training rows; their categories are among those of the training rows.
    """
    rng = np.random.default_rng(0)
    y = np.arange(2 * n_rows) % n_classes
    centers = 1.5 * rng.standard_normal((n_classes, modes, 4))
    z = centers[y, rng.integers(0, modes, 2 * n_rows)] + rng.standard_normal((2 * n_rows, 4))
    X: Any = z @ rng.standard_normal((4, n_numbers)) + rng.standard_normal((2 * n_rows, n_numbers))
    if levels:
        import pandas

        X = pandas.DataFrame(X, columns=[f"x{i}" for i in range(n_numbers)])
        for i, n in enumerate(levels):
            codes = np.argmax(z @ rng.standard_normal((4, n)) + rng.gumbel(size=(2 * n_rows, n)), axis=1)
            if n == n_rows:  # names: every training row has its own
                codes = np.concatenate([rng.permutation(n), codes[n_rows:]])
            values = np.array([f"level {k}" for k in range(n)])[codes]
            X[f"c{i}"] = values if text else pandas.Categorical(values)
    if gaps:
        X = with_gaps(X, rng.random(X.shape) < gaps)
    train, test = np.arange(n_rows), np.arange(n_rows, 2 * n_rows)
    y_train = y[train]
    if labels is not None:
        rank = np.array([np.sum(y_train[:i] == c) for i, c in enumerate(y_train)])
        y_train = np.where(rank < labels, y_train, -1)
    return Rows(take(X, train), y_train, take(X, test), y[test], n_classes)


def credit() -> Rows:
    """Half of credit-approval: 345 rows, 9 categorical and 6 continuous columns."""
    if folder() is None:
        return drawn(345, 6, (2, 3, 3, 14, 9, 2, 2, 2, 3), gaps=0.01)
    table = load_mixed("credit-approval")
    return split(table.X, np.unique(table.y, return_inverse=True)[1], 0.5)


def bundled(loader: Callable) -> Rows:
    return split(*loader(return_X_y=True), 0.2)


def split(X: Any, y: np.ndarray, test_size: float) -> Rows:
    train, test = train_test_split(np.arange(len(y)), test_size=test_size, stratify=y, random_state=0)
    return Rows(take(X, train), y[train], take(X, test), y[test], int(y.max()) + 1)


LATENT = "LatentClassificationModel(random_state=0)"
LATENT_8 = "LatentClassificationModel(8, random_state=0)"
FULL = "GaussianMixtureClassifier(covariance='full', random_state=0)"
SEARCH = "LatentClassificationModelCV(random_state=0)"
SOFTMAX = "MultimodalSoftmaxClassifier(random_state=0)"
EXPERTS = "MixtureOfExpertsClassifier(random_state=0)"

_sonar = partial(drawn, 208, 60, gaps=0.5)
_codes = partial(drawn, 300, levels=tuple(2 + i % 6 for i in range(35)), n_classes=15, gaps=0.5, labels=10)
_vehicle = partial(drawn, 846, 18, n_classes=4, modes=3)

#: Half of credit-approval is 345 x 15; the other names say their shape.
CASES = {
    "credit: latent": Case(credit, LATENT, 2),
    "credit: 8 factors": Case(credit, LATENT_8, 4),
    "credit: 8 factors, hybrid": Case(credit, "LatentClassificationModel(8, objective='hybrid', random_state=0)", 10),
    "300 x 20 mixed, a fifth missing: 8 factors": Case(
        partial(drawn, 300, 10, tuple(2 + i % 5 for i in range(10)), gaps=0.2), LATENT_8
    ),
    "1000 x 7, a column of 50 levels: latent": Case(partial(drawn, 1000, 6, (50,), text=True), LATENT, 4),
    "600 x 7, a column of names: latent": Case(partial(drawn, 600, 6, (600,), text=True), LATENT),
    "208 x 60, half missing: latent": Case(_sonar, LATENT, 2),
    "208 x 60, half missing: full covariance": Case(_sonar, FULL, 6),
    "400 x 18, half missing, few labels: 8 factors": Case(
        partial(drawn, 400, 18, n_classes=4, gaps=0.5, labels=10), LATENT_8
    ),
    "300 x 35 codes, 15 classes, half missing, few labels: latent": Case(_codes, LATENT, 10),
    "iris: diagonal": Case(partial(bundled, load_iris), "GaussianMixtureClassifier(random_state=0)"),
    "iris: search": Case(partial(bundled, load_iris), SEARCH, 10),
    "breast_cancer: search": Case(partial(bundled, load_breast_cancer), SEARCH, 40),
    "846 x 18, 4 classes (vehicle): search": Case(_vehicle, SEARCH, 80),
    "iris: softmax": Case(partial(bundled, load_iris), SOFTMAX, 3),
    "breast_cancer: softmax": Case(partial(bundled, load_breast_cancer), SOFTMAX, 8),
    "digits: softmax": Case(partial(bundled, load_digits), SOFTMAX, 60),
    "iris: experts": Case(partial(bundled, load_iris), EXPERTS, 3),
    "breast_cancer: experts": Case(partial(bundled, load_breast_cancer), EXPERTS, 8),
    "digits: experts": Case(partial(bundled, load_digits), EXPERTS, 60),
}

#: Curve -> the points of each estimator, the cheapest first. Half the cells missing must cost at most 4 times none.
GROWTH = {
    **{
        f"levels, 500 x 7: {name}": {n: Case(partial(drawn, 500, 6, (n,)), expression) for n in (2, 5, 10, 20, 50, 100)}
        for name, expression in (("latent", LATENT), ("8 factors", LATENT_8))
    },
    **{
        f"missing cells, 400 x 18: {name}": {
            share: Case(partial(drawn, 400, 18, n_classes=4, gaps=share), expression)
            for share in (0.0, 0.1, 0.25, 0.5, 0.75)
        }
        for name, expression in (
            ("latent", LATENT),
            ("8 factors", LATENT_8),
            ("diagonal", "GaussianMixtureClassifier(random_state=0)"),
            ("tied", "GaussianMixtureClassifier(covariance='tied', random_state=0)"),
            ("full", FULL),
        )
    },
    **{
        f"missing cells, 300 x 20 mixed: {name}": {
            share: Case(partial(drawn, 300, 10, (3,) * 10, gaps=share), expression) for share in (0.0, 0.25, 0.5)
        }
        for name, expression in (("latent", LATENT), ("8 factors", LATENT_8))
    },
    **{
        f"factors, {name}": {
            q: Case(rows, f"LatentClassificationModel({q}, random_state=0)") for q in (0, 1, 2, 4, 8, 16)
        }
        for name, rows in (
            ("400 x 18, half missing", partial(drawn, 400, 18, n_classes=4, gaps=0.5)),
            ("300 x 20 mixed", partial(drawn, 300, 10, (3,) * 10)),
        )
    },
    **{
        f"classes, {name}": {c: Case(partial(rows, n_classes=c), LATENT) for c in (2, 4, 8, 16)}
        for name, rows in (
            ("400 x 18, half missing", partial(drawn, 400, 18, gaps=0.5)),
            ("300 x 20 mixed", partial(drawn, 300, 10, (3,) * 10)),
        )
    },
}


class Timing(NamedTuple):
    """Seconds and CPU seconds of a fit, and how good it is on the test rows."""

    seconds: float
    cpu_seconds: float
    accuracy: float
    log_loss: float


def fit(model: Any, rows: Rows) -> Timing:
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(rows.X_train, rows.y_train)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    proba = model.predict_proba(rows.X_test)
    right = np.mean(model.classes_[proba.argmax(axis=1)] == rows.y_test)
    return Timing(seconds, cpu_seconds, float(right), log_loss(proba, rows.y_test))


def for_forest(rows: Rows) -> Rows:
    """Labeled rows as numbers without gaps."""
    labeled = np.flatnonzero(rows.y_train >= 0)
    parts = take(rows.X_train, labeled), rows.X_test
    if not isinstance(rows.X_train, np.ndarray):
        text = rows.X_train.select_dtypes(["object", "str"]).columns
        parts = tuple(part.astype(dict.fromkeys(text, "category")) for part in parts)
    encoder = filled().fit(parts[0])
    return rows._replace(
        X_train=encoder.transform(parts[0]), X_test=encoder.transform(parts[1]), y_train=rows.y_train[labeled]
    )


def measure(case: Case) -> None:
    """One line for the forest, then one for ours: if time runs out, the first is already there."""
    warnings.simplefilter("ignore")
    rows = case.rows()
    encoded = for_forest(rows)
    forests = [fit(RandomForestClassifier(300, random_state=0), encoded) for _ in range(2)]
    print(json.dumps(min(forests)), flush=True)
    print(json.dumps(fit(evaluate(case.expression), rows)), flush=True)


MEASURE = [sys.executable, __file__, "--measure"]


def wait_for(name: str, limit: float) -> tuple[Timing | None, Timing | None, str]:
    """The forest's timing and ours, None where the limit or an error came first; and what went wrong.

    A promise is waited for, also where it is longer than the limit.
    """
    promise = find(name).promise or 0
    with subprocess.Popen([*MEASURE, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        forest = read(process.stdout.readline())  # our time begins here
        limit = max(limit, promise * forest.seconds) if forest else limit
        try:
            ours, errors = process.communicate(timeout=limit)
            error = errors.strip().splitlines()[-1] if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            ours, error = "", f"over {limit:.3g}"
    return forest, read(ours), error


def read(line: str) -> Timing | None:
    return Timing(*json.loads(line)) if line else None


def find(name: str) -> Case:
    """A case, or a point of a curve: "CURVE @ POINT"."""
    if name in CASES:
        return CASES[name]
    curve, point = name.split(" @ ")
    return next(case for value, case in GROWTH[curve].items() if str(value) == point)


def shown(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def ratio(forest: Timing, ours: Timing | None, error: str) -> str:
    if ours:
        return shown(ours.seconds / forest.seconds)
    return "> " + shown(float(error.removeprefix("over")) / forest.seconds) if error.startswith("over") else "failed"


def run_cases(names: list[str], limit: float) -> str:
    lines = [
        "| case | seconds | forest's | ratio | promised | CPU ratio | accuracy (forest's), % | log loss (forest's) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name in names:
        forest, ours, error = wait_for(name, limit)
        promise = CASES[name].promise
        cells = [name, f"{ours.seconds:.2f}" if ours else error, f"{forest.seconds:.2f}" if forest else ""]
        cells += [ratio(forest, ours, error), f"{promise:g}" if promise else ""]
        if ours:
            cells += [shown(ours.cpu_seconds / forest.cpu_seconds)]
            cells += [f"{100 * ours.accuracy:.1f} ({100 * forest.accuracy:.1f})"]
            cells += [f"{ours.log_loss:.3f} ({forest.log_loss:.3f})"]
        else:
            cells += ["", "", ""]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def run_growth(names: list[str], limit: float) -> str:
    """A line for each curve; once a point is over the limit, the rest is."""
    lines = []
    print("Ratios along each curve:", flush=True)
    for curve in names:
        cells: list[str] = []
        for point in GROWTH[curve]:
            forest, ours, error = wait_for(f"{curve} @ {point}", limit)
            cells.append(f"{point}: {ratio(forest, ours, error)}")
            if ours is None:
                cells[-1] += f" ({error})" if cells[-1].endswith("failed") else ""
                break
        lines.append(f"- {curve} — {', '.join(cells)}")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


PARTS = {"cases": (CASES, run_cases), "growth": (GROWTH, run_growth)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; both by default")
    parser.add_argument("--only", nargs="+", default=[""], help="cases and curves whose names contain one of these")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one fit of ours")
    parser.add_argument("--to", type=Path, help="Markdown file")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # what the processes of the cases do
    options = parser.parse_args(arguments)
    if options.measure:
        measure(find(options.measure))
        return
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {sorted(unknown)[0]!r}; choose from {', '.join(PARTS)}")
    text = ""
    for part in options.parts or PARTS:
        known, runner = PARTS[part]
        names = [name for name in known if any(word in name for word in options.only)]
        if names:
            text += f"## {part.capitalize()}\n\n{runner(names, options.limit)}\n"
    if options.to:
        options.to.parent.mkdir(parents=True, exist_ok=True)
        options.to.write_text(f"# Waiting, in forests\n\n{text}")


if __name__ == "__main__":
    main()
