"""Worst step of EM over many random small problems, and the gap of the bound over many random small models.

python benchmarks/lcm_bounds.py [--problems 500] [--models 1000]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import Bernoulli, Categorical, ColumnLayout, Gaussian
from latentia.solvers import EM


def a_problem(
    rng: np.random.Generator, kinds: str, n_rows: int, q: int | None = None
) -> tuple[LatentFactors, ArraySource]:
    """A random table: its kinds of columns, 0-60 % gaps, unlabeled rows, sizes of the model."""
    counts = np.array([rng.integers(0, 4) if kind in kinds else 0 for kind in "gbc"])
    counts["gbc".index(kinds[rng.integers(len(kinds))])] += 1
    order, sizes = rng.permutation(counts.sum()), rng.integers(3, 5, size=counts[2]).tolist()
    g, b, c = np.split(order, np.cumsum(counts)[:2])
    X = rng.normal(size=(n_rows, counts.sum()))
    X[:, b] = rng.integers(0, 2, size=(n_rows, len(b)))
    for column, size in zip(c, sizes, strict=True):
        X[:, column] = rng.integers(0, size, n_rows)
    gaps = rng.choice([0.0, 0.2, 0.4, 0.6])
    X[rng.random(X.shape) < gaps] = np.nan
    y = np.where(rng.random(n_rows) < 0.2, -1, np.arange(n_rows) % 3)
    layout = ColumnLayout(
        [Gaussian(g.tolist()), Bernoulli(b.tolist()), Categorical(c.tolist(), sizes)], int(counts.sum())
    )
    q = int(rng.integers(0, 5)) if q is None else q
    family = LatentFactors(
        layout,
        3,
        q,
        int(rng.integers(1, 4)),
        tied=bool(rng.integers(2)),
        complete=gaps == 0,
        ridge=float(rng.choice([0.0, 0.3])),
    )
    return family, ArraySource(X, y)


def worst_step(kinds: str, problems: int, max_iter: int) -> float:
    worst = np.inf
    for trial in range(problems):
        rng = np.random.default_rng(trial)
        family, rows = a_problem(rng, kinds, 25)
        solution = EM(max_iter, -np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 2))
        worst = min(worst, min((np.diff(c) / np.abs(c[1:])).min() for c in solution.curves))
    return worst


def gaps_of_the_bound(kinds: str, models: int, n_points: int = 40) -> tuple[float, float, float]:
    """Least, mean and largest of (quadrature - bound) of log p(t, y) over models with two latents."""
    points, weights = hermegauss(n_points)
    u = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1).reshape(-1, 2)
    log_w = np.log(np.outer(weights, weights).ravel() / (2 * np.pi))
    gaps = []
    for trial in range(models):
        rng = np.random.default_rng(trial)
        family, rows = a_problem(rng, kinds, 3, q=2)
        params = select_restart(family.init(rows, rng, 1), 0)
        params = params._replace(
            loadings=rng.normal(size=params.loadings.shape), offsets=rng.normal(size=params.offsets.shape)
        )
        cells = rows.preprocess(rows.X)
        bound = family.infer(params, cells).log_joint
        exact = np.full(bound.shape, -np.inf)
        for c in range(3):
            z = params.means[c] + np.sqrt(params.variances[c]) * u
            for m in range(family.n_components):
                predictors = np.broadcast_to(
                    (z @ params.loadings[m].T + params.offsets[m])[:, None, :], (len(z), 3, family.layout.n_predictors)
                )
                density = 0.0
                for model, own in family.layout.bounded_slices():
                    cells_of_kind = family.layout.select_columns(model, cells)
                    density = density + model.log_density(*cells_of_kind, predictors[..., own])
                total = np.logaddexp.reduce(log_w[:, None] + density, axis=0)
                exact[c] = np.logaddexp(exact[c], params.log_prior[c] + params.log_mix[c, m] + total)
        gaps.append(exact - bound)
    gaps = np.concatenate([g.ravel() for g in gaps])
    return gaps.min(), gaps.mean(), gaps.max()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--max-iter", type=int, default=10)
    options = parser.parse_args()
    for name, kinds in (("binary", "b"), ("binary and categorical", "bc")):
        least, mean, most = gaps_of_the_bound(kinds, options.models)
        print(
            f"{options.models} models, {name}: quadrature - bound: least {least:.2e}, mean {mean:.4f}, most {most:.3f} nats a row",
            flush=True,
        )
    print(
        f"{options.problems} problems, continuous: worst step of EM {worst_step('g', options.problems, options.max_iter):.2e} of the value",
        flush=True,
    )
    print(
        f"{options.problems} problems, all kinds: worst step of EM {worst_step('gbc', options.problems, options.max_iter):.2e} of the value",
        flush=True,
    )


if __name__ == "__main__":
    main()
