"""Multimodal softmax and mixtures of experts beside the paper's tables (Ahmed & Campbell 2011, tables IV and VI).

    LATENTIA_DATA=... python benchmarks/softmax_experts.py errors [--sets banana image] [--models mms me] [--criterion validation] [--jobs 16]
    LATENTIA_DATA=... python benchmarks/softmax_experts.py brute-force      compressive search beside all configurations
    LATENTIA_DATA=... python benchmarks/softmax_experts.py speed
    LATENTIA_DATA=... python benchmarks/softmax_experts.py calibration [--sets banana] [--models mms] [--jobs 16]
    LATENTIA_DATA=... python benchmarks/softmax_experts.py criteria [--models me] [--sets iris wine] [--jobs 16]
                                                                            what each criterion chooses, on parts of training parts and on tables
    LATENTIA_DATA=... python benchmarks/softmax_experts.py picture [--out banana.png]   decision regions on the first split of banana
    python benchmarks/softmax_experts.py bias                               contrasts beside maximum likelihood as rows are added
    python benchmarks/softmax_experts.py linear                             seconds of a variational cycle as rows are added

`--splits 1 2 5` takes these splits only; `--jobs` fits splits in so many processes (set OPENBLAS_NUM_THREADS=1 beside it).
banana, image and twonorm: the published splits; thyroid: ten random splits into 140 training and 75 test rows.
Features are used as published (they are standardized already).
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from data import load_numbers, load_splits
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from latentia import MixtureOfExpertsClassifier, MultimodalSoftmaxClassifier
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.softmax_tree.posterior import BoundPosterior
from latentia.families.softmax_tree.tree import Point, multimodal_softmax

SETS = ("banana", "thyroid", "image", "twonorm")
PAPER = {
    "mms": {
        "banana": ("[3,3]", 13.01),
        "thyroid": ("[2,1]", 5.60),
        "image": ("[3,2]", 3.40),
        "twonorm": ("[1,1]", 3.06),
    },
    "me": {"banana": ("4", 12.60), "thyroid": ("2", 5.20), "image": ("3", 3.69), "twonorm": ("1", 3.06)},
}


def splits(name: str, numbers=None):
    """Training and test rows of each split, or of those with the given numbers, from one."""
    data = load_splits(name)
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y)
    if len(data.train):
        pairs = zip(data.train, data.test, strict=True)
    else:
        orders = [np.random.default_rng(seed).permutation(len(y)) for seed in range(10)]
        pairs = [(order[:140], order[140:]) for order in orders]
    found = [(X[a], y[a], X[b], y[b]) for a, b in pairs]
    return found if numbers is None else [found[k - 1] for k in numbers if k <= len(found)]


def model_of(kind: str, **options):
    """The estimator with the paper's settings."""
    return (MultimodalSoftmaxClassifier if kind == "mms" else MixtureOfExpertsClassifier)(random_state=0, **options)


def structure(model) -> str:
    if isinstance(model, MultimodalSoftmaxClassifier):
        return "[" + ",".join(map(str, model.n_subclasses_)) + "]"
    return str(model.n_experts_)


def losses(proba: np.ndarray, codes: np.ndarray, bins: int = 15) -> tuple[float, float, float]:
    """Error in per cent, log loss, expected calibration error."""
    proba = np.clip(proba, 1e-15, 1.0)
    top, right = proba.max(axis=1), proba.argmax(axis=1) == codes
    cell = np.minimum((top * bins).astype(int), bins - 1)
    gaps = [abs(right[cell == k].mean() - top[cell == k].mean()) * (cell == k).mean() for k in np.unique(cell)]
    return 100 * (1 - right.mean()), float(-np.log(proba[np.arange(len(codes)), codes]).mean()), float(sum(gaps))


