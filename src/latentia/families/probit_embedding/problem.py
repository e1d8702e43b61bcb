"""The probit embedding on given rows: what is constant in them is found once, and only the rest is summed in a sweep."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.contracts import Chunk, Problem, Source, Stats, Sweep, Totals
from latentia.engine.problem import rows_per_chunk
from latentia.engine.pytree import tree_add
from latentia.families.probit_embedding.initialization import LabelSums, label_sums, sum_labels
from latentia.families.probit_embedding.label_posterior import Labels, label_signs
from latentia.families.probit_embedding.projection import GramForm, KernelForm, ProjectionSolver, SpectralForm
from latentia.numerics.array_api import Array, namespace, transpose
from latentia.numerics.threads import one_blas_thread

#: Tables with fewer entries gain nothing from several threads in a product.
SMALL = 2**22


#: Tables with more entries are read again in every sweep.
MAX_ENTRIES = 2**27


class EmbeddingProblem:
    """A family with a design, and rows (dense or sparse) in memory.

    A row's fixed point is looked for from where it was heading in the last sweeps, if they had as many starts. As the fixed point is
    unique this only saves time (`separate` apart, whose rows stay on the side of the margin where they are).
    """

    def __init__(
        self,
        family: Any,
        rows: Any,
        y: Array,
        weight: Array | None = None,
        design: ProjectionSolver | None = None,
        rows_per_chunk: int | None = None,
    ):
        xp = namespace(y)
        self._labels = label_signs(y, rows.dtype, family.separate)
        self._used = self._labels.used if weight is None else self._labels.used * weight
        self._rows, self._y, self._weight = rows, y, weight
        self._chunk = rows_per_chunk
        self._places: list[Array] = []  # where rows were in the last two sweeps
        self.family = family.with_design(choose_form(family, rows, self._used) if design is None else design)
        self.total_weight = float(y.shape[0] if weight is None else xp.sum(weight))

    @property
    def small(self) -> bool:
        """Whether several threads would not pay."""
        return bool(self._rows.shape[0] * self._rows.shape[1] < SMALL)

    def label_sums(self) -> LabelSums:
        """The totals from which starts are made."""
        return sum_labels(self._rows, self._y, self._weight, False, self.family.separate)

    def sweep(self, params: Any) -> Sweep:
        """Value and statistics, as `Problem.sweep` has them."""
        with one_blas_thread(self.small):
            return self._sweep(params)

    def _sweep(self, params: Any) -> Sweep:
        family = self.family
        xp = namespace(params.projection)
        warm = self._guess((*params.projection.shape[:-2], self._rows.shape[0], family.n_latent))
        value: Any = 0.0
        stats, places = None, []
        for part in self._parts(params):
            start = None if warm is None else warm[..., part, :]
            rows, used = self._rows[part, ...], self._used[part]
            posterior = family.place(params, rows, cut(self._labels, part), start)
            value = value + xp.sum(posterior.log_joint[..., 0, :] * used, axis=-1)
            some = family.label_statistics(rows, posterior, used[:, None])
            stats = some if stats is None else tree_add(stats, some)
            places.append(posterior.mean)
        here = places[0] if len(places) == 1 else xp.concat(places, axis=-2)
        self._places = [*self._places, here][-2:]
        return add_row_independent_terms(family, params, value, stats)

    def _guess(self, shape: tuple[int, ...]) -> Array | None:
        """Where rows will be, if they go on as in the last sweeps with as many starts."""
        seen = [place for place in self._places if place.shape == shape]
        if len(seen) < 2 or self.family.separate:
            return seen[-1] if seen else None
        return 2 * seen[1] - seen[0]

    def _parts(self, params: Any) -> list[slice]:
        n_rows = self._rows.shape[0]
        size = self._chunk or rows_per_chunk(self.family.label_floats_per_row(params))
        edges = np.linspace(0, n_rows, max(1, -(-n_rows // size)) + 1).round().astype(int).tolist()
        return [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]


class StreamedEmbeddingProblem:
    """A family with its gram matrix, and rows that are read block by block in every sweep."""

    small = False

    def __init__(self, family: Any, source: Source):
        self._source = source
        sums = label_sums(source, True, family.separate)
        self._sums = sums._replace(gram=sums.gram[:0, :0])
        self.family = family.with_design(gram_design(family, sums.gram))
        self.total_weight = source.total_weight

    def label_sums(self) -> LabelSums:
        """The totals from which starts are made."""
        return self._sums

    def sweep(self, params: Any) -> Sweep:
        """Value and statistics, as `Problem.sweep` has them."""
        family = self.family

        def visit(chunk: Chunk) -> Totals:
            x = chunk.rows.values
            xp = namespace(x)
            posterior = family.place(params, x, label_signs(chunk.y, x.dtype, family.separate))
            used = posterior.labels.used if chunk.weight is None else posterior.labels.used * chunk.weight
            value = xp.sum(posterior.log_joint[..., 0, :] * used, axis=-1)
            return {"stats": family.label_statistics(x, posterior, used[:, None]), "value": value}

        size = params.projection.shape[-1] + family.label_floats_per_row(params)
        totals = self._source.sum_over_chunks(visit, rows_per_chunk(size))
        return add_row_independent_terms(family, params, totals["value"], totals["stats"])


def add_row_independent_terms(family: Any, params: Any, value: Array, stats: Stats) -> Sweep:
    """Add to sums over rows what depends on them only through the design."""
    value = value + family.log_prior(params) - family.total_spread(params) / (2 * family.noise)
    if isinstance(family.design, GramForm):
        gram = family.design.gram
        lead = params.projection.shape[:-2]
        stats = stats._replace(gram=namespace(gram).broadcast_to(gram, (*lead, *gram.shape)))
    return Sweep(value, stats)


def in_memory_problem(family: Any, source: Source) -> Problem:
    """The problem whose parameters have the form that the family alone gives them."""
    if source.n_rows * source.n_features > MAX_ENTRIES:
        return StreamedEmbeddingProblem(family, source)
    chunk = source.sample_rows(source.n_rows, np.random.default_rng(0))  # all rows
    rows, y, weight = chunk.rows.values, chunk.y, chunk.weight
    used = label_signs(y, rows.dtype, family.separate).used
    used = used if weight is None else used * weight
    return EmbeddingProblem(family, rows, y, weight, GramForm(_gram(rows, used), family.noise))


def cut(labels: Labels, part: slice) -> Labels:
    """The labels of some rows."""
    counted = labels.counted if labels.counted.shape[0] == 1 else labels.counted[part, :]
    return Labels(labels.sign[part, :], counted, labels.used[part])


def choose_form(family: Any, rows: Any, used: Array) -> ProjectionSolver:
    """The cheapest form for these rows."""
    if rows.shape[1] <= rows.shape[0]:
        return gram_design(family, _gram(rows, used))
    root = namespace(used).sqrt(used)[:, None]
    scaled = type(rows)(rows.multiply(root)) if hasattr(rows, "tocsr") else rows * root
    return SpectralForm.of_rows(scaled, family.noise) if family.grouping.isotropic else KernelForm(scaled, family.noise)


def gram_design(family: Any, gram: Array) -> ProjectionSolver:
    """The cheapest form from X'X."""
    return SpectralForm.of_gram(gram, family.noise) if family.grouping.isotropic else GramForm(gram, family.noise)


def _gram(rows: Any, used: Array) -> Array:
    if hasattr(rows, "tocsr"):
        return (rows.T @ rows.multiply(used[:, None])).toarray()
    return transpose(rows) @ (rows * used[:, None])
