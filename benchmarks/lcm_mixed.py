"""Tables with gaps and columns of mixed kinds: latent classification models beside imputation + logistic regression and gradient boosting.

Five times two folds on `votes`, `hepatitis`, `credit-approval` and `heart-cleveland` (two classes), missing cells and text as they are. Sizes, objective and ridge are those
that `LatentClassificationModelCV` finds on the training half with its default settings for mixed tables.

    LATENTIA_DATA=... OPENBLAS_NUM_THREADS=1 python benchmarks/lcm_mixed.py [votes hepatitis] [--jobs 16]
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from data import load_mixed
from joblib import Parallel, delayed
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold
from usual_choices import CLASSIFIERS

from latentia import LatentClassificationModelCV

TABLES = ("votes", "hepatitis", "credit-approval", "heart-cleveland")


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows and labels of two classes."""
    table = load_mixed(name)
    return table.X, np.where(table.y == "0", "0", "1+") if name == "heart-cleveland" else table.y


def models(options: argparse.Namespace) -> dict[str, Any]:
    own = LatentClassificationModelCV(
        options.q, options.m, objective=options.objective, ridge=options.ridge, scoring=options.scoring, n_init=options.restarts, tol=options.tol,
        random_state=0,
    )  # fmt: skip
    return {"logistic": CLASSIFIERS["logistic"](), "boosting": CLASSIFIERS["boosting"](), "latent": own}


def one_fold(name: str, train: np.ndarray, test: np.ndarray, options: argparse.Namespace) -> tuple[dict, tuple]:
    """Accuracy and log loss of each model on a test half, and what the search chose."""
    warnings.simplefilter("ignore")
    X, y = load(name)
    scores = {}
    for label, model in models(options).items():
        model.fit(X.iloc[train], y[train])
        proba = model.predict_proba(X.iloc[test])
        right = np.mean(model.classes_[proba.argmax(axis=1)] == y[test])
        scores[label] = 100 * right, log_loss(y[test], proba, labels=model.classes_)
    return scores, (model.n_latent_, model.n_components_, model.objective_, model.ridge_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="table", help=f"of {', '.join(TABLES)}; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--q", type=int, nargs="+", help="numbers of factors; by default those of the wrapper")
    parser.add_argument("--m", type=int, nargs="+", help="numbers of components")
    parser.add_argument("--ridge", type=float, nargs="+")
    parser.add_argument("--objective", nargs="+")
    parser.add_argument("--scoring", choices=["accuracy", "log_loss"])
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the halves")
    options = parser.parse_args()
    for name in options.tables or TABLES:
        started = time.perf_counter()
        X, y = load(name)
        halves = RepeatedStratifiedKFold(n_splits=2, n_repeats=options.repeats, random_state=options.seed).split(X, y)
        folds = Parallel(n_jobs=options.jobs)(delayed(one_fold)(name, *half, options) for half in halves)
        for label in folds[0][0]:
            accuracy, loss = np.mean([scores[label] for scores, _ in folds], axis=0)
            print(f"{name:16s} {label:9s} accuracy {accuracy:5.2f}  log loss {loss:.4f}", flush=True)
        chosen = " ".join(f"(q={q} m={m} {o} {r:g})" for _, (q, m, o, r) in folds)
        print(f"{name:16s} chosen {chosen} ({time.perf_counter() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
