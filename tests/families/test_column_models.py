"""Binary, categorical and mixed columns: the bound, its fixed point, gaps, and what the columns' kinds may not change."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import stats
from scipy.stats import multivariate_normal
from tolerances import EQUAL, MAX_RELATIVE_DECREASE, SAMPLING

from latentia import LatentClassificationModel
from latentia.engine.rows import ArraySource, MaskedRows
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.families.latent_factors.e_step import infer_rows
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.importance import importance_scores
from latentia.families.latent_factors.kinds import (
    COLUMN_MODELS,
    Bernoulli,
    Categorical,
    ColumnLayout,
    Gaussian,
    NegativeBinomial,
    Sequential,
)
from latentia.families.latent_factors.parameters import FactorParams
from latentia.solvers import EM
from latentia.table.columns import learn_columns


def a_mixed_problem(rng, n_rows=25, q=None):
    """Columns of random kinds in random order, 0-60 % of the cells missing, some rows unlabeled."""
    kinds = rng.choice(list(COLUMN_MODELS), rng.integers(1, 9))
    layout = ColumnLayout.from_kinds(kinds.tolist(), rng.integers(2, 5, size=kinds.size).tolist())
    X = rng.normal(size=(n_rows, kinds.size))
    X[rng.random(X.shape) < rng.choice([0.0, 0.2, 0.6])] = np.nan
    for model in layout.models:
        X[:, list(model.columns)] = model.example_cells(X[:, list(model.columns)])
    y = np.where(rng.random(n_rows) < 0.2, -1, np.arange(n_rows) % 3)
    q = int(rng.integers(0, 4)) if q is None else q
    family = LatentFactors(
        layout, 3, q, int(rng.integers(1, 3)), tied=bool(rng.integers(2)), ridge=float(rng.choice([0.0, 0.1]))
    )
    return family, ArraySource(X, y)


def test_a_layout_of_kinds_is_that_of_their_models():
    kinds = ["categorical", "continuous", "binary", "categorical", "continuous"]
    layout = ColumnLayout.from_kinds(kinds, [5, 0, 2, 3, 0])
    assert [type(model) for model in layout.models] == [Gaussian, Bernoulli, Categorical]
    assert [model.columns for model in layout.models] == [(1, 4), (2,), (3, 0)]  # categories in the order of sizes
    assert layout.predictor_columns() == [1, 4, 2, 3, 3, 3, 0, 0, 0, 0, 0]
    assert (layout.n_gaussian, layout.n_bounded, layout.n_predictors, layout.n_columns) == (2, 9, 11, 5)
    assert layout.n_redundant_predictors == 2 and not layout.all_gaussian
    assert ColumnLayout.from_kinds(["continuous"] * 3, [0] * 3).all_gaussian


@pytest.mark.parametrize("kind", COLUMN_MODELS)
def test_a_kind_samples_what_it_expects_and_reads_what_it_makes(kind, rng):
    """At given predictors, frequencies of the samples are the expectations; examples are cells of the kind."""
    model = COLUMN_MODELS[kind].from_columns([0, 1], [3, 4])
    predictors = np.tile(rng.normal(size=model.n_predictors), (20_000, 1))
    noise = np.ones((20_000, 2 if kind == "continuous" else 0))
    cells = model.sample(predictors, noise, rng)
    assert cells.shape == (20_000, 2)
    if kind == "ordinal":
        above = model.expected(predictors[:1], np.zeros((1, model.n_predictors)))[0]
        for column, part in enumerate(np.split(above, [2])):
            frequencies = (cells[:, [column]] > np.arange(part.size)).mean(axis=0)
            assert np.abs(frequencies - part).max() < SAMPLING * 0.5 / np.sqrt(len(cells))
            likely = np.argmax(np.r_[1, part] - np.r_[part, 0])
            assert model.impute(above[None], False)[0, column] == likely
    elif kind == "categorical":
        expected = model.expected(predictors[:1], np.zeros((1, model.n_predictors)))[0]
        sizes = np.split(expected, [3])
        for column, probs in enumerate(sizes):
            frequencies = np.bincount(cells[:, column].astype(int), minlength=probs.size) / len(cells)
            assert np.abs(frequencies - probs).max() < SAMPLING * 0.5 / np.sqrt(len(cells))
            assert model.impute(expected[None], False)[0, column] == probs.argmax()
    else:
        mean = predictors[:1]
        expected = mean if kind == "continuous" else model.expected(mean, np.zeros_like(mean))
        assert np.abs(cells.mean(axis=0) - expected[0]).max() < SAMPLING * cells.std(axis=0).max() / np.sqrt(len(cells))
        np.testing.assert_array_equal(model.impute(expected, False), expected)
    normal = np.where(rng.random((50, 2)) < 0.2, np.nan, rng.normal(size=(50, 2)))
    example = model.example_cells(normal)
    np.testing.assert_array_equal(np.isnan(example), np.isnan(normal))
    if model.is_coded:
        assert set(np.unique(example[~np.isnan(example)])) <= set(range(4 if model.n_categories is None else 2))


@pytest.mark.parametrize("kind", [kind for kind in COLUMN_MODELS if kind != "continuous"])
def test_a_cell_is_expected_near_its_average_over_the_predictors(kind, rng):
    """Counts exactly; probabilities by an approximation that is good to a twentieth."""
    model = COLUMN_MODELS[kind].from_columns([0, 1], [3, 4])
    mean, variance = rng.normal(size=(6, model.n_predictors)), rng.uniform(0.2, 1.5, (6, model.n_predictors))
    draws = mean + np.sqrt(variance) * rng.normal(size=(50_000, 6, model.n_predictors))
    averaged = model.expected(draws, np.zeros_like(draws)).mean(axis=0)
    tolerance = {"rtol": 0.05} if kind == "count" else {"atol": 0.05}
    np.testing.assert_allclose(model.expected(mean, variance), averaged, **tolerance)


def test_the_worked_example_of_the_paper():
    """Example 3: prior N(0, 1), w = 1, b = 0, t = 1 gives variance 0.812 and mean 0.406 after three rounds."""
    family = LatentFactors(ColumnLayout([Bernoulli([0])]), 1, 1, bound_tol=0.0, bound_max_iter=3)
    fields = [0.0], [[0.0]], [[0.0]], [[1.0]], [[[1.0]]], [[0.0]], np.zeros((1, 0)), [[1.0]]
    rows = family.infer(FactorParams(*map(np.asarray, fields)), MaskedRows(np.ones((1, 1)), None)).latents
    assert rows.cov.item() == pytest.approx(0.812, abs=5e-4)
    assert rows.mean.item() == pytest.approx(0.406, abs=5e-4)


def test_worst_step_of_em_over_random_mixes_of_kinds():
    worst = np.inf
    for trial in range(10):
        rng = np.random.default_rng(trial)
        family, rows = a_mixed_problem(rng)
        solution = EM(max_iter=6, tol=-np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 2))
        worst = min(worst, min((np.diff(c) / np.abs(c[1:])).min() for c in solution.curves))
    assert worst >= -10 * MAX_RELATIVE_DECREASE  # the bound's own fixed point has a tolerance


def log_density(family, params, cells, m, z):
    """log p(x | z, m) of rows at latents (..., N, q)."""
    G, heads = family.layout.n_gaussian, z @ params.loadings[m].T + params.offsets[m]
    density = np.zeros(heads.shape[:-1])
    if G:
        x, seen = family.layout.select_columns(family.layout.gaussian, cells)
        theta = params.noise[0 if family.tied else m]
        square = (x - heads[..., :G]) ** 2 / theta + np.log(2 * np.pi * theta)
        density = density - 0.5 * (square if seen is None else square * seen).sum(axis=-1)
    for kind, own in family.layout.bounded_slices():
        values, seen = family.layout.select_columns(kind, cells)
        density = density + kind.log_density(values, seen, heads[..., G:][..., own])
    return density


def by_quadrature(family, params, cells, n_points=60):
    """log p(x, c) of models with two latents, integrated over a grid of Gauss-Hermite points."""
    points, weights = hermegauss(n_points)
    u = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1).reshape(-1, 1, 2)
    log_w = np.log(np.outer(weights, weights).ravel() / (2 * np.pi))
    out = np.full((family.n_classes, len(cells.values)), -np.inf)
    for c in range(family.n_classes):
        z = np.repeat(params.means[c] + np.sqrt(params.variances[c]) * u, len(cells.values), axis=1)
        for m in range(family.n_components):
            here = np.logaddexp.reduce(log_w[:, None] + log_density(family, params, cells, m, z), axis=0)
            out[c] = np.logaddexp(out[c], params.log_prior[c] + params.log_mix[c, m] + here)
    return out


def a_mixed_model(trial):
    """Parameters far from a start, and rows."""
    rng = np.random.default_rng(trial)
    family, rows = a_mixed_problem(rng, n_rows=8, q=2)
    params = select_restart(family.init(rows, rng, 1), 0)
    params = params._replace(
        loadings=rng.normal(size=params.loadings.shape),
        offsets=rng.normal(size=params.offsets.shape),
        noise=1.0 + 0 * params.noise,
    )
    return family, params, rows.preprocess(rows.X), rng


def test_a_draw_weighs_its_density_by_that_of_the_proposal():
    """One draw of importance sampling: the sum over components of p(x, z, m, c) / q(z) at z ~ q."""
    for trial in range(6):
        family, params, cells, rng = a_mixed_model(trial)
        draw = rng.standard_normal(2)
        rows = infer_rows(family.layout, params, cells, family.bound_rules)
        expected = np.full((family.n_classes, len(cells.values)), -np.inf)
        for c in range(family.n_classes):
            for m in range(family.n_components):
                z = rows.mean[c, m] + np.linalg.cholesky(rows.cov[c, m]) @ draw
                prior = multivariate_normal(params.means[c], np.diag(params.variances[c])).logpdf(z)
                each = zip(z, rows.mean[c, m], rows.cov[c, m], strict=True)
                proposal = np.array([multivariate_normal(mean, cov).logpdf(at) for at, mean, cov in each])
                joint = params.log_prior[c] + params.log_mix[c, m] + prior + log_density(family, params, cells, m, z)
                expected[c] = np.logaddexp(expected[c], joint - proposal)
        np.testing.assert_allclose(importance_scores(family, params, cells, draw[None]), expected, **EQUAL)


def test_the_bound_lies_below_the_integral_and_importance_sampling_closes_the_gap():
    gaps, errors = [], []
    for trial in range(12):
        family, params, cells, rng = a_mixed_model(trial)
        exact = by_quadrature(family, params, cells)
        gap = exact - family.infer(params, cells).log_joint
        assert gap.min() > -1e-6
        gaps.append(gap.mean())
        draws = rng.standard_normal((200, 2))
        errors.append(np.abs(importance_scores(family, params, cells, draws) - exact).mean())
    assert 0 < np.mean(gaps) < 2.0
    assert np.mean(errors) < 0.1 * np.mean(gaps) + 0.02


@pytest.mark.parametrize("seed", range(4))
def test_estimated_probabilities_of_all_categories_add_up_to_one(seed):
    """Also where the bound's posterior is far too narrow for the true one."""
    rng = np.random.default_rng(seed)
    layout = ColumnLayout.from_kinds(["categorical"], [3])
    family, cells = LatentFactors(layout, 2, 3, 1), ArraySource(np.arange(3.0)[:, None], np.array([0, 1, 0]))
    params = select_restart(family.init(cells, rng, 1), 0)
    params = params._replace(loadings=4 * rng.normal(size=params.loadings.shape))
    scores = importance_scores(family, params, cells.preprocess(cells.X), rng.standard_normal((1000, 3)))
    np.testing.assert_allclose(np.exp(scores).sum(), 1.0, atol=0.08)
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), np.exp(params.log_prior), rtol=0.1)