def fitted_on(kind: str, criterion: str, X, y, X_test, y_test) -> tuple[str, float, float, int]:
    """Structure, error in per cent, seconds, and number of structures tried."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    began = time.perf_counter()
    model = model_of(kind, criterion=criterion).fit(X, y)
    seconds = time.perf_counter() - began
    error = 100 * np.mean(model.predict(X_test) != y_test)
    return structure(model), error, seconds, len(model.search_results_["bic"])


def errors(args) -> None:
    """Table IV: automatic structure."""
    for name in args.sets or SETS:
        for kind in args.models:
            parts = splits(name, args.splits)
            results = Parallel(args.jobs, return_as="generator")(
                delayed(fitted_on)(kind, args.criterion, *part) for part in parts
            )
            table = []
            for number, row in zip(args.splits or range(1, len(parts) + 1), results, strict=False):
                table.append(row)
                print(f"  {name} {kind} split {number}: {row[0]} {row[1]:.2f} % {row[2]:.1f} s", flush=True)
            found, wrong, seconds, tried = zip(*table, strict=True)
            chosen = ", ".join(f"{s} x {found.count(s)}" for s in sorted(set(found), key=found.count, reverse=True))
            paper = PAPER[kind][name]
            print(
                f"{name} {kind}: {np.mean(wrong):.2f} +- {np.std(wrong):.2f} % with {chosen}; at most {max(tried)} models, {np.mean(seconds):.1f} s a fit"
                f" (paper {paper[1]:.2f} % with {paper[0]})",
                flush=True,
            )


def brute_force(sets) -> None:
    """Compressive search beside every configuration up to five subclasses, first split."""
    for name in sets:
        X, y, _, _ = splits(name)[0]
        quick = model_of("mms", criterion="bound").fit(X, y)
        full = model_of("mms", criterion="bound", search="exhaustive").fit(X, y)
        gap = 100 * (full.log_evidence_ - quick.log_evidence_) / abs(full.log_evidence_)
        n_quick, n_full = len(quick.search_results_["bic"]), len(full.search_results_["bic"])
        print(
            f"{name}: compressive {structure(quick)} {quick.log_evidence_:.2f} ({n_quick} models), "
            f"brute force {structure(full)} {full.log_evidence_:.2f} ({n_full} models): {gap:.2f} % below",
            flush=True,
        )


def speed() -> None:
    """Table VI: fixed structures, ten starts, bound to 1e-3."""
    for name, kind, options, paper in [
        ("banana", "mms", {"n_subclasses": 3}, 5.91),
        ("image", "mms", {"n_subclasses": [2, 3]}, 24.95),
        ("banana", "me", {"n_experts": 4}, 4.83),
        ("image", "me", {"n_experts": 3}, 14.91),
    ]:
        X, y, _, _ = splits(name)[0]
        times = []
        for _ in range(3):
            began, cpu = time.perf_counter(), time.process_time()
            model = model_of(kind, n_init=10, tol=1e-3 / len(y), **options).fit(X, y)
            times.append((time.perf_counter() - began, time.process_time() - cpu))
        wall, cpu = min(times)
        print(
            f"{name} {kind} {structure(model)}, ten starts: {wall:.2f} s wall, {cpu:.2f} s CPU (paper {paper} s, one start), bound {model.objective_curve_[-1]:.2f}",
            flush=True,
        )


def calibrated_on(kind: str, size: dict, X, y, X_test, y_test) -> dict[str, tuple[float, float, float]]:
    """Losses of each way to predict, with one structure."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    codes = np.searchsorted(np.unique(y), y_test)
    model = model_of(kind, **size).fit(X, y)
    table = {}
    for averaging in ("corrected", "posterior", "plugin"):
        model.set_params(averaging=averaging)
        table[averaging] = losses(model.predict_proba(X_test), codes)
    likelihood = model_of(kind, inference="ml", **size).fit(X, y)
    return {**table, "ml": losses(likelihood.predict_proba(X_test), codes)}


