"""Posteriors of generative models: evidence beside brute force, limits, densities that integrate to one."""

import numpy as np
import pytest
from estimator_cases import POINTS
from scipy.special import gammaln, multigammaln
from scipy.stats import gamma, norm

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.engine.rows import ArraySource, MaskedRows
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures
from latentia.families.gaussian_mixture.posterior import BayesianGaussianMixtures, GaussianPrior, pooled_covariance
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import ColumnLayout, Gaussian
from latentia.families.latent_factors.latents import FactorPrior
from latentia.families.latent_factors.posterior import BayesianLatentFactors
from latentia.solvers import AcceleratedEM


def mixtures(covariance, n_components, **prior):
    sizes = np.atleast_1d(n_components)
    return BayesianGaussianMixtures(GaussianMixtures(sizes, COVARIANCES[covariance](1e-3)), GaussianPrior(**prior))


def factors(n_features, n_classes, n_latent, **prior):
    model = LatentFactors(ColumnLayout([Gaussian(range(n_features))]), n_classes, n_latent, 1, complete=True)
    return BayesianLatentFactors(model, FactorPrior(**prior))


def settle(family, X, y=None, n_iter=400):
    """The posterior after many steps, and its bound."""
    source = ArraySource(X, np.zeros(len(X), int) if y is None else y)
    params = family.init(source, np.random.default_rng(0), 1)
    solution = AcceleratedEM(n_iter, 1e-12).solve(RowProblem(family, Likelihood(), source), params)
    return solution.params, solution.value[0]


def hyper_density(family, belief):
    """What the bound counts of the best strength and common covariance: their log densities, without constants."""
    prior, kappa, common = family.conjugate.prior, belief.components.strength[0], belief.components.common[0]
    if common.ndim == 2:
        covariance = common / (prior.pooled_rows + len(common) - 1)
        unit = np.linalg.slogdet(covariance)[1] + np.trace(np.linalg.inv(covariance))
    else:
        variance = common / prior.pooled_rows
        unit = (np.log(variance) + 1 / variance).sum()
    return prior.strength_shape * np.log(kappa) - prior.strength_rate * kappa - 0.5 * prior.unit_rows * unit


# ---------------------------------------------------------------- evidence
def test_the_evidence_of_one_variance_is_the_integral_over_mean_and_precision(rng):
    """At the best strength and scale; for one Gaussian the posterior is exact, and so is the bound."""
    x = rng.normal(size=5) + 0.5
    family = mixtures("diag", 1, pooled_rows=6.0)
    belief, bound = settle(family, x[:, None])
    kappa, rate = belief.components.strength[0], 0.5 * belief.components.common[0, 0]
    mean, log_precision = np.linspace(-8, 8, 401)[:, None], np.linspace(-12, 6, 301)
    precision = np.exp(log_precision)
    joint = gamma.logpdf(precision, 3.0, scale=1 / rate) + norm.logpdf(mean, 0, (kappa * precision) ** -0.5)
    joint += sum(norm.logpdf(value, mean, precision**-0.5) for value in x) + log_precision
    evidence = np.exp(joint).sum() * (16 / 400) * (18 / 300)
    assert bound - hyper_density(family, belief) == pytest.approx(np.log(evidence), abs=1e-6)


def test_the_evidence_of_a_matrix_is_the_conjugate_one(rng):
    X = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 3)) + 0.3
    family = mixtures("full", 1, pooled_rows=4.0)
    belief, bound = settle(family, X, n_iter=3000)
    kappa, psi, nu, (n, D) = belief.components.strength[0], belief.components.common[0], 4.0 + 3 - 1, X.shape
    mean = X.sum(axis=0) / (n + kappa)
    after = psi + X.T @ X - (n + kappa) * np.outer(mean, mean)
    evidence = -0.5 * n * D * np.log(np.pi) + multigammaln((nu + n) / 2, D) - multigammaln(nu / 2, D)
    evidence += 0.5 * nu * np.linalg.slogdet(psi)[1] - 0.5 * (nu + n) * np.linalg.slogdet(after)[1]
    evidence += 0.5 * D * np.log(kappa / (n + kappa))
    assert bound - hyper_density(family, belief) == pytest.approx(evidence, abs=1e-4)


def test_the_evidence_of_columns_with_gaps_counts_their_known_cells(rng):
    X = rng.normal(size=(9, 2)) * [1.0, 0.7] - 0.4
    X[[0, 3, 4], [0, 1, 1]] = np.nan
    family = mixtures("diag", 1, pooled_rows=6.0)
    belief, bound = settle(family, X)
    kappa, evidence = belief.components.strength[0], 0.0
    for x, rate in zip(X.T, belief.components.common[0] / 2, strict=True):
        x = x[~np.isnan(x)]
        n, total = len(x), x.sum()
        after = rate + 0.5 * (x @ x - total**2 / (n + kappa))
        evidence += gammaln(3 + n / 2) - gammaln(3) + 3 * np.log(rate) - (3 + n / 2) * np.log(after)
        evidence += 0.5 * np.log(kappa / (n + kappa)) - 0.5 * n * np.log(2 * np.pi)
    assert bound - hyper_density(family, belief) == pytest.approx(evidence, abs=1e-6)