def test_continuous_columns_alone_need_no_bound(rng):
    """A layout of continuous columns beside a binary one without any known cell is the continuous model."""
    X = np.c_[rng.normal(size=(20, 3)), np.full(20, np.nan)]
    y = np.arange(20) % 3
    with_binary = LatentFactors(ColumnLayout([Gaussian([0, 1, 2]), Bernoulli([3])]), 3, 2, 2)
    alone = LatentFactors(ColumnLayout.continuous_columns(3), 3, 2, 2)
    params = alone.init(ArraySource(X[:, :3], y), rng, 1)
    wider = params._replace(
        loadings=np.concatenate([params.loadings, np.ones((1, 2, 1, 2))], axis=2),
        offsets=np.concatenate([params.offsets, np.ones((1, 2, 1))], axis=2),
        edges=np.ones((1, 4, 2)),
    )
    a = with_binary.infer(wider, ArraySource(X, y).preprocess(X)).log_joint
    np.testing.assert_allclose(a, alone.infer(params, MaskedRows(X[:, :3], None)).log_joint, **EQUAL)


def test_a_row_without_cells_has_the_class_priors():
    for trial in range(5):
        rng = np.random.default_rng(trial)
        family, rows = a_mixed_problem(rng)
        solution = EM(max_iter=3, tol=-np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 2))
        empty = MaskedRows(np.zeros((1, rows.n_features)), np.zeros((1, rows.n_features)))
        scores = family.infer(solution.params, empty).log_joint[..., 0]
        np.testing.assert_allclose(scores, solution.params.log_prior, atol=1e-9)


