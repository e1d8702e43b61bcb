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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from latentia.arrays.namespace import (
    Array,
    asarray_like,
    log_softmax,
    logsumexp,
    namespace,
    one_hot,
    softmax,
    transpose,
)
from latentia.engine.contracts import GenerativeFamily, NormalCellsFamily, Params
from latentia.engine.rows import MaskedRows, map_rows
from latentia.engine.sweep import rows_per_chunk
from latentia.estimators.base.tempering import Tempering, count_known
from latentia.table.encoder import ColumnEncoder
from latentia.table.power_transform import PowerTransform
from latentia.table.standardization import Standardizer

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
        return self.tempering(log_likelihood, count_known(rows))

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
        parts = map_rows(X, self.preprocessor, fn, max_rows)
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
