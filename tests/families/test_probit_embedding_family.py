"""Laws of the probit embedding: the bound is exact and never falls, all forms of the projection agree, unknown labels say nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import digamma
from tolerances import BRUTE_FORCE, EQUAL, MAX_RELATIVE_DECREASE, STEP

from latentia.arrays.linalg import spd_inverse
from latentia.engine.rows import ArraySource, MaskedRows
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import leaves, select_restart
from latentia.families.blocks.bounds import GammaPrior, positive_half_line, truncate
from latentia.families.probit_embedding import projection
from latentia.families.probit_embedding.family import PRECISION_SHARING, Means, ProbitEmbedding
from latentia.families.probit_embedding.labels import infer_latents, label_signs, label_weight_moments
from latentia.families.probit_embedding.projection import (
    DenseRows,
    GramForm,
    KernelForm,
    SparseRows,
    SpectralForm,
    rows_with_products,
)
from latentia.solvers import EM
from latentia.solvers.ascent import QuasiNewtonVB


def problem_rows(seed, n_rows=25, n_features=6, n_labels=4, unknown=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    scores = X @ rng.standard_normal((n_features, n_labels)) + rng.standard_normal((n_rows, n_labels))
    return X, np.where(rng.random(scores.shape) < unknown, -1, (scores > 0.3).astype(int))


def some_family(prior, n_labels=4, n_latent=2, **options):
    return ProbitEmbedding(n_labels, n_latent, PRECISION_SHARING[prior], GammaPrior(1.4, 1 / 0.7), 0.8, **options)


def on_rows(family, X, y, weight=None, max_chunk_rows=None):
    return RowProblem(family, Likelihood(), ArraySource(X, y, weight), max_chunk_rows)


def with_form(form, family, X, y, weight):
    """A problem whose projection has some form."""
    problem = on_rows(family, X, y, weight)
    problem.family = replace(family, form=form)
    return problem


def full_covariances(family, params):
    """The covariances (R, D, D) of the columns, however they are kept."""
    n_latent, n_features = params.projection.shape
    units = [np.tile(unit, (n_latent, 1)) for unit in np.eye(n_features)]
    precision = family.precision(params)
    return np.stack([family.form.times_covariance(params.covariance, precision, unit) for unit in units], axis=-1)


def start_of(problem, n_restarts):
    return problem.family.init(problem.source, np.random.default_rng(0), n_restarts)


def fit(problem, n_iter=20, n_restarts=1, tol=-np.inf):
    start = start_of(problem, n_restarts)
    return EM(n_iter, tol).solve(problem, start)


def assert_same(a, b):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **EQUAL)


def half_line(fn):
    """The integral over t > 0 of a density that has died out at 15."""
    return sum(integrate.quad(fn, a, b, epsabs=0, epsrel=1e-11)[0] for a, b in ((0, 1), (1, 5), (5, 15)))


def test_one_side_of_a_normal_against_quadrature_and_its_tail():
    for u in (-6.0, -1.3, 0.0, 0.4, 5.0):
        found = positive_half_line(np.array([u]))
        mass, first, square = (half_line(lambda t, k=k, u=u: t**k * stats.norm.pdf(t - u)) for k in range(3))
        mean, square = first / mass, square / mass
        np.testing.assert_allclose(found.log_mass, math.log(mass), rtol=1e-7)
        np.testing.assert_allclose(found.slope, mean - u, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.curvature, 1 - (square - mean**2), rtol=1e-6, atol=1e-8)
    far = positive_half_line(np.array([-1e3, -1e8, 50.0, 1e8]))
    assert all(np.isfinite(part).all() for part in far)
    np.testing.assert_allclose(far.slope[:2], [1e3, 1e8], rtol=1e-5)  # the mean sits at the edge
    np.testing.assert_allclose(far.log_mass[2:], 0, atol=1e-12)


@pytest.mark.parametrize("margin", [0.0, 1e-6, 0.7])
def test_slopes_of_truncation_are_derivatives(margin):
    eta = np.linspace(-4, 4, 41)[:, None] * np.ones(3)
    sign = np.array([1.0, -1.0, 0.0])
    h = 1e-5
    here = truncate(eta, sign, margin)
    up, down = truncate(eta + h, sign, margin), truncate(eta - h, sign, margin)
    np.testing.assert_allclose(here.slope, (up.log_mass - down.log_mass) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(-here.curvature, (up.slope - down.slope) / (2 * h), atol=1e-8)
    assert (np.abs(here.slope[:, 2]).max() > 0.1) == (margin > 0.1)  # a margin of zero is the limit of small ones


def alternate(params, X, y, noise):
    """The paper's updates of q(z) and q(t), a row at a time, over the known labels, until they rest."""
    rows = []
    for x, labels in zip(X, y, strict=True):
        known = np.flatnonzero(labels >= 0)
        b, w = params.weights[known, 0], params.weights[known, 1:]
        cov = params.weights_cov[known]
        inverse = np.eye(w.shape[1]) / noise + (w[:, :, None] * w[:, None, :] + cov[:, 1:, 1:]).sum(axis=0)
        S = np.linalg.inv(inverse)
        mean, t = params.projection @ x, np.zeros(known.size)
        for _ in range(3000):
            before, eta = mean, w @ mean + b
            sign = 2 * labels[known] - 1
            t = eta + sign * stats.norm.pdf(eta) / stats.norm.cdf(sign * eta)
            mean = S @ (params.projection @ x / noise + w.T @ (t - b) - cov[:, 0, 1:].sum(axis=0))
            if np.abs(mean - before).max() < 1e-14:
                break
        rows.append((mean, S, t, known))
    return rows


