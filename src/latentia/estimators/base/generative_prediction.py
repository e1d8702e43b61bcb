r"""What a generative classifier has learned, as its predictions ask it.

Some classifiers learn several models of the same columns. Their predictions are averaged: densities
of rows, and what rows say of their classes, each by itself,

.. math::
    p(x) = \sum_r v_r\, p_r(x), \qquad
    p(c \mid x) \propto p(c) \sum_r v_r \frac{t_r(x, c)}{\sum_{c'} t_r(x, c')}, \qquad
    t_r(x, c) = e^{k b_{rc}} p_r(x \mid c)^{1/T_r}

(see `tempering`), whose product is a density of rows and classes again, in which other class priors
multiply the odds. What members expect of missing cells is averaged, too. The votes v are the same
for all rows: with the weights :math:`p(r \mid x) \propto p_r(x)` the model that says most of how
rows look would have the only one, and the average would be hardly better than a single model, for
classes and for cells.

How much a row says of its class: a temperature and class offsets, learned from labeled rows.

Under a model that is only nearly right, the cells of a row repeat each other and class
probabilities are too sure. So the class of a row has

.. math:: p(c \mid x) \propto p(c)\, e^{k b_c} p(x \mid c)^{1/T}, \qquad T \ge 1,

in which k is the number of known cells of the row. Offsets b make up for classes that the
model says too often: the power of a density does not integrate to one, and densities that are only
nearly right do not divide the rows as the classes do. T and b are where labeled rows have the
least log loss, if p(c) are their class shares (the labels may be given evenly while classes are
not, and other priors may be asked for), under weak priors at one and at zero. They are rows held
out where some are for the weight of unlabeled rows (see `unlabeled_weight`), else those of the
training.

Prediction methods of generative classifiers: class probabilities, densities, imputation,
sampling.

Prediction methods of models whose classes have components of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.optimize import minimize, root
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from latentia.arrays.namespace import (
    Array,
    asarray_like,
    compute_dtype,
    log_softmax,
    logsumexp,
    namespace,
    one_hot,
    softmax,
    take_rows,
    to_numpy,
    transpose,
)
from latentia.engine.contracts import GenerativeFamily, NormalCellsFamily, Params
from latentia.engine.rows import MaskedRows, map_rows
from latentia.engine.sweep import rows_per_chunk
from latentia.estimators.base.classifier import InformationCriteriaMixin, ProbabilisticClassifier
from latentia.table.encoder import ColumnEncoder
from latentia.table.frames import frame_type
from latentia.table.labels import encode_known_labels
from latentia.table.options import check_choice, check_number, choice, optional, random_generator
from latentia.table.power_transform import PowerTransform
from latentia.table.rows import method_of_rows, plain_table, validate_rows
from latentia.table.standardization import Standardizer

#: The largest temperature.
MAX_TEMPERATURE = 50.0

#: Precision of the normal prior of class offsets at zero, in rows.
OFFSET_PRECISION = 20.0


class Tempering(NamedTuple):
    """What becomes of the log likelihoods of classes: they are divided, and moved."""

    temperature: float = 1.0
    offsets: np.ndarray | None = None  # (C,) of each known cell; None: zero

    @property
    def changes_nothing(self) -> bool:
        return self.temperature == 1.0 and self.offsets is None

    def apply(self, log_likelihood: Array, known: Array) -> Array:
        """Of log likelihoods (..., C, N) of rows with so many known cells, (N,)."""
        tempered = log_likelihood / self.temperature
        return tempered if self.offsets is None else tempered + asarray_like(self.offsets, tempered)[:, None] * known


class LabeledRows(NamedTuple):
    """What a tempering is chosen by."""

    log_likelihood: np.ndarray  # (C, N)
    known: np.ndarray  # (N,) numbers of cells
    codes: np.ndarray  # (N,)
    weight: np.ndarray  # (N,)

    @property
    def log_class_shares(self) -> np.ndarray:
        """Logs (C, 1) of the shares of labels, of which each class is given one more."""
        counts = 1.0 + np.bincount(self.codes, self.weight, minlength=len(self.log_likelihood))
        return np.asarray(np.log(counts / counts.sum()))[:, None]

    def log_losses(self, tempering: Tempering) -> np.ndarray:
        """The log loss of each row."""
        tempered = tempering.apply(self.log_likelihood, self.known)
        log_proba = log_softmax(self.log_class_shares + tempered, axis=0)
        return np.asarray(-log_proba[self.codes, np.arange(self.codes.size)])


def count_known(rows: MaskedRows) -> Array:
    """The number (N,) of each row's known cells."""
    xp = namespace(rows.values)
    cells = xp.ones_like(rows.values) if rows.observed is None else xp.astype(rows.observed, rows.values.dtype)
    return xp.sum(cells, axis=-1)


