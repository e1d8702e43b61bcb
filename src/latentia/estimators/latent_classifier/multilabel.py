"""Label matrices: a probit embedding of rows that a factor model has completed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples

from latentia.arrays.namespace import Array, is_sparse, namespace, take_rows, to_numpy
from latentia.engine.contracts import GenerativeParams
from latentia.estimators.base.classifier import refuse_class_options
from latentia.estimators.base.estimator import Attributes, LabelCounts, StepNotifier
from latentia.estimators.base.reading import GenerativeInput, MixedTable, read_training_table
from latentia.estimators.latent_classification import LatentClassificationModel
from latentia.estimators.latent_classifier.candidates import (
    MAX_FACTORS,
    GenerativeCandidate,
    GenerativeMember,
    Options,
    SearchFold,
    TrainingRows,
    search_folds,
)
from latentia.estimators.latent_classifier.features import Completion
from latentia.estimators.latent_classifier.stacking import MIN_LOG_PROBA, Stack, proba_by_row
from latentia.estimators.probit_embedding import ProbitEmbeddingClassifier
from latentia.solvers import Outcome
from latentia.table.encoder import ColumnEncoder
from latentia.table.frames import TableLike
from latentia.table.labels import LabelMatrix, LabelsLike, encode_label_matrix
from latentia.table.options import Callback
from latentia.table.weights import FoldsLike

CANDIDATE = "probit embedding"


class MultilabelInput(NamedTuple):
    """What `fit` was given, validated and encoded."""

    rows: GenerativeInput  # of a single class
    labels: LabelMatrix
    attributes: Attributes

    @property
    def X(self) -> Array:
        return self.rows.X

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def label_counts(self) -> LabelCounts:
        return LabelCounts.of_codes(self.labels.codes)

    @property
    def missing_shares(self) -> np.ndarray:
        return self.rows.missing_shares


@dataclass(frozen=True)
class MultilabelModel:
    """All that predictions need."""

    embedding: ProbitEmbeddingClassifier
    completion: Completion
    density: GenerativeMember
    encoder: ColumnEncoder
    leaderboard: dict[str, list[Any]]

    @property
    def params(self) -> GenerativeParams:
        return self.density.model.params

    @property
    def factors(self) -> Any:
        """The estimator that completes the rows, which has latent factors."""
        return self.density.estimator

    @property
    def rows_like(self) -> Array:
        return self.density.model.preprocessor.shift

    def log_proba(self, X: Array) -> Array:
        """Log probabilities that labels are present, (N, L)."""
        return self.embedding.predict_log_proba(self.completion.complete(X))

    def log_odds(self, X: Array) -> Array:
        """Log odds of each label, (N, L)."""
        log_proba = self.log_proba(X)
        xp = namespace(log_proba)
        return log_proba - xp.log1p(-xp.clip(xp.exp(log_proba), max=1 - 1e-12))


class FittedEmbedding(NamedTuple):
    """The model, and how its training went."""

    model: MultilabelModel
    stack: Stack
    expected: tuple[float, float]
    held_out_proba: np.ndarray  # (N, L), NaN for rows that were never held out
    never_held_out: np.ndarray  # numbers of labels

    @property
    def outcome(self) -> Outcome:
        return self.stack.outcome


def read_multilabel(
    estimator: BaseEstimator, form: MixedTable, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None
) -> MultilabelInput:
    """Rows as a generative model of one class reads them, and the label matrix."""
    n_rows = y.shape[0] if is_sparse(y) else _num_samples(y)
    refuse_class_options(estimator.loss_matrix, estimator.priors)
    labels = encode_label_matrix(y, n_rows, None)
    reader = copy(estimator).set_params(unlabeled=None)
    rows = read_training_table(reader, form, X, np.zeros(n_rows, dtype=int), sample_weight)
    assert isinstance(rows, GenerativeInput)  # tables in parts have been refused
    attributes = {**rows.attributes, "classes_": labels.classes, "multilabel_": True}
    if labels.names is not None:
        attributes["label_names_"] = labels.names
    return MultilabelInput(rows, labels, attributes)


def fit_multilabel(
    data: MultilabelInput, options: Options, cv: FoldsLike, rng: np.random.Generator, notifier: StepNotifier
) -> FittedEmbedding:
    """Complete the rows, embed them; what to expect comes from folds of the completed rows."""
    seed = int(rng.integers(2**31))
    settings = {"n_latent": min(MAX_FACTORS, data.X.shape[1]), "tol": options.tol, "max_iter": options.max_iter}
    settings["unlabeled_weight"] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = TrainingRows.whole(data.rows)
        base = GenerativeCandidate("factors", LatentClassificationModel, settings).fit(whole, None, seed)[-1]
    assert isinstance(base, GenerativeMember)
    completion = Completion.by(base.model)
    features = completion.complete(data.X)

    def embed(rows: np.ndarray | None, callback: Callback | None = None) -> ProbitEmbeddingClassifier:
        model = ProbitEmbeddingClassifier(max_iter=max(options.max_iter, 2), random_state=seed, callback=callback)
        index = np.arange(features.shape[0]) if rows is None else rows
        weight = None if data.rows.weight is None else data.rows.weight[index]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(take_rows(features, index), data.labels.codes[index], weight)
        return model.set_params(callback=None)  # whose listeners no file can hold

    def model_of(embedding: ProbitEmbeddingClassifier, expected: tuple[float, float]) -> MultilabelModel:
        columns = (CANDIDATE, *expected, 1.0, 1.0, float("nan"))
        names = ("candidate", "log_loss", "accuracy", "temperature", "weight", "seconds")
        return MultilabelModel(
            embedding, completion, base, data.rows.encoder, {n: [v] for n, v in zip(names, columns, strict=True)}
        )

    embedding = embed(None, notifier)
    rows, log_proba = _hold_out(data, [] if notifier.stopped else _folds(data, cv, rng), features, embed)
    weight = np.ones(rows.size) if data.rows.weight is None else data.rows.weight[rows]
    expected = _expected(data.labels.codes[rows], log_proba, weight)
    held_out = proba_by_row(log_proba, rows, data.X.shape[0])
    outcome = next(o for o in Outcome if o.value == embedding.stopping_reason_)
    stack = Stack(np.ones(1), np.ones(1), 1.0, embedding.objective_curve_, outcome)
    never = np.flatnonzero(~(data.labels.codes[rows] >= 0).any(axis=0))
    return FittedEmbedding(model_of(embedding, expected), stack, expected, held_out, never)


def _folds(data: MultilabelInput, cv: FoldsLike, rng: np.random.Generator) -> list[SearchFold]:
    """Folds of the rows that have a known label; the others are in every training part."""
    known = (data.labels.codes >= 0).any(axis=1)
    return search_folds(cv, replace(data.rows, codes=np.where(known, 0, -1)), known.size, 1, rng)


def _hold_out(
    data: MultilabelInput, folds: Sequence[SearchFold], features: Array, embed: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (M,) and log probabilities (M, L) of held-out rows, by embeddings of the others."""
    n_labels = data.labels.codes.shape[1]
    rows, log_proba = [np.zeros(0, dtype=int)], [np.zeros((0, n_labels))]
    for train, test in folds:
        if ((data.labels.codes[train] >= 0).sum(axis=0) == 0).any():
            continue  # a label that nobody in the training part is known to have or lack
        rows.append(test)
        log_proba.append(to_numpy(embed(train).predict_log_proba(take_rows(features, test))))
    return np.concatenate(rows), np.concatenate(log_proba)


def _expected(codes: np.ndarray, log_proba: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Mean log loss of the known entries, and the share of them that are right, held out."""
    weights = (codes >= 0) * weight[:, None]
    if not weights.any():
        return float("nan"), float("nan")
    proba = np.exp(log_proba)
    own = np.where(codes == 1, proba, 1 - proba)
    losses = 0.0 - np.clip(np.log(np.maximum(own, 1e-300)), MIN_LOG_PROBA, 0.0)
    return float(np.average(losses, weights=weights)), float(np.average(own > 0.5, weights=weights))
