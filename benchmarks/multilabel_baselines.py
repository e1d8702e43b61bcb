"""The methods that "Bayesian supervised multilabel learning with coupled embedding and classification" (Gönen 2012) compares with: PROBIT per label, alone and after four linear reductions.

- PROBIT  Bayesian probit regression for each label by variational Bayes, a gamma(1, 1) hyper-prior on the precision of every weight
- PCA     principal components
- MLDA    multilabel linear discriminant analysis (Wang, Ding & Huang 2010): scatter matrices weighted by label correlations; at most L - 1 dimensions
- MLLS    shared subspace by least squares (Ji, Tang, Yu & Ye 2010), alpha = beta = 1
- MDDM    dependence maximization (Zhang & Zhou 2010), mu = 0.5

    LATENTIA_DATA=... python benchmarks/multilabel_baselines.py [emotions] [scene] [medical]

prints hamming loss, macro F1 and micro F1 on the test part for each number of dimensions (figures 3 to 5 of the paper, on three of its four data sets).
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from probit_embedding import load, scores
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from latentia import ProbitEmbeddingClassifier
from latentia.families.blocks.bounds import positive_half_line
from latentia.families.probit_embedding.projection import GramForm, KernelForm


class BayesianProbit(ClassifierMixin, BaseEstimator):
    """PROBIT: a Bayesian probit regression for each label, sharing nothing."""

    def __init__(self, max_iter=500, tol=1e-6):
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X, Y):
        sign = np.where(np.asarray(Y) > 0, 1.0, -1.0)
        rows = _with_one(np.asarray(X, dtype=float))
        wide = rows.shape[1] > rows.shape[0]
        self.design_ = KernelForm.from_rows(rows, 1.0) if wide else GramForm(rows.T @ rows, 1.0)
        size = np.ones((sign.shape[1], rows.shape[1]))
        score = np.zeros_like(sign)
        for _ in range(self.max_iter):
            target = score + sign * positive_half_line(sign * score).slope
            self.precision_ = (1 + 1 / 2) / (1 + size / 2)  # posterior mean under gamma(1, 1)
            self.normals_ = self.design_.posterior(self.precision_, target.T @ rows)
            size = self.normals_.mean**2 + self.normals_.variance
            before, score = score, rows @ self.normals_.mean.T
            if np.abs(score - before).max() < self.tol * (1 + np.abs(score).max()):
                break
        return self

    def predict(self, X):
        return (_with_one(np.asarray(X, dtype=float)) @ self.normals_.mean.T > 0).astype(
            int
        )  # the variance moves no sign


class MLDA(TransformerMixin, BaseEstimator):
    """Multilabel linear discriminant analysis."""

    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit(self, X, Y):
        Y = np.asarray(Y, dtype=float)
        norms = np.linalg.norm(Y, axis=0)
        unit = Y / np.where(norms > 0, norms, 1.0)
        share = Y @ (unit.T @ unit) / np.maximum(Y.sum(axis=1, keepdims=True), 1.0)
        mass = share.sum(axis=0)
        means = share.T @ X / np.where(mass > 0, mass, 1.0)[:, None]
        center = mass @ means / mass.sum()
        between = (means - center).T @ (mass[:, None] * (means - center))
        second = X.T @ (share.sum(axis=1)[:, None] * X)
        within = second - means.T @ (mass[:, None] * means)
        self.projection_ = _top(between, within, self.n_components)
        return self

    def transform(self, X):
        return X @ self.projection_


class MLLS(TransformerMixin, BaseEstimator):
    """Subspace shared by the labels, by least squares."""

    def __init__(self, n_components=2, alpha=1.0, beta=1.0):
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta

    def fit(self, X, Y):
        n_rows, n_features = X.shape
        centered = np.asarray(Y, dtype=float) - np.mean(Y, axis=0)
        inverse = np.linalg.inv(X.T @ X / n_rows + (self.alpha + self.beta) * np.eye(n_features))
        pulled = inverse @ X.T @ centered / n_rows
        self.projection_ = _top(pulled @ pulled.T, np.eye(n_features) - self.alpha * inverse, self.n_components)
        return self

    def transform(self, X):
        return X @ self.projection_


class MDDM(TransformerMixin, BaseEstimator):
    """Reduction that maximizes the Hilbert-Schmidt dependence between projected features and labels."""

    def __init__(self, n_components=2, mu=0.5):
        self.n_components = n_components
        self.mu = mu

    def fit(self, X, Y):
        centered = np.asarray(Y, dtype=float) - np.mean(Y, axis=0)
        across = X.T @ centered
        metric = self.mu * X.T @ X + (1 - self.mu) * np.eye(X.shape[1])
        self.projection_ = _top(across @ across.T, metric, self.n_components)
        return self

    def transform(self, X):
        return X @ self.projection_


def _top(a, b, n):
    """Leading generalized eigenvectors of a v = lambda b v."""
    ridge = 1e-8 * np.trace(b) / b.shape[0] * np.eye(b.shape[0])
    size = a.shape[0]
    return eigh(a, b + ridge, subset_by_index=[max(0, size - n), size - 1])[1][:, ::-1]


def _with_one(X):
    return np.hstack([np.ones((X.shape[0], 1)), X])


def methods(n_latent: int, n_labels: int) -> dict:
    """Fresh estimators for an embedding of this size."""
    reductions = {"PCA": PCA(n_latent, random_state=0), "MLLS": MLLS(n_latent), "MDDM": MDDM(n_latent)}
    if n_latent < n_labels:
        reductions["MLDA"] = MLDA(n_latent)
    found = {
        f"{name}+PROBIT": make_pipeline(part, StandardScaler(), BayesianProbit()) for name, part in reductions.items()
    }
    return {"BSML (ours)": ProbitEmbeddingClassifier(n_latent, standardize=False), **found}


def main() -> None:
    known = ("emotions", "scene", "medical")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="data", help=f"of {', '.join(known)}; all by default")
    names = parser.parse_args().names or known
    if unknown := set(names) - set(known):
        parser.error(f"unknown data set {sorted(unknown)[0]!r}; choose from {', '.join(known)}")
    warnings.simplefilter("ignore", UserWarning)  # labels of medical without a positive training row
    for name in names:
        X, Y, X_test, Y_test = load(name)
        row = scores(Y_test, BayesianProbit().fit(X, Y).predict(X_test))
        print(f"\n{name}: PROBIT on all features: hamming {row[0]:.3f}, macro F1 {row[1]:.3f}, micro F1 {row[2]:.3f}")
        sizes = (1, 2, 4, 6) if name != "medical" else (2, 10)
        print("| R | method | hamming | macro F1 | micro F1 |\n|---|---|---|---|---|")
        for n_latent in sizes:
            for label, model in methods(n_latent, Y.shape[1]).items():
                row = scores(Y_test, model.fit(X, Y).predict(X_test))
                print(f"| {n_latent} | {label} | " + " | ".join(f"{v:.3f}" for v in row) + " |", flush=True)


if __name__ == "__main__":
    main()