def test_two_categories_are_a_binary_column_up_to_the_bound(rng):
    """Softmax over two heads is the logistic of their difference, so the exact densities agree."""
    heads = rng.normal(size=(7, 2))
    codes = (np.arange(7) % 2)[:, None].astype(float)
    softmax = Categorical([0], [2]).log_density(codes, None, heads)
    logistic = Bernoulli([0]).log_density(codes, None, heads[:, 1:] - heads[:, :1])
    np.testing.assert_allclose(softmax, logistic, **EQUAL)


def test_quadratics_touch_their_density_from_below(rng):
    """Away from where they are placed the quadratics stay below; for a binary column they touch at +-xi."""
    kind, t = Bernoulli([0]), np.ones((1, 1))
    for xi in [0.0, 0.3, 2.0, 9.0]:
        curvature, slope, constant = kind.bound(t, None, np.full((1, 1), xi), np.zeros((1, 1)))
        a = np.linspace(-12, 12, 97)[:, None, None]
        below = constant - 0.5 * curvature[..., 0] * a[..., 0] ** 2 + slope[..., 0] * a[..., 0]
        true = kind.log_density(t, None, a)
        assert (below <= true + 1e-12).all()
        at = kind.log_density(t, None, np.full((1, 1, 1), xi)).item()
        assert constant.item() - 0.5 * curvature.item() * xi**2 + slope.item() * xi == pytest.approx(at, abs=1e-9)
    kind, codes = Categorical([0], [4]), np.array([[2.0]])
    curvature, slope, constant = kind.bound(codes, None, rng.normal(size=(1, 4)), np.full((1, 4), 0.3))
    heads = 4 * rng.normal(size=(500, 1, 4))
    below = constant + (slope * heads - 0.5 * curvature * heads**2).sum(axis=-1)
    assert (below <= kind.log_density(codes, None, heads) + 1e-12).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_precision_of_a_frame_is_that_of_its_continuous_columns(library, rng):
    frame = pytest.importorskip(library).DataFrame
    single, text = rng.normal(size=12).astype(np.float32), list("abc") * 4
    half, double, gaps = single.astype(np.float16), single.astype(np.float64), frame({"g": single})["g"].shift(1)
    wanted = [
        ({"a": single, "b": single}, np.float32),
        ({"a": single, "t": text}, np.float32),
        ({"a": single, "g": gaps}, np.float32),  # whose cells come as objects
        ({"a": single, "b": double}, np.float64),
        ({"a": single, "b": np.arange(12)}, np.float64),
        ({"t": text, "u": text[::-1]}, np.float64),
    ]
    wanted += [({"a": single, "b": half}, np.float32)] if library == "pandas" else []  # polars has it of late only
    for columns, dtype in wanted:
        table = frame(columns)
        coded = learn_columns(table, "auto", COLUMN_MODELS).encode(table, "error")
        assert coded.dtype == dtype, columns
        np.testing.assert_array_equal(coded[:, 0][1:], single[1:] if "a" in columns else [1, 2, *[0, 1, 2] * 3])