def calibration(args) -> None:
    """Bayesian averages, plug-in and maximum likelihood, with the structure that variational Bayes chose in the first split."""
    for name in args.sets or ("banana", "image"):
        for kind in args.models:
            first = model_of(kind, criterion=args.criterion).fit(*splits(name)[0][:2])
            size = {"n_subclasses": first.n_subclasses_.tolist()} if kind == "mms" else {"n_experts": first.n_experts_}
            parts = splits(name, args.splits)
            tables = Parallel(args.jobs)(delayed(calibrated_on)(kind, size, *part) for part in parts)
            for label in tables[0]:
                error, log_loss, ece = np.mean([table[label] for table in tables], axis=0)
                print(
                    f"{name} {kind} {size}: {label:10s} error {error:.2f} %, log loss {log_loss:.4f}, calibration error {ece:.4f} ({len(tables)} splits)",
                    flush=True,
                )


TABLES = ("iris", "wine", "glass2", "heart", "crabs", "breast", "tae", "thyroid", "balance-scale", "diabetes", "wdbc")


def training_parts(name: str):
    """Rows to choose on: training parts of the published splits, or twice a table."""
    if name.startswith("ida_"):
        return [(X, y) for X, y, _, _ in splits(name.removeprefix("ida_"))[:3]]
    X, y = load_numbers(name)
    return [(np.asarray(X, dtype=float), np.asarray(y))] * 2


def judged(kind: str, X, y, seed: int) -> dict[str, tuple[float, float]]:
    """Error and log loss, on a part held out, of the sizes 1 to 4 that each criterion chooses."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    codes = np.unique(y, return_inverse=True)[1]
    inner, outer = train_test_split(np.arange(len(y)), test_size=0.35, random_state=seed, stratify=codes)
    X = (X - X[inner].mean(axis=0)) / np.where(X[inner].std(axis=0) > 0, X[inner].std(axis=0), 1.0)
    some, rest = train_test_split(inner, test_size=0.25, random_state=99, stratify=codes[inner])
    scores: dict[str, list[float]] = {}
    found = []
    for size in (1, 2, 3, 4):
        option = {"n_subclasses" if kind == "mms" else "n_experts": size, "n_init": 6}
        model = model_of(kind, **option).fit(X[inner], codes[inner])
        part = model_of(kind, **option).fit(X[some], codes[some])
        found.append(losses(model.predict_proba(X[outer]), codes[outer])[:2])
        for label, value in (
            ("bound", model.log_evidence_),
            ("evidence", model.corrected_log_evidence_),
            ("bic", -model.search_results_["bic"][0]),
            ("validation", -losses(part.predict_proba(X[rest]), codes[rest])[1]),
            ("the best", -found[-1][1]),
        ):
            scores.setdefault(label, []).append(value)
    return {label: found[int(np.argmax(values))] for label, values in scores.items()}


def criteria(args) -> None:
    """How well criteria choose: mean over tables of error, and of log loss above the best size's."""
    names = args.sets or [*(f"ida_{name}" for name in SETS), *TABLES]
    for kind in args.models:
        jobs = [(name, X, y, seed) for name in names for seed, (X, y) in enumerate(training_parts(name))]
        results = Parallel(args.jobs)(delayed(judged)(kind, X, y, seed) for _, X, y, seed in jobs)
        for label in results[0]:
            rows = [(job[0], *r[label], r[label][1] - r["the best"][1]) for job, r in zip(jobs, results, strict=True)]
            means = np.array([np.mean([row[1:] for row in rows if row[0] == name], axis=0) for name in names])
            error, _, regret = means.mean(axis=0)
            print(
                f"{kind} {label:10s} error {error:.2f} %, log loss above the best {regret:.4f}, at most {means[:, 2].max():.3f}"
            )