def best_tempering(rows: LabeledRows, with_offsets: bool = True) -> Tempering:
    """With which the rows have the least log loss."""
    log_likelihood, known, codes, weight = rows
    most = max(1.0, float(np.max(known[weight > 0], initial=0.0)))
    known = known / most  # so that offsets of rows without gaps have the prior, whatever their columns
    n_classes, log_share = len(log_likelihood), rows.log_class_shares
    log_likelihood = log_likelihood - log_likelihood.max(axis=0)
    size = max(1.0, float(-log_likelihood.mean()))  # slopes by size / T are as large as those by the offsets
    is_own = np.arange(n_classes)[:, None] == codes

    def log_proba_at(free: np.ndarray) -> np.ndarray:
        tempered = free[0] / size * log_likelihood + free[1:, None] * known
        return np.asarray(log_softmax(log_share + tempered, axis=0))

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        """What is made small, and its slopes: by 1/T, in which it is convex, and by the offsets."""
        power, offsets, log_proba = free[0] / size, free[1:], log_proba_at(free)
        too_much = weight * (np.exp(log_proba) - is_own)
        value = -(weight @ log_proba[codes, np.arange(codes.size)])
        value += np.log(power) ** 2 + 0.5 * OFFSET_PRECISION * offsets @ offsets
        by_power = (too_much * log_likelihood).sum() + 2 * np.log(power) / power
        return float(value), np.array([by_power / size, *(too_much @ known + OFFSET_PRECISION * offsets)])

    def curvature(free: np.ndarray) -> np.ndarray:
        """The slopes of the slopes."""
        power, proba, by_power = free[0] / size, np.exp(log_proba_at(free)), log_likelihood / size
        spread = proba * (by_power - (proba * by_power).sum(axis=0))  # of the probabilities, by the power
        mixed = spread @ (weight * known)
        of_offsets = np.diag(proba @ (weight * known**2) + OFFSET_PRECISION) - (proba * (weight * known**2)) @ proba.T
        of_power = weight @ (spread * by_power).sum(axis=0) + 2 * (1 - np.log(power)) / free[0] ** 2
        return np.block([[np.array([[of_power]]), mixed[None, :]], [mixed[:, None], of_offsets]])

    begin = np.array([min(size, 3.0), *np.zeros(n_classes)])
    bounds = [(size / MAX_TEMPERATURE, size), *[(None, None) if with_offsets else (0.0, 0.0)] * n_classes]
    exact = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 500}
    best = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=exact).x
    best = _where_slopes_are_zero(lambda free: loss(free)[1], curvature, best, bounds)
    return Tempering(float(size / best[0]), best[1:] / most if with_offsets else None)


def _where_slopes_are_zero(
    slope: Callable[[np.ndarray], np.ndarray],
    curvature: Callable[[np.ndarray], np.ndarray],
    near: np.ndarray,
    bounds: list[Any],
) -> np.ndarray:
    """The optimum to rounding, from one to half the digits, which is all that values can tell."""
    free = np.array([low is None or low < x < high for x, (low, high) in zip(near, bounds, strict=True)])

    def at(some: np.ndarray) -> np.ndarray:
        moved = near.copy()
        moved[free] = some
        return moved

    if not free.any():
        return near
    inner = np.ix_(free, free)
    found = root(lambda some: slope(at(some))[free], near[free], jac=lambda some: curvature(at(some))[inner], tol=1e-13)
    better = np.abs(slope(at(found.x))[free]).sum() <= np.abs(slope(near)[free]).sum()
    return at(found.x) if better else near


