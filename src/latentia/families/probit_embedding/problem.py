"""The probit embedding on given rows: what is constant in them is found once, the rest in a sweep.

X'X does not depend on the parameters, so the cheapest form of the projection's posterior is chosen
before the first sweep and given to the family, and a sweep only sums what the labels say.

A sweep over rows in memory begins each row's fixed point at its *warm start*: where the row was
heading in the last sweeps. So such a problem has a state, and a sweep is a function of its
argument only up to the tolerance of the fixed points. As each row has a single fixed point this
saves time and changes nothing else. Low-density separation is the exception: there a row has
several fixed points, and stays on the side of the margin where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np
from sklearn import get_config

from latentia.arrays.namespace import Array, is_sparse, namespace
from latentia.arrays.parallel import one_blas_thread
from latentia.engine.contracts import Sweep
from latentia.engine.rows import ArraySource, Chunk, RowRange, Source, TableSource, Totals, split_ranges
from latentia.engine.sweep import rows_per_chunk
from latentia.engine.tree import tree_add
from latentia.families.probit_embedding.family import ProbitEmbedding
from latentia.families.probit_embedding.initialization import LabelSums, label_sums, sum_labels
from latentia.families.probit_embedding.kernel_form import KernelForm
from latentia.families.probit_embedding.label_posterior import label_signs
from latentia.families.probit_embedding.projection import GramForm, ProjectionSolver, SpectralForm
from latentia.families.probit_embedding.row_products import gram_matrix, scale_rows
from latentia.families.probit_embedding.statistics import label_statistics
from latentia.families.probit_embedding.values import EmbeddedRows, Embedding

#: Tables with fewer entries gain nothing from several threads in a product.
MIN_THREADED_ENTRIES = 2**22


class EmbeddingProblem(ABC):
    """A family with the form of the projection that is cheapest for the rows."""

    #: Whether the products of a sweep are too small for several threads.
    small: bool = False
    total_weight: float

    def __init__(self, family: ProbitEmbedding, form: ProjectionSolver):
        self.family = replace(family, form=form)
        self.form = form

    def take_restarts(self, index: np.ndarray) -> EmbeddingProblem:
        """All restarts see the same rows."""
        return self

    @abstractmethod
    def label_sums(self) -> LabelSums:
        """The totals from which variational Bayes starts."""

    @abstractmethod
    def sweep(self, params: Embedding) -> Sweep:
        """Value and statistics; the Gram matrix, which the form has already, is left out."""

    def initial_params(self, rng: np.random.Generator, n_restarts: int) -> Embedding:
        """As the family's `init`."""
        return self.family.initial_params(self.label_sums(), rng, n_restarts)

    def _add_row_independent_terms(self, params: Embedding, sums: Sweep) -> Sweep:
        """Add to sums over rows what depends on them only through the form."""
        family = self.family
        variance = self.form.total_variance(params.covariance)  # of each covariance
        columns_per_covariance = family.n_latent // variance.shape[-1]
        total_variance = namespace(variance).sum(variance, axis=-1) * columns_per_covariance
        return Sweep(sums.value + family.log_prior(params) - total_variance / (2 * family.noise), sums.stats)