def bias() -> None:
    """Contrasts of one-subclass models beside maximum likelihood."""
    for n_classes in (2, 3, 5):
        for n_rows in (100, 1000, 10000, 100000):
            rng = np.random.default_rng(n_rows)
            X = rng.normal(size=(n_rows, 3))
            weights = rng.normal(size=(n_classes, 3))
            y = (X @ weights.T + rng.gumbel(size=(n_rows, n_classes))).argmax(axis=1)
            exact = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y).coef_
            exact = exact - exact.mean(axis=0) if n_classes > 2 else np.vstack([-exact, exact]) / 2
            model = MultimodalSoftmaxClassifier(1, tol=1e-8, random_state=0).fit(X, y)
            ratios = []
            for estimate in (model.posterior_means_[:, :-1], model.weights_):
                centered = estimate - estimate.mean(axis=0)
                ratios.append((centered * exact).sum() / (exact * exact).sum())
            print(
                f"{n_classes} classes, {n_rows} rows: posterior means {ratios[0]:.3f} x, corrected {ratios[1]:.3f} x the contrasts of maximum likelihood"
            )


def linear() -> None:
    """Seconds of one variational cycle (sweep and update), and its peak memory, as rows are added."""
    import tracemalloc

    rng = np.random.default_rng(0)
    for n_rows in (2000, 8000, 32000, 128000):
        X, y = rng.normal(size=(n_rows, 40)), rng.integers(0, 2, n_rows)
        family = BoundPosterior(multimodal_softmax((3, 3)))
        problem = RowProblem(family, Likelihood(), ArraySource(X, y))
        params = family.posterior_around(Point((0.1 * rng.normal(size=(1, 1, 6, 41)),), ()), 0.1)
        family.update(params, problem.sweep(params).stats)
        tracemalloc.start()
        family.update(params, problem.sweep(params).stats)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        times = []
        for _ in range(3):
            began = time.perf_counter()
            family.update(params, problem.sweep(params).stats)
            times.append(time.perf_counter() - began)
        cube = n_rows * 41 * 41 * 8 / 2**20
        print(
            f"{n_rows} rows x 40: {1e6 * min(times) / n_rows:.2f} us a row, peak {peak:.0f} MiB (N x D x D would be {cube:.0f} MiB)"
        )


def picture(path: str) -> None:
    """Probabilities of both models over the plane of banana, with the training rows."""
    import matplotlib.pyplot as plt
    from sklearn.inspection import DecisionBoundaryDisplay

    ((X, y, X_test, y_test),) = splits("banana", [1])
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained")
    for axis, kind, name in zip(axes, ("mms", "me"), ("subclasses", "experts"), strict=True):
        model = model_of(kind).fit(X, y)
        options = dict(
            response_method="predict_proba", class_of_interest=model.classes_[1], grid_resolution=300, ax=axis
        )
        DecisionBoundaryDisplay.from_estimator(model, X, cmap="RdBu_r", alpha=0.6, vmin=0, vmax=1, **options)
        lines = DecisionBoundaryDisplay.from_estimator(
            model, X, plot_method="contour", levels=[0.5], colors="black", **options
        )
        lines.surface_.set_linewidth(1.5)
        for label, color in zip(model.classes_, ("#08519c", "#a50f15"), strict=True):
            axis.scatter(*X[y == label].T, s=9, color=color, edgecolors="white", linewidths=0.3)
        error = 100 * (1 - model.score(X_test, y_test))
        axis.set(title=f"{structure(model)} {name}: {error:.1f} % test error", xlabel="$x_1$")
    axes[0].set_ylabel("$x_2$")
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=["errors", "brute-force", "speed", "calibration", "criteria", "picture", "bias", "linear"]
    )
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--models", nargs="+", default=["mms", "me"])
    parser.add_argument("--criterion", default="validation")
    parser.add_argument("--splits", type=int, nargs="+", default=None)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default="banana.png", help="where the picture goes")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if args.what == "errors":
        errors(args)
    elif args.what == "brute-force":
        brute_force(args.sets or SETS)
    elif args.what == "calibration":
        calibration(args)
    elif args.what == "criteria":
        criteria(args)
    elif args.what == "picture":
        picture(args.out)
    else:
        {"speed": speed, "bias": bias, "linear": linear}[args.what]()


if __name__ == "__main__":
    main()