def test_a_frame_of_single_precision_is_fitted_as_such_an_array(rng):
    frame = pytest.importorskip("pandas").DataFrame
    X, y = rng.normal(size=(30, 3)).astype(np.float32), np.arange(30) % 2
    model = LatentClassificationModel(1, n_init=1, tol=1e-2, random_state=0)
    table = frame(X, columns=["a", "b", "c"])
    of_frame, of_array = model.fit(table, y).predict_proba(table), model.fit(X, y).predict_proba(X)
    assert of_frame.dtype == np.float32
    np.testing.assert_array_equal(of_frame, of_array)


@pytest.mark.parametrize("sizes", [(3, 4, 3, 5), (2, 3, 3, 6)], ids=str)
@pytest.mark.parametrize("kind", [Categorical, Sequential])
def test_columns_of_a_kind_do_not_see_each_others_gaps(kind, sizes, rng):
    """The bound of several columns is the sum of their own, whichever cells are missing."""
    codes = rng.integers(0, 100, size=(30, 4)) % np.array(sizes)
    observed = (rng.random(codes.shape) < [0.2, 0.9, 0.5, 0.7]).astype(float)
    together = kind(range(4), sizes)
    place = np.array(together.columns)
    mean, variance = rng.normal(size=(30, together.n_predictors)), rng.uniform(0.1, 2, (30, together.n_predictors))
    values, seen = (codes * observed)[:, place], observed[:, place]
    found = together.bound(values, seen, mean, variance)
    constant = 0.0
    for number, column in enumerate(place):
        own = np.flatnonzero(np.array(together.predictor_columns()) == column)
        alone = kind([0], [sizes[column]]).bound(values[:, [number]], seen[:, [number]], mean[:, own], variance[:, own])
        np.testing.assert_allclose(found.curvature[:, own], alone.curvature)
        np.testing.assert_allclose(found.linear[:, own], alone.linear)
        constant = constant + alone.constant
    np.testing.assert_allclose(found.constant, constant)


