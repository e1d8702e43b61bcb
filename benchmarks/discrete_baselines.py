"""Parts of the baselines that work on discrete attributes: cuts by description length, tree-augmented naive Bayes.

Fayyad and Irani (1993): a cut that splits n rows S of k classes into S1, S2 (k1, k2 classes) is accepted if

    Ent(S) - |S1|/n Ent(S1) - |S2|/n Ent(S2) > (log2(n - 1) + delta) / n,
    delta = log2(3^k - 2) - (k Ent(S) - k1 Ent(S1) - k2 Ent(S2)),

and both sides are then cut further. Friedman, Geiger and Goldszmidt (1997): the tree over the attributes that has the
most mutual information given the class.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data


class JointClassifier(ClassifierMixin, BaseEstimator):
    """A classifier by Bayes' rule: subclasses give log p(x, c), up to a constant of the row."""

    def fit(self, X, y):
        X, y = validate_data(self, X, y, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.log_prior_ = np.log(np.bincount(codes) / len(codes))
        return self._fit(X, codes)

    def predict_log_proba(self, X):
        check_is_fitted(self)
        return log_softmax(self._log_joint(validate_data(self, X, reset=False)), axis=1)

    def predict_proba(self, X):
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]


class MDLDiscretizer(TransformerMixin, BaseEstimator):
    """Cuts each column where the gain in class entropy pays for its description (Fayyad and Irani 1993)."""

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        codes = np.unique(y, return_inverse=True)[1]
        self.cuts_ = [np.sort(mdl_cuts(column, codes)) for column in X.T]
        return self

    def transform(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        columns = [np.searchsorted(cuts, column) for cuts, column in zip(self.cuts_, X.T, strict=True)]
        return np.stack(columns, axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []  # columns become codes
        return tags


def mdl_cuts(x, codes):
    """The accepted cut points of one column, found from the top down."""
    order = np.argsort(x, kind="stable")
    x, codes = x[order], codes[order]
    places = np.flatnonzero(x[1:] > x[:-1]) + 1  # a cut lies between two different values
    if len(places) == 0:
        return []
    left = np.cumsum(np.eye(codes.max() + 1)[codes], axis=0)[places - 1]
    total = np.bincount(codes, minlength=left.shape[1])
    n = len(x)
    after = (places * entropy(left) + (n - places) * entropy(total - left)) / n
    best = int(np.argmin(after))
    sides, whole = (left[best], total - left[best]), entropy(total)
    kinds = [np.count_nonzero(counts) for counts in (total, *sides)]
    k, k1, k2 = kinds
    delta = np.log2(3.0**k - 2) - (k * whole - k1 * entropy(sides[0]) - k2 * entropy(sides[1]))
    if whole - after[best] <= (np.log2(n - 1) + delta) / n:
        return []
    at = places[best]
    return [(x[at - 1] + x[at]) / 2, *mdl_cuts(x[:at], codes[:at]), *mdl_cuts(x[at:], codes[at:])]


def entropy(counts):
    """Entropy in bits along the last axis."""
    p = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    return -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=-1)


class TreeAugmentedNaiveBayes(JointClassifier):
    """TAN on integer codes: each attribute has the class and at most one attribute, in a best tree, as parents.

    The smoothed table is ``(N(x, parents) + s P(x)) / (N(parents) + s)``. Without smoothing, what was never seen has
    probability `never`: two classes that both rule a row out are then ranked by how often they do.
    """

    def __init__(self, smoothing=5.0, never=1e-10):
        self.smoothing = smoothing
        self.never = never

    def _fit(self, X, codes):
        if np.any(X < 0) or np.any(X != np.floor(X)):
            raise ValueError("X must hold the codes 0, 1, 2, ... of discrete attributes")
        X = X.astype(int)
        self.sizes_ = 1 + X.max(axis=0)
        own = np.eye(len(self.classes_))[codes]  # (N, C)
        on = [np.eye(size)[column] for size, column in zip(self.sizes_, X.T, strict=True)]
        self.parents_ = best_tree(own, on)
        self.tables_ = []
        for i, parent in enumerate(self.parents_):
            above = np.ones((len(X), 1)) if parent < 0 else on[parent]
            counts = np.einsum("nc,np,nx->cpx", own, above, on[i], optimize=True)
            marginal = on[i].mean(axis=0)
            # Parents never seen together leave the marginal, whatever the smoothing.
            s = self.smoothing + (counts.sum(axis=-1, keepdims=True) + self.smoothing == 0)
            table = (counts + s * marginal) / (counts.sum(axis=-1, keepdims=True) + s)
            self.tables_.append(np.log(np.maximum(table, self.never)))
        return self

    def _log_joint(self, X):
        X = np.clip(X.astype(int), 0, self.sizes_ - 1)
        above = [np.zeros(len(X), dtype=int) if p < 0 else X[:, p] for p in self.parents_]
        terms = [table[:, a, x].T for table, a, x in zip(self.tables_, above, X.T, strict=True)]
        return sum(terms) + self.log_prior_


def best_tree(own, on):
    """The parent of each attribute (-1 for the root) in the tree of most class-conditional mutual information."""
    n_features = len(on)
    if n_features == 1:
        return np.array([-1])
    gain = np.zeros((n_features, n_features))
    for i in range(n_features):
        for j in range(i + 1, n_features):
            p = np.einsum("nc,na,nb->cab", own, on[i], on[j], optimize=True) / len(own)
            expected = p.sum(2, keepdims=True) * p.sum(1, keepdims=True)
            ratio = np.where(p > 0, p * p.sum((1, 2), keepdims=True), 1.0) / np.where(p > 0, expected, 1.0)
            gain[i, j] = np.sum(p * np.log(ratio))
    # The smallest tree of negative weights; the 1 keeps edges without gain, which a sparse graph would drop.
    tree = minimum_spanning_tree(np.triu(-1.0 - gain, k=1))
    parents = breadth_first_order(tree, 0, directed=False)[1]
    return np.where(parents < 0, -1, parents)
