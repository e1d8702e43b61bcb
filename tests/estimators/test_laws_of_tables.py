"""Laws of rows and columns that every public estimator obeys: weights, order, units, gaps, precision, hard tables."""

import numpy as np
import pytest
from estimator_cases import answer
from sklearn import config_context
from sklearn.base import clone, is_classifier
from threadpoolctl import threadpool_limits
from tolerances import EQUAL, REFIT, SINGLE, SUPPORT_POINTS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_a_row_of_weight_two_is_that_row_twice_and_one_of_weight_zero_is_absent(case, settled, data, y, rng):
    weight = rng.integers(0, 3, y.shape[0])
    again = np.repeat(np.arange(y.shape[0]), weight)
    weighted = clone(settled).fit(data.X, y, sample_weight=weight.astype(float))
    repeated = settled.fit(data.X[again], y[again])
    np.testing.assert_allclose(answer(weighted, data.X), answer(repeated, data.X), **REFIT)
    np.testing.assert_allclose(weighted.objective_curve_[-1], repeated.objective_curve_[-1], rtol=REFIT["rtol"])


@pytest.mark.estimators("learns unlabeled")
def test_weights_count_the_same_beside_unlabeled_rows(case, settled, data, y, rng):
    some = np.where(np.arange(y.size) % 4 == 0, -1, y)
    weight = rng.integers(0, 3, y.size)
    again = np.repeat(np.arange(y.size), weight)
    settled.set_params(unlabeled=-1)
    if "unlabeled_weight" in settled.get_params():
        settled.set_params(unlabeled_weight=0.3)
    weighted = clone(settled).fit(data.X, some, sample_weight=weight.astype(float))
    repeated = settled.fit(data.X[again], some[again])
    np.testing.assert_allclose(answer(weighted, data.X), answer(repeated, data.X), **REFIT)


@pytest.mark.estimators("learns unlabeled")
def test_unlabeled_rows_without_weight_are_absent_however_many(case, settled, data, y):
    settled.set_params(unlabeled=-1, max_iter=3)
    if "effort" in settled.get_params():
        settled.set_params(effort="balanced")  # which draws folds again where labels are few
    X, labels = np.r_[data.X, data.X[::-1], data.X], np.r_[y, np.full(90, -1)]
    plain = clone(settled).fit(data.X, y, sample_weight=np.ones(45))
    model = settled.fit(X, labels, sample_weight=np.r_[np.ones(45), np.zeros(90)])
    np.testing.assert_allclose(answer(model, data.X), answer(plain, data.X), **REFIT)


def test_the_order_of_the_rows_does_not_matter(case, settled, data, y, fits, rng):
    order = rng.permutation(y.shape[0])
    np.testing.assert_allclose(
        answer(settled.fit(data.X[order], y[order]), data.X), answer(fits(case, "settled"), data.X), **REFIT
    )


def test_the_order_of_the_columns_does_not_matter(case, settled, data, y, fits):
    X = data.X[:, [2, 0, 3, 1]]
    np.testing.assert_allclose(answer(settled.fit(X, y), X), answer(fits(case, "settled"), data.X), **REFIT)


@pytest.mark.estimators("classifier")
def test_the_order_of_the_classes_does_not_matter(case, settled, data, y, fits):
    plain = fits(case, "settled")
    model = settled.fit(data.X, np.array(["c", "b", "a"])[y])  # sorted the other way round
    by_points = hasattr(model, "corrected_log_evidence_")  # sums over points, which differ from class to class
    np.testing.assert_allclose(
        answer(model, data.X)[:, ::-1], answer(plain, data.X), **(SUPPORT_POINTS if by_points else REFIT)
    )
    np.testing.assert_allclose(model.objective_curve_[-1], plain.objective_curve_[-1], rtol=REFIT["rtol"])


@pytest.mark.estimators("multilabel")
def test_the_order_of_the_labels_does_not_matter(case, settled, data, y, fits):
    model = settled.fit(data.X, y[:, ::-1])
    np.testing.assert_allclose(answer(model, data.X)[:, ::-1], answer(fits(case, "settled"), data.X), **REFIT)


UNITS, ORIGIN = np.array([3e-9, 7e5, 11.0, 3.0]), np.array([1e-8, -1e7, 0.0, 5.0])


def test_the_units_of_the_columns_do_not_matter(case, settled, data, y, fits):
    X = data.X * UNITS + ORIGIN
    model, plain = settled.fit(X, y), fits(case, "settled")
    np.testing.assert_allclose(answer(model, X), answer(plain, data.X), **REFIT)
    if hasattr(model, "impute"):
        gaps = np.where(np.eye(4, dtype=bool)[np.arange(45) % 4], np.nan, data.X)
        np.testing.assert_allclose(model.impute(gaps * UNITS + ORIGIN), plain.impute(gaps) * UNITS + ORIGIN, rtol=1e-6)