def reference_bound(family, params, X, y):
    """The bound from expectations and entropies, term by term."""
    a0, b0, noise = family.prior.shape, family.prior.rate, family.noise
    n_latent, n_features = params.projection.shape
    total = 0.0

    def gamma_terms(shape, rate):
        expected_log, mean = float(digamma(shape) - math.log(rate)), shape / rate
        log_prior = a0 * math.log(b0) - math.lgamma(a0) + (a0 - 1) * expected_log - b0 * mean
        return log_prior + stats.gamma.entropy(shape, scale=1 / rate), expected_log, mean

    groups = {"entries": (n_latent, n_features), "rows": (1, n_features), "columns": (n_latent, 1)}
    name = next(k for k, g in PRECISION_SHARING.items() if g == family.sharing)
    count = n_latent * n_features // math.prod(groups[name])
    terms = np.array([gamma_terms(a0 + count / 2, r) for r in params.rate.ravel()])
    total += terms[:, 0].sum()
    expected_log, mean = (
        np.broadcast_to(terms[:, k].reshape(params.rate.shape), (n_latent, n_features)) for k in (1, 2)
    )
    covariances = np.broadcast_to(params.covariance, (n_latent, n_features, n_features))
    for s in range(n_latent):
        square = params.projection[s] ** 2 + np.diag(covariances[s])
        total += (expected_log[s] / 2 - math.log(2 * math.pi) / 2 - mean[s] * square / 2).sum()
        total += stats.multivariate_normal(cov=covariances[s]).entropy()
    for o in range(family.n_labels):
        square = params.weights[o] ** 2 + np.diag(params.weights_cov[o])
        for r, e in zip(params.weights_rate[o], square, strict=True):
            value, log_precision, precision = gamma_terms(a0 + 0.5, r)
            total += value + log_precision / 2 - math.log(2 * math.pi) / 2 - precision * e / 2
        total += stats.multivariate_normal(cov=params.weights_cov[o]).entropy()
    for x, (m, S, t, known) in zip(X, alternate(params, X, y, noise), strict=True):
        if known.size == 0:
            continue  # no label: the row is integrated out
        variance = sum(x @ covariances[s] @ x for s in range(n_latent))
        away = np.sum((m - params.projection @ x) ** 2) + np.trace(S) + variance
        total += (
            -n_latent / 2 * math.log(2 * math.pi * noise)
            - away / (2 * noise)
            + stats.multivariate_normal(cov=S).entropy()
        )
        for o, t_mean in zip(known, t, strict=True):
            eta = params.weights[o, 1:] @ m + params.weights[o, 0]
            u = eta if t_mean > 0 else -eta  # the distance of t from zero is N(u, 1) above zero
            log_mass = stats.norm.logcdf(u)
            t_square = half_line(lambda t, u=u, c=log_mass: t * t * np.exp(stats.norm.logpdf(t - u) - c))
            entropy = half_line(
                lambda t, u=u, c=log_mass: (c - stats.norm.logpdf(t - u)) * np.exp(stats.norm.logpdf(t - u) - c)
            )
            second = np.outer(np.append(1, m), np.append(1, m))
            second[1:, 1:] += S
            score_square = np.sum((params.weights_cov[o] + np.outer(params.weights[o], params.weights[o])) * second)
            total += -math.log(2 * math.pi) / 2 - (t_square - 2 * t_mean * eta + score_square) / 2 + entropy
    return total