F = TypeVar("F", bound=GenerativeFamily)

NO_TEMPERING = Tempering()


def _own_scores(family: GenerativeFamily, params: Params, rows: MaskedRows) -> Array:
    return family.scores(params, rows)


class FillOptions(NamedTuple):
    """How missing cells are filled."""

    mode: bool  # the most probable values of binary columns, not expected ones
    expects_raw_cells: bool  # not transformed ones
    given_best_class: bool  # of a row without a known class


@dataclass(frozen=True)
class FittedModel(Generic[F]):
    """All that predictions need."""

    family: F
    params: Params
    preprocessor: Standardizer | PowerTransform
    encoder: ColumnEncoder
    tempering: Tempering = NO_TEMPERING
    others: tuple[FittedModel[F], ...] = ()  # of the same preprocessed columns, averaged over with this one
    n_votes: int = 1  # in such an average

    @property
    def members(self) -> tuple[FittedModel[F], ...]:
        """The models whose predictions are averaged."""
        return self, *self.others

    @property
    def vote_shares(self) -> list[float]:
        """The share of each member in the average."""
        total = sum(one.n_votes for one in self.members)
        return [one.n_votes / total for one in self.members]

    def tempered_log_likelihood(self, scores: Array, rows: MaskedRows) -> Array:
        """What rows with such log joints (..., C, N) say of their class."""
        log_likelihood = scores - asarray_like(self.params.log_prior, scores)[..., None]
        return self.tempering.apply(log_likelihood, count_known(rows))

    def temper(self, scores: Array, rows: MaskedRows) -> Array:
        """Log joints (..., C, N) in which rows say less of the class.

        p(x) stays what it was, so the joint density stays one.
        """
        if self.tempering.changes_nothing:
            return scores
        prior = asarray_like(self.params.log_prior, scores)[..., None]
        tempered = prior + self.tempered_log_likelihood(scores, rows)
        return logsumexp(scores, axis=-2)[..., None, :] + log_softmax(tempered, axis=-2)

    def map_rows(self, X: Array, fn: Callable[[MaskedRows], Array], floats_per_row: int) -> Array:
        """`fn` of the preprocessed rows, chunk by chunk, its results one after the other."""
        max_rows = rows_per_chunk(floats_per_row, self.preprocessor.shift)
        parts = map_rows(X, self.preprocessor.prepare, fn, max_rows)
        return namespace(parts[0]).concat(parts, axis=0)

    def scores(self, rows: MaskedRows, score: Callable[..., Array] | None = None) -> Array:
        """Log joints (C, N) of preprocessed rows, tempered, averaged over the members.

        Those of a member are `score` of its family, parameters and rows; by default the family's.
        """
        score = _own_scores if score is None else score
        each = [score(one.family, one.params, rows) for one in self.members]
        if len(each) == 1:
            return self.temper(each[0], rows)
        xp, voters = namespace(each[0]), list(zip(self.members, each, map(log, self.vote_shares), strict=True))
        scaled = [log_softmax(one.tempered_log_likelihood(s, rows), axis=-2) + vote for one, s, vote in voters]
        density = logsumexp(xp.stack([logsumexp(s, axis=-2) + vote for _, s, vote in voters]), axis=0)
        prior = asarray_like(self.params.log_prior, density)[..., None]
        return density + log_softmax(prior + logsumexp(xp.stack(scaled), axis=0), axis=-2)

    def score_floats_per_row(self) -> int:
        """Floats of workspace per row in `scores`."""
        return sum(one.family.score_floats_per_row(one.params) for one in self.members)

    def log_proba(self, X: Array) -> Array:
        """Log class probabilities (N, C) of rows of numbers."""

        def of_rows(rows: MaskedRows) -> Array:
            return transpose(log_softmax(self.scores(rows), axis=-2))

        return self.map_rows(X, of_rows, self.score_floats_per_row())

    def impute(self, rows: MaskedRows, code: int, options: FillOptions) -> Array:
        """Rows (N, D) of one class, -1 for any, with missing cells filled, in raw units."""
        given = None  # the classes of the rows
        if code >= 0 or options.given_best_class:
            scores = self.scores(rows)
            xp = namespace(scores)
            best = xp.argmax(scores, axis=-2)
            given = one_hot(best if code < 0 else xp.full_like(best, code), self.family.n_classes, scores.dtype)
        each = [one._impute(rows, given, options) for one in self.members]
        return sum((vote * cells for vote, cells in zip(self.vote_shares, each, strict=True)), start=0.0)

    def _impute(self, rows: MaskedRows, given: Array | None, options: FillOptions) -> Array:
        """What this model alone fills in, averaged over the classes or given one-hot ones."""
        class_probs = softmax(self.family.scores(self.params, rows), axis=-2) if given is None else given
        family, params, preprocessor = self.family, self.params, self.preprocessor
        if options.expects_raw_cells and isinstance(family, NormalCellsFamily):
            if isinstance(preprocessor, PowerTransform):
                expect = partial(preprocessor.expected_standardized, observed=rows.observed)
                cells = family.impute_expected(params, rows, class_probs, expect)
                return preprocessor.standardizer.inverse_transform(cells)
        return preprocessor.inverse_transform_expected(family.impute(params, rows, class_probs, options.mode))

    def impute_floats_per_row(self) -> int:
        """Floats of workspace per row in `impute`."""
        floats = sum(one.family.impute_floats_per_row(one.params) for one in self.members)
        if isinstance(self.preprocessor, PowerTransform):  # about eight tables of moments and nodes for each class
            floats += 8 * self.family.n_classes * self.preprocessor.power.shape[0]
        return floats

    def sample(self, codes: np.ndarray, rng: np.random.Generator, component: int | None) -> Any:
        """Rows drawn from the classes `codes` (N,), as the user's: in the units, types and frame of
        X, whole where it has integers. A component is one of the first member.
        """
        if component is not None or not self.others:
            values = self.family.sample(self.params, codes, rng, component)
        else:
            values = np.empty((codes.size, self.preprocessor.shift.shape[0]))
            voters = np.repeat(np.arange(len(self.members)), [one.n_votes for one in self.members])
            drawn = voters[rng.integers(voters.size, size=codes.size)]
            for number in np.unique(drawn):
                one, index = self.members[number], np.flatnonzero(drawn == number)
                values[index] = one.family.sample(one.params, codes[index], rng)
        raw = self.preprocessor.inverse_transform(asarray_like(values, self.preprocessor.shift))
        return self.encoder.decode(self.encoder.round_whole(raw))

    def n_free(self, n_features: int) -> int:
        """Number of free parameters of so many columns."""
        return sum(int(one.family.n_free(n_features)) for one in self.members)