@pytest.mark.estimators("generative")
def test_densities_are_in_the_units_of_the_columns(case, settled, data, y, fits):
    scale = np.array([4.0, 0.5, 8.0, 1.0])  # the last column may be one of categories, which have no unit
    model = settled.fit(data.X * scale, y)
    for what in ("score_samples", "predict_joint_log_proba"):
        moved, plain = getattr(model, what)(data.X * scale), getattr(fits(case, "settled"), what)(data.X)
        np.testing.assert_allclose(moved, plain - np.log(scale).sum(), **REFIT)
    rows = len(y) * np.log(scale).sum()
    if model.get_params()["objective"] in ("likelihood", None):
        np.testing.assert_allclose(
            model.objective_curve_, fits(case, "settled").objective_curve_ - rows, rtol=REFIT["rtol"]
        )


def test_what_is_said_of_a_row_depends_on_no_other_row(case, data, fits):
    model = fits(case, "quick")
    alone = [answer(model, data.X[k : k + 1]) for k in range(5)]
    np.testing.assert_allclose(np.concatenate(alone), answer(model, data.X)[:5], **EQUAL)


def test_chunks_and_threads_change_nothing(case, brief, data, y, fits, monkeypatch):
    """Rows in many chunks, kept or read again in every pass; sums are added in the order of the chunks, whoever is first."""
    said = []
    with config_context(working_memory=0.05), threadpool_limits(1):
        for threads, kept in (("1", 64), ("2", 64), ("2", 0)):
            monkeypatch.setenv("OMP_NUM_THREADS", threads)
            monkeypatch.setattr("latentia.engine.rows.CACHE_MIB", kept)
            said.append(answer(clone(brief).fit(data.X, y), data.X))
    np.testing.assert_array_equal(said[1], said[0])
    np.testing.assert_allclose(said[2], answer(fits.brief(case), data.X), **REFIT)
    np.testing.assert_allclose(said[0], answer(fits.brief(case), data.X), **REFIT)


# ---------------------------------------------------------------- gaps
@pytest.mark.estimators("refuses gaps")
def test_gaps_are_refused_by_a_word_on_who_takes_them(case, quick, data, y, fits):
    gaps = data.X.copy()
    gaps[3, 1] = np.nan
    for ask in (lambda: quick.fit(gaps, y), lambda: fits(case, "quick").predict(gaps)):
        advice = "GaussianMixtureClassifier or LatentClassificationModel" if is_classifier(quick) else "SimpleImputer"
        with pytest.raises(ValueError, match=f"missing cells.*{advice}"):
            ask()


@pytest.mark.estimators("takes gaps")
def test_a_row_without_any_cell_gets_the_priors(case, data, fits):
    model = fits(case, "quick")
    np.testing.assert_allclose(model.predict_proba(np.full((1, 4), np.nan))[0], model.priors_, **EQUAL)


@pytest.mark.estimators("takes gaps")
def test_a_gap_is_no_value(case, settled, data, y, rng):
    """A gap in a row that weighs next to nothing, or nothing, fits as without that row."""
    gaps = np.r_[data.X, data.X[:2]]
    gaps[-2:, 1] = np.nan
    labels = np.r_[y, y[:2]]
    plain = answer(clone(settled).fit(data.X, y, sample_weight=np.ones(45)), data.X)
    for least in (0.0, 1e-9):
        model = clone(settled).fit(gaps, labels, sample_weight=np.r_[np.ones(45), least, least])
        np.testing.assert_allclose(answer(model, data.X), plain, **REFIT)


@pytest.mark.estimators("takes gaps", "generative")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gaps_in_a_class_of_next_to_no_weight_are_seen(case, settled, data, y, dtype):
    """What is learned of a class does not depend on its weight, once the others outweigh it."""
    gaps = data.X.astype(dtype)
    gaps[np.flatnonzero(y == 2)[:5], 1] = np.nan
    densities = []
    for least in (1e-6, 1e-9):
        model = clone(settled).set_params(max_iter=5, tol=0.0)
        model.fit(gaps, y, sample_weight=np.where(y == 2, least, 1.0))
        densities.append(model.predict_joint_log_proba(data.X.astype(dtype)) - np.log(model.priors_))
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float64 else SINGLE
    np.testing.assert_allclose(densities[1], densities[0], **near)


@pytest.mark.estimators("takes gaps")
def test_gaps_are_counted_by_the_weight_of_their_rows(case, settled, data, y, rng):
    weight = rng.integers(0, 3, y.size)
    again = np.repeat(np.arange(y.size), weight)
    gaps = np.where(rng.random(data.X.shape) < [0.0, 0.1, 0.3, 0.2], np.nan, data.X)
    settled.set_params(max_iter=2)
    weighted = clone(settled).fit(gaps, y, sample_weight=weight.astype(float))
    repeated = settled.fit(gaps[again], y[again])
    shares = np.isnan(gaps[again]).mean(axis=0)
    for model in (weighted, repeated):
        np.testing.assert_allclose(model.training_record_["missing"], shares, **EQUAL)


