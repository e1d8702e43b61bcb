r"""Normal posteriors of softmax weights under the exact likelihood, and the evidence bound that belongs to them.

The quadratic bound of `logsumexp_bound` makes every step of variational Bayes closed, but it lies far below the log-sum-exp where scores are close to each other, the more so the more softmax
models a structure has: its posteriors are too confident, and its value is biased against structures with more parts. This step keeps
the priors and takes the likelihood itself. With scores :math:`a_{in} = w_i^T x_n` of independent :math:`u_i \sim N(m_i, \Lambda_i^{-1})`,

.. math:: \ln p(Y) \ge \sum_n E[\ell_n(a_n)] - KL(q(w) q(\alpha) \,\|\, p(w | \alpha) p(\alpha)).

- :math:`E[\ell_n]` is an average over a fixed set of points z (Sobol, antithetic, of unit covariance), :math:`a_{in} = m_i^T x_n + s_{in} z_i`. Its derivatives in the mean and
  the variance of a score are the averages of the slope :math:`g_i` and of :math:`g_i z_i / 2 s_{in}`, so that slopes are all that is needed of the likelihood.
- Adding one vector c to all weights of a softmax changes no probability. So :math:`w_i = u_i + c` with :math:`c \sim N(0, T)` has the same :math:`E[\ell]` for any T. With
  :math:`R = \sum_i \Lambda_i`, :math:`A = \sum_i \langle\alpha_i\rangle`, the best is :math:`T = I / A - R^{-1}`, and the bound gains
  :math:`\tfrac12 (\ln |R / A| - D + A\, \mathrm{tr}\, R^{-1})`. Independent weights would pay this for every softmax.
- With the expected curvatures :math:`H_i = -\sum_n E[g_i z_i] / s_{in}\, x_n x_n^T` the bound is stationary where :math:`\Lambda_i = \langle\alpha_i\rangle I + H_i + \Lambda_i R^{-1} (R - A I) R^{-1} \Lambda_i`
  and :math:`\sum_n E[g_i] x_n = \langle\alpha_i\rangle m_i`; for two scores that is :math:`\Lambda = \alpha I + 2 H`. Steps go a share of the way from the present precisions to those that the right side gives,
  with Newton steps of the means. They are accelerated by Anderson's method, residuals in units of the posterior's standard deviations; a step that lowers the bound is replaced by the plain one, which
  is halved if that lowers it, too (as one does that leaves a precision without an inverse).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.contracts import Chunk, Params, Totals
from latentia.engine.problem import rows_per_chunk
from latentia.engine.pytree import Tree, flatten_restarts, unflatten_restarts
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import (
    GaussianWeights,
    augment,
    inverse,
    score_variance,
    weights_log_prior,
)
from latentia.numerics.array_api import Array, asarray_like, eye_like, namespace, to_numpy, transpose
from latentia.numerics.linalg import symmetric
from latentia.numerics.matmul import params_at_rows, weighted_row_sums
from latentia.numerics.packed_symmetric import packed_outer, unpack
from latentia.numerics.quasi_monte_carlo import normal_qmc_points
from latentia.solvers.anderson import mixed

POINTS = 64  # of the averages over scores


STEPS = 500  # at most, unless more are allowed


WINDOW = 6  # the ascent ends when so many steps together gain less than the structure's `convergence_tol`, for each row


MEMORY = 8  # past steps that acceleration uses


FIRST_STEP, LEAST_STEP = 0.5, 0.01  # share of a full step at first, and below which damping gives up


#: Log likelihoods (P, N) of rows at drawn scores, and their slopes, one array (P, ..., b, N) for each node.
RowLikelihood = Callable[[tuple[Array, ...], Array, Array, Array], tuple[Array, tuple[Array, ...]]]


class Tightenable(Protocol):
    """What is asked of a structure."""

    @property
    def prior(self) -> GammaPrior: ...
    @property
    def convergence_tol(self) -> float: ...  # for each row, below which the exact bound counts as at its end
    def nodes(self, params: Any) -> tuple[GaussianWeights, ...]: ...  # posteriors (..., b, D) of the softmax models
    def with_nodes(self, params: Any, nodes: tuple[GaussianWeights, ...]) -> Any: ...
    def row_likelihood(self, params: Any) -> RowLikelihood: ...  # of scores, x, its products and y
    def other_log_prior(self, params: Any) -> float: ...  # of what is in no node


class RefinedPosterior(NamedTuple):
    """The posterior under the exact likelihood."""

    params: Params
    value: float  # its evidence bound
    converged: bool


class _Node(NamedTuple):
    """Posterior of the weights of some softmax models."""

    weights: GaussianWeights
    precision: Array  # (..., b, D, D)


class _Pull(NamedTuple):
    """Sums over rows of expected slopes and curvatures."""

    slope: Array  # (..., b, D)
    curvature: Array  # (..., b, D(D+1)/2)


def refine_posterior(
    structure: Tightenable, rows: ArraySource, params: Params, max_steps: int = STEPS
) -> RefinedPosterior:
    """Raise the exact bound from the posterior of the quadratic one, until steps gain nothing that matters."""
    nodes = tuple(_Node(w, _precision(w)) for w in structure.nodes(params))
    likelihood, rest, prior = structure.row_likelihood(params), structure.other_log_prior(params), structure.prior
    points = _points([node.weights.mean for node in nodes])

    def sweep(nodes: tuple[_Node, ...]) -> tuple[float, tuple[_Pull, ...]]:
        value, pulls = _sweep(likelihood, rows, nodes, points)
        return value + rest + sum(_log_prior(node, prior) for node in nodes), pulls

    value, pulls = sweep(nodes)
    past, step, recent, converged = _Past(), FIRST_STEP, [value], False
    for _ in range(max_steps):
        plain = _together(_stepped(node, pull, prior, step) for node, pull in zip(nodes, pulls, strict=True))
        trial = None if plain is None else past.extrapolated(nodes, plain, step)
        found = None if trial is None else sweep(trial)
        if found is None or not found[0] >= value:
            past.drop_fitted_attributes()
            trial, found = plain, None if plain is None else sweep(plain)
            if found is None or not found[0] > value:
                step /= 2
                converged = step < LEAST_STEP  # nothing is left to gain in this direction
                if converged:
                    break
                continue
            step = min(1.0, 1.3 * step)
        assert trial is not None
        nodes, (value, pulls) = trial, found
        recent = [*recent, value][-WINDOW - 1 :]
        converged = len(recent) > WINDOW and recent[-1] - recent[0] < structure.convergence_tol * rows.total_weight
        if converged:
            break
    return RefinedPosterior(structure.with_nodes(params, tuple(node.weights for node in nodes)), value, converged)


class _Past:
    """The last steps, in the coordinates of means, log rates and precisions."""

    def __init__(self) -> None:
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []

    def drop_fitted_attributes(self) -> None:
        """Only the newest step counts from here on."""
        self.points, self.residuals = self.points[-1:], self.residuals[-1:]

    def extrapolated(self, nodes: tuple[_Node, ...], plain: tuple[_Node, ...], step: float) -> tuple[_Node, ...] | None:
        """Where the past steps lead; None while there are none."""
        here = flatten_restarts(_coordinates(nodes))
        self.points = [*self.points, here][-MEMORY - 1 :]
        residual = (flatten_restarts(_coordinates(plain)) - here) / step
        self.residuals = [*self.residuals, residual][-MEMORY - 1 :]
        if len(self.points) == 1:
            return None
        goal = mixed(self.points, self.residuals, np.array([MEMORY]), step, flatten_restarts(_metric(nodes)))
        return _at_coordinates(unflatten_restarts(goal, _coordinates(plain)))


def _coordinates(nodes: tuple[_Node, ...]) -> Tree:
    """What steps change, with an axis of one start in front."""
    return tuple(
        (node.weights.mean[None, ...], namespace(node.precision).log(node.weights.rate)[None, ...], node.precision[None, ...])
        for node in nodes
    )  # fmt: skip


def _metric(nodes: tuple[_Node, ...]) -> Tree:
    """Inverse standard deviations of the means, and of the log rates; precisions go along."""
    scales = []
    for node in nodes:
        xp, size = namespace(node.precision), node.precision.shape[-1]
        rate = xp.full_like(node.weights.rate, size**0.5)
        root = xp.sqrt(xp.linalg.diagonal(node.precision))
        scales.append((root[None, ...], rate[None, ...], xp.zeros_like(node.precision)[None, ...]))
    return tuple(scales)


def _at_coordinates(coordinates: Any) -> tuple[_Node, ...] | None:
    return _together(
        _node(mean[0, ...], symmetric(precision[0, ...]), namespace(log_rate).exp(log_rate[0, ...]))
        for mean, log_rate, precision in coordinates
    )


def _node(mean: Array, precision: Array, rate: Array) -> _Node | None:
    """None where a precision is plainly not positive; the bound tells of others, whose inverse is next to endless."""
    xp = namespace(precision)
    if not bool(xp.all(xp.linalg.diagonal(precision) > 0)):
        return None
    covariance, log_det = inverse(precision)
    return _Node(GaussianWeights(mean, covariance, log_det, rate), precision)


def _together(nodes: Iterable[_Node | None]) -> tuple[_Node, ...] | None:
    """None if one of them is."""
    every = list(nodes)
    found = tuple(node for node in every if node is not None)
    return found if len(found) == len(every) else None


def _points(means: list[Array]) -> list[Array]:
    """Standard normal points (P, ..., b, 1) for the scores of each node."""
    sizes = [int(np.prod(mean.shape[:-1])) for mean in means]
    parts = np.split(normal_qmc_points(POINTS, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    return [asarray_like(part.reshape(-1, *mean.shape[:-1], 1), mean) for part, mean in zip(parts, means, strict=True)]


def _sweep(
    likelihood: RowLikelihood, rows: ArraySource, nodes: tuple[_Node, ...], points: list[Array]
) -> tuple[float, tuple[_Pull, ...]]:
    """Expected log likelihood of all rows, and what they say about each node."""

    def visit(chunk: Chunk) -> Totals:
        x = augment(chunk.rows.values)
        xp, outer = namespace(x), packed_outer(x)
        scores, spreads = [], []
        for node, z in zip(nodes, points, strict=True):
            spread = xp.sqrt(xp.clip(score_variance(node.weights.covariance, outer), min=1e-12))
            scores.append(params_at_rows(node.weights.mean, x) + spread * z)
            spreads.append(spread)
        value, slopes = likelihood(tuple(scores), x, outer, chunk.y)
        value = xp.mean(value, axis=0)
        weight = xp.ones_like(value) if chunk.weight is None else chunk.weight
        pulls = []
        for slope, spread, z in zip(slopes, spreads, points, strict=True):
            curvature = -xp.mean(slope * z, axis=0) / spread
            slope = weighted_row_sums(weight * xp.mean(slope, axis=0), x)
            pulls.append(_Pull(slope, weighted_row_sums(weight * curvature, outer)))
        return {"value": xp.sum(weight * value, axis=-1), "pulls": tuple(pulls)}

    drawn = sum(int(np.prod(z.shape)) for z in points)
    size = nodes[0].weights.mean.shape[-1]
    totals = rows.sum_over_chunks(visit, rows_per_chunk(size * (size + 1) // 2 + 6 * drawn))
    return float(to_numpy(totals["value"])), tuple(_Pull(*pull) for pull in totals["pulls"])


def _stepped(node: _Node, pull: _Pull, prior: GammaPrior, step: float) -> _Node | None:
    """A damped step of means and precisions, then the prior's precisions that fit."""
    weights = node.weights
    if weights.mean.shape[-2] == 1:
        return node
    xp, size = namespace(weights.mean), weights.mean.shape[-1]
    alpha = prior.precision(weights.rate, size)
    total = xp.sum(alpha, axis=-1, keepdims=True)
    eye = eye_like(size, alpha)
    every = xp.sum(node.precision, axis=-3, keepdims=True)
    half = xp.matmul(node.precision, inverse(every)[0])
    common = xp.matmul(half, xp.matmul(every - total[..., None, None] * eye, transpose(half)))
    target = alpha[..., None, None] * eye + unpack(pull.curvature, size) + common
    moved = _node(weights.mean, (1 - step) * node.precision + step * symmetric(target), weights.rate)
    if moved is None:
        return None
    covariance = moved.weights.covariance
    slope = pull.slope - alpha[..., None] * weights.mean
    mean = weights.mean + step * xp.matmul(covariance, slope[..., None])[..., 0]
    mean = mean - xp.sum(alpha[..., None] * mean, axis=-2, keepdims=True) / total[..., None]
    shared = size / total - xp.linalg.trace(inverse(xp.sum(moved.precision, axis=-3))[0])[..., None]
    square = xp.sum(mean * mean, axis=-1) + xp.linalg.trace(covariance) + shared
    return moved._replace(weights=moved.weights._replace(mean=mean, rate=prior.rate + square / 2))


def _log_prior(node: _Node, prior: GammaPrior) -> float:
    """Minus the divergence from the prior, with the best common shift."""
    weights = node.weights
    if weights.mean.shape[-2] == 1:
        return 0.0
    xp, size = namespace(weights.mean), weights.mean.shape[-1]
    total = xp.sum(prior.precision(weights.rate, size), axis=-1)
    common, log_det = inverse(xp.sum(node.precision, axis=-3))
    gain = -log_det - size * xp.log(total) - size + total * xp.linalg.trace(common)
    return float(to_numpy(xp.sum(weights_log_prior(weights, prior)) + xp.sum(gain) / 2))


def _precision(weights: GaussianWeights) -> Array:
    return inverse(weights.covariance)[0]