class GenerativePredictMixin(InformationCriteriaMixin, ProbabilisticClassifier):
    """Predictions from the joint density of rows and classes."""

    _model: FittedModel[Any]
    n_features_in_: int

    def _check_rows(self, X: Any) -> Array:
        """Rows to predict, as numbers."""
        self._require_fitted()
        return validate_rows(self, X, reset=False)

    def _joint_log_proba(self, X: Any) -> Array:
        model = self._model

        def joint(rows: MaskedRows) -> Array:
            return transpose(model.scores(rows) - model.preprocessor.log_det_jacobian(rows))

        return model.map_rows(X, joint, model.score_floats_per_row())

    @method_of_rows
    def predict_joint_log_proba(self, X: Any) -> Array:
        """Log p(x, c), in the order of `classes_`; missing cells are integrated out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.

        Returns
        -------
        log_joint : array of shape (n_samples, n_classes)
        """
        return self._joint_log_proba(self._check_rows(X))

    def _log_proba(self, X: Any) -> Array:
        return log_softmax(self._joint_log_proba(self._check_rows(X)), axis=-1)

    @method_of_rows
    def score_samples(self, X: Any) -> Array:
        """Log p(x), the density of the known cells of each row: low for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.

        Returns
        -------
        log_density : array of shape (n_samples,)
        """
        return logsumexp(self.predict_joint_log_proba(X), axis=-1)

    @method_of_rows
    def impute(self, X: Any, y: Any = None, *, method: str = "mean", condition: str | None = None) -> Any:
        """Rows with each missing cell replaced by what the known cells of its row say of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows, where they are known: their cells are completed given the class.
            Rows marked as unlabeled, as in `fit`, are completed as without y.
        method : {"mean", "median", "mode"}, default="mean"
            "mean": expected values. "median": the same, but of a column that `marginals` has
            transformed the original of the expected transformed cell, the median if there is one
            class and component, and about it else. "mode": the most probable value of binary
            columns, the nearest of integer ones, medians of others. Columns of categories, and a
            data frame's columns of bool, always get their most probable value. No cell of a
            transformed column is expected beyond the values that `fit` has seen.
        condition : {"class"} or None, default=None
            Of rows without a known class. "class": given the most probable class of the row; None:
            averaged over the classes.

        Returns
        -------
        X_complete : array of shape (n_samples, n_features), or a data frame for models of frames
            Known cells are unchanged; values of a column of categories that were not seen in `fit`
            count as missing. A data frame has the columns and dtypes of the one fitted (a column of
            integers becomes one of floats, nullable ones of nullable floats, where an expectation
            lies between them), and in pandas the index of `X`. Of a column without any known cell
            in `fit`, which has warned of it, nothing is known: numbers are 0, as by scikit-learn's
            ``SimpleImputer(keep_empty_features=True)``, and categories stay missing.
        """
        check_choice("method", method, ["mean", "median", "mode"])
        optional(choice("class"))("condition", condition)
        rows_in = self._check_rows(X)
        options = FillOptions(method == "mode", method == "mean", condition == "class")
        if y is None:
            filled = self._fill(rows_in, -1, options)
        else:
            codes = encode_known_labels(y, self.classes_, rows_in.shape[0], self.unlabeled)
            order = np.argsort(codes, kind="stable")  # rows of one class after the other
            by_class = [(code, order[codes[order] == code]) for code in np.unique(codes).tolist()]
            parts = [self._fill(take_rows(rows_in, index), code, options) for code, index in by_class]
            filled = take_rows(namespace(parts[0]).concat(parts, axis=0), np.argsort(order))
        encoder, table = self._model.encoder, plain_table(X if hasattr(X, "shape") else np.asarray(X))
        index = table.index if frame_type(table) == "pandas" else None
        filled = encoder.round_whole(filled) if options.mode else filled
        return encoder.decode(keep_observed(rows_in, filled), index, source=table)

    def _fill(self, X: Array, code: int, options: FillOptions) -> Array:
        """Rows of one class, -1 for any, as the model expects them."""
        model = self._model

        def fill(rows: MaskedRows) -> Array:
            if rows.observed is None:
                return model.preprocessor.inverse_transform(rows.values)
            return model.impute(rows, code, options)

        return model.map_rows(X, fill, model.impute_floats_per_row())

    def sample(self, n_samples: int = 1, y: Any = None, component: int | None = None) -> tuple[Any, np.ndarray]:
        """Draw rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        y : class or array-like of shape (n_samples,), default=None
            The class of all rows, or of each; drawn from the class priors by default.
        component : int, default=None
            The component of all rows; drawn from the class's own mixing weights by default.

        Returns
        -------
        X : array of shape (n_samples, n_features), or a data frame like the one fitted
            Rounded to whole numbers where the dtype of a column is one of integers.
        y : ndarray of shape (n_samples,)
        """
        self._require_fitted()
        rng = random_generator(self.random_state)
        codes = self._sample_codes(n_samples, y, rng)
        if component is not None:  # every class that is drawn must have it
            sizes = np.broadcast_to(self._model.family.n_components, (len(self.classes_),))
            check_number("component", component, ge=0, lt=int(sizes[codes].min()), integer=True)
        return self._model.sample(codes, rng, component), self.classes_[codes]

    def _sample_codes(self, n_samples: int, y: Any, rng: np.random.Generator) -> np.ndarray:
        """Codes of the classes to sample from."""
        check_number("n_samples", n_samples, ge=1, integer=True)
        if y is None:
            prior = np.exp(to_numpy(self._model.params.log_prior).astype(float))
            return rng.choice(len(prior), n_samples, p=prior / prior.sum())
        labels = np.full(n_samples, y) if np.ndim(y) == 0 else np.asarray(y)
        if labels.shape != (n_samples,):
            raise ValueError(f"y has shape {labels.shape}; allowed are one class, or n_samples={n_samples} classes.")
        codes = encode_known_labels(labels, self.classes_, n_samples, self.unlabeled)
        if (codes < 0).any():
            raise ValueError(f"y={y!r} asks for unlabeled rows; allowed are the classes {self.classes_.tolist()}.")
        return codes

    def _n_free_params(self) -> int:
        """Number of free parameters; columns without any value have none."""
        self._require_fitted()
        return self._model.n_free(self.n_features_in_ - self._model.preprocessor.n_empty_columns)

    def _log_likelihood(self, X: Any, y: Any) -> tuple[float, int]:
        joint = to_numpy(self.predict_joint_log_proba(X)).astype(float)
        codes = encode_known_labels(y, self.classes_, joint.shape[0], self.unlabeled)
        own = np.take_along_axis(joint, np.maximum(codes, 0)[:, None], axis=1)[:, 0]
        return float(np.where(codes >= 0, own, np.logaddexp.reduce(joint, axis=1)).sum()), joint.shape[0]