@pytest.mark.estimators("takes gaps")
def test_a_column_without_values_is_ignored_and_said_to_be(case, settled, data, y, fits):
    wide = np.column_stack([data.X[:, :2], np.full(45, np.nan), data.X[:, 2:]])
    plain = fits(case, "settled")
    with pytest.warns(UserWarning, match="Column 2 has no known value and is ignored"):
        model = settled.fit(wide, y)
    np.testing.assert_allclose(answer(model, wide), answer(plain, data.X), **REFIT)
    assert model.bic(wide, y) == pytest.approx(plain.bic(data.X, y), rel=REFIT["rtol"])
    np.testing.assert_allclose(model.impute(wide)[:, 2], 0, atol=1e-12)
    filled = np.column_stack([wide[:, :2], np.linspace(-3, 9, 45), wide[:, 3:]])  # where the model knows nothing of it
    np.testing.assert_allclose(answer(model, filled), answer(model, wide), **EQUAL)
    np.testing.assert_allclose(model.score_samples(filled), model.score_samples(wide), **EQUAL)


@pytest.mark.estimators("takes gaps")
def test_completion_fills_the_gaps_and_nothing_else(case, data, fits, rng):
    model = fits(case, "quick")
    gaps = np.where(rng.random(data.X.shape) < 0.2, np.nan, data.X)
    full = model.impute(gaps)
    assert np.isfinite(full).all()
    np.testing.assert_array_equal(full[~np.isnan(gaps)], gaps[~np.isnan(gaps)])


# ---------------------------------------------------------------- precision
#: Learned attributes that are counted on the host, in double precision.
ON_HOST = {"objective_curve_", "restart_objectives_", "output_shift_", "output_scale_"}


def test_single_precision_stays_single_and_near_double(case, settled, data, y, fits):
    X = data.X.astype(np.float32)
    model = settled.fit(X, y)
    said = answer(model, X)
    assert said.dtype == np.float32
    np.testing.assert_allclose(said, answer(fits(case, "settled"), data.X), **SINGLE)
    for what in ("predict_log_proba", "score_samples", "transform", "impute"):
        if hasattr(model, what):
            assert getattr(model, what)(X).dtype == np.float32, what
    if hasattr(model, "sample"):
        assert model.sample(3)[0].dtype == np.float32
    learned = vars(getattr(model, "best_estimator_", model)).items()  # a search holds a model
    public = {name: a for name, a in learned if name.endswith("_") and name not in ON_HOST}
    dtypes = {name: a.dtype for name, a in public.items() if isinstance(a, np.ndarray) and a.dtype.kind == "f"}
    assert dtypes and set(dtypes.values()) == {np.dtype(np.float32)}, dtypes


def test_single_precision_is_safe_far_from_zero(case, brief, data, y):
    far = ((data.X - data.X.mean(axis=0)) / data.X.std(axis=0)).astype(np.float32)[:, :3] + np.float32(1e4)
    single = clone(brief).fit(far, y)
    double = brief.fit(far.astype(np.float64), y)
    np.testing.assert_allclose(answer(single, far), answer(double, far.astype(np.float64)), atol=0.02)


# ---------------------------------------------------------------- hard tables
def table_of(kind, rng):
    X = rng.normal(size=(12, 4))
    if kind == "more columns than rows":
        X = rng.normal(size=(12, 15))
        X[:, 5] = X[:, 6]
    elif kind == "a constant column":
        X[:, 1] = 7.0
    elif kind == "the same row again and again":
        X = np.repeat(X[:3], 4, axis=0)
    elif kind == "large units":
        X = X * 1e9
    elif kind == "small units":
        X = X * 1e-12
    return X


@pytest.mark.parametrize(
    "kind",
    [
        "one row of a class",
        "more columns than rows",
        "a constant column",
        "the same row again and again",
        "large units",
        "small units",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_hard_tables_work(case, quick, kind, rng):
    X = table_of(kind, rng)
    classes = np.array([0] * 6 + [1] * 5 + [2])
    if kind == "the same row again and again":
        classes = np.repeat([0, 1, 2], 4)
    y = {
        "classes": classes,
        "numbers": X[:, 0] * 1e3,
        "labels": np.column_stack([classes == 1, classes < 1]).astype(int),
    }
    model = quick.set_params(n_init=1, max_iter=4).fit(X, y[case.target])
    said = answer(model, X)
    assert np.isfinite(said).all() and np.isfinite(model.objective_curve_).all()
    if is_classifier(model) and case.target == "classes":
        np.testing.assert_allclose(said.sum(axis=1), 1.0, rtol=1e-6)
    if hasattr(model, "sample"):
        assert np.isfinite(model.sample(5)[0]).all() and np.isfinite(model.score_samples(X)).all()


@pytest.mark.estimators("classifier")
def test_a_single_class_is_certain(case, quick, data):
    with pytest.warns(UserWarning, match="y has a single class, 1: every row will be predicted to be of it"):
        quick.fit(data.X, np.ones(45, int))
    np.testing.assert_allclose(quick.predict_proba(data.X), 1.0, rtol=1e-12)
    record = quick.training_record_
    assert (record["n_rows"], record["label_counts"], record["n_unlabeled"]) == (45, [45], 0)
