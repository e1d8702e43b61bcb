r"""EM and variational Bayes in fewer sweeps: Anderson's acceleration of the update, kept only where the objective rises.

An update is a map g of the parameters; with :math:`f(x) = g(x) - x` and the differences :math:`\Delta` of the last few steps, the proposal is
:math:`g(x) - \Delta G\,\gamma`, where :math:`\gamma` makes :math:`|f(x) - \Delta F\,\gamma|` least. It is taken by each start for which the objective gains at least a tenth of
what it gained last; the other starts take the plain update and forget their past. So the objective never falls, and the fixed points are those of the plain updates.
"""

from __future__ import annotations

from typing import Any, Protocol

from array_api_compat import device

from latentia._arrays import Array, namespace
from latentia.core import AnyProblem, Family, Params, Stats, Sweep
from latentia.tree import tree_map

#: Differences that a proposal is made of.
MEMORY = 6
#: Share of the last gain that a proposal must bring.
ENOUGH = 0.1


class Extrapolable(Protocol):
    """A family with parameters that may be moved freely."""

    def coordinates(self, params: Params) -> Array:
        """Those parameters, in one vector for each start, (starts, k)."""
        ...

    def with_coordinates(self, params: Params, coordinates: Array) -> Params:
        """Parameters with these replaced, and what follows from them."""
        ...


class Accelerated:
    """A problem whose updates look ahead. A solver sees in it both the problem and its family."""

    def __init__(self, problem: AnyProblem):
        self.problem = problem
        self.total_weight = problem.total_weight
        self._past: list[tuple[Array, Array]] = []
        self._seen: tuple[Params, Sweep] | None = None  # the last sweep
        self._before: Array | None = None  # the values one step earlier

    @property
    def family(self) -> Any:
        return self

    @property
    def base_family(self) -> Family:
        """The family that is trained."""
        return self.problem.family

    def sweep(self, params: Params) -> Sweep:
        """As the problem's, but not done again for the parameters of the last one."""
        if self._seen is None or self._seen[0] is not params:
            self._seen = params, self.problem.sweep(params)
        return self._seen[1]

    def update(self, params: Params, stats: Stats) -> Params:
        """The update, or for some starts a proposal that looks ahead."""
        family: Any = self.problem.family
        plain = family.update(params, stats)
        value = None if self._seen is None or self._seen[0] is not params else self._seen[1].value
        if value is None or (self._before is not None and self._before.shape != value.shape):
            self._past, self._before = [], value  # some starts have left: begin anew
            return plain
        here, there = family.coordinates(params), family.coordinates(plain)
        self._past = [*self._past[-MEMORY:], (here, there)]
        last_gain, self._before = None if self._before is None else value - self._before, value
        if len(self._past) < 2 or last_gain is None:
            return plain
        ahead = family.with_coordinates(plain, extrapolate(self._past))
        sweep = self.problem.sweep(ahead)
        good = sweep.value >= value + ENOUGH * last_gain
        xp = namespace(good)
        if bool(xp.all(good)):
            self._seen = ahead, sweep
            return ahead
        keep = xp.astype(good, here.dtype)[:, None]
        self._past = [(a * keep + here * (1 - keep), b * keep + there * (1 - keep)) for a, b in self._past]
        return tree_map(lambda a, b: _choose(good, a, b), ahead, plain) if bool(xp.any(good)) else plain


def extrapolate(past: list[tuple[Array, Array]]) -> Array:
    """Anderson's proposal from points and their images, (starts, k) each, the latest last."""
    xp = namespace(past[0][0])
    images = xp.stack([b for _, b in past], axis=-2)  # (starts, m + 1, k)
    steps = images - xp.stack([a for a, _ in past], axis=-2)
    step_changes = steps[..., 1:, :] - steps[..., :-1, :]
    image_changes = images[..., 1:, :] - images[..., :-1, :]
    products = xp.matmul(step_changes, xp.matrix_transpose(step_changes))
    size = products.shape[-1]
    eye = xp.eye(size, dtype=products.dtype, device=device(products))
    tiny = float(xp.finfo(products.dtype).smallest_normal) ** 0.5
    ridge = xp.linalg.trace(products) * float(xp.finfo(products.dtype).eps) ** 0.625 + tiny
    right = xp.matmul(step_changes, steps[..., -1, :, None])
    gamma = xp.linalg.solve(products + ridge[..., None, None] * eye, right)
    return images[..., -1, :] - xp.matmul(xp.matrix_transpose(image_changes), gamma)[..., 0]


def _choose(good: Array, a: Array, b: Array) -> Array:
    xp = namespace(a)
    return xp.where(xp.reshape(good, (-1,) + (1,) * (a.ndim - 1)), a, b)