def keep_observed(X: Array, filled: Array) -> Array:
    """`filled` where X has a gap; a model in float32 rounds what it fills in, and nothing else."""
    xp = namespace(filled)
    single = compute_dtype(X) == namespace(X).float32
    raw = asarray_like(X, filled, dtype=filled.dtype if single else xp.float64)
    return xp.where(xp.isnan(raw), xp.astype(filled, raw.dtype), raw)


class ClassComponentMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GenerativePredictMixin):
    """Probabilities of the components, which are the latent variables of a mixture."""

    @property
    def _n_features_out(self) -> int:
        return int(self._model.family.n_components.sum())

    @method_of_rows
    def responsibilities(self, X: Any) -> Array:
        """Probabilities p(c, k | x) of the components of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, `n_components_`.sum())
            The components of the first class, then those of the second, and so on: those of a class
            add up to its probability.
        """
        rows_in = self._check_rows(X)
        model = self._model
        family, params = model.family, model.params
        flat = family.present.ravel().nonzero()[0]

        def components(rows: MaskedRows) -> Array:
            posterior = family.infer(params, rows)
            xp = namespace(posterior.log_joint)
            scale = softmax(model.temper(posterior.log_joint, rows), axis=-2) / posterior.normalizer
            each = posterior.unnormalized * scale[:, None, :]  # (C, K, N), some of them padding
            each = xp.reshape(each, (-1, each.shape[-1]))
            return transpose(xp.take(each, asarray_like(flat, each, dtype=xp.int64), axis=0))

        return model.map_rows(rows_in, components, family.floats_per_row(params))

    @method_of_rows
    def transform(self, X: Any) -> Array:
        """The same as `responsibilities`: what the model knows of the latent variables of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, `n_components_`.sum())
        """
        return self.responsibilities(X)
