"""Cross-validated accuracy of latent classification models on the continuous UCI tables of Langseth & Nielsen (2005), Table 3.

Five outer folds; inside each the wrapper chooses the numbers of factors and components by five inner folds on the training part, then the chosen pair is fitted with
more restarts. The paper uses 100 restarts everywhere, all numbers of factors and twelve numbers of components: say fewer with the options. Tables and outer folds run in
parallel.

    LATENTIA_DATA=... OPENBLAS_NUM_THREADS=1 python benchmarks/lcm_accuracy.py [glass2 wine] --model tied --jobs 16

With --defaults all options but the seed are those of `LatentClassificationModelCV()`; with --posterior the search is replaced by one `LatentClassificationModel()`.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from data import PAPER_TABLES, load_numbers
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold

from latentia import LatentClassificationModel, LatentClassificationModelCV

#: Table 3 of the paper: LCM(q), LCM(q, m; T), LCM(q, m; U).
PAPER = {
    "balance-scale": (88.0, 90.9, 89.0),
    "breast": (96.8, 96.5, 96.5),
    "crabs": (94.5, 95.5, 95.5),
    "diabetes": (75.9, 75.9, 75.5),
    "glass": (57.0, 70.1, 64.5),
    "glass2": (66.9, 85.3, 81.0),
    "heart": (85.2, 83.3, 83.3),
    "iris": (98.0, 96.7, 97.3),
    "tae": (56.9, 61.5, 58.9),
    "thyroid": (95.3, 94.4, 95.4),
    "wine": (100.0, 99.4, 98.9),
}
MODELS = {"linear": 0, "tied": 1, "untied": 2}
N_FOLDS = 5


def one_fold(name: str, fold: int, options: argparse.Namespace) -> tuple[float, tuple[int, int], float]:
    """Rows of a test fold that are classified rightly, the sizes the wrapper chose, and the seconds it took."""
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    X, y = load_numbers(name)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=options.seed).split(X, y)
    train, test = list(folds)[fold]
    model = make_model(options).fit(X[train], y[train])
    right = float((model.predict(X[test]) == y[test]).sum())
    return right, (model.loadings_.shape[2], model.loadings_.shape[0]), time.perf_counter() - started


def make_model(options: argparse.Namespace) -> LatentClassificationModel | LatentClassificationModelCV:
    common = {"kinds": "continuous", "random_state": options.seed}
    if options.posterior:
        return LatentClassificationModel(**common)
    if options.defaults:
        return LatentClassificationModelCV(**common)
    return LatentClassificationModelCV(
        options.q, [1] if options.model == "linear" else options.m, noise="untied" if options.model == "untied" else "tied",
        n_init=options.restarts, refit_n_init=options.final_restarts, patience=options.patience, max_iter=options.max_iter, tol=options.tol,
        **common,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="table", help=f"of {', '.join(PAPER_TABLES)}; all by default")
    parser.add_argument("--model", choices=MODELS, default="tied")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--q", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8, 11, 14, 18, 24])
    parser.add_argument("--m", type=int, nargs="+", default=[1, 3, 10, 20, 35])
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--final-restarts", type=int, default=50)
    parser.add_argument("--patience", type=int, default=2)
    parser.add_argument("--max-iter", type=int, default=60)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--defaults", action="store_true", help="the search as LatentClassificationModelCV() makes it")
    parser.add_argument("--posterior", action="store_true", help="no search: LatentClassificationModel()")
    options = parser.parse_args()
    unknown = set(options.tables) - set(PAPER_TABLES)
    if unknown:
        parser.error(f"unknown table {sorted(unknown)[0]!r}; choose from {', '.join(PAPER_TABLES)}")
    tables = options.tables or list(PAPER_TABLES)
    jobs = [(name, fold) for name in tables for fold in range(N_FOLDS)]
    started = time.perf_counter()
    done = Parallel(n_jobs=options.jobs, return_as="generator")(delayed(one_fold)(*job, options) for job in jobs)
    means, paper = [], []
    print(f"{'table':14s} {'accuracy':>8s} {'s.e.':>5s} {'paper':>6s}  chosen (q, m) per fold", flush=True)
    for name in tables:
        right, chosen, seconds = zip(*(next(done) for _ in range(N_FOLDS)), strict=True)
        n_rows = len(load_numbers(name)[1])
        means.append(100 * sum(right) / n_rows)
        paper.append(PAPER[name][MODELS[options.model]])
        error = np.sqrt(means[-1] * (100 - means[-1]) / n_rows)
        sizes = " ".join(f"({q}, {m})" for q, m in chosen)
        print(
            f"{name:14s} {means[-1]:8.1f} {error:5.1f} {paper[-1]:6.1f}  {sizes} ({sum(seconds):.0f} s of work)",
            flush=True,
        )
    print(f"{'mean':14s} {np.mean(means):8.2f} {'':5s} {np.mean(paper):6.2f}  {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
