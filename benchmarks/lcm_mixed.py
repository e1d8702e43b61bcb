"""Tables with gaps and columns of mixed kinds: latent classification models beside imputation + logistic regression and gradient boosting.

Five times two folds on `votes`, `hepatitis`, `credit-approval` and `heart-cleveland` (two classes), missing cells and text as they are. The model's sizes are chosen by its own
cross-validated log loss on the training half, the smallest within one standard error of the best.

    LATENTIA_DATA=... python benchmarks/lcm_mixed.py
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from latentia import LatentClassificationModel

CONTINUOUS = {
    "votes": [],
    "hepatitis": ["age", "bilirubin", "alk_phosphate", "sgot", "albumin", "protime"],
    "credit-approval": ["A2", "A3", "A8", "A11", "A14", "A15"],
    "heart-cleveland": ["age", "trestbps", "chol", "thalach", "oldpeak"],
}


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    file = Path(os.environ["LATENTIA_DATA"]) / f"{name}.csv.gz"
    table = pd.read_csv(file, keep_default_na=False, na_values=[""], dtype={"class": str})
    X, y = table.iloc[:, :-1].copy(), table["class"].to_numpy()
    if name == "heart-cleveland":
        y = np.where(y == "0", "0", "1+")
    for column in X.columns:
        if column not in CONTINUOUS[name]:
            text = X[column].map(lambda v: v if isinstance(v, str) or v != v else f"{v:g}")
            X[column] = text.astype("category")
    return X, y


def baselines(continuous: list[str], others: list[str]) -> dict:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    plain = ColumnTransformer([("n", numbers, continuous), ("c", codes, others)])
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    coded = ColumnTransformer([("n", "passthrough", continuous), ("c", ordinal, others)])
    boosting = HistGradientBoostingClassifier(
        categorical_features=list(range(len(continuous), len(continuous) + len(others))), random_state=0
    )
    return {
        "logistic": make_pipeline(plain, LogisticRegression(max_iter=2000)),
        "boosting": make_pipeline(coded, boosting),
    }


def own_model(options, q: int, m: int, ridge: float) -> LatentClassificationModel:
    return LatentClassificationModel(
        q, m, ridge=ridge, objective=options.objective, trade_off=options.trade_off, selection=options.selection, n_init=options.restarts,
        tol=options.tol, inner_tol=1e-3, inner_max_iter=20, random_state=0,
    )  # fmt: skip


def choose(options, X: pd.DataFrame, y: np.ndarray) -> tuple[int, int, float]:
    """The first setting whose cross-validated log loss on these rows is within one standard error of the least."""
    settings = list(itertools.product(options.q, options.m, options.ridge))
    if len(settings) == 1:
        return settings[0]
    losses = np.zeros((len(settings), 5))
    for fold, (train, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)):
        for k, setting in enumerate(settings):
            model = own_model(options, *setting).fit(X.iloc[train], y[train])
            losses[k, fold] = log_loss(y[test], model.predict_proba(X.iloc[test]), labels=model.classes_)
    mean, best = losses.mean(axis=1), losses.mean(axis=1).argmin()
    return settings[int(np.argmax(mean <= mean[best] + losses[best].std(ddof=1) / np.sqrt(5)))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="*", default=list(CONTINUOUS))
    parser.add_argument("--q", type=int, nargs="*", default=[0, 1, 2, 4])
    parser.add_argument("--m", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--ridge", type=float, nargs="*", default=[0.3, 3.0])
    parser.add_argument("--objective", default="likelihood")
    parser.add_argument("--trade-off", type=float, default=1.0)
    parser.add_argument("--selection", default="likelihood")
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.tables:
        X, y = load(name)
        continuous = CONTINUOUS[name]
        others = [c for c in X.columns if c not in continuous]
        scores: dict[str, list] = {}
        chosen, started = [], time.perf_counter()
        for train, test in RepeatedStratifiedKFold(n_splits=2, n_repeats=options.repeats, random_state=0).split(X, y):
            models = baselines(continuous, others)
            sizes = choose(options, X.iloc[train], y[train])
            chosen.append(sizes)
            models["latent"] = own_model(options, *sizes)
            for label, model in models.items():
                model.fit(X.iloc[train], y[train])
                proba = model.predict_proba(X.iloc[test])
                right = np.mean(model.classes_[proba.argmax(axis=1)] == y[test])
                scores.setdefault(label, []).append((100 * right, log_loss(y[test], proba, labels=model.classes_)))
        for label, pairs in scores.items():
            accuracy, loss = np.mean(pairs, axis=0)
            print(f"{name:16s} {label:9s} accuracy {accuracy:5.2f}  log loss {loss:.4f}", flush=True)
        print(f"{name:16s} chosen {chosen} ({time.perf_counter() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