def log_mean(terms):
    """Log of the mean of exp(terms), and its standard error."""
    weight = np.exp(terms - terms.max())
    return terms.max() + np.log(weight.mean()), weight.std() / weight.mean() / np.sqrt(len(terms))


def test_the_evidence_of_two_components_is_bounded_from_below(rng):
    """Beside draws from the prior at the best strength and scale."""
    x = np.r_[rng.normal(size=3) - 1.0, rng.normal(size=3) + 1.0]
    family = mixtures("diag", 2, pooled_rows=6.0)
    belief, bound = settle(family, x[:, None])
    kappa, rate, n = belief.components.strength[0], belief.components.common[0, 0] / 2, 100_000
    share = rng.dirichlet([0.5, 0.5], n)[:, None, :]
    precision = rng.gamma(3.0, 1 / rate, (n, 1, 2))
    mean = rng.normal(size=(n, 1, 2)) / np.sqrt(kappa * precision)
    density = (share * norm.pdf(x[:, None], mean, precision**-0.5)).sum(axis=-1)
    evidence, error = log_mean(np.log(density).sum(axis=1))
    assert error < 0.05
    assert evidence - 3.0 < bound - hyper_density(family, belief) < evidence + 4 * error


def test_the_evidence_of_factors_is_bounded_from_below(rng):
    X = rng.normal(size=(4, 1)) * [1.0, 0.8] + 0.4 * rng.normal(size=(4, 2))
    prior = FactorPrior(noise_shape=3.0, noise_rate=2.0, offset_precision=1.0, class_rows=20.0)
    family = factors(2, 1, 1, **prior._asdict())
    belief, bound = settle(family, X)
    alpha, kappa, n = belief.precision[0, 0], belief.strength[0, 0], 400_000
    for value, n_units in ((alpha, prior.unit_loadings), (kappa, prior.unit_means)):
        bound -= 0.5 * n_units * (np.log(value) - value)
    noise = rng.gamma(3.0, 1 / 2.0, (n, 2)) ** -0.5
    loading, offset = (rng.normal(size=(n, 2)) * noise / np.sqrt(a) for a in (alpha, 1.0))
    tau = rng.gamma(10.0, 1 / 10.0, n)
    mean = offset + loading * (rng.normal(size=n) / np.sqrt(kappa * tau))[:, None]
    variance = noise**2 + loading**2 / tau[:, None]  # of each column, and their covariance:
    cross = loading[:, 0] * loading[:, 1] / tau
    det = variance.prod(axis=1) - cross**2
    total = np.zeros(n)
    for a, b in X:
        a, b = a - mean[:, 0], b - mean[:, 1]
        total -= 0.5 * (variance[:, 1] * a**2 + variance[:, 0] * b**2 - 2 * cross * a * b) / det
    total -= len(X) * (0.5 * np.log(det) + np.log(2 * np.pi))
    evidence, error = log_mean(total)
    assert error < 0.05
    assert evidence - 3.0 < bound < evidence + 4 * error


# ---------------------------------------------------------------- rest
#: Fields that no other one follows from.
FREE_FIELDS = {
    BayesianGaussianMixtures: ["means", "scatter", "strength", "common"],
    BayesianLatentFactors: ["class_mean", "class_rate", "noise_rate", "strength", "precision", "bounded_precision"],
}
SETTLED = [
    *(family for cls in FREE_FIELDS for family in cls.examples(3, 2)[:4]),
    factors(3, 2, 1, class_rows=2.0),  # of which rows decide
    mixtures("diag", [1, 2], pooled_rows=2.0),
]


@pytest.mark.parametrize("posterior", SETTLED, ids=lambda f: f"{type(f).__name__}-{SETTLED.index(f)}")
def test_no_small_change_of_a_settled_posterior_raises_its_bound(posterior):
    X, y = posterior.example_rows(np.random.default_rng(1), 30, 3)
    X = np.nan_to_num(X, nan=0.5) + 2 * y[:, None] if posterior in SETTLED[-2:] else X
    belief, bound = settle(posterior, X, y, 250)
    problem = RowProblem(posterior, Likelihood(), ArraySource(X, y))
    inner = belief.components if hasattr(belief, "components") else belief
    for name in FREE_FIELDS[type(posterior)]:
        for factor in (0.998, 1.002):
            moved = inner._replace(**{name: factor * getattr(inner, name)})
            moved = belief._replace(components=moved) if hasattr(belief, "components") else moved
            assert problem.sweep(moved).value[0] <= bound + 1e-7 * abs(bound), name


