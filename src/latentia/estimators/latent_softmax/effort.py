"""How much is spent on one model: all that it needs, or as much as a comparison needs.

Models that are compared on held-out rows need not be trained to the end: their log scores are
random in the second digit, and the winner is trained again on all rows. So they get three restarts,
few steps of the bound, and an ascent to the exact posterior over fewer points that ends sooner.

Nor need all rows of a large table choose between models or restarts: a sample does, and the best is
trained on all rows.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.estimators.latent_softmax.exact_posterior import N_POINTS

#: Rows of a sample, or so many for each column where that is more.
SAMPLE_ROWS = 10_000
SAMPLE_ROWS_PER_COLUMN = 100


class Effort(NamedTuple):
    """Limits of the training of one model."""

    max_init: int | None  # restarts at most; None for as many as the user wants
    screening_steps: int  # of L-BFGS, which finds the initial points
    screening_tol: float
    #: After so many steps of variational Bayes only so many restarts go on: few laggards win.
    successive_halving: tuple[tuple[int, int], ...]
    convex_halving: tuple[tuple[int, int], ...]  # of restarts that are equal in likelihood
    max_bound_steps: int | None  # where the exact posterior replaces all that the bound has found
    tol_factor: float  # of the tolerances of variational Bayes and of the exact posterior
    n_points: tuple[int, ...]  # of the averages over scores, of one ascent to the exact posterior after the other
    tries_equivalents: bool  # whether points that are equal in likelihood are told apart by the bound


FULL = Effort(
    max_init=None,
    screening_steps=200,
    screening_tol=1e-4,
    successive_halving=((40, 4), (80, 2)),
    convex_halving=((10, 2),),
    max_bound_steps=None,
    tol_factor=1.0,
    n_points=(16, N_POINTS),
    tries_equivalents=True,
)

COARSE = Effort(
    max_init=3,
    screening_steps=60,
    screening_tol=1e-3,
    successive_halving=((10, 1),),
    convex_halving=(),
    max_bound_steps=15,
    tol_factor=20.0,
    n_points=(16,),
    tries_equivalents=False,
)
