r"""The E-step: which one serves which rows, and that of rows with a posterior of their own.

The cheapest that is exact for the rows: complete continuous rows, continuous rows with gaps, and
models without factors are the matter of `e_step_gaussian`; all others, with missing cells or
binary, categorical, ... columns, have a posterior each (`infer_rows`). There the columns add up to
a quadratic in z, and z has the posterior that it makes of its prior (`latents`).

**Bounds and moments.** Bounded columns take the bounds for the moments of their predictors, first
under the prior, or where the last sweep has ended, then under the posterior, until the curvatures
settle (Algorithm 1 of Langseth & Nielsen 2009). A bound that is off by a small step costs only the
step's square.

**Labels.** A row with a label needs its own class alone: all of them together are as one class with
a prior for each row. A row without one needs all classes, each with bounds of its own; but a row
that is trained on without a label has one bound for all classes, the best for the mixture of their
posteriors, by the probabilities of the classes. That is a looser bound of :math:`\ln p(x)`, and EM
raises it all the same; all that is as large as the columns is then computed once for a row, not for
each of its classes.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from latentia.arrays.linalg import pack, packed_outer
from latentia.arrays.namespace import Array, logsumexp_and_softmax, namespace, one_hot, softmax, transpose
from latentia.engine.rows import MaskedRows, Memo
from latentia.engine.tree import take_restarts, tree_add, tree_map
from latentia.families.latent_factors.columns import Quadratic
from latentia.families.latent_factors.e_step_gaussian import (
    infer_complete_rows,
    infer_rows_with_gaps,
    infer_without_latents,
    row_invariant_posterior,
)
from latentia.families.latent_factors.kinds import ColumnLayout
from latentia.families.latent_factors.latents import (
    BoundedColumns,
    LatentMoments,
    LatentPrior,
    RowForm,
    ScoredLatents,
    Uncertainty,
    gaussian_form,
    posterior_of,
)
from latentia.families.latent_factors.parameters import FactorParams, FactorPosterior, FactorStats, LatentPosterior


def infer_latents(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    rules: BoundRules,
    uncertainty: Uncertainty | None = None,
    memo: Memo | None = None,
) -> tuple[Array, LatentPosterior]:
    """Log joint of class, component and row (may be overwritten), and the posterior of z."""
    if layout.all_gaussian and rows.observed is None:  # posteriors differ in their means alone
        return infer_complete_rows(row_invariant_posterior(params, uncertainty), rows.values)
    if layout.all_gaussian and params.means.shape[-1]:
        return infer_rows_with_gaps(params, uncertainty, rows)
    if not params.means.shape[-1] and (found := infer_without_latents(layout, params, rows, uncertainty)):
        return found
    posterior = infer_rows(layout, params, rows, rules, uncertainty, memo)
    return namespace(posterior.scores).asarray(posterior.scores, copy=True), posterior


class RowBlock(NamedTuple):
    """Some of the rows and their latents."""

    numbers: Array | None  # of the rows; None for all rows
    rows: MaskedRows
    latents: RowPosterior


class BlockedPosterior(NamedTuple):
    """The latents of rows with a label, under their own class, and of the others."""

    blocks: list[RowBlock]

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        parts = [
            latents.statistics(
                params, layout, some, weight if numbers is None else xp.take(weight, numbers, axis=-1), shared_gram
            )
            for numbers, some, latents in self.blocks
        ]
        return parts[0] if len(parts) == 1 else tree_add(*parts)


def infer_by_label(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    y: Array,
    rules: BoundRules,
    uncertainty: Uncertainty | None = None,
    memo: Memo | None = None,
) -> FactorPosterior:
    """Scores of rows with the labels y (N,), -1 for none: -inf where a row is of another class."""
    xp = namespace(params.means)
    infer = partial(infer_rows, layout, params, rules=rules, uncertainty=uncertainty, memo=memo)
    n_classes = params.log_prior.shape[-1]
    blocks, log_joints, components = [], [], []
    for labeled in (False, True) if y.shape[0] else (False,):
        index = xp.nonzero((y >= 0) == labeled)[0]
        if not index.shape[0]:
            continue
        whole = index.shape[0] == y.shape[0]
        some = rows if whole else _take_rows(rows, index)
        labels = xp.take(y, index, axis=0) if labeled else None
        latents = infer(some, labels=labels, share_bounds=not labeled)
        log_joint, component = logsumexp_and_softmax(xp.asarray(latents.scores, copy=True), axis=-2)
        if labels is not None:
            own = one_hot(labels, n_classes, log_joint.dtype) > 0
            log_joint = xp.where(own, log_joint, xp.full_like(log_joint, -float("inf")))
            shape = (*component.shape[:-3], n_classes, *component.shape[-2:])
            component = xp.broadcast_to(component, shape)
        blocks.append(RowBlock(None if whole else index, some, latents))
        log_joints.append(log_joint)
        components.append(component)
    if len(blocks) == 1:
        return FactorPosterior(log_joints[0], components[0], BlockedPosterior(blocks))
    back = xp.argsort(xp.concat([block.numbers for block in blocks]))
    log_joint = xp.take(xp.concat(log_joints, axis=-1), back, axis=-1)
    component = xp.take(xp.concat(components, axis=-1), back, axis=-1)
    return FactorPosterior(log_joint, component, BlockedPosterior(blocks))


def _take_rows(rows: MaskedRows, index: Array) -> MaskedRows:
    xp = namespace(rows.values)
    observed = None if rows.observed is None else xp.take(rows.observed, index, axis=0)
    return MaskedRows(xp.take(rows.values, index, axis=0), observed)


class RowPosterior(NamedTuple):
    """The latents of each row given class and component."""

    scores: Array  # (..., C, M, N) log joint of class, component and row
    mean: Array  # (..., C, M, N, q)
    cov: Array  # (..., C, M, N, q, q)
    prior_mean: Array  # (..., C, 1, 1 or N, q)
    quadratic: Quadratic  # of the bounded predictors, (..., C or 1, M, N, H - G)

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        return self.mean

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        deviation = self.mean - self.prior_mean
        variance = xp.linalg.diagonal(self.cov)
        class_weight = weight[..., None, :]
        count = xp.sum(weight, axis=-1)
        centered_sum = xp.sum(xp.matmul(class_weight, deviation), axis=(-3, -2))
        centered_square = xp.sum(xp.matmul(class_weight, deviation * deviation + variance), axis=(-3, -2))
        if self.mean.shape[-4] < weight.shape[-3]:  # rows have their own classes, all others no weight
            weight = xp.sum(weight, axis=-3, keepdims=True)
        w = weight[..., None]
        augmented = xp.concat([self.mean, xp.ones_like(w)], axis=-1)
        moments = w * xp.concat([pack(self.cov) + packed_outer(self.mean), augmented], axis=-1)
        # classes share the loadings, so their sums may be taken first
        in_component = _sum_classes(moments)
        n_augmented = augmented.shape[-1]
        x, observed = layout.select_columns(layout.gaussian, rows)
        if shared_gram:
            gram = xp.sum(in_component, axis=-2, keepdims=True)
        else:
            gram = xp.matmul(transpose(xp.ones_like(x) if observed is None else observed), in_component)
        curvature, linear = self.quadratic.curvature, self.quadratic.linear
        if curvature.shape[-4] == 1:  # classes share the bounds
            moments = in_component[..., None, :, :, :]
        bound_cross = _sum_classes(xp.matmul(transpose(linear), moments[..., -n_augmented:]))
        return FactorStats(
            count=count,
            centered_sum=centered_sum,
            centered_square=centered_square,
            gram=gram,
            cross=xp.matmul(transpose(x), in_component[..., -n_augmented:]),
            sum_x2=xp.matmul(xp.sum(weight, axis=-3), x * x),
            bound_gram=_sum_classes(xp.matmul(transpose(curvature), moments)),
            bound_cross=bound_cross,
        )


def _sum_classes(a: Array) -> Array:
    """Over the fourth axis from the end."""
    return a[..., 0, :, :, :] if a.shape[-4] == 1 else namespace(a).sum(a, axis=-4)


def infer_rows(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    rules: BoundRules,
    uncertainty: Uncertainty | None = None,
    memo: Memo | None = None,
    labels: Array | None = None,
    share_bounds: bool = False,
) -> RowPosterior:
    """Posterior of z for every row, class and component, with the bounds at their fixed point.

    With `labels` (N,) each row has its own class alone; with `share_bounds` the classes of a row
    share its bounds. The search for the fixed point starts from what an earlier call has left in
    `memo`.
    """
    xp = namespace(params.loadings)
    q, n_rows = params.means.shape[-1], rows.values.shape[0]
    prior = LatentPrior.of(params, uncertainty, labels)
    form = gaussian_form(layout, params, uncertainty, rows)
    none = xp.zeros_like(params.offsets[..., None, :, None, :0])
    quadratic = Quadratic(none, none, 0.0)
    if layout.n_bounded:
        bounded = BoundedColumns(layout, params, uncertainty, rows)
        shared = share_bounds and prior.mean.shape[-4] > 1
        key = f"bounds of {'labeled' if labels is not None else 'unlabeled' if shared else 'all'} rows"
        start = None if memo is None else memo.get(key)
        shape = (*params.log_prior.shape[:-1], prior.mean.shape[-4], params.log_mix.shape[-1], n_rows, q)
        if not isinstance(start, BoundState) or start.moments.mean.shape != shape:
            start = BoundState.under_prior(prior, len(layout.bounded), shared)
        here = settle_bounds(bounded, form, prior, start, rules)
        quadratic = bounded.bound(here.bounded_moments, here.warm_starts if start.is_warm else None)
        form = bounded.add_to(form, quadratic)
    latents = posterior_of(form, prior)
    if memo is not None and layout.n_bounded and q:
        memo[key] = here.after(quadratic, latents)
    shape = (*latents.scores.shape[:-1], n_rows)

    def for_each_row(a: Array) -> Array:
        return xp.broadcast_to(a, (*a.shape[:-2], n_rows, a.shape[-1]))

    return RowPosterior(
        xp.broadcast_to(latents.scores, shape),
        xp.broadcast_to(latents.mean, (*shape, q)),
        xp.broadcast_to(latents.cov, (*shape, q, q)),
        prior.mean,
        Quadratic(for_each_row(quadratic.curvature), for_each_row(quadratic.linear), quadratic.constant),
    )


#: Bounds that start where the last sweep has ended need to settle so much less.
WARM_TOLERANCE = 1000.0

#: Longest step beyond an iteration's image, in steps between images: with more, some rows
#: oscillate.
MAX_EXTRAPOLATION = 1.0


class BoundRules(NamedTuple):
    """How far bounds settle: until no curvature moves by more than `tol` of itself, or for
    `max_rounds`; with `one_round`, for one round after a warm start, since the next sweep goes on.
    """

    tol: float
    max_rounds: int
    one_round: bool = False


class BoundState(NamedTuple):
    """How far the bounds of some rows came."""

    prior: LatentPrior
    moments: LatentMoments
    class_probs: Array | None  # (..., C, M, N) where classes share the bounds
    warm_starts: list[dict[int, Array]]  # what each kind of column left for its next bounds
    curvature: Array | None  # of the last round; None at the beginning

    @classmethod
    def under_prior(cls, prior: LatentPrior, n_models: int, shared: bool) -> BoundState:
        """Where rows begin that nothing is known of."""
        probs = softmax(prior.log_weight, axis=-3) if shared else None
        return cls(prior, prior.moments, probs, [{} for _ in range(n_models)], None)

    @property
    def is_warm(self) -> bool:
        return self.curvature is not None

    @property
    def bounded_moments(self) -> LatentMoments:
        """The moments that the bounds are to be the best for."""
        return self.moments if self.class_probs is None else self.moments.averaged(self.class_probs)

    def under(self, prior: LatentPrior) -> BoundState:
        """The state that another prior finds."""
        return self._replace(prior=prior, moments=prior.move(self.moments, self.prior))

    def after(self, quadratic: Quadratic, latents: ScoredLatents) -> BoundState:
        """The state that a round leads to."""
        probs = None if self.class_probs is None else softmax(latents.scores, axis=-3)
        return self._replace(moments=latents.moments, class_probs=probs, curvature=quadratic.curvature)

    def take_restarts(self, index: np.ndarray) -> BoundState:
        """That of some restarts."""
        n_restarts = self.moments.mean.shape[0]

        def take(a: Array) -> Array:
            return take_restarts(a, index.tolist()) if a.shape[0] == n_restarts else a  # else shared by all

        return BoundState(
            tree_map(take, self.prior),
            tree_map(take, self.moments),
            None if self.class_probs is None else take(self.class_probs),
            [{key: take(center) for key, center in warm_start.items()} for warm_start in self.warm_starts],
            None if self.curvature is None else take(self.curvature),
        )


def settle_bounds(
    bounded: BoundedColumns, form: RowForm, prior: LatentPrior, start: BoundState, rules: BoundRules
) -> BoundState:
    """All rounds but the last, each row until its curvatures settle."""
    xp = namespace(prior.mean)
    here = start.under(prior)
    extrapolation = None if start.is_warm else _Extrapolation()  # near the end it may overshoot
    tol = WARM_TOLERANCE * rules.tol if start.is_warm else rules.tol
    tol = max(tol, 4 * float(xp.finfo(prior.mean.dtype).eps))  # below it rounding never settles
    # without latents all rows share their predictors, and no row moves a bound
    only_one = not prior.mean.shape[-1] or (rules.one_round and start.is_warm)
    settled: Array | None = None
    for _ in range(0 if only_one else rules.max_rounds - 1):
        before = here
        here = here._replace(warm_starts=[dict(warm_start) for warm_start in here.warm_starts])
        # the constants weigh the classes where these share their bounds
        quadratic = bounded.bound(here.bounded_moments, here.warm_starts, roughly=here.class_probs is None)
        here = here.after(quadratic, posterior_of(bounded.add_to(form, quadratic), prior))
        if extrapolation is not None:
            here = here._replace(moments=extrapolation.next(before.moments, here.moments))
        if settled is not None:  # a settled row stays, whatever others need: rows do not depend on each other
            here = _where(settled, before, here)
        if before.curvature is not None:
            change = xp.abs(quadratic.curvature - before.curvature)
            unchanged = xp.all(change <= tol * quadratic.curvature, axis=-1, keepdims=True)
            settled = unchanged if settled is None else settled | unchanged
            if bool(xp.all(settled)):
                break
    return here


def _where(stays: Array, old: BoundState, new: BoundState) -> BoundState:
    """The old state of the rows that stay (..., N, 1)."""
    where = namespace(stays).where
    by_row = stays[..., 0]
    probs, curvature = new.class_probs, new.curvature
    if probs is not None and old.class_probs is not None:
        probs = where(by_row, old.class_probs, probs)
    if curvature is not None and old.curvature is not None:
        curvature = where(stays, old.curvature, curvature)
    centers = [
        {key: where(by_row[..., None, :], before.get(key, center), center) for key, center in now.items()}
        for before, now in zip(old.warm_starts, new.warm_starts, strict=True)
    ]
    return BoundState(
        new.prior,
        LatentMoments(*(where(stays, a, b) for a, b in zip(old.moments, new.moments, strict=True))),
        probs,
        centers,
        curvature,
    )


class _Extrapolation:
    """Where a fixed-point iteration tends to, by its last two steps, each row by itself.

    Anderson's method of depth one, judged by the means.
    """

    def __init__(self) -> None:
        self.last: tuple[LatentMoments, Array] | None = None  # image, and the step to it

    def next(self, point: LatentMoments, image: LatentMoments) -> LatentMoments:
        """The next point to try, after `point` went to `image`."""
        xp, step = namespace(point.mean), image.mean - point.mean
        last, self.last = self.last, (image, step)
        if last is None:
            return image
        last_image, last_step = last
        change = step - last_step
        square = xp.sum(change * change, axis=-1, keepdims=True)
        along = xp.sum(step * change, axis=-1, keepdims=True)
        factor = along / xp.where(square > 0, square, xp.ones_like(square))
        factor = xp.clip(factor, min=-MAX_EXTRAPOLATION, max=0.0)
        mean, cov = (new - factor * (new - old) for new, old in zip(image, last_image, strict=True))
        return LatentMoments(mean, cov)