def test_rows_have_the_doubt_of_the_column_that_was_seen_least(rng):
    X, y = rng.normal(size=(60, 2)), np.zeros(60, int)
    X[4:, 0] = np.nan
    dof = []
    for columns in ([0], [1], [0, 1]):
        family = mixtures("diag", [1], pooled_rows=2.0)
        dof.append(float(family.predictive(settle(family, X[:, columns], y, 50)[0]).dof.squeeze()))
    assert dof[2] == pytest.approx(dof[0]) and dof[0] < dof[1] - 10


def test_latents_of_a_new_row_have_the_doubt_of_their_class(rng):
    """Its mean and its variance, which few rows leave open."""
    y = np.repeat([0, 1], (8, 20))
    family = factors(3, 2, 1, class_rows=2.0)
    belief = settle(family, rng.normal(size=(28, 3)) @ rng.normal(size=(3, 3)) + y[:, None], y, 60)[0]
    for c in range(2):
        mean, count, shape, rate = (
            float(a[0, c, 0]) for a in (belief.class_mean, belief.class_count, belief.class_shape, belief.class_rate)
        )
        precision = rng.gamma(shape, 1 / rate, 400_000)
        means = mean + rng.normal(size=precision.size) / np.sqrt(count * precision)
        drawn = (1 / precision).mean() + means.var()  # within and between
        assert float(family.predictive(belief).variances[0, c, 0]) == pytest.approx(drawn, rel=0.01)


# ---------------------------------------------------------------- limits
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_component_without_rows_changes_nothing_of_the_others(rng, covariance):
    """Classes of fewer components than others are padded with such ones."""
    X, y = three_classes(rng, 30)
    family = mixtures(covariance, [1, 1, 1], pooled_rows=2.0)
    belief = settle(family, X, y, 50)[0].components
    nobody = belief._asdict() | {"count": belief.strength[:, None, None, None] + np.zeros_like(belief.count)}
    beside = {
        name: np.concatenate([a, nobody[name]], axis=2) if a.shape[1:3] == (3, 1) else a
        for name, a in belief._asdict().items()
    }
    alone, wide = (family.conjugate.predictive(b) for b in (belief, belief._replace(**beside)))
    for a, b in zip(alone, wide, strict=True):
        np.testing.assert_allclose(b[:, :, :1] if b.shape[1:3] == (3, 2) else b, a, rtol=1e-12)


def three_classes(rng, n=120):
    y = np.arange(n) % 3
    X = rng.normal(size=(n, 2)) * np.array([0.4, 1.0, 1.6])[y, None] + rng.normal(size=(3, 2))[y]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_with_ever_more_pooled_rows_all_classes_share_one_covariance(rng):
    X, y = three_classes(rng)
    rows, gaps = MaskedRows(X, None), []
    for pooled in (3e1, 3e2, 3e3):
        own, tied = (mixtures(name, [1, 1, 1], pooled_rows=pooled) for name in ("full", "tied"))
        scores = [f.model.infer(f.predictive(settle(f, X, y, 150)[0]), rows).log_joint for f in (own, tied)]
        gaps.append(np.abs(scores[0] - scores[1]).max())
    assert gaps[0] > 0.5 and gaps[2] < 0.05 * gaps[0] and gaps[1] < 0.5 * gaps[0]


def test_with_ever_more_class_rows_latent_variances_are_equal(rng):
    X, y = three_classes(rng)
    spreads = []
    for class_rows in (1.0, 1e8):
        belief, _ = settle(factors(2, 3, 2, class_rows=class_rows), X, y, 60)
        spreads.append(np.ptp((belief.class_rate / belief.class_shape)[0], axis=0).max())
    assert spreads[0] > 0.1 and spreads[1] < 1e-5


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_with_ever_more_rows_the_posterior_is_the_point_of_largest_likelihood(rng, covariance):
    X, y = three_classes(rng)
    options = dict(covariance=covariance, marginals="normal", var_floor=1e-9, max_iter=2000, tol=1e-9)
    point = GaussianMixtureClassifier(**(options | POINTS)).fit(X, y)
    many = GaussianMixtureClassifier(**options, temperature=1.0).fit(X, y, sample_weight=np.full(len(y), 1e7))
    np.testing.assert_allclose(many.predict_joint_log_proba(X), point.predict_joint_log_proba(X), atol=1e-3)


