"""Cross-validated accuracy of latent classification models on the continuous UCI tables of Langseth & Nielsen (2005), Table 3.

Five outer folds; inside each the wrapper chooses the numbers of factors and components by five inner folds on the training part, then the chosen pair is fitted with
more restarts. The paper uses 100 restarts everywhere, all numbers of factors and twelve numbers of components: say fewer with the options.

    LATENTIA_DATA=... OPENBLAS_NUM_THREADS=1 python benchmarks/lcm_accuracy.py --model tied
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from latentia import LatentClassificationModel
from latentia.latent_classification_cv import LatentClassificationModelCV

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


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    file = Path(os.environ["LATENTIA_DATA"]) / f"{name}.csv.gz"
    table = pd.read_csv(file, keep_default_na=False, na_values=[""], dtype={"class": str})
    return table.iloc[:, :-1].to_numpy(float), table["class"].to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="tied")
    parser.add_argument("--tables", nargs="*", default=list(PAPER))
    parser.add_argument("--q", type=int, nargs="*", default=[1, 2, 3, 4, 6, 8, 11, 14, 18, 24])
    parser.add_argument("--m", type=int, nargs="*", default=[1, 3, 10, 20, 35])
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--final-restarts", type=int, default=50)
    parser.add_argument("--patience", type=int, default=2)
    parser.add_argument("--max-iter", type=int, default=60)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    common = {"kinds": "continuous", "max_iter": options.max_iter, "tol": options.tol, "random_state": options.seed}
    common["noise"] = "untied" if options.model == "untied" else "tied"
    components = [1] if options.model == "linear" else options.m
    means, paper = [], []
    print(f"{'table':14s} {'accuracy':>8s} {'s.e.':>5s} {'paper':>6s}  chosen (q, m) per fold")
    for name in options.tables:
        X, y = load(name)
        started, right, chosen = time.perf_counter(), np.zeros(len(y)), []
        for train, test in StratifiedKFold(5, shuffle=True, random_state=options.seed).split(X, y):
            search = LatentClassificationModelCV(
                options.q, components, n_init=options.restarts, patience=options.patience, **common
            )
            search.fit(X[train], y[train])
            sizes = search.n_latent_, search.n_components_
            model = LatentClassificationModel(*sizes, n_init=options.final_restarts, **common).fit(X[train], y[train])
            right[test] = model.predict(X[test]) == y[test]
            chosen.append(sizes)
        accuracy = 100 * right.mean()
        error = np.sqrt(accuracy * (100 - accuracy) / len(y))
        means.append(accuracy)
        paper.append(PAPER[name][MODELS[options.model]])
        print(
            f"{name:14s} {accuracy:8.1f} {error:5.1f} {paper[-1]:6.1f}  {chosen} ({time.perf_counter() - started:.0f} s)",
            flush=True,
        )
    print(f"{'mean':14s} {np.mean(means):8.2f} {'':5s} {np.mean(paper):6.2f}")


if __name__ == "__main__":
    main()
