r"""What a generative classifier has learned, as its predictions ask it.

How much a row says of its class: a temperature and class offsets, learned from labeled rows. Under
a model that is only nearly right, the cells of a row repeat each other and class probabilities are
too sure. So the class of a row has

.. math:: p(c \mid x) \propto p(c)\, e^{k b_c} p(x \mid c)^{1/T}, \qquad T \ge 1,

in which k is the number of known cells of the row. Offsets b make up for classes that the model
says too often: the power of a density does not integrate to one, and densities that are only
nearly right do not divide the rows as the classes do. T and b are where labeled rows have the
least log loss, if p(c) are their class shares (the labels may be given evenly while classes are
not, and other priors may be asked for), under weak priors at one and at zero. They are rows that
were held out (see `training`), where these are enough, else those of the training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.optimize import minimize, root

from latentia.arrays.namespace import (
    Array,
    asarray_like,
    compute_dtype,
    log_softmax,
    logsumexp,
    namespace,
    one_hot,
    softmax,
    transpose,
)
from latentia.engine.contracts import GenerativeFamily, GenerativeParams, NormalCellsFamily
from latentia.engine.rows import MaskedRows, map_rows, rows_per_chunk
from latentia.table.encoder import ColumnEncoder
from latentia.table.standardization import PowerTransform, Standardizer

#: The largest temperature.
MAX_TEMPERATURE = 50.0

#: Nats that a row may hold against its own class, which log loss does not tell from more: one row
#: with a cell that nobody else has must not decide.
MAX_MISTAKE = 36.0

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

    @property
    def with_bounded_mistakes(self) -> LabeledRows:
        """The same, of which none holds more than `MAX_MISTAKE` nats against its class."""
        least = self.log_likelihood.max(axis=0) - MAX_MISTAKE
        is_own = np.arange(len(self.log_likelihood))[:, None] == self.codes
        bounded = np.where(is_own, np.maximum(self.log_likelihood, least), self.log_likelihood)
        return self._replace(log_likelihood=bounded)

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


def log_probas(models: Sequence[FittedModel[Any]], X: Array) -> list[Array]:
    """Log class probabilities (N, C) by each of some models that share a preprocessor."""

    def by_all(rows: MaskedRows) -> Array:
        each = [transpose(log_softmax(model.scores(rows), axis=-2)) for model in models]
        return namespace(each[0]).stack(each, axis=1)

    found = models[0].map_rows(X, by_all, sum(model.floats_per_row() for model in models))
    return [found[:, k, :] for k in range(len(models))]


class FillOptions(NamedTuple):
    """How missing cells are filled."""

    mode: bool  # the most probable values of binary columns, not expected ones
    expects_raw_cells: bool  # not transformed ones
    given_best_class: bool  # of a row without a known class


@dataclass(frozen=True)
class FittedModel(Generic[F]):
    """All that predictions need."""

    family: F
    params: GenerativeParams
    preprocessor: Standardizer | PowerTransform
    encoder: ColumnEncoder
    tempering: Tempering = NO_TEMPERING

    def temper(self, scores: Array, rows: MaskedRows) -> Array:
        """Log joints (..., C, N) in which rows say less of the class.

        p(x) stays what it was, so the joint density stays one.
        """
        if self.tempering.changes_nothing:
            return scores
        prior = asarray_like(self.params.log_prior, scores)[..., None]
        tempered = prior + self.tempering.apply(scores - prior, count_known(rows))
        return logsumexp(scores, axis=-2)[..., None, :] + log_softmax(tempered, axis=-2)

    def map_rows(self, X: Array, fn: Callable[[MaskedRows], Array], floats_per_row: int) -> Array:
        """`fn` of the preprocessed rows, chunk by chunk, its results one after the other."""
        max_rows = rows_per_chunk(floats_per_row, self.params.log_prior)
        parts = map_rows(X, self.preprocessor.prepare, fn, max_rows)
        return namespace(parts[0]).concat(parts, axis=0)

    def scores(self, rows: MaskedRows) -> Array:
        """Log joints (C, N) of preprocessed rows, tempered."""
        return self.temper(self.family.infer(self.params, rows).log_joint, rows)

    def floats_per_row(self) -> int:
        """Floats of workspace per row in `scores`."""
        return self.family.floats_per_row(self.params)

    def log_proba(self, X: Array, score: Callable[[MaskedRows], Array] | None = None) -> Array:
        """Log class probabilities (N, C) of rows of numbers, by these log joints or the model's."""
        score = score or self.scores

        def of_rows(rows: MaskedRows) -> Array:
            return transpose(log_softmax(score(rows), axis=-2))

        return self.map_rows(X, of_rows, self.floats_per_row())

    def impute(self, rows: MaskedRows, code: int, options: FillOptions) -> Array:
        """Rows (N, D) of one class, -1 for any, with missing cells filled, in raw units."""
        family, params, preprocessor = self.family, self.params, self.preprocessor
        scores = family.infer(params, rows).log_joint
        class_probs = softmax(scores, axis=-2)
        if code >= 0 or options.given_best_class:
            best = namespace(scores).argmax(self.temper(scores, rows), axis=-2)
            best = best if code < 0 else namespace(best).full_like(best, code)
            class_probs = one_hot(best, family.n_classes, scores.dtype)
        if options.expects_raw_cells and isinstance(family, NormalCellsFamily):
            if isinstance(preprocessor, PowerTransform):
                expect = partial(preprocessor.expected_standardized, observed=rows.observed)
                cells = family.impute_expected(params, rows, class_probs, expect)
                return preprocessor.standardizer.inverse_transform(cells)
        return preprocessor.inverse_transform_expected(family.impute(params, rows, class_probs, options.mode))

    def impute_floats_per_row(self) -> int:
        """Floats of workspace per row in `impute`."""
        floats = self.family.impute_floats_per_row(self.params)
        if isinstance(self.preprocessor, PowerTransform):  # about eight tables of moments and nodes for each class
            floats += 8 * self.family.n_classes * self.preprocessor.power.shape[0]
        return floats

    def sample(self, codes: np.ndarray, rng: np.random.Generator, component: int | None) -> Any:
        """Rows drawn from the classes `codes` (N,), as the user's: in the units, types and frame of
        X, whole where it has integers.
        """
        values = self.family.sample(self.params, codes, rng, component)
        raw = self.preprocessor.inverse_transform(asarray_like(values, self.preprocessor.shift))
        return self.encoder.decode(self.encoder.round_whole(raw))

    def n_free(self, n_features: int) -> int:
        """Number of free parameters of so many columns."""
        return int(self.family.n_free(n_features))


def keep_observed(X: Array, filled: Array) -> Array:
    """`filled` where X has a gap; a model in float32 rounds what it fills in, and nothing else."""
    xp = namespace(filled)
    single = compute_dtype(X) == namespace(X).float32
    raw = asarray_like(X, filled, dtype=filled.dtype if single else xp.float64)
    return xp.where(xp.isnan(raw), xp.astype(filled, raw.dtype), raw)


def tempering_attributes(model: FittedModel[Any]) -> dict[str, Any]:
    """What is published of its tempering."""
    (temperature, offsets), prior = model.tempering, model.params.log_prior
    zero = namespace(prior).zeros_like(prior)
    return {"temperature_": temperature, "class_offsets_": zero if offsets is None else asarray_like(offsets, prior)}
