"""Accuracy, speed and memory of the probit embedding, beside figures of its author's code.

    LATENTIA_DATA=... python benchmarks/probit_embedding.py [accuracy] [speed] [unknown] [sizes] [large] [picture]

All parts but sizes and the last by default; large draws its rows at random and needs no files. The columns "author's code" are constants of this script: they were measured once, on another machine.

- accuracy  emotions and scene, given splits, columns standardized on the training part; the author's code with sigma_z = 1 for 500 iterations
- speed     the same number of iterations as that code, without acceleration or early stop; and the time until convergence
- unknown   40 % of the training entries deleted at random, ten times
- sizes     two dimensions, as many as the evidence says, as many as there are labels: iris, breast_cancer, digits (two folds), emotions, scene, medical
- large     D = 20,000 sparse, N = 2,000, L = 50, R = 10: memory and time until convergence, each prior in a process of its own
- picture   two-dimensional embedding of emotions (figure 8 of the paper) in embedding_emotions.png
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from data import load_label_names, load_multilabel
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.model_selection import StratifiedKFold

from latentia import EmbeddingDisplay, ProbitEmbeddingClassifier, known_f1_score, known_hamming_loss
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.probit_embedding.family import PRECISION_SHARING, ProbitEmbedding
from latentia.solvers import EM

#: Hamming loss, macro F1 and micro F1 of the author's code.
REPORTED = {
    ("emotions", 2): (0.206, 0.604, 0.630),
    ("emotions", 4): (0.212, 0.620, 0.634),
    ("scene", 2): (0.150, 0.437, 0.459),
    ("scene", 6): (0.115, 0.654, 0.649),
}
#: Data set, dimensions, iterations, and seconds of the author's code.
SPEED = [("emotions", 6, 500, 3.0), ("scene", 6, 500, 88.0), ("medical", 2, 60, 482.0)]


def load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test part, columns standardized on the training part."""
    X, Y, train, test = load_multilabel(name)
    X = X.astype(float)
    shift, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - shift) / np.where(scale > 0, scale, 1.0)
    return X[train], Y[train], X[test], Y[test]


def scores(truth: np.ndarray, found: np.ndarray) -> tuple[float, float, float]:
    """Hamming loss, macro F1, micro F1."""
    return (
        known_hamming_loss(truth, found),
        known_f1_score(truth, found, average="macro"),
        known_f1_score(truth, found, average="micro"),
    )


def accuracy() -> None:
    print("| data | R | hamming | macro F1 | micro F1 | author's code | iterations |\n|---|---|---|---|---|---|---|")
    for (name, n_latent), reported in REPORTED.items():
        X, Y, X_test, Y_test = load(name)
        model = ProbitEmbeddingClassifier(n_latent).fit(X, Y)
        mine = scores(Y_test, model.predict(X_test))
        theirs = "/".join(f"{v:.3f}" for v in reported)
        print(f"| {name} | {n_latent} | " + " | ".join(f"{v:.3f}" for v in mine) + f" | {theirs} | {model.n_iter_} |")


def speed() -> None:
    print(
        "| data | R | iterations | seconds | of CPU | author's code | converged after | seconds | of CPU |\n"
        + "|---" * 9
        + "|"
    )
    for name, n_latent, n_iter, theirs in SPEED:
        X, Y, _, _ = load(name)
        best = (np.inf, np.inf)
        for _ in range(3):
            start = time.perf_counter(), time.process_time()
            rows = ArraySource(X, Y)
            problem = RowProblem(
                ProbitEmbedding(Y.shape[1], n_latent, PRECISION_SHARING["entries"]), Likelihood(), rows
            )
            params = problem.family.init(rows, np.random.default_rng(0), 1)
            EM(n_iter, -np.inf).solve(problem, params)
            best = min(best, _since(start))
        start = time.perf_counter(), time.process_time()
        model = ProbitEmbeddingClassifier(n_latent).fit(X, Y)
        whole = _since(start)
        print(
            f"| {name} | {n_latent} | {n_iter} | {best[0]:.2f} | {best[1]:.2f} | {theirs} | {model.n_iter_} | "
            f"{whole[0]:.2f} | {whole[1]:.2f} |",
            flush=True,
        )


def _since(start: tuple[float, float]) -> tuple[float, float]:
    """Seconds by the clock and of the processors; on a busy machine only the second says much."""
    return time.perf_counter() - start[0], time.process_time() - start[1]


