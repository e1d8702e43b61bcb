"""Mixtures of experts: limits, trees, probabilities, regression, hard and bad input."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import config_context
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler
from tolerances import EQUAL, MAX_RELATIVE_DECREASE

from latentia import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor, MultimodalSoftmaxClassifier
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import leaves
from latentia.estimators.softmax.training import AVERAGES
from latentia.families.softmax_tree.leaves import GateRows, LeafRows, LinearLeaves
from latentia.families.softmax_tree.posterior import BoundPosterior, ExactPosterior
from latentia.families.softmax_tree.tree import Point, SoftmaxTree, mixture_of_experts, multimodal_softmax


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(120, noise=0.15, random_state=0)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def bent():
    """A bent line whose noise is eight times larger on one side."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 300)
    y = np.where(x < 0, 2 * x, -x) + np.where(x < 0, 0.05, 0.4) * rng.normal(size=300)
    return x[:, None], y


def test_passes_up_and_down_a_tree(rng):
    """Beside the sum over its six paths, written out."""
    tree = SoftmaxTree((2, 3), LinearLeaves(1))
    log_gates = [np.log(rng.dirichlet(np.ones(b), size=(n, 4)).transpose(0, 2, 1)) for n, b in ((1, 2), (2, 3))]
    leaves = rng.normal(size=(6, 4))
    value, shares = tree.explain([GateRows(gate, 0.0) for gate in log_gates], LeafRows(leaves), np.zeros((4, 1)))
    joint = np.array([log_gates[0][0, k // 3] + log_gates[1][k // 3, k % 3] + leaves[k] for k in range(6)])
    np.testing.assert_allclose(value, np.logaddexp.reduce(joint, axis=0))
    share = np.exp(joint - value)
    weight = rng.uniform(size=(1, 4))
    np.testing.assert_allclose(tree.at_leaves(shares, weight), weight * share)
    top, low = tree.descend(shares, weight)
    np.testing.assert_allclose(top[0], weight)
    np.testing.assert_allclose(low[:, 0], weight * np.stack([share[:3].sum(axis=0), share[3:].sum(axis=0)]))


def test_one_expert_is_the_softmax_without_subclasses(moons):
    X, y = moons
    rows = ArraySource(X, y)
    weights = 0.3 * np.random.default_rng(0).normal(size=(1, 1, 2, 3))
    softmax, experts = BoundPosterior(multimodal_softmax((1, 1))), BoundPosterior(mixture_of_experts((1,), 2))
    points = Point((weights,), ()), Point((np.zeros((1, 1, 1, 3)), weights), ())
    a, b = (
        RowProblem(family, Likelihood(), rows).sweep(family.posterior_around(point, 0.2)).value
        for family, point in zip((softmax, experts), points, strict=True)
    )
    np.testing.assert_allclose(a, b, **EQUAL)
    one = MixtureOfExpertsClassifier(1, tol=1e-8).fit(X, y)
    plain = MultimodalSoftmaxClassifier(1, tol=1e-8).fit(X, y)
    assert one.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-4)
    np.testing.assert_allclose(one.predict_proba(X), plain.predict_proba(X), atol=1e-3)


def test_a_tree_with_one_branch_at_the_root_is_flat(moons):
    X, y = moons
    rng = np.random.default_rng(0)
    gate, expert = rng.normal(size=(1, 1, 3, 3)), rng.normal(size=(1, 3, 2, 3))
    flat, deep, wide = (mixture_of_experts(branches, 2) for branches in ((3,), (1, 3), (2, 3)))
    values, priors = [], []
    for tree, gates in ((flat, (gate, expert)), (deep, (np.ones((1, 1, 1, 3)), gate, expert))):
        bound, exact = BoundPosterior(tree), ExactPosterior(tree)
        posterior = bound.posterior_around(Point(gates, ()), 0.1)
        values.append(RowProblem(bound, Likelihood(), ArraySource(X, y)).sweep(posterior).value)
        priors.append(exact.log_prior(exact.from_posterior(posterior)))
    np.testing.assert_allclose(*values, **EQUAL)
    np.testing.assert_allclose(*priors, **EQUAL)
    assert deep.log_permutations == pytest.approx(flat.log_permutations)
    assert deep.n_free(3) == flat.n_free(3) == (2 + 3) * 3
    assert wide.log_permutations == pytest.approx(np.log(2) + 2 * np.log(6))


def test_one_expert_by_likelihood_is_logistic_regression():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(X, y)
    model = MixtureOfExpertsClassifier(1, inference="ml", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(
    "averaging", ["corrected", *(pytest.param(name, marks=pytest.mark.matrix) for name in ("posterior", "plugin"))]
)
def test_probabilities_and_search(moons, averaging):
    X, y = moons
    options = dict(criterion="evidence", averaging=averaging, n_init=2, tol=1e-4, random_state=0)
    model = MixtureOfExpertsClassifier(max_experts=3, **options).fit(X, y)
    table = model.search_results_
    assert table["n_experts"] == [1, 2, 3]
    assert model.n_experts_ == table["n_experts"][int(np.argmax(table["corrected_log_evidence"]))]
    assert model.log_evidence_ == pytest.approx(
        model.objective_curve_[-1] - np.log(np.arange(1, model.n_experts_ + 1)).sum()
    )
    assert np.diff(model.objective_curve_).min() >= -MAX_RELATIVE_DECREASE * np.abs(model.objective_curve_).max()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(model.expert_proba(X).sum(axis=1), 1.0)
    assert model.expert_proba(X).shape == (120, model.n_experts_)
    assert model.score(X, y) > 0.95


@pytest.mark.matrix
def test_validation_chooses_by_rows_held_out(moons, bent):
    for cls, (X, y) in ((MixtureOfExpertsClassifier, moons), (MixtureOfExpertsRegressor, bent)):
        model = cls(max_experts=2, criterion="validation", n_init=2, tol=1e-4, random_state=0).fit(X, y)
        assert (
            model.n_experts_ == 2 == model.search_results_["n_experts"][int(np.argmax(model.search_results_["score"]))]
        )
        fixed = cls(2, n_init=2, tol=1e-4, random_state=0).fit(X, y)  # the winner is fitted on all rows again
        assert model.log_evidence_ == pytest.approx(fixed.log_evidence_, abs=3.0)


def test_a_tree_of_experts(moons):
    X, y = moons
    model = MixtureOfExpertsClassifier(2, depth=2, n_init=1, tol=1e-3, random_state=0).fit(X, y)
    assert model.n_experts_ == 4
    assert [gate.shape for gate in model.gate_weights_] == [(1, 2, 2), (2, 2, 2)]
    assert model.expert_weights_.shape == (4, 2, 2) and model.expert_intercepts_.shape == (4, 2)
    np.testing.assert_allclose(model.expert_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.95
    wide = MixtureOfExpertsClassifier([1, 2], depth=2, n_init=1, tol=1e-3, random_state=0).fit(X, y)
    assert wide.n_experts_ == 2


def test_likelihood_has_bic(moons):
    X, y = moons
    model = MixtureOfExpertsClassifier(
        max_experts=2, inference="ml", criterion="bic", ridge=0.01, n_init=2, random_state=0
    ).fit(X, y)
    assert model.bic(X, y) == pytest.approx(np.min(model.search_results_["bic"]), rel=1e-6)
    assert not hasattr(model, "log_evidence_")


def test_regression_learns_the_noise_of_each_part(bent):
    X, y = bent
    model = MixtureOfExpertsRegressor(2, n_init=3, tol=1e-4, random_state=0).fit(X, y)
    one = MixtureOfExpertsRegressor(1, tol=1e-4).fit(X, y)
    assert model.corrected_log_evidence_ > one.corrected_log_evidence_ + 100
    mean, std = model.predict([[-1.0], [1.0]], return_std=True)
    np.testing.assert_allclose(mean, [-2.0, -1.0], atol=0.1)
    np.testing.assert_allclose(std, [0.05, 0.4], rtol=0.25)
    np.testing.assert_allclose(np.sort(model.noise_stds_[:, 0]), [0.05, 0.4], rtol=0.25)
    np.testing.assert_allclose(np.sort(model.expert_weights_[:, 0, 0]), [-1.0, 2.0], atol=0.1)
    assert model.score(X, y) > 0.9
    assert np.diff(model.objective_curve_).min() >= -MAX_RELATIVE_DECREASE * np.abs(model.objective_curve_).max()


@pytest.mark.parametrize("inference", ["vb", "ml"])
def test_the_spread_of_experts_that_disagree_is_that_of_the_outputs(inference):
    """Two flat lines that no gate can tell apart: their distance is most of the standard deviation."""
    rng = np.random.default_rng(0)
    x, side = rng.uniform(-1, 1, (300, 1)), rng.integers(0, 2, 300)
    y = np.where(side, 3.0, -3.0) + 0.3 * rng.normal(size=300)
    model = MixtureOfExpertsRegressor(2, inference=inference, n_init=3, tol=1e-4, random_state=0).fit(x, y)
    mean, std = model.predict([[-0.5], [0.5]], return_std=True)
    np.testing.assert_allclose(mean, y.mean(), atol=0.6)
    np.testing.assert_allclose(std, y.std(), rtol=0.05)


@pytest.mark.parametrize("inference", ["vb", "ml"])
@pytest.mark.parametrize("unit", [1.0, 10.0])
def test_the_score_on_held_out_rows_is_their_mean_log_density(inference, unit):
    """Outputs of one size and either sign: whichever rows are held out, their density is the same."""
    x, y = np.tile([[-1.0], [1.0], [1.0], [-1.0]], (100, 1)), unit * np.tile([1.0, 1.0, -1.0, -1.0], 100)
    model = MixtureOfExpertsRegressor(max_experts=1, inference=inference, random_state=0).fit(x, y)
    assert model.search_results_["score"][0] == pytest.approx(norm.logpdf(unit, 0.0, unit), abs=0.02)


def test_units_of_the_outputs(bent):
    X, y = bent
    options = dict(n_init=1, tol=1e-4, random_state=0)
    plain = MixtureOfExpertsRegressor(2, **options).fit(X, y)
    moved = MixtureOfExpertsRegressor(2, **options).fit(X, 1000 * y + 1e5)
    mean, std = plain.predict(X, return_std=True)
    mean_moved, std_moved = moved.predict(X, return_std=True)
    np.testing.assert_allclose(mean_moved, 1000 * mean + 1e5, atol=1000 * 0.03)
    np.testing.assert_allclose(std_moved, 1000 * std, rtol=0.05)
    assert moved.log_evidence_ == pytest.approx(plain.log_evidence_ - 300 * np.log(1000), abs=1.0)
    log_density = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    assert plain.log_evidence_ < log_density.sum() + 30  # in the units of y, whatever they are


def test_several_outputs_and_one_expert(rng):
    X = rng.normal(size=(400, 3))
    Y = X @ rng.normal(size=(3, 2)) + [1.0, -2.0] + 0.1 * rng.normal(size=(400, 2))
    model = MixtureOfExpertsRegressor(1).fit(X, Y)
    reference = LinearRegression().fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (400, 2)
    np.testing.assert_allclose(mean, reference.predict(X), atol=0.05)
    np.testing.assert_allclose(std, 0.1, rtol=0.3)
    by_likelihood = MixtureOfExpertsRegressor(1, inference="ml", tol=1e-8).fit(X, Y)
    np.testing.assert_allclose(by_likelihood.predict(X), reference.predict(X), atol=1e-3)
    assert model.predict(X[:3]).ndim == 2 and MixtureOfExpertsRegressor(1).fit(X, Y[:, 0]).predict(X[:3]).ndim == 1


def test_rows_without_output_are_dropped(bent):
    X, y = bent
    gaps = np.where(np.arange(300) % 5 == 0, np.nan, y)
    with pytest.warns(UserWarning, match="60 of 300 rows have no output"):
        model = MixtureOfExpertsRegressor(1, random_state=0).fit(X, gaps)
    kept = ~np.isnan(gaps)
    again = MixtureOfExpertsRegressor(1, random_state=0).fit(X[kept], y[kept])
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["vb", "ml"])
def test_outputs_that_do_not_vary(rng, inference):
    X = rng.normal(size=(12, 15))
    model = MixtureOfExpertsRegressor(2, inference=inference, n_init=1, max_iter=10, random_state=0)
    mean, std = model.fit(X, np.full(12, 3.0)).predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()


@pytest.mark.matrix
def test_fits_in_torch(moons, bent):
    torch = pytest.importorskip("torch")
    for cls, (X, y) in ((MixtureOfExpertsClassifier, moons), (MixtureOfExpertsRegressor, bent)):
        reference = cls(2, n_init=2, random_state=0).fit(X, y)
        with config_context(array_api_dispatch=True):
            model = cls(2, n_init=2, random_state=0).fit(torch.asarray(X), torch.asarray(y))
            output = model.predict(torch.asarray(X))
        assert isinstance(output, torch.Tensor)
        assert model.log_evidence_ == pytest.approx(reference.log_evidence_, abs=1.0)


@pytest.mark.parametrize(
    "cls, options, message",
    [
        (MixtureOfExpertsClassifier, {"n_experts": "few"}, "n_experts='few'; allowed are 'auto'"),
        (MixtureOfExpertsClassifier, {"n_experts": [2, 2]}, r"n_experts=\[2, 2\] has 2 entries"),
        (MixtureOfExpertsClassifier, {"n_experts": []}, r"n_experts=\[\] has 0 entries"),
        (MixtureOfExpertsClassifier, {"depth": 3}, "depth=3; allowed are 1"),
        (MixtureOfExpertsClassifier, {"depth": 1.0}, "depth=1.0; allowed are 1"),
        (MixtureOfExpertsRegressor, {"depth": 2.0}, "depth=2.0; allowed are 1"),
        (MixtureOfExpertsRegressor, {"depth": np.array([1, 2])}, r"depth=array\(\[1, 2\]\); allowed are 1"),
        (MixtureOfExpertsClassifier, {"n_experts": 1, "verbose": "no"}, "verbose='no'; allowed are"),
        (MixtureOfExpertsClassifier, {"n_experts": 1, "verbose": np.nan}, "verbose=nan; allowed are"),
        (MixtureOfExpertsRegressor, {"n_experts": 1, "verbose": [1]}, r"verbose=\[1\]; allowed are"),
    ],
)
def test_bad_options_are_named(moons, cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(**options).fit(*moons)


def test_bad_outputs_are_named(bent):
    X, y = bent
    with pytest.raises(ValueError, match="some outputs are NaN"):
        MixtureOfExpertsRegressor(1).fit(X, np.column_stack([y, np.where(y > 0, np.nan, y)]))
    with pytest.raises(ValueError, match="all its entries are NaN"):
        MixtureOfExpertsRegressor(1).fit(X, np.full(300, np.nan))
    with pytest.raises(ValueError, match="X has 300 rows"):
        MixtureOfExpertsRegressor(1).fit(X, y[:-1])
    with pytest.raises(ValueError, match="missing cells"):
        MixtureOfExpertsRegressor(1).fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match=r"y holds text \('high'\); allowed is a number"):
        MixtureOfExpertsRegressor(1).fit(X, ["high"] * 300)
    with pytest.raises(ValueError, match="y='high' is a string: pass the outputs themselves"):
        MixtureOfExpertsRegressor(1).fit(X, "high")
    for scalar in (3.0, np.float64(3.0)):
        with pytest.raises(ValueError, match="y=.*; allowed is a number"):
            MixtureOfExpertsRegressor(1).fit(X, scalar)


def test_outputs_that_overflow_are_named(bent):
    X, y = bent
    with pytest.raises(
        ValueError, match=r"y has values in output 1 whose squares overflow; allowed are values below 1e\+154"
    ):
        MixtureOfExpertsRegressor(1).fit(X, np.column_stack([y, 1e155 * y]))
    with pytest.raises(ValueError, match="y has values in output 0 whose squares, times sample_weight, overflow"):
        MixtureOfExpertsRegressor(1).fit(X, 1e100 * y, sample_weight=np.full(300, 1e150))
    with pytest.raises(ValueError, match=r"y has values .* allowed are values below 3e\+38"):
        MixtureOfExpertsRegressor(1).fit(X.astype(np.float32), 1e40 * y)
    large = MixtureOfExpertsRegressor(1).fit(X, 1e150 * y)
    np.testing.assert_allclose(large.predict(X) / 1e150, MixtureOfExpertsRegressor(1).fit(X, y).predict(X), rtol=1e-6)


def test_only_rounding_counts_as_constant(rng):
    x = np.linspace(-1, 1, 200)
    wave = np.round(256 * x) / 4096  # in steps that 1e12 + wave still resolves
    far = MixtureOfExpertsRegressor(1).fit(x[:, None], 1e12 + wave)
    assert far.output_scale_ == pytest.approx(wave.std(), rel=1e-2)
    np.testing.assert_allclose(far.predict(x[:, None]) - 1e12, wave, atol=1e-3)
    constant = MixtureOfExpertsRegressor(1).fit(x[:, None], np.full(200, 0.1) + 1e-17 * x)
    assert constant.output_scale_ == 1.0


@pytest.mark.parametrize(
    "inference, criterion", [("vb", "validation"), ("ml", "validation"), ("vb", "evidence"), ("ml", "bic")]
)
def test_the_table_is_in_the_units_of_y(bent, inference, criterion):
    X, y = bent  # times a power of two: standardized, the outputs are the same to the last bit
    options = dict(max_experts=2, inference=inference, criterion=criterion, n_init=1, max_iter=12, tol=1e-3)
    heard = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, larger = (
            MixtureOfExpertsRegressor(
                random_state=0, callback=lambda step, k=k: heard[k].append(step.value), **options
            ).fit(X, (1, 8)[k] * y)
            for k in (0, 1)
        )
    n_rows = 225 if criterion == "validation" else 300  # a quarter is held out
    rise = n_rows * np.log(8)
    for column, expected in {
        "log_likelihood": -rise,
        "log_evidence": -rise,
        "corrected_log_evidence": -rise,
        "bic": 2 * rise,
        "score": -np.log(8) if criterion == "validation" else -rise,
    }.items():
        gap = larger.search_results_[column] - plain.search_results_[column]
        if not (inference == "ml" and column.endswith("evidence")):
            np.testing.assert_allclose(gap, expected, rtol=1e-9)
    np.testing.assert_allclose(larger.objective_curve_ - plain.objective_curve_, -300 * np.log(8), rtol=1e-9)
    # steps are told in the units of the curve
    for model, values in zip((plain, larger), heard, strict=True):
        assert model.objective_curve_[-1] in np.array(values)


@pytest.mark.parametrize("inference", ["vb", "ml"])
@pytest.mark.parametrize("size", [1e-3, 1e-2, 1.0])
def test_noise_is_found_however_small(inference, size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    noise = size * rng.normal(size=1000)
    y = X @ [1.0, 2.0] + noise
    model = MixtureOfExpertsRegressor(1, inference=inference, random_state=0).fit(X, y)
    residual = y - LinearRegression().fit(X, y).predict(X)
    least = float(np.sqrt(np.mean(residual**2)))
    assert model.noise_stds_[0, 0] == pytest.approx(least, rel=1e-3 if inference == "ml" else 0.05)
    # the table's likelihood is that of the published point estimate
    mean = X @ model.expert_weights_[0, 0] + model.expert_intercepts_[0, 0]
    by_hand = norm.logpdf(y, mean, model.noise_stds_[0, 0]).sum()
    assert model.search_results_["log_likelihood"][0] == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize("size", [1e-4, 1e-3])
def test_a_linear_fit_converges_from_every_start(size):
    """One expert has one optimum: next to it slopes are steep, and what they promise is below the rounding of the value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, 2.0] + size * rng.normal(size=100)
    for seed in range(8):  # each has its own way to the end; a warning is an error here
        assert MixtureOfExpertsRegressor(1, inference="ml", random_state=seed).fit(X, y).converged_


@pytest.mark.matrix
def test_each_of_two_experts_finds_its_small_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 500)
    y = np.abs(x) + np.where(x < 0, 2e-3, 1e-2) * rng.normal(size=500)
    for inference in ("vb", "ml"):
        model = MixtureOfExpertsRegressor(2, inference=inference, n_init=2, random_state=0).fit(x[:, None], y)
        np.testing.assert_allclose(np.sort(model.noise_stds_[:, 0]), [2e-3, 1e-2], rtol=0.15)
        assert np.diff(model.objective_curve_).min() >= -MAX_RELATIVE_DECREASE * np.abs(model.objective_curve_).max()


@pytest.mark.filterwarnings("ignore:.*stopped before it converged")
@pytest.mark.parametrize("inference", ["vb", "ml"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predictions_far_out_have_a_spread(rng, inference, dtype):
    X = rng.normal(size=(100, 2)).astype(dtype)
    y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=100)
    model = MixtureOfExpertsRegressor(3, inference=inference, n_init=1, max_iter=20, random_state=0).fit(X, y)
    most = float(np.finfo(dtype).max)
    for direction in ([1, 1], [1, -1], [-1, 1], [0, 1]):
        far = np.array([10.0, most**0.5, most**0.65, 0.99 * most])[:, None] * np.array(direction)
        with np.errstate(all="ignore"):
            mean, std = model.predict(far.astype(dtype), return_std=True)
        assert not np.isnan(std).any() and (std > 0).all() and np.isfinite(mean[:-1]).all()
        # so far out the gates have reached their limit
        proba = model.expert_proba(far.astype(dtype))
        np.testing.assert_allclose(proba[1:], np.broadcast_to(proba[1], proba[1:].shape), atol=1e-4)


def test_only_positive_verbosity_is_heard(moons, capsys):
    for verbose, heard in ((-1, False), (0, False), (np.False_, False), (1, True), (True, True)):
        MixtureOfExpertsClassifier(1, verbose=verbose).fit(*moons)
        out = capsys.readouterr()
        assert bool(out.out + out.err) == heard


@pytest.mark.parametrize("averaging", list(AVERAGES))
def test_predictions_are_those_of_the_mixture_of_normals(averaging):
    """Mean, standard deviation and held-out score beside SciPy's, from disagreeing experts."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 200)
    y = np.where(rng.random(200) < 0.5, 5 + x, -5 - x) + 0.5 * rng.normal(size=200)  # gates that cannot tell
    options = dict(averaging=averaging, n_init=2, random_state=0)
    model = MixtureOfExpertsRegressor(2, **options).fit(x[:, None], y)
    probs = model.expert_proba(x[:, None])
    assert probs.min() > 0.2
    means = model.expert_weights_[:, 0, 0] * x[:, None] + model.expert_intercepts_[:, 0]
    stds = np.broadcast_to(model.noise_stds_[:, 0], means.shape)
    center = (probs * means).sum(axis=1)
    between = np.sqrt((probs * (stds**2 + (means - center[:, None]) ** 2)).sum(axis=1))
    mean, std = model.predict(x[:, None], return_std=True)
    # averages over the posterior of the weights add a little
    np.testing.assert_allclose(mean, center, atol=0.1)
    np.testing.assert_allclose(std, between, rtol=0.02)
    log_density = np.log((probs * norm.pdf(y[:, None], means, stds)).sum(axis=1))
    fitted, preprocessor, units = model._model
    rows = ArraySource(x[:, None], (y[:, None] - units.shift) / units.scale, None, preprocessor.prepare)
    score = fitted.log_scores(averaging, rows).mean() - units.log_unit
    assert score == pytest.approx(log_density.mean(), abs=0.01 if averaging != "plugin" else 1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("inference", ["vb", "ml"])
def test_a_step_has_the_model_as_it_is_then(moons, inference, standardize):
    """In the units in which the fitted model has its weights, whatever the solver works with."""
    X, y = moons[0] * [0.3, 5.0] + [7.0, -2.0], moons[1]
    last = []
    for cls in (MixtureOfExpertsClassifier, MultimodalSoftmaxClassifier):
        options = dict(inference=inference, standardize=standardize, ridge=0.1, n_init=1, max_iter=8, random_state=0)
        model = cls(2, callback=lambda step: last.append(step.params()) and False, **options).fit(X, y)
        end = model._model.fitted.point_estimate
        for a, b in zip(leaves(last[-1].point_estimate), leaves(end), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*rows have no output", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_without_outputs_are_absent_and_so_are_their_weights(rng):
    X = rng.normal(size=(40, 2))
    y, weight = np.abs(X[:, 0]) + 0.1 * rng.normal(size=40), rng.uniform(0.2, 3, 40)
    known = np.arange(40) % 5 != 0
    model = MixtureOfExpertsRegressor(1, max_iter=20, random_state=0)
    some = model.fit(X, np.where(known, y, np.nan), weight).predict(X)
    np.testing.assert_allclose(model.fit(X[known], y[known], weight[known]).predict(X), some, **EQUAL)


@pytest.mark.parametrize("cls", [MixtureOfExpertsClassifier, MixtureOfExpertsRegressor])
def test_a_callback_stops_the_search(cls, rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = cls(patience=0, n_init=1, criterion="bound", random_state=0, callback=lambda step: True).fit(X, y)
    assert model.search_results_["n_experts"] == [1] and model.stopping_reason_ == "stopped by the callback"
