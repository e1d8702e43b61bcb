"""Laws of the paper's small baselines and of the data loaders."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import check_estimator

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts, not a package
b, discrete, data = (importlib.import_module(name) for name in ("baselines", "discrete_baselines", "data"))
pytestmark = pytest.mark.matrix
NAMES = ["NB", "NB/M", "NB/D", "TAN/D", "TAN+/D", "k-NN", "FA/BIC", "PCA/λ", "PCA/n", "CW/PCA/n", "CG/PCA/n"]


def test_names_and_order_are_the_papers():
    assert list(b.baselines()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_is_an_estimator_that_learns_string_labels(name):
    X, codes = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[codes]
    model = clone(b.baselines()[name]).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.85
    probability = model.predict_proba(X[1::2])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probability.argmax(axis=1)], model.predict(X[1::2]))


@pytest.mark.parametrize("name", NAMES)
def test_one_row_classes_constant_columns_and_few_rows_give_finite_probabilities(name):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((12, 3)), np.ones(12), np.arange(12) % 2])
    y = np.array([0] * 6 + [1] * 5 + [2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mixtures on columns of one or two values
        assert np.all(np.isfinite(b.baselines()[name].fit(X, y).predict_proba(X)))


@pytest.mark.parametrize(
    "estimator",
    [
        b.MDLDiscretizer(),
        b.LargeComponents(),
        b.LeaveOneOutNeighbors(),  # the other classifiers share its base class
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_conventions_hold(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_mdl_cuts_a_clean_step_once_and_in_the_middle():
    x = np.concatenate([np.arange(30.0), np.arange(40.0, 70.0)])
    assert discrete.mdl_cuts(x, (x > 35).astype(int)) == [34.5]


def test_mdl_finds_two_cuts_of_three_bands_and_none_in_noise():
    x = np.arange(90.0)
    assert sorted(discrete.mdl_cuts(x, (x // 30).astype(int) % 2)) == [29.5, 59.5]
    rng = np.random.default_rng(0)
    found = [len(discrete.mdl_cuts(x, rng.integers(0, 2, 90))) for _ in range(50)]
    assert np.mean(found) < 0.1


def test_mdl_accepts_exactly_when_the_gain_exceeds_the_description():
    """n rows of two classes, each pure on its side: gain 1 bit, against the published threshold."""
    for n in range(2, 20, 2):
        codes = np.arange(n) // (n // 2)
        delta = np.log2(3**2 - 2) - (2 * 1.0 - 0.0)
        expected = 1.0 > (np.log2(n - 1) + delta) / n
        assert (len(discrete.mdl_cuts(np.arange(float(n)), codes)) == 1) == expected


def test_mdl_never_cuts_between_equal_values_and_ignores_row_order():
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 6, 300).astype(float), rng.integers(0, 3, 300)
    y = np.where(x > 2, y, 0)
    cuts = np.sort(discrete.mdl_cuts(x, y))
    order = rng.permutation(300)
    np.testing.assert_array_equal(cuts, np.sort(discrete.mdl_cuts(x[order], y[order])))
    assert cuts.size and np.all(cuts % 1 == 0.5)
    codes = b.MDLDiscretizer().fit(x[:, None], y).transform(x[:, None])[:, 0]
    assert all(len(set(codes[x == value])) == 1 for value in range(6))


def _tree_data(n_rows, rng):
    """Class and a chain x0 - x1 - x2 - x3 whose links, not margins, depend on the class."""
    y = rng.integers(0, 2, n_rows)
    x = [rng.integers(0, 2, n_rows)]
    for _ in range(3):
        flip = rng.random(n_rows) < np.where(y == 1, 0.8, 0.2)
        x.append(np.where(flip, 1 - x[-1], x[-1]))
    return np.stack(x, axis=1), y


def test_tan_finds_the_tree_and_beats_naive_bayes_on_it():
    rng = np.random.default_rng(0)
    X, y = _tree_data(3000, rng)
    test, labels = _tree_data(3000, rng)
    tan = b.TreeAugmentedNaiveBayes().fit(X, y)
    assert tan.parents_.tolist() == [-1, 0, 1, 2]
    bayes = 0.8**3 + 3 * 0.8**2 * 0.2  # three links vote
    assert tan.score(test, labels) == pytest.approx(bayes, abs=0.02)
    assert CategoricalNB().fit(X, y).score(test, labels) < 0.65


def test_tan_tables_are_conditional_distributions_with_the_stated_smoothing():
    X, y = _tree_data(200, np.random.default_rng(1))
    tan = b.TreeAugmentedNaiveBayes(smoothing=5).fit(X, y)
    for table in tan.tables_:
        np.testing.assert_allclose(np.exp(table).sum(axis=-1), 1.0)
    above, own = (y == 1) & (X[:, 1] == 0), X[:, 2] == 1  # x2 has the parents class and x1
    expected = (np.sum(above & own) + 5 * own.mean()) / (np.sum(above) + 5)
    assert np.exp(tan.tables_[2][1, 0, 1]) == pytest.approx(expected)
    plain = b.TreeAugmentedNaiveBayes(smoothing=0).fit(X, y)
    assert np.exp(plain.tables_[2][1, 0, 1]) == pytest.approx(np.sum(above & own) / np.sum(above))


def test_tan_on_one_attribute_is_naive_bayes_and_refuses_what_is_not_a_code():
    X, y = _tree_data(100, np.random.default_rng(2))
    one = b.TreeAugmentedNaiveBayes(smoothing=0).fit(X[:, :1], y).predict_proba(X[:, :1])
    np.testing.assert_allclose(
        one, CategoricalNB(alpha=1e-10, force_alpha=True).fit(X[:, :1], y).predict_proba(X[:, :1])
    )
    with pytest.raises(ValueError, match="codes 0, 1, 2"):
        b.TreeAugmentedNaiveBayes().fit(X + 0.5, y)


def test_mixture_naive_bayes_with_one_component_is_naive_bayes():
    X, y = load_iris(return_X_y=True)
    one = b.MixtureNaiveBayes(max_components=1, var_floor=0.0).fit(X, y)
    np.testing.assert_allclose(
        one.predict_proba(X), GaussianNB(var_smoothing=0.0).fit(X, y).predict_proba(X), atol=1e-9
    )


def test_mixture_naive_bayes_chooses_two_bumps_where_there_are_two():
    rng = np.random.default_rng(0)
    bumps = np.where(rng.random(300) < 0.5, -3.0, 3.0) + rng.standard_normal(300)
    X = np.column_stack([bumps, rng.standard_normal(300)])
    y = np.arange(300) % 2
    model = b.MixtureNaiveBayes(random_state=0).fit(X, y)
    assert [[m.n_components for m in row] for row in model.mixtures_] == [[2, 1], [2, 1]]


def test_pca_n_on_uncorrelated_columns_is_naive_bayes():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = rng.standard_normal((400, 3)) * [1.0, 2.0, 3.0] + y[:, None] * [0.0, 0.0, 1.0]
    X = (X - X.mean(axis=0)) @ np.linalg.eigh(np.cov(X.T))[1]  # now exactly uncorrelated
    X = X / X.std(axis=0) * [3.0, 2.0, 1.0]
    pca = b.make_pipeline(b.PCA(), GaussianNB()).fit(X, y)
    np.testing.assert_allclose(pca.predict_proba(X), GaussianNB().fit(X, y).predict_proba(X), atol=1e-6)


def test_classwise_components_are_full_gaussians():
    X, y = load_iris(return_X_y=True)
    ours = b.ClasswiseComponents(var_floor=0.0).fit(X, y)
    joint = [
        multivariate_normal(X[y == c].mean(axis=0), np.cov(X[y == c].T, bias=True)).logpdf(X) - np.log(3)
        for c in range(3)
    ]
    np.testing.assert_allclose(ours.predict_log_proba(X), log_softmax(np.stack(joint, axis=1), axis=1), atol=1e-8)


def test_clusterwise_components_with_one_cluster_are_naive_bayes_on_its_axes():
    X, y = load_iris(return_X_y=True)
    model = b.ClusterwiseComponents(max_clusters=1).fit(X, y)
    Z = X @ model.axes_[0]
    expected = GaussianNB(var_smoothing=1e-3).fit(Z, y).predict_proba(Z)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)
    correlation = np.corrcoef(Z.T)
    np.testing.assert_allclose(correlation, np.eye(4), atol=0.05)


def test_large_components_keep_those_of_at_least_mean_variance():
    X = np.random.default_rng(0).standard_normal((500, 4)) * [3.0, 2.0, 0.5, 0.1]
    variances = np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1]
    assert b.LargeComponents().fit(X).transform(X).shape[1] == np.sum(variances >= variances.mean()) == 2


def test_factor_analysis_by_bic_finds_the_number_of_factors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 6)) + 0.5 * rng.standard_normal((500, 6))
    assert b.FactorsByBIC().fit(X).transform(X).shape[1] == 2


def test_neighbors_are_counted_by_leave_one_out():
    X, y = make_classification(60, 4, random_state=0)
    model = b.LeaveOneOutNeighbors(max_neighbors=9).fit(X, y)
    scores = [cross_val_score(KNeighborsClassifier(k), X, y, cv=LeaveOneOut()).mean() for k in range(1, 10)]
    assert model.n_neighbors_ == 1 + int(np.argmax(scores))


def test_data_without_a_folder_say_what_to_set(monkeypatch, tmp_path):
    monkeypatch.delenv("LATENTIA_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="crabs has no copy.*LATENTIA_DATA"):
        data.load("crabs")
    with pytest.raises(FileNotFoundError, match="mnist.npz.*LATENTIA_DATA"):
        data.load("mnist")
    monkeypatch.setenv("LATENTIA_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="iris.csv.gz is not in"):
        data.load("iris")
    monkeypatch.setenv("LATENTIA_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="must name a folder"):
        data.load("iris")
    with pytest.raises(ValueError, match="name must be one of .*'iris'"):
        data.load("irises")


def test_tables_are_read_with_gaps_labels_as_text_and_kinds(monkeypatch, tmp_path):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setenv("LATENTIA_DATA", str(tmp_path))
    monkeypatch.setitem(data.TABLES, "heart-cleveland", data.Shape(3, 3, 2))
    frame = pandas.DataFrame({"age": [63.5, None, 40], "sex": [1, 0, 1], "cp": [1, 2, None], "class": ["0", "2", "0"]})
    frame.to_csv(tmp_path / "heart-cleveland.csv.gz", index=False)
    table = data.load("heart-cleveland")
    assert table.y.tolist() == ["0", "2", "0"] and table.kinds == ("continuous", "binary", "categorical")
    X, _ = data.load_numbers("heart-cleveland")
    assert np.isnan(X).sum() == 2
    frame[:2].to_csv(tmp_path / "heart-cleveland.csv.gz", index=False)
    with pytest.raises(ValueError, match=r"\(3, 3, 2\), the copy has \(2, 3, 2\)"):
        data.load("heart-cleveland")


def test_tables_come_from_openml_when_no_folder_is_set(monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.delenv("LATENTIA_DATA", raising=False)
    asked = []

    def fetch(data_id, as_frame, return_X_y):
        asked.append(data_id)
        X, y = load_iris(as_frame=True, return_X_y=True)
        return X, y

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    table = data.load("iris")
    assert asked == [61] and isinstance(table.X, pandas.DataFrame) and set(table.y) == {"0", "1", "2"}


def test_arrays_with_published_splits_are_read(monkeypatch, tmp_path):
    monkeypatch.setenv("LATENTIA_DATA", str(tmp_path))
    X, y = np.arange(8.0).reshape(4, 2), np.array([-1, 1, 1, -1], dtype=np.int8)
    rows = {"train_idx": np.array([[0, 1]]), "test_idx": np.array([[2, 3]])}
    np.savez(tmp_path / "ida_banana.npz", X=X, y=y, split_number=[1], **rows)
    split = data.load("ida_banana")
    np.testing.assert_array_equal(split.X[split.test[0]], X[2:])
    images = {"X_train": X[:3].astype(np.int16), "X_test": X[3:].astype(np.int16), "y_train": [1, 2, 3], "y_test": [4]}
    np.savez(tmp_path / "usps.npz", scale=0.5, **images)
    split = data.load("usps")
    np.testing.assert_allclose(split.X[split.test], X[3:] / 2)
    assert split.y[split.train].tolist() == [1, 2, 3]


def test_standardize_uses_the_training_part_keeps_gaps_and_survives_constants():
    rng = np.random.default_rng(0)
    train, other = rng.normal(5, 3, (50, 3)), rng.normal(5, 3, (10, 3))
    train[:, 2] = other[:, 2] = 7.0
    train[0, 0] = np.nan
    a, c = data.standardize(train, other)
    np.testing.assert_allclose(np.nanmean(a, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(a, axis=0), [1.0, 1.0, 0.0])
    np.testing.assert_allclose(c[:, 1], (other[:, 1] - train[:, 1].mean()) / train[:, 1].std())
    assert np.isnan(a[0, 0]) and np.isnan(a).sum() == 1