def unknown() -> None:
    print("| data | R | micro F1, all labels | 40 % deleted: mean | worst of 10 |\n|---|---|---|---|---|")
    for name, n_latent in [(name, n_latent) for name in ("emotions", "scene") for n_latent in (2, 4, 6)]:
        X, Y, X_test, Y_test = load(name)
        full = scores(Y_test, ProbitEmbeddingClassifier(n_latent).fit(X, Y).predict(X_test))[2]
        part = []
        for seed in range(10):
            holes = np.where(np.random.default_rng(seed).random(Y.shape) < 0.4, -1, Y)
            part.append(scores(Y_test, ProbitEmbeddingClassifier(n_latent).fit(X, holes).predict(X_test))[2])
        print(f"| {name} | {n_latent} | {full:.3f} | {np.mean(part):.3f} | {min(part):.3f} |", flush=True)


def sizes() -> None:
    """How many dimensions: two, as the evidence says, or as many as there are labels."""
    print("| data | n_latent | dimensions | error | log loss | seconds |\n" + "|---" * 6 + "|", flush=True)
    tables = {"iris": load_iris, "breast_cancer": load_breast_cancer, "digits": load_digits}
    for name, n_latent in [(name, size) for name in tables for size in (2, "evidence", "auto")]:
        X, y = tables[name](return_X_y=True)
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[: 2 if name == "digits" else 5]
        _print_sizes(name, n_latent, [(X[a], y[a], X[b], y[b]) for a, b in folds])
    for name, n_latent in [
        (name, size) for name in ("emotions", "scene", "medical") for size in (2, "evidence", "auto")
    ]:
        _print_sizes(name, n_latent, [load(name)])


def _print_sizes(name: str, n_latent: int | str, splits: list[tuple[np.ndarray, ...]]) -> None:
    rows = []
    for X, y, X_test, y_test in splits:
        start = time.perf_counter()
        model = ProbitEmbeddingClassifier(n_latent).fit(X, y)
        seconds = time.perf_counter() - start
        present = y_test if y_test.ndim == 2 else y_test[:, None] == model.classes_
        proba = model.predict_proba(X_test)
        own = np.where(present, proba, 1 - proba).ravel() if y_test.ndim == 2 else proba[present]
        wrong = np.mean(model.predict(X_test) != y_test)
        rows.append((model.n_latent_, wrong, -np.log(own.clip(1e-15)).mean(), seconds))
    size, wrong, loss, seconds = np.mean(rows, axis=0)
    print(f"| {name} | {n_latent} | {size:.0f} | {wrong:.4f} | {loss:.3f} | {seconds:.1f} |", flush=True)


def large() -> None:
    print("| prior | peak GB | seconds | iterations | converged |\n|---|---|---|---|---|", flush=True)
    for prior in PRECISION_SHARING:
        subprocess.run([sys.executable, __file__, "large", "--prior", prior], check=True)


def large_one(prior: str) -> None:
    rng = np.random.default_rng(0)
    n_rows, n_features, n_labels = 2000, 20000, 50
    X = sparse.random_array((n_rows, n_features), density=0.01, rng=rng, format="csr")
    X.data[:] = 1.0
    plane = X @ rng.standard_normal((n_features, 5))
    hidden = plane / plane.std(axis=0) @ rng.standard_normal((5, n_labels)) + rng.standard_normal((n_rows, n_labels))
    start = time.perf_counter()
    model = ProbitEmbeddingClassifier(10, prior=prior).fit(X, (hidden > 1.5).astype(int))
    model.predict_proba(X[:100])
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| {prior} | {peak:.2f} | {seconds:.0f} | {model.n_iter_} | {model.converged_} |", flush=True)


def picture() -> None:
    X, Y, _, _ = load("emotions")
    model = ProbitEmbeddingClassifier(2).fit(X, Y)
    display = EmbeddingDisplay.from_estimator(model, X, Y, label_names=load_label_names("emotions"))
    display.figure_.savefig("embedding_emotions.png", dpi=130)


def main() -> None:
    parts = {part.__name__: part for part in (accuracy, speed, unknown, sizes, large, picture)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"of {', '.join(parts)}; all but sizes and picture by default"
    )
    parser.add_argument(
        "--prior", choices=PRECISION_SHARING, help="run the part large with this prior alone, in this process"
    )
    options = parser.parse_args()
    chosen = options.parts or ["accuracy", "speed", "unknown", "large"]
    if unexpected := set(chosen) - set(parts):
        parser.error(f"unknown part {sorted(unexpected)[0]!r}; choose from {', '.join(parts)}")
    warnings.simplefilter("ignore", UserWarning)  # labels of medical without a positive training row
    if options.prior:
        large_one(options.prior)
        return
    for part in chosen:
        print(f"\n{part}\n")
        parts[part]()


if __name__ == "__main__":
    main()