@pytest.mark.parametrize("prior", PRECISION_SHARING)
def test_bound_equals_its_terms(prior):
    """Not where updates rest: there, terms that are equal only there would pass."""
    X, y = problem_rows(3, n_rows=7, n_features=3)
    y[4] = -1
    family = some_family(prior)
    problem = on_rows(family, X, y)
    solution = EM(6, -np.inf).solve(problem, problem.family.init(problem.source, np.random.default_rng(1), 1))
    params = select_restart(solution.params, 0)
    covariance = full_covariances(problem.family, params)
    expected = reference_bound(family, params._replace(covariance=covariance), X, y)
    np.testing.assert_allclose(solution.value[0], expected, **EQUAL)


@pytest.mark.parametrize(
    "prior, near", [(GammaPrior(1.0, 1.0), 6.0), (GammaPrior(500.0, 50.0), 1.2), (GammaPrior(500.0, 5.0), 0.2)]
)
def test_bound_is_below_the_evidence_and_near(prior, near):
    """The factors of q cost less, the better the prior knows the weights: 5.5, 0.9 and 0.1 in these cases."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((7, 2)), np.array([[1], [0], [1], [1], [0], [1], [0]])
    family = ProbitEmbedding(1, 1, PRECISION_SHARING["entries"], prior)
    rows = ArraySource(X, y)
    bound = EM(500, 1e-9).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 4)).value.max()
    n_importance_samples = 200_000
    Q, w, b = (
        rng.standard_normal((n_importance_samples, k))
        / np.sqrt(rng.gamma(prior.shape, 1 / prior.rate, (n_importance_samples, k)))
        for k in (2, 1, 1)
    )
    score = (w * (Q @ X.T) + b) / np.sqrt(1 + w**2)  # z has unit noise
    log_p = stats.norm.logcdf((2 * y[:, 0] - 1) * score).sum(axis=1)
    evidence = math.log(np.exp(log_p).mean())
    error = np.exp(log_p).std() / np.exp(log_p).mean() / math.sqrt(n_importance_samples)
    assert bound <= evidence + 5 * error
    assert bound > evidence - near


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 180), marks=pytest.mark.matrix)], ids=str)
def test_bound_never_falls_on_random_problems(seeds):
    worst = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        sizes = {
            "n_rows": int(rng.integers(3, 30)),
            "n_features": int(rng.integers(1, 20)),
            "n_labels": int(rng.integers(1, 5)),
        }
        X, y = problem_rows(seed, **sizes, unknown=rng.uniform(0, 0.5))
        prior = GammaPrior(rng.uniform(0.5, 2), rng.uniform(0.3, 3))
        sharing = list(PRECISION_SHARING.values())[seed % 3]
        family = ProbitEmbedding(sizes["n_labels"], int(rng.integers(1, 4)), sharing, prior, rng.uniform(0.3, 1.5))
        problem = on_rows(family, X * rng.uniform(0.2, 3), y)
        curve = (fit if seed % 2 else accelerate)(problem, 8).curves[0]
        worst.append((np.diff(curve) / np.abs(curve).max()).min())
    assert min(worst) >= -MAX_RELATIVE_DECREASE


def accelerate(problem, n_iter, tol=-np.inf, n_restarts=1):
    start = start_of(problem, n_restarts)
    return QuasiNewtonVB(n_iter, tol).solve(problem, start)


@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_rows_rest_where_the_papers_updates_do(unknown):
    X, y = problem_rows(8, n_rows=6, unknown=unknown)
    problem = on_rows(some_family("entries"), X, y)
    params = select_restart(fit(problem, 5).params, 0)
    family = problem.family
    found = family.infer(params, MaskedRows(X, None), y)
    for k, (mean, S, _, _) in enumerate(alternate(params, X, y, family.noise)):
        np.testing.assert_allclose(found.mean[k], mean, **BRUTE_FORCE)
        np.testing.assert_allclose(found.covariance[min(k, found.covariance.shape[0] - 1)], S, **BRUTE_FORCE)


def test_the_fixed_point_does_not_depend_on_the_start():
    X, y = problem_rows(2)
    problem = on_rows(some_family("columns"), X, y)
    params = select_restart(fit(problem).params, 0)
    labels = label_signs(y, float, False)
    moments = label_weight_moments(params.weights * 20, params.weights_cov)  # steep, so that Newton may overshoot
    prior_mean = X @ params.projection.T
    cold = infer_latents(moments, prior_mean, labels, 0.64)
    for scale in (3.0, 30.0):
        start = scale * np.random.default_rng(0).standard_normal(prior_mean.shape)
        warm = infer_latents(moments, prior_mean, labels, 0.64, warm_start=start)
        np.testing.assert_allclose(warm.value, cold.value, **EQUAL)
        np.testing.assert_allclose(warm.mean, cold.mean, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prior", PRECISION_SHARING)
@pytest.mark.parametrize("shape", [(30, 6), (12, 40)])
def test_all_forms_of_the_projection_agree(prior, shape):
    X, y = problem_rows(4, *shape)
    X = X * (np.random.default_rng(1).random(shape) < 0.5)
    weight = np.random.default_rng(2).integers(0, 3, shape[0]).astype(float)
    family = some_family(prior, n_latent=3)
    used = label_signs(y, float, False).row_counts * weight
    gram = X.T @ (X * used[:, None])
    root = np.sqrt(used)[:, None]
    forms = [on_rows(family, X, y, weight), on_rows(family, sparse.csr_array(X), y, weight)]
    forms.append(on_rows(family, X, y, weight, max_chunk_rows=5))
    if family.sharing.isotropic:
        made = [SpectralForm.from_gram(gram, family.noise), SpectralForm.from_rows(X * root, family.noise)]
    else:
        made = [GramForm(gram, family.noise), KernelForm.from_rows(X * root, family.noise)]
        made.append(KernelForm.from_rows(sparse.csr_array(X * root), family.noise))
    forms += [with_form(form, family, X, y, weight) for form in made]
    solutions = [fit(problem, 15, 2) for problem in forms]
    for problem, solution in zip(forms[1:], solutions[1:], strict=True):
        np.testing.assert_allclose(solution.value, solutions[0].value, rtol=1e-8)
        np.testing.assert_allclose(solution.params.projection, solutions[0].params.projection, rtol=1e-5, atol=1e-7)
        here, first = (
            part.family.latent_variances(found.params, MaskedRows(X, None))
            for part, found in ((problem, solution), (forms[0], solutions[0]))
        )
        np.testing.assert_allclose(here, first, rtol=1e-5, atol=1e-7)
    assert len({type(problem.family.form) for problem in forms}) == 2 - family.sharing.isotropic


@pytest.mark.parametrize("prior", PRECISION_SHARING)
@pytest.mark.parametrize("margin", [0.0, 0.6])
@pytest.mark.parametrize("shape", [(25, 6), (12, 40)])
def test_what_all_rows_say_beforehand_is_the_sum_of_what_each_says(prior, margin, shape):
    """Their variances, and X'X: over the rows with a label, or all of them where unknown labels count."""
    X, y = problem_rows(6, *shape)
    y[4] = -1
    weight = np.random.default_rng(3).uniform(0.5, 2, len(X))
    problem = on_rows(some_family(prior, margin=margin), X, y, weight)
    params, form = fit(problem, 3).params, problem.family.form
    used = weight if margin else weight * (y >= 0).any(axis=1)
    variance = form.row_variance(params.covariance, problem.family.precision(params), X)
    np.testing.assert_allclose(form.total_variance(params.covariance), variance @ used, **EQUAL)
    np.testing.assert_allclose(form.times_gram(params.projection), params.projection @ (X.T * used) @ X, **EQUAL)
    assert problem.total_weight == weight.sum()