class InMemoryProblem(EmbeddingProblem):
    """Rows (dense or sparse) in memory, with warm starts."""

    def __init__(
        self,
        family: ProbitEmbedding,
        rows: Array,
        y: Array,
        weight: Array | None = None,
        form: ProjectionSolver | None = None,
        max_chunk_rows: int | None = None,
    ):
        xp = namespace(y)
        self._labels = label_signs(y, rows.dtype, family.low_density_separation)
        counts = self._labels.row_counts
        self._row_weight = counts if weight is None else counts * weight
        self._rows, self._y, self._weight = rows, y, weight
        self._max_chunk_rows = max_chunk_rows
        self._last_means: list[Array] = []  # of the rows, in the last two sweeps
        self.total_weight = float(y.shape[0] if weight is None else xp.sum(weight))
        self.small = rows.shape[0] * rows.shape[1] < MIN_THREADED_ENTRIES
        super().__init__(family, choose_form(family, rows, self._row_weight) if form is None else form)

    def label_sums(self) -> LabelSums:
        return sum_labels(self._rows, self._y, self._weight, self.family.low_density_separation)

    def sweep(self, params: Embedding) -> Sweep:
        with one_blas_thread(self.small):
            return self._sweep(params)

    def _sweep(self, params: Embedding) -> Sweep:
        shape = (*params.projection.shape[:-2], self._rows.shape[0], self.family.n_latent)
        warm_start = self._warm_start(shape)
        means: list[Array] = []

        def visit(chunk: slice) -> Sweep:
            start = None if warm_start is None else warm_start[..., chunk, :]
            rows, weight = self._rows[chunk, ...], self._row_weight[chunk]
            posterior = self.family.infer_latents(params, rows, self._labels.of_rows(chunk), start)
            means.append(posterior.mean)
            return _sum_rows(rows, posterior, weight)

        sums = reduce(tree_add, map(visit, self._chunks(params)))
        mean = means[0] if len(means) == 1 else namespace(means[0]).concat(means, axis=-2)
        self._last_means = [*self._last_means, mean][-2:]
        return self._add_row_independent_terms(params, sums)

    def _warm_start(self, shape: tuple[int, ...]) -> Array | None:
        """Where rows will be, if they go on as in the last sweeps with as many restarts."""
        means = [mean for mean in self._last_means if mean.shape == shape]
        if len(means) < 2 or self.family.low_density_separation:
            return means[-1] if means else None
        return 2 * means[1] - means[0]

    def _chunks(self, params: Embedding) -> list[slice]:
        max_rows = self._max_chunk_rows or rows_per_chunk(self.family.label_floats_per_row(params), params.projection)
        return [rows.as_slice for rows in split_ranges([RowRange(0, self._rows.shape[0], None)], max_rows)]


class StreamedProblem(EmbeddingProblem):
    """Rows that are read chunk by chunk in every sweep, and their Gram matrix."""

    def __init__(self, family: ProbitEmbedding, source: Source):
        self._source = source
        sums = label_sums(source, family.low_density_separation)
        self._sums = sums._replace(gram=sums.gram[:0, :0])
        self.total_weight = source.total_weight
        super().__init__(family, gram_form(family, sums.gram))

    def label_sums(self) -> LabelSums:
        return self._sums

    def sweep(self, params: Embedding) -> Sweep:
        family = self.family

        def visit(chunk: Chunk) -> Totals:
            x = chunk.rows.values
            labels = label_signs(chunk.y, x.dtype, family.low_density_separation)
            posterior = family.infer_latents(params, x, labels)
            return {"sums": _sum_rows(x, posterior, chunk.weighted(labels.row_counts))}

        size = params.projection.shape[-1] + family.label_floats_per_row(params)
        sums = self._source.sum_over_chunks(visit, rows_per_chunk(size, params.projection))["sums"]
        return self._add_row_independent_terms(params, sums)


def _sum_rows(x: Array, posterior: EmbeddedRows, weight: Array) -> Sweep:
    """Values and statistics of some rows, weighted."""
    value = namespace(weight).sum(posterior.log_joint[..., 0, :] * weight, axis=-1)
    return Sweep(value, label_statistics(x, posterior, weight))


def problem_maker(source: TableSource) -> Callable[[ProbitEmbedding], EmbeddingProblem]:
    """How problems on these rows are made, for families of several sizes.

    Rows whose preprocessed copy fits scikit-learn's `working_memory` are kept in memory; so are
    tables with more features than rows, whose forms need all rows at once. Rows in parts stay
    where they are, unless they are as few.
    """
    if not isinstance(source, ArraySource):
        if source.n_features <= source.n_rows:
            return lambda family: StreamedProblem(family, source)
        source = source.subset(np.arange(source.n_rows))
    assert isinstance(source, ArraySource)
    n_entries = source.X.nnz if is_sparse(source.X) else source.n_rows * source.n_features
    if 8 * n_entries > get_config()["working_memory"] * 2**20 and source.n_features <= source.n_rows:
        return lambda family: StreamedProblem(family, source)
    rows, y, weight, *_ = source.all_rows()
    return lambda family: InMemoryProblem(family, rows.values, y, weight)


def choose_form(family: ProbitEmbedding, rows: Array, weight: Array) -> ProjectionSolver:
    """The cheapest form for these rows."""
    if rows.shape[1] <= rows.shape[0]:
        return gram_form(family, gram_matrix(rows, weight))
    scaled = scale_rows(rows, namespace(weight).sqrt(weight))
    if family.sharing.isotropic:
        return SpectralForm.from_rows(scaled, family.noise)
    return KernelForm(scaled, family.noise)


def gram_form(family: ProbitEmbedding, gram: Array) -> ProjectionSolver:
    """The cheapest form from X'X."""
    if family.sharing.isotropic:
        return SpectralForm.from_gram(gram, family.noise)
    return GramForm(gram, family.noise)