# ---------------------------------------------------------------- densities
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_predictive_of_one_gaussian_averages_over_its_posterior(rng, covariance):
    """Few rows, of the prior and of the table: the tails of the average are those of a Student-t."""
    x, family = rng.normal(size=4) + 0.5, mixtures(covariance, 1, pooled_rows=2.0)
    belief = settle(family, x[:, None])[0].components
    nu, scatter, mean, count = (float(a.ravel()[0]) for a in (belief.rows, belief.scatter, belief.means, belief.count))
    log_precision = np.linspace(-15, 8, 4001)[:, None]
    precision, at = np.exp(log_precision), np.array([-9.0, -3.0, -0.5, 0.0, 1.0, 4.0, 12.0])
    share = gamma.pdf(precision, nu / 2, scale=2 / scatter) * precision
    averaged = (share * norm.pdf(at, mean, ((1 + 1 / count) / precision) ** 0.5)).sum(axis=0) / share.sum()
    point = select_restart(family.predictive(settle(family, x[:, None])[0]), 0)
    np.testing.assert_allclose(
        family.model.infer(point, MaskedRows(at[:, None], None)).log_joint[0], np.log(averaged), rtol=1e-6
    )


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_have_the_density_of_the_predictive(rng, covariance):
    """Also far out in two columns at once, which is where a heavy tail is unlike a normal one."""
    family = mixtures(covariance, 1, pooled_rows=2.0)
    point = select_restart(family.predictive(settle(family, rng.normal(size=(5, 2)))[0]), 0)
    drawn = family.model.sample(point, np.zeros(50_000, int), rng)
    center, width = np.median(drawn, axis=0), np.ptp(np.quantile(drawn, [0.16, 0.84], axis=0), axis=0) / 2
    t = (np.arange(-150, 150) + 0.5) / 5
    grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1)
    density = np.exp(family.model.infer(point, MaskedRows(center + width * grid.reshape(-1, 2), None)).log_joint[0])
    density = density.reshape(300, 300) * width.prod() / 25
    assert density.sum() == pytest.approx(1.0, abs=5e-3)
    for far in (1.0, 2.0, 3.0):
        expected = density[(np.abs(grid) > far).all(axis=-1)].sum()
        share = (np.abs((drawn - center) / width) > far).all(axis=1).mean()
        assert share == pytest.approx(expected, abs=5 * np.sqrt(expected / len(drawn)) + 2e-4)


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixtureClassifier(2, n_init=2, tol=1e-2, random_state=0),
        GaussianMixtureClassifier(covariance="diag", inference="ml"),
        LatentClassificationModel(1, tol=1e-1, random_state=0),
    ],
    ids=["mixture", "points", "factors"],
)
def test_densities_of_known_cells_integrate_to_one(model, rng):
    """Of both cells, and of either where the other is missing; columns are skewed, so they have power transforms."""
    y = np.arange(150) % 2
    X = np.column_stack([rng.lognormal(0.5 * y, 0.6), 10 * rng.gamma(1.5 + y)])
    X[::7, 0] = X[3::7, 1] = np.nan
    model.fit(X, y)
    assert not (model._model.preprocessor.power == 1.0).any()
    t = np.linspace(-14, 14, 1201)  # points that lie the wider the farther they are
    center, width = np.nanmedian(X, axis=0), np.nanstd(X, axis=0) / 20
    grid = center + width * np.sinh(t)[:, None]
    step = width * np.cosh(t)[:, None] * (t[1] - t[0])
    for known in (0, 1):
        alone = np.where(np.arange(2) == known, grid, np.nan)
        assert (np.exp(model.score_samples(alone)) * step[:, known]).sum() == pytest.approx(1.0, abs=1e-3)
    some = slice(None, None, 6)
    rows = np.stack(np.meshgrid(grid[some, 0], grid[some, 1], indexing="ij"), axis=-1).reshape(-1, 2)
    weight = 36 * step[some, 0][:, None] * step[some, 1]
    assert (np.exp(model.score_samples(rows)) * weight.ravel()).sum() == pytest.approx(1.0, abs=5e-3)


def test_the_covariance_to_start_from_is_that_of_the_rows_that_know_both_cells(rng):
    y, weight = np.arange(40) % 2, rng.uniform(0.5, 2, 40)
    X = rng.normal(size=(40, 3)) + 5.0 * y[:, None] + 3.0
    known = rng.random(X.shape) < [1.0, 0.7, 0.5]
    found = pooled_covariance(ArraySource(np.where(known, X, np.nan), y, weight).all_rows())
    centered = X.copy()
    for label in range(2):
        here = y == label
        centered[here] -= [np.average(X[here, d], weights=(weight * known[:, d])[here]) for d in range(3)]
    for i, j in np.ndindex(3, 3):
        both = weight * known[:, i] * known[:, j]
        total = both @ (centered[:, i] * centered[:, j]) + (i == j)  # and a row of unit variance
        assert found[i, j] == pytest.approx(total / (both.sum() + 1))