def test_warm_starts_change_nothing():
    X, y = problem_rows(6)
    params = fit(on_rows(some_family("entries"), X, y), 3).params
    moved = params._replace(weights=1.3 * params.weights)
    warm = on_rows(some_family("entries"), X, y)
    for where in (params, moved, moved, params):
        assert_same(warm.sweep(where), on_rows(some_family("entries"), X, y).sweep(where))


@pytest.mark.parametrize("prior", PRECISION_SHARING)
def test_rows_without_labels_change_nothing(prior):
    X, y = problem_rows(7)
    more = np.vstack([X, 10 * np.random.default_rng(0).standard_normal((8, X.shape[1]))])
    padded = np.vstack([y, np.full((8, y.shape[1]), -1)])
    alone = fit(on_rows(some_family(prior), X, y))
    together = fit(on_rows(some_family(prior), more, padded))
    np.testing.assert_allclose(together.value, alone.value, rtol=1e-9)
    np.testing.assert_allclose(together.params.projection, alone.params.projection, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", [(25, 6), (9, 20)])
def test_it_starts_from_the_directions_that_ridge_regression_predicts_best(shape):
    X, y = problem_rows(5, *shape)
    X = X + 3.0  # columns that are not centered
    weight = np.random.default_rng(0).uniform(0.5, 2, shape[0])
    start = start_of(on_rows(some_family("entries"), X, y, weight), 2)
    noise = some_family("entries").noise
    weight = weight * (y >= 0).any(axis=1)
    sign = np.where(y < 0, 0, 2 * y - 1)
    rate = weight @ sign / (weight @ (y >= 0))
    centered = np.where(y < 0, 0, sign - rate)
    gram, cross = X.T @ (weight[:, None] * X), (weight[:, None] * centered).T @ X
    fitted = cross @ np.linalg.solve(gram + noise * np.eye(shape[1]), cross.T)
    best = np.linalg.eigh(fitted)[1][:, ::-1][:, :2]
    np.testing.assert_allclose(start.weights[:, :, 0], np.stack([rate, rate]), **EQUAL)
    directions = start.weights[0, :, 1:]
    np.testing.assert_allclose(np.abs((directions * best).sum(axis=0)), 1.0, **EQUAL)
    np.testing.assert_allclose(np.linalg.norm(start.weights[1, :, 1:], axis=0), 1.0, **EQUAL)
    for k in range(2):  # the projection that goes with them, under unit precisions
        goal = np.linalg.solve(gram / noise + np.eye(shape[1]), cross.T @ start.weights[k, :, 1:] / noise)
        np.testing.assert_allclose(start.projection[k], goal.T, rtol=1e-6, atol=1e-8)


def test_an_unknown_label_is_the_sum_over_its_values():
    """With the posteriors of the weights fixed at points the row's share of the bound is exact in t: p(?) = p(0) + p(1)."""
    eta = np.linspace(-3, 3, 7)[:, None]
    parts = [np.exp(truncate(eta, np.array([s]), 0.0).log_mass) for s in (1.0, -1.0, 0.0)]
    np.testing.assert_allclose(parts[0] + parts[1], parts[2], **BRUTE_FORCE)


def test_separated_rows_never_lower_the_bound():
    for seed in range(3):
        X, y = problem_rows(seed, n_rows=40, unknown=0.6)
        problem = on_rows(some_family("entries", margin=0.8), X, y)
        for solution in (fit(problem, 20), accelerate(problem, 20)):
            curve = solution.curves[0]
            assert np.diff(curve).min() >= -MAX_RELATIVE_DECREASE * np.abs(curve).max()


@pytest.mark.matrix
@pytest.mark.parametrize("prior", ["entries", "columns"])
def test_acceleration_ends_where_plain_updates_do_but_sooner(prior):
    X, y = problem_rows(9, n_rows=40)
    problem = on_rows(some_family(prior), X, y)
    plain, fast = fit(problem, 5000, tol=1e-10), accelerate(problem, 1000, tol=1e-10)
    np.testing.assert_allclose(fast.value, plain.value, rtol=1e-7)
    needed = [int(np.argmax(s.curves[0] >= fast.value[0] - 1e-4)) for s in (plain, fast)]
    assert needed[1] < needed[0] / 4
    # the embedding may turn, at nearly the same value; what it says of the labels may not
    slopes = [s.params.weights[0, :, 1:] @ s.params.projection[0] for s in (plain, fast)]
    np.testing.assert_allclose(slopes[1], slopes[0], atol=1e-3 * np.abs(slopes[0]).max())


def test_accelerated_starts_do_not_see_each_other():
    X, y = problem_rows(10)
    problem = on_rows(some_family("entries"), X, y)
    start = start_of(problem, 3)
    together = QuasiNewtonVB(12, -np.inf).solve(problem, start)
    for k in range(3):
        alone = QuasiNewtonVB(12, -np.inf).solve(problem, type(start)(*(a[k : k + 1] for a in start)))
        np.testing.assert_allclose(alone.curves[0], together.curves[k], rtol=1e-6)


@pytest.mark.parametrize("prior", PRECISION_SHARING)
@pytest.mark.parametrize("shape", [(30, 6), (12, 40)])
def test_slopes_of_the_means_are_derivatives_and_lead_to_the_plain_update(prior, shape):
    X, y = problem_rows(12, *shape)
    for rows in (X, sparse.csr_array(X)):
        problem = on_rows(some_family(prior), rows, y)
        params = fit(problem, 6, 2).params
        family, sweep = problem.family, problem.sweep(params)
        slope, means = family.gradient(params, sweep.stats), family.to_free(params)
        rng = np.random.default_rng(0)
        way = [rng.standard_normal(m.shape) for m in means]
        up, down = (
            problem.sweep(family.from_free(Means(*(m + h * w for m, w in zip(means, way, strict=True))), params)).value
            for h in (STEP, -STEP)
        )
        found = sum((s * w).sum(axis=(1, 2)) for s, w in zip(slope, way, strict=True))
        np.testing.assert_allclose(found, (up - down) / (2 * STEP), rtol=1e-5)
        moved = means[0] + family.precondition(params, slope)[0]
        plain = family.form.posterior(family.precision(params), sweep.stats.cross).mean
        np.testing.assert_allclose(moved, plain, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("size", [5, 40, 150])
def test_inverses(size):
    A = np.random.default_rng(0).standard_normal((3, size, 2 * size))
    A = A @ A.transpose(0, 2, 1)
    inverse, log_det = spd_inverse(A.copy())
    np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(A)[1], rtol=1e-10)
    singular = np.ones((size, size)) * 1e20 + np.eye(size)  # the identity is lost to rounding
    inverse, log_det = spd_inverse(singular)
    assert np.isfinite(inverse).all() and np.isfinite(log_det)


def test_products_of_sparse_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 14)) * (rng.random((9, 14)) < 0.4)
    scale, inner = rng.random(14), rng.standard_normal((9, 9))
    inner = inner + inner.T
    dense, by_pairs = DenseRows(X), rows_with_products(sparse.csr_array(X))
    assert isinstance(by_pairs, SparseRows)
    np.testing.assert_allclose(by_pairs.kernel(scale), dense.kernel(scale), **BRUTE_FORCE)
    np.testing.assert_allclose(by_pairs.diagonal(inner), dense.diagonal(inner), **BRUTE_FORCE)


def test_well_filled_rows_do_not_stay_sparse(monkeypatch):
    """Their pairs would take more memory than all cells."""
    monkeypatch.setattr(projection, "PAIR_BYTES", 0)
    filled = np.random.default_rng(0).standard_normal((9, 14))
    assert isinstance(rows_with_products(sparse.csr_array(filled)), DenseRows)
    assert isinstance(rows_with_products(sparse.csr_array(filled * (np.arange(14) == 3))), SparseRows)
