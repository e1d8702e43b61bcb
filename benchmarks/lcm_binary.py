"""Latent classification models for binary columns on the problems of Langseth & Nielsen (2009), Table 2.

USPS digits binarised at zero, on a random split with the paper's class counts (`surrogate_*_idx`; not its very split), and three topics of Reuters-21578 by the 500 words of
highest information gain on the training part. Sizes and training are chosen by accuracy on a fifth of the training rows; the chosen setting is then fitted on all of them.

    LATENTIA_DATA=... python benchmarks/lcm_binary.py --problem 35 --q 20 35 --m 1 2 [--device cuda]
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings

import numpy as np
import sklearn
from data import load_documents, load_usps_surrogate
from sklearn.model_selection import train_test_split

import latentia.engine.sweep
from latentia import LatentClassificationModel

PAPER = {"0167": 99.20, "35": 97.41, "ten": 93.44, "crude": 97.91, "earn": 98.38, "acq": 97.32}


def usps(problem: str) -> tuple[np.ndarray, ...]:
    X, y, train, test = load_usps_surrogate()
    X = (X > 0).astype(float)
    digits = {"0167": [0, 1, 6, 7], "35": [3, 5], "ten": list(range(10))}[problem]
    train, test = train[np.isin(y[train], digits)], test[np.isin(y[test], digits)]
    if problem == "0167":
        y = (y >= 6).astype(int)
    return X[train], y[train], X[test], y[test]


def reuters(topic: str, n_words: int = 500) -> tuple[np.ndarray, ...]:
    X, y, train, test = load_documents(topic)
    words = np.argsort(-information_gain(X[train], y[train]))[:n_words]
    dense = np.asarray(X[:, words].todense(), dtype=float)
    return dense[train], y[train], dense[test], y[test]


def information_gain(X, y: np.ndarray) -> np.ndarray:
    """Mutual information of each 0/1 column with the class."""

    def entropy(p: np.ndarray) -> np.ndarray:
        p = np.clip(p, 1e-12, 1 - 1e-12)
        return -(p * np.log(p) + (1 - p) * np.log(1 - p))

    n, present = len(y), np.asarray(X.sum(axis=0)).ravel()
    both = np.asarray(X[y == 1].sum(axis=0)).ravel()
    share = present / n
    given = share * entropy(both / np.maximum(present, 1)) + (1 - share) * entropy(
        (y.sum() - both) / np.maximum(n - present, 1)
    )
    return entropy(np.array(y.mean())) - given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=PAPER, default="35")
    parser.add_argument("--q", type=int, nargs="*", default=[10, 20, 35])
    parser.add_argument("--m", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--ridge", type=float, nargs="*", default=[0.01])
    parser.add_argument("--objective", nargs="*", default=["likelihood"])
    parser.add_argument("--trade-off", type=float, nargs="*", default=[1.0])
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--max-iter", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--inner-max-iter", type=int, default=10)
    parser.add_argument("--inner-tol", type=float, default=1e-3)
    parser.add_argument("--keep", type=int, default=1, help="settings that are fitted on all training rows")
    parser.add_argument("--device", default=None, help="a torch device, such as cuda; NumPy by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = usps(options.problem) if options.problem in ("0167", "35", "ten") else reuters(options.problem)
    X, y, X_test, y_test = data
    part, held_out = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)
    put = np.asarray
    if options.device is not None:
        import torch

        sklearn.set_config(array_api_dispatch=True)
        latentia.engine.sweep.CHUNK_MIB = 4000
        put = lambda a: torch.asarray(a, device=options.device)  # noqa: E731

    def fit(setting, rows):
        q, m, ridge, objective, trade_off = setting
        model = LatentClassificationModel(
            q, m, kinds="binary", ridge=ridge, objective=objective, trade_off=trade_off, n_init=options.restarts, tol=options.tol,
            max_iter=options.max_iter, bound_max_iter=options.bound_max_iter, bound_tol=options.bound_tol, random_state=0,
        )  # fmt: skip
        return model.fit(put(X[rows]), y[rows])

    def accuracy(model, rows, labels):
        predicted = model.predict(put(rows))
        return 100 * np.mean(np.asarray(predicted.cpu() if hasattr(predicted, "cpu") else predicted) == labels)

    settings, scores = (
        list(itertools.product(options.q, options.m, options.ridge, options.objective, options.trade_off)),
        [],
    )
    for setting in settings:
        started = time.perf_counter()
        model = fit(setting, part)
        scores.append(accuracy(model, X[held_out], y[held_out]))
        print(
            f"{options.problem} {setting}: held-out {scores[-1]:.2f}, {model.n_iter_} it, {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    for k in np.argsort(scores, kind="stable")[::-1][: options.keep]:
        started = time.perf_counter()
        model = fit(settings[k], np.arange(len(y)))
        seconds = time.perf_counter() - started
        score = accuracy(model, X_test, y_test)
        print(
            f"{options.problem} {settings[k]}: TEST {score:.2f} (paper {PAPER[options.problem]:.2f}), {seconds:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
