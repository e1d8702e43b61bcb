"""Ours beside what a user would pick instead, on the same work.

Each case returns fits to be timed in turn, ours first. Numbers of iterations are fixed in both;
starts are the same where the other library takes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import FactorAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.multioutput import ClassifierChain

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures, GaussianParams
from latentia.solvers import EM
from latentia.table.standardization import Standardizer

Fits = dict[str, Callable[[], Any]]

#: Options of our estimators that leave nothing but the iterations.
PLAIN: dict[str, Any] = {"n_init": 1, "tol": 0, "marginals": "normal", "temperature": 1.0, "random_state": 0}


class Clusters:
    """Rows of overlapping clusters in each class, and starts near their centers."""

    def __init__(self, n_rows: int, n_columns: int, n_classes: int, n_components: int):
        rng = np.random.default_rng(0)
        self.y = rng.integers(n_classes, size=n_rows)
        centers = rng.normal(scale=0.7, size=(n_classes, n_components, n_columns))
        self.X = centers[self.y, rng.integers(n_components, size=n_rows)] + rng.normal(size=(n_rows, n_columns))
        self.means = centers + rng.normal(scale=0.7, size=centers.shape)
        self.shares = np.full(n_components, 1 / n_components)

    def ours(self, covariance: str, n_iter: int) -> float:
        C, K, D = self.means.shape
        family = GaussianMixtures(np.full(C, K), COVARIANCES[covariance](1e-6))
        start = family.covariance_type.initial(np.ones((1, C, K, D)))
        params = GaussianParams(
            np.full((1, C), -np.log(C)), np.log(self.shares) + np.zeros((1, C, K)), self.means[None], start
        )
        source = ArraySource(self.X, self.y, None, Standardizer(np.zeros(D), np.ones(D), None).prepare)
        return float(EM(n_iter, -np.inf).solve(RowProblem(family, Likelihood(), source), params).value[0])

    def scikit_learn(self, covariance: str, n_iter: int) -> float:
        K, D = self.means.shape[1:]
        precisions = np.ones((K, D)) if covariance == "diag" else np.tile(np.eye(D), (K, 1, 1))
        total = 0.0
        for c, means in enumerate(self.means):
            mine = self.X[self.y == c]
            model = GaussianMixture(
                K,
                covariance_type=covariance,
                max_iter=n_iter,
                tol=0.0,
                reg_covar=0.0,
                weights_init=self.shares,
                means_init=means,
                precisions_init=precisions,
                init_params="random_from_data",
            )
            total += model.fit(mine).score_samples(mine).sum() + len(mine) * np.log(len(mine) / len(self.X))
        return total

    def pomegranate(self, covariance: str, n_iter: int) -> float:
        import torch
        from pomegranate.distributions import Normal
        from pomegranate.gmm import GeneralMixtureModel

        total = 0.0
        for c, means in enumerate(self.means):
            mine = torch.asarray(self.X[self.y == c])
            D = mine.shape[1]
            spread = np.ones(D) if covariance == "diag" else np.eye(D)
            parts = [Normal(mean, spread, covariance_type=covariance).to(mine.dtype) for mean in means]
            model = GeneralMixtureModel(parts, priors=self.shares, max_iter=n_iter, tol=-np.inf).to(mine.dtype)
            model.fit(mine)
            total += float(model.log_probability(mine).sum()) + len(mine) * np.log(len(mine) / len(self.X))
        return total


def mixture_diag(scale: float = 1.0) -> Fits:
    """EM of diagonal mixtures, 50,000 x 50, 10 classes of 16 components, 20 iterations."""
    data = Clusters(int(50_000 * scale), 50, 10, 16)
    return {name: lambda name=name: getattr(data, name)("diag", 20) for name in ("ours", "scikit_learn")}


def mixture_pomegranate(scale: float = 1.0) -> Fits:
    """EM of diagonal mixtures, 10,000 x 50, one class of 16 components, 10 iterations."""
    data = Clusters(int(10_000 * scale), 50, 1, 16)
    names = ["ours", "scikit_learn", *(["pomegranate"] if has("pomegranate") else [])]
    return {name: lambda name=name: getattr(data, name)("diag", 10) for name in names}


def mixture_full(scale: float = 1.0) -> Fits:
    """EM of full mixtures, 50,000 x 50, one class of 16 components, 5 iterations."""
    data = Clusters(int(50_000 * scale), 50, 1, 16)
    return {name: lambda name=name: getattr(data, name)("full", 5) for name in ("ours", "scikit_learn")}


def mixture_full_classes(scale: float = 1.0) -> Fits:
    """EM of full mixtures, 50,000 x 50, 10 classes of 16 components, 5 iterations."""
    data = Clusters(int(50_000 * scale), 50, 10, 16)
    return {name: lambda name=name: getattr(data, name)("full", 5) for name in ("ours", "scikit_learn")}


def mixture_bayes(scale: float = 1.0) -> Fits:
    """Variational Bayes of diagonal mixtures, 20,000 x 30, 4 classes of 8 components, 20 iterations."""
    data = Clusters(int(20_000 * scale), 30, 4, 8)

    def ours() -> None:
        GaussianMixtureClassifier(8, covariance="diag", max_iter=20, **PLAIN).fit(data.X, data.y)

    def scikit_learn() -> None:
        for c in range(4):
            BayesianGaussianMixture(
                n_components=8,
                covariance_type="diag",
                max_iter=20,
                tol=0.0,
                init_params="random_from_data",
                random_state=0,
            ).fit(data.X[data.y == c])

    return {"ours": ours, "scikit_learn": scikit_learn}


def mixed_table(n_rows: int) -> np.ndarray:
    """Four continuous, four binary and four categorical columns of four clusters, a fifth of the cells missing."""
    rng = np.random.default_rng(0)
    z = rng.integers(4, size=n_rows)
    continuous = 1.5 * rng.normal(size=(4, 4))[z] + rng.normal(size=(n_rows, 4))
    binary = rng.random((n_rows, 4)) < rng.random((4, 4))[z]
    levels = (rng.dirichlet(np.ones(3), (4, 4))[z].cumsum(axis=-1) < rng.random((n_rows, 4, 1))).sum(axis=-1)
    X = np.column_stack([continuous, binary, np.minimum(levels, 2)]).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


MIXED_KINDS = ["continuous"] * 4 + ["binary"] * 4 + ["categorical"] * 4


def mixed_gaps(scale: float = 1.0) -> Fits:
    """A mixed table with gaps, 3,000 x 12, 4 components, 5 starts, 100 iterations."""
    X = mixed_table(int(3000 * scale))
    y = np.zeros(len(X), dtype=int)

    def ours(n_latent: int, inference: str) -> float:
        options = {**PLAIN, "n_init": 5, "kinds": MIXED_KINDS, "inference": inference, "selection": "likelihood"}
        model = LatentClassificationModel(n_latent, 4, noise="untied", max_iter=100, **options).fit(X, y)
        return float(model.objective_curve_[-1])

    fits: Fits = {"ours": lambda: ours(0, "ml"), "ours, posterior": lambda: ours(0, "vb")}
    if has("stepmix"):
        import pandas
        from stepmix.stepmix import StepMix
        from stepmix.utils import get_mixed_descriptor

        frame = pandas.DataFrame(X, columns=[f"c{k}" for k in range(12)])
        names = {f"{kind}_nan": [f"c{k}" for k in range(12) if MIXED_KINDS[k] == kind] for kind in set(MIXED_KINDS)}
        data, measurement = get_mixed_descriptor(frame, **names)

        def stepmix() -> float:
            options = {"abs_tol": 0, "rel_tol": 0, "random_state": 0, "progress_bar": 0, "verbose": 0}
            return (
                len(X) * StepMix(4, measurement=measurement, n_init=5, max_iter=100, **options).fit(data).lower_bound_
            )

        fits["stepmix"] = stepmix
    return fits


def mixed_factors(scale: float = 1.0) -> Fits:
    """The same table, one start, 20 iterations of variational Bayes: what factors cost, which StepMix lacks."""
    X = mixed_table(int(3000 * scale))
    y = np.zeros(len(X), dtype=int)

    def ours(n_latent: int) -> float:
        model = LatentClassificationModel(n_latent, 4, noise="untied", kinds=MIXED_KINDS, max_iter=20, **PLAIN)
        return float(model.fit(X, y).objective_curve_[-1])

    return {"no factors": lambda: ours(0), "one factor": lambda: ours(1), "two factors": lambda: ours(2)}


def factor_rows(n_rows: int, n_classes: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_rows)
    X = rng.normal(size=(n_rows, 8)) @ rng.normal(size=(8, 40)) + rng.normal(size=(n_classes, 40))[y]
    return X + rng.normal(size=X.shape), y


def factor_analysis(scale: float = 1.0) -> Fits:
    """Factor analysis, 20,000 x 40, 8 factors, 50 iterations."""
    X, y = factor_rows(int(20_000 * scale))

    def ours(inference: str) -> None:
        LatentClassificationModel(8, 1, max_iter=50, inference=inference, **PLAIN).fit(X, y)

    def scikit_learn() -> None:
        FactorAnalysis(8, max_iter=50, tol=0.0, svd_method="lapack").fit(X)

    return {"ours": lambda: ours("ml"), "ours, posterior": lambda: ours("vb"), "scikit_learn": scikit_learn}


def factors_beside_mixture(scale: float = 1.0) -> Fits:
    """A diagonal mixture of four components beside factors (8 factors, 4 components), 20,000 x 40, 50 iterations."""
    X, y = factor_rows(int(20_000 * scale), 2)

    def mixture() -> None:
        GaussianMixtureClassifier(4, covariance="diag", max_iter=50, inference="ml", **PLAIN).fit(X, y)

    def factors() -> None:
        LatentClassificationModel(8, 4, max_iter=50, inference="ml", **PLAIN).fit(X, y)

    return {"diagonal mixture": mixture, "factors": factors}


def softmax(scale: float = 1.0) -> Fits:
    """Logistic regression of 10 classes, 20,000 x 30, by maximum likelihood to each library's tolerance."""
    data = Clusters(int(20_000 * scale), 30, 10, 1)

    def ours() -> float:
        model = MultimodalSoftmaxClassifier(1, inference="ml", n_init=1, ridge=1e-4, random_state=0)
        return float(model.fit(data.X, data.y).score(data.X, data.y))

    def scikit_learn() -> float:
        return float(LogisticRegression(C=1e4, max_iter=500).fit(data.X, data.y).score(data.X, data.y))

    return {"ours": ours, "scikit_learn": scikit_learn}


def labels(scale: float = 1.0) -> Fits:
    """Ten labels, 10,000 x 50: the embedding beside a chain of logistic regressions; accuracy of single labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(int(10_000 * scale), 50))
    Y = (X @ rng.normal(size=(50, 10)) / 7 + 0.5 * rng.normal(size=(len(X), 10)) > 0).astype(int)

    def ours() -> float:
        return float((ProbitEmbeddingClassifier(5, random_state=0).fit(X, Y).predict(X) == Y).mean())

    def scikit_learn() -> float:
        chain = ClassifierChain(LogisticRegression(max_iter=500), random_state=0)
        return float((chain.fit(X, Y).predict(X) == Y).mean())

    return {"ours": ours, "scikit_learn": scikit_learn}


def has(name: str) -> bool:
    """Whether a library is there; without it its column stays empty."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            __import__(name)
    except ImportError:
        return False
    return True


CASES: dict[str, Callable[..., Fits]] = {
    case.__name__: case
    for case in (
        mixture_diag,
        mixture_pomegranate,
        mixture_full,
        mixture_full_classes,
        mixture_bayes,
        mixed_gaps,
        mixed_factors,
        factor_analysis,
        factors_beside_mixture,
        softmax,
        labels,
    )
}