@pytest.mark.parametrize("shape", [0.6, 1.5, 8.0])
def test_the_mode_of_a_count_is_its_most_probable_value(shape):
    mean = np.array([0.3, 2.2, 7.9, 31.3])
    found = NegativeBinomial([0], [shape]).impute(mean[:, None], mode=True)[:, 0]
    pmf = stats.nbinom(shape, shape / (shape + mean[:, None])).pmf(np.arange(200))
    np.testing.assert_array_equal(found, pmf.argmax(axis=1))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_a_cell_of_categories_is_completed_by_the_most_probable_one(kind, size, rng):
    """However many there are: categories have no mean, so nothing between them is expected either."""
    (model,) = COLUMN_MODELS[kind].split_columns([0], [size])
    predictors = 2 * rng.normal(size=(40, model.n_predictors))
    density = [model.log_density(np.full((40, 1), float(code)), None, predictors) for code in range(size)]
    expected = model.expected(predictors, np.zeros_like(predictors))
    for mode in (False, True):
        np.testing.assert_array_equal(model.impute(expected, mode)[:, 0], np.argmax(density, axis=0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [kind for kind, model in COLUMN_MODELS.items() if model.is_coded])
def test_a_column_of_one_value_tells_nothing_and_is_completed_by_it(kind):
    X, y = np.full((12, 1), 3.0), np.arange(12) % 2
    model = LatentClassificationModel(1, 1, kinds=[kind], n_init=1, max_iter=2, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=1e-9)
    assert model.impute([[np.nan]], method="mode") == 3.0
    drawn = model.sample(30)[0]
    assert (drawn == 3.0).all() or kind == "binary"  # which has a second value, though no row shows it


def test_a_completed_binary_cell_has_the_doubt_of_its_predictor():
    """Where the factors are each uncertain and their sum is known, so is a column that follows the sum."""
    family = LatentFactors(ColumnLayout([Gaussian([0]), Bernoulli([1])]), 1, 2)
    params = FactorParams(
        log_prior=np.zeros(1),
        log_mix=np.zeros((1, 1)),
        means=np.zeros((1, 2)),
        variances=np.ones((1, 2)),
        loadings=np.array([[[1.0, 1.0], [4.0, 4.0]]]),
        offsets=np.zeros((1, 2)),
        noise=np.full((1, 1), 1e-4),
        edges=np.ones((2, 2)),
    )
    rows = MaskedRows(np.array([[0.5, 0.0]]), np.array([[1.0, 0.0]]))
    found = family.impute(params, rows, np.ones((1, 1)))
    np.testing.assert_allclose(found, [[0.5, 1 / (1 + np.exp(-2))]], atol=1e-3)


def test_expected_squares_of_continuous_cells_count_factors_and_noise_of_each_component():
    """Of a row without a known cell: mixtures over classes and components of mean^2 + w' V w + noise."""
    rng = np.random.default_rng(0)
    family = LatentFactors(ColumnLayout([Gaussian([0, 1])]), 2, 3, 2, tied=False)
    params = FactorParams(
        log_prior=np.log([0.4, 0.6]),
        log_mix=np.log([[0.3, 0.7], [0.9, 0.1]]),
        means=rng.normal(size=(2, 3)),
        variances=rng.random((2, 3)),
        loadings=rng.normal(size=(2, 2, 3)),
        offsets=rng.normal(size=(2, 2)),
        noise=np.array([[0.1, 4.0], [9.0, 0.5]]),
        edges=np.ones((2, 3)),
    )
    nothing = MaskedRows(np.zeros((1, 2)), np.zeros((1, 2)))
    found = family.impute_expected(params, nothing, np.array([[0.2], [0.8]]), lambda mean, v, columns: mean**2 + v)
    expected = 0.0
    for c, m in np.ndindex(2, 2):
        W = params.loadings[m]
        square = (W @ params.means[c] + params.offsets[m]) ** 2 + W**2 @ params.variances[c] + params.noise[m]
        expected = expected + [0.2, 0.8][c] * np.exp(params.log_mix[c, m]) * square
    np.testing.assert_allclose(found[0], expected)
