r"""The bounds' fixed point: moments of z set the bounds, the bounds set the moments.

Bounded columns take the bounds for the moments of their predictors, first under the prior, or where
the last sweep has ended, then under the posterior, until the curvatures settle (Algorithm 1 of
Langseth & Nielsen 2009). A bound that is off by a small step costs only the step's square.

Each class has bounds of its own, with one exception. A row that is trained on without a label has
one bound for all classes: the best for the mixture of their posteriors, by the probabilities of the
classes. That is a looser bound of :math:`\ln p(x)`, and EM raises it all the same; all that is as
large as the columns is then computed once for a row, not for each of its classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, namespace, softmax
from latentia.engine.tree import take_restarts, tree_map
from latentia.families.latent_factors.column_contract import Quadratic
from latentia.families.latent_factors.e_step_forms import (
    BoundedColumns,
    LatentMoments,
    LatentPrior,
    RowForm,
    ScoredLatents,
    posterior_of,
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
    extrapolate = _plain_step if start.is_warm else _Extrapolation()  # near the end it may overshoot
    tol = WARM_TOLERANCE * rules.tol if start.is_warm else rules.tol
    tol = max(tol, 4 * float(xp.finfo(prior.mean.dtype).eps))  # below it rounding never settles
    # without latents all rows share their predictors, and no row moves a bound
    only_one = not prior.mean.shape[-1] or (rules.one_round and start.is_warm)
    settled: Array | None = None
    for _ in range(0 if only_one else rules.max_rounds - 1):
        before = here
        here = here._replace(warm_starts=[dict(warm_start) for warm_start in here.warm_starts])
        quadratic = _bound_at(bounded, here)
        here = here.after(quadratic, posterior_of(bounded.add_to(form, quadratic), prior))
        here = here._replace(moments=extrapolate(before.moments, here.moments))
        if settled is not None:  # a settled row stays, whatever others need: rows do not depend on each other
            here = _where(settled, before, here)
        if before.is_warm:
            change = xp.abs(quadratic.curvature - before.curvature)
            unchanged = xp.all(change <= tol * quadratic.curvature, axis=-1, keepdims=True)
            settled = unchanged if settled is None else settled | unchanged
            if bool(xp.all(settled)):
                break
    return here


def _bound_at(bounded: BoundedColumns, here: BoundState) -> Quadratic:
    """Bounds of a round; their constants weigh the classes where these share them."""
    if here.class_probs is None:
        return bounded.approximate_bound(here.moments, here.warm_starts)
    return bounded.bound(here.bounded_moments, here.warm_starts)


def _where(stays: Array, old: BoundState, new: BoundState) -> BoundState:
    """The old state of the rows that stay (..., N, 1)."""
    where = namespace(stays).where
    by_row = stays[..., 0]
    centers = [
        {key: where(by_row[..., None, :], before.get(key, center), center) for key, center in now.items()}
        for before, now in zip(old.warm_starts, new.warm_starts, strict=True)
    ]
    return BoundState(
        new.prior,
        LatentMoments(*(where(stays, a, b) for a, b in zip(old.moments, new.moments, strict=True))),
        None if new.class_probs is None else where(by_row, old.class_probs, new.class_probs),
        centers,
        where(stays, old.curvature, new.curvature),
    )


def _plain_step(point: LatentMoments, image: LatentMoments) -> LatentMoments:
    """The next point of an iteration that is not to overshoot."""
    return image


class _Extrapolation:
    """Where a fixed-point iteration tends to, by its last two steps, each row by itself.

    Anderson's method of depth one, judged by the means.
    """

    def __init__(self) -> None:
        self.image: LatentMoments | None = None
        self.step: Array = None

    def __call__(self, point: LatentMoments, image: LatentMoments) -> LatentMoments:
        """The next point to try, after `point` went to `image`."""
        xp = namespace(point.mean)
        last_image, last_step = self.image, self.step
        self.image, self.step = image, image.mean - point.mean
        if last_image is None:
            return image
        change = self.step - last_step
        square = xp.sum(change * change, axis=-1, keepdims=True)
        along = xp.sum(self.step * change, axis=-1, keepdims=True)
        factor = along / xp.where(square > 0, square, xp.ones_like(square))
        factor = xp.clip(factor, min=-MAX_EXTRAPOLATION, max=0.0)
        return tree_map(lambda new, old: new - factor * (new - old), image, last_image)
