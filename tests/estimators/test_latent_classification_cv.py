"""The wrapper search: what it tries, what it keeps, and that unlabeled rows stay in the training parts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold

from latentia import LatentClassificationModel
from latentia.estimators import latent_classification as restart_selection
from latentia.estimators import latent_classification_cv as size_search
from latentia.estimators.latent_classification_cv import LatentClassificationModelCV, Search, Setting, score_folds

X, y = load_iris(return_X_y=True)
QUICK = {"n_init": 2, "tol": 1e-2, "random_state": 0}
STEPS = {"n_init": 2, "tol": 0.0, "max_iter": 20, "random_state": 0}


def test_the_best_pair_is_fitted_on_all_rows():
    model = LatentClassificationModelCV([1, 2], [1, 2], search="exhaustive", cv=3, **QUICK).fit(X, y)
    table = model.search_results_
    assert len(table["n_latent"]) == 4
    best = np.lexsort((table["mean_log_loss"], -table["mean_accuracy"].round(10)))[0]
    assert (model.n_latent_, model.n_components_) == (table["n_latent"][best], table["n_components"][best])
    assert model.best_score_ == table["mean_accuracy"][best]
    assert model.transform(X).shape == (150, model.n_latent_)
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == model.get_feature_names_out().tolist()
    assert model.score(X, y) > 0.9
    assert clone(model).get_params()["n_latent"] == [1, 2]  # arguments are left as they are


def scored_by_hand(model, y, folds):
    """Of each fold: which of its test rows a model of its training rows knows, and their log losses.

    EM makes so many steps, since it would stop by the weight of all folds of a batch.
    """
    data = model._read_input(X, y, None)
    right, loss = [], []
    for train, test in folds:
        column = np.isin(np.arange(150), train)[:, None].astype(float)
        rng = np.random.default_rng(np.random.RandomState(model.random_state).randint(2**31 - 1))
        log_proba = model._train_columns(data, column, rng)[0].model.log_proba(X[test])
        right.append(log_proba.argmax(axis=1) == y[test])
        loss.append(-log_proba[np.arange(len(test)), y[test]])
    return right, loss


def candidate(n_latent):
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    own = {**STEPS, "random_state": seed, "unlabeled": -1, "unlabeled_weight": 1.0}
    return LatentClassificationModel(n_latent, kinds="continuous", inference="ml", **own)


@pytest.mark.filterwarnings("ignore:.*stopped before it converged")
def test_scores_are_those_of_the_folds():
    order = np.random.default_rng(1).permutation(150)
    folds = [(np.setdiff1d(order, test), test) for test in np.split(order, [20, 60])]  # a row counts as any other
    model = LatentClassificationModelCV([2], [1], cv=folds, **STEPS).fit(X, y)
    right, loss = scored_by_hand(candidate(2), y, folds)
    assert model.search_results_["mean_accuracy"][0] == pytest.approx(np.concatenate(right).mean())
    assert model.search_results_["mean_log_loss"][0] == pytest.approx(np.concatenate(loss).mean())
    assert model.search_results_["std_accuracy"][0] == pytest.approx(np.std([part.mean() for part in right]))
    assert model.search_results_["std_log_loss"][0] == pytest.approx(np.std([part.mean() for part in loss]))


@pytest.mark.parametrize("inference", ["ml", "vb"])
@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("kinds", ["continuous", ["continuous", "continuous", "categorical", "binary"]])
def test_a_fold_in_a_batch_is_that_fold_alone_and_does_not_see_the_labels_held_out(inference, n_components, kinds):
    rows = np.c_[X[:, :2], X[:, 2].astype(int), X[:, 3] > 1.3].astype(float)
    rows[::7, 0] = np.nan
    model = LatentClassificationModel(2, n_components, kinds=kinds, inference=inference, **QUICK)
    model.set_params(unlabeled_weight=1.0, n_init=1 if inference == "vb" else 2)
    folds = [(np.flatnonzero(np.arange(150) % 3 != k), np.flatnonzero(np.arange(150) % 3 == k)) for k in range(3)]
    data = model._read_input(rows, y, None)
    together = score_folds(model, data, folds)
    alone = score_folds(model, data, folds[1:2])[0]
    if inference == "ml":
        assert together[1][:3] == pytest.approx(alone[:3], rel=1e-6)
    elif n_components == 1:  # a posterior starts from the principal axes of all rows
        assert together[1][:3] == pytest.approx(alone[:3], rel=0.05)
    wrong = replace(data, codes=np.where(np.arange(150) % 3 == 1, (y + 1) % 3, y))
    mistaken = score_folds(model, wrong, folds[1:2])[0]
    assert mistaken.right < 0.2 and mistaken.log_loss > 1.5


@pytest.mark.matrix
def test_folds_in_one_batch_are_folds_one_after_the_other(monkeypatch):
    """Where one solution exists: one factor of the columns, of any start and units."""
    rng, codes = np.random.default_rng(0), np.arange(120) % 2
    rows = (rng.normal(size=120) + 2 * codes)[:, None] * [1.0, -2.0, 0.5, 30.0] + rng.normal(size=(120, 4))
    folds = list(KFold(3, shuffle=True, random_state=0).split(rows))
    model = LatentClassificationModel(1, 1, inference="ml", tol=1e-7, max_iter=5000, random_state=0)
    model.set_params(marginals="normal", ridge=0.0, unlabeled_weight=1.0)
    data = model._read_input(rows, codes, rng.uniform(1, 2, 120))
    batch = score_folds(model, data, folds)
    monkeypatch.setattr(size_search, "trains_in_columns", lambda model: False)
    for one, other in zip(batch, score_folds(model, data, folds), strict=True):
        assert one[:3] == pytest.approx(other[:3], rel=1e-4)
    assert 0.3 > batch[0].log_loss > 0.01  # neither certain nor lost


@pytest.mark.filterwarnings("ignore:.*stopped before it converged")
@pytest.mark.parametrize("masks", [False, True])
def test_given_folds_name_rows_of_the_table_also_beside_unlabeled_rows(masks):
    some = np.where(np.arange(150) % 3 == 0, -1, y)
    part = np.arange(150) // 7 % 2  # unlabeled rows lie in both parts
    rows = [(part != k, part == k) for k in range(2)]
    cv = rows if masks else [(np.flatnonzero(a), np.flatnonzero(b)) for a, b in rows]
    model = LatentClassificationModelCV([1], [1], cv=iter(cv), unlabeled=-1, unlabeled_weight=1.0, **STEPS).fit(X, some)
    folds = [(np.flatnonzero(train | (some < 0)), np.flatnonzero(test & (some >= 0))) for train, test in rows]
    _, loss = scored_by_hand(candidate(1), some, folds)
    assert model.search_results_["mean_log_loss"][0] == pytest.approx(np.concatenate(loss).mean())


def test_rows_of_weight_zero_are_in_no_part():
    """The only weighted row of a class is in a test part: its training part must do without the class."""
    weight = np.where(y == 2, 0.0, 1.0)
    weight[-1] = 1.0
    part = np.arange(150) % 3
    for folds in ([(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)], KFold(3)):
        model = LatentClassificationModelCV([1], [1], cv=folds, **QUICK).fit(X, y, sample_weight=weight)
        assert 0.9 < model.best_score_ < 1.0  # that row cannot be right


def test_no_number_of_folds_means_five():
    five, none = (LatentClassificationModelCV([1], [1], cv=cv, **QUICK).fit(X, y) for cv in (5, None))
    assert none.search_results_["mean_log_loss"][0] == five.search_results_["mean_log_loss"][0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_given_priors_are_those_of_the_final_fit_also_where_a_training_part_lacks_a_class(rng, monkeypatch):
    y = np.repeat([0, 1, 2], [12, 12, 6])
    X = rng.normal(size=(30, 3)) + y[:, None]
    folds = [(np.arange(24), np.arange(24, 30)), (np.arange(6, 30), np.arange(6))]
    priors = [0.5, 0.1, 0.4]
    options = {"priors": priors, "loss_matrix": 1 - np.eye(3)}  # both of all classes
    model = LatentClassificationModelCV([1], [1], cv=folds, **options, **QUICK | {"max_iter": 3}).fit(X, y)
    np.testing.assert_allclose(model.best_estimator_.priors_, priors)
    plain = LatentClassificationModelCV([1], [1], cv=folds, **QUICK | {"max_iter": 3}).fit(X, y)
    assert model.best_score_ == plain.best_score_  # folds are scored under the shares of their classes
    monkeypatch.setattr(size_search, "trains_in_columns", lambda model: False)
    assert model.fit(X, y).best_score_ == plain.fit(X, y).best_score_


def test_a_category_that_a_training_part_lacks_is_no_error(rng, monkeypatch):
    frames = pytest.importorskip("pandas")
    table = frames.DataFrame({"number": rng.normal(size=40), "text": np.array(list("abc"))[np.arange(40) % 3]})
    table.loc[5, "text"] = "once"
    classes = np.arange(40) % 2
    model = LatentClassificationModelCV([1], [1], cv=2, handle_unknown="error", **QUICK).fit(table, classes)
    with pytest.raises(ValueError, match="'never', which fit did not see"):  # the final model keeps to its word
        model.predict(table.assign(text="never"))
    monkeypatch.setattr(size_search, "trains_in_columns", lambda model: False)
    model.fit(table, classes)  # where each fold is a fit of its own, too


class Untouched:
    """Folds that nobody should ask for."""

    def split(self, X, y=None, groups=None):
        raise AssertionError("the search has begun")


@pytest.mark.parametrize(
    "wrong,message",
    [
        ({"priors": [0.5, 0.5]}, "priors has shape \\(2,\\)"),
        ({"priors": "equal"}, "priors='equal'"),
        ({"loss_matrix": np.ones((2, 2))}, "loss_matrix has shape \\(2, 2\\)"),
        ({"callback": 3}, "callback=3; allowed are None and a function of a step."),
    ],
)
def test_what_only_the_final_fit_uses_is_checked_before_the_search(wrong, message):
    with pytest.raises(ValueError, match=message):
        LatentClassificationModelCV([1], [1], cv=Untouched(), **QUICK, **wrong).fit(X, y)


def test_greedy_search_stops_when_more_factors_do_not_help():
    seen = []
    model = LatentClassificationModelCV(
        [1, 2, 3, 4, 5, 6, 7, 8], [1], cv=3, patience=1, callback=lambda t: seen.append(t) and False, **QUICK
    )
    model.fit(X, y)
    ranks = [t.rank("accuracy") for t in seen if hasattr(t, "rank")]
    assert 2 <= len(ranks) < 8
    assert ranks[-1] <= max(ranks[:-1]) and all(b > a for a, b in zip(ranks[:-2], ranks[1:-1], strict=True))


def test_limits_of_the_papers_hold():
    few = np.r_[0:6, 50:56, 100:106]
    model = LatentClassificationModelCV([2, 4, 12, 13], [1, 3, 5], cv=3, search="exhaustive", **QUICK).fit(
        X[few], y[few]
    )
    pairs = set(zip(model.search_results_["n_latent"], model.search_results_["n_components"], strict=True))
    assert pairs == {(2, 1), (2, 3), (2, 5), (4, 1), (4, 3), (12, 1)}  # q <= 4 columns x 3 classes, q m <= 12 rows


@pytest.mark.filterwarnings("ignore:y has a single class")
@pytest.mark.parametrize("n_latent, columns, classes", [(None, 1, 1), ([1, 2], 1, 1), (3, 4, 3), ([0], 4, 3)])
def test_components_are_tried_with_numbers_of_factors_that_are_allowed(n_latent, columns, classes):
    """Those given, and no more than columns x classes."""
    few = np.concatenate([np.arange(12) + 50 * c for c in range(classes)])
    model = LatentClassificationModelCV(n_latent, cv=2, **QUICK).fit(X[few, :columns], y[few])
    assert set(model.search_results_["n_latent"]) == ({1} if columns == 1 else set(np.ravel(n_latent).tolist()))
    assert 3 in set(model.search_results_["n_components"])


def test_unlabeled_rows_train_in_every_fold():
    some = np.where(np.arange(150) % 3 == 0, y, -1)
    model = LatentClassificationModelCV([1], [1], cv=2, unlabeled=-1, **QUICK).fit(X, some)
    assert model.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_row_of_weight_two_is_that_row_twice_in_training_and_in_the_scores(rng):
    rows = rng.permutation(150)[:60]
    noisy, labels, weight = X[rows] + rng.normal(size=(60, 4)), y[rows], rng.integers(0, 4, 60)
    again, part = np.repeat(np.arange(60), weight), np.arange(60) // 10 % 4 % 3  # folds of unequal sizes

    def folds(part):
        return [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)]

    options = dict(n_init=1, max_iter=15, tol=0.0, random_state=0)
    weighted = LatentClassificationModelCV([1, 2], [1], cv=folds(part), **options)
    repeated = LatentClassificationModelCV([1, 2], [1], cv=folds(part[again]), **options)
    weighted.fit(noisy, labels, sample_weight=weight)
    repeated.fit(noisy[again], labels[again])
    for name in ("mean_accuracy", "std_accuracy", "mean_log_loss", "std_log_loss"):
        np.testing.assert_allclose(
            weighted.search_results_[name], repeated.search_results_[name], rtol=1e-6, err_msg=name
        )


@pytest.mark.parametrize(
    "wrong,message",
    [
        ({"n_latent": []}, "n_latent=\\[\\]; allowed"),
        ({"n_components": [0]}, "n_components=0"),
        ({"n_latent": [13]}, "n_features \\* n_classes = 12"),
        ({"search": "random"}, "search='random'"),
        ({"scoring": "f1"}, "scoring='f1'"),
        ({"objective": []}, "objective=\\[\\]; allowed"),
        ({"objective": ["likelihood", "bic"]}, "objective='bic'"),
        ({"refit_n_init": 0}, "refit_n_init=0"),
        ({"cv": 1}, "cv=1"),
        ({"cv": 151}, "cv=151, but X has n_samples=150"),
        ({"cv": "five"}, "cv='five'; allowed"),
        ({"cv": []}, "cv=\\[\\] has no folds; allowed"),
        ({"cv": [([0, 50, 100], [])]}, "the test part of fold 0 has no labeled row"),
        ({"cv": [([0, 50, 100], [150])]}, "cv holds the row 150; allowed are 0 to 149"),
        ({"n_latent": [1, [2, 3]]}, "n_latent=\\[2, 3\\]; allowed is an integer >= 0"),
        ({"objective": ["likelihood", ["conditional"]]}, "objective=\\['conditional'\\]; allowed"),
    ],
)
def test_bad_grids_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        LatentClassificationModelCV(**{"n_latent": [1], "n_components": [1], **QUICK, **wrong}).fit(X, y)


@pytest.mark.matrix
def test_processes_give_the_same_result():
    one, two = (LatentClassificationModelCV([1, 2], [1], cv=2, n_jobs=n, **QUICK).fit(X, y) for n in (None, 2))
    np.testing.assert_allclose(one.search_results_["mean_accuracy"], two.search_results_["mean_accuracy"])


@pytest.mark.parametrize("scoring", ["accuracy", "log_loss"])
def test_the_objective_is_chosen_too(scoring):
    model = LatentClassificationModelCV(
        [1], [1], objective=["likelihood", "conditional"], cv=3, scoring=scoring, **QUICK
    )
    table = model.fit(X, y).search_results_
    assert list(table["objective"]) == ["likelihood", "conditional"]
    keys = [-table["mean_accuracy"].round(10), table["mean_log_loss"]]
    best = np.lexsort(keys[::-1] if scoring == "accuracy" else keys)[0]
    assert model.objective_ == table["objective"][best]
    plain = LatentClassificationModel(1, 1, inference="ml", objective=model.objective_, **QUICK).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X))


def test_mixed_tables_have_their_own_settings(rng):
    y = np.arange(60) % 2
    table = np.column_stack([rng.normal(size=60) + y, (rng.random(60) < 0.2 + 0.6 * y).astype(float)])
    model = LatentClassificationModelCV(cv=2, kinds={1: "binary"}, **QUICK).fit(table, y)
    tried = set(zip(*(model.search_results_[name] for name in ("n_latent", "n_components", "objective")), strict=True))
    assert {(0, 2, "likelihood"), (0, 2, "conditional"), (2, 1, "likelihood"), (2, 2, "likelihood")} <= tried
    assert (0, 1, "likelihood") not in tried and (2, 1, "conditional") not in tried
    best = int(np.argmin(model.search_results_["mean_log_loss"]))  # which decides where no paper does
    assert (model.n_latent_, model.objective_, model.ridge_) == tuple(
        model.search_results_[name][best] for name in ("n_latent", "objective", "ridge")
    )


def test_the_final_fit_may_have_its_own_number_of_starts():
    steps = []
    model = LatentClassificationModelCV(
        [2], [2], cv=2, refit_n_init=5, callback=lambda s: steps.append(s) and False, **QUICK
    )
    model.fit(X, y)
    assert max(step.n_running for step in steps if hasattr(step, "n_running")) == 5


class Leaky:
    """Finds the class in the first column, and is as sure of it as it is told to be."""

    def __init__(self, sure):
        self.sure = sure

    structure = "learn"  # so that its folds are fitted one after the other

    def fit(self, X, y, weight):
        self.classes_ = np.unique(y)
        return self

    def predict_log_proba(self, X):
        return np.log(np.where(X[:, :1] == self.classes_, self.sure, 1 - self.sure))


@pytest.mark.parametrize("scoring", ["accuracy", "log_loss"])
@pytest.mark.parametrize("best", [1, 2, 3])
def test_the_best_of_what_was_tried_is_refined_and_the_best_of_all_is_chosen(scoring, best):
    rows = SimpleNamespace(X=np.tile([[0.0], [1.0]], (6, 1)), codes=np.tile([0, 1], 6), weight=None, n_classes=2)
    folds = [(np.arange(6, 12), np.arange(6)), (np.arange(6), np.arange(6, 12))]
    search = Search(folds, scoring, None, None)
    settings = [Setting(q, 1, "likelihood", 0.3) for q in (1, 2, 3)]
    asked = []

    def refine(setting):
        asked.append(setting)
        return [setting._replace(n_components=m) for m in (2, 3)]

    def model_of(setting):
        return Leaky(0.6 + 0.2 * (setting.n_latent == best) + 0.1 * (setting.n_components == 2))

    trials = search.run([[s] for s in settings], model_of, rows, lambda trial: False, refine)
    assert asked == [settings[best - 1]]
    assert [t.setting for t in trials] == [*settings, *(asked[0]._replace(n_components=m) for m in (2, 3))]
    assert search.best(trials).setting == asked[0]._replace(n_components=2)


def test_the_mark_of_unlabeled_rows_is_none_of_the_codes_of_classes():
    """Models of the search see codes, among which the user's mark may be."""
    names = np.array([10, 20, 30])[y]
    plain = LatentClassificationModelCV([1], [1], objective=["likelihood", "conditional"], cv=3, **QUICK)
    marked = clone(plain).set_params(unlabeled=1)
    one, other = (model.fit(X, names).search_results_ for model in (plain, marked))
    np.testing.assert_array_equal(one["mean_log_loss"], other["mean_log_loss"])


@pytest.mark.parametrize(
    "patience, accuracies, n_tried",
    [
        (1, [0.5, 0.5, 0.9], 2),  # as good as before is no gain
        (2, [0.5, 0.3, 0.4, 0.9], 3),  # better than the last, but not than the best
        (2, [0.5, 0.3, 0.6, 0.3, 0.3, 0.9], 5),  # a gain starts the count again
        (1, [0.3, 0.1 + 0.2, 0.9], 2),  # equal but for rounding
        (None, [0.5, 0.4, 0.3, 0.2], 4),
    ],
)
def test_a_search_ends_after_so_many_sizes_without_a_gain(patience, accuracies, n_tried, monkeypatch):
    def score(setting, data, folds):
        return [size_search._FoldScore(accuracies[setting.n_latent], 1.0, 1.0, 0.0)]

    monkeypatch.setattr(size_search, "score_folds", score)
    groups = [[Setting(size, 1, "likelihood", 0.0)] for size in range(len(accuracies))]
    search = Search([], "accuracy", patience, None)
    trials = search.run(groups, lambda setting: setting, None, lambda trial: False, lambda best: [])
    assert len(trials) == n_tried and search.best(trials).mean_accuracy == pytest.approx(max(accuracies[:n_tried]))


def test_of_equal_settings_the_smallest_is_the_best_and_all_of_a_group_are_told(monkeypatch):
    losses = {(2, 1): 0.5, (1, 3): 0.5, (1, 2): 0.5, (0, 1): 0.7}

    def score(setting, data, folds):
        return [size_search._FoldScore(0.1 + 0.2 if setting.n_latent == 2 else 0.3, losses[setting[:2]], 1.0, 0.0)]

    monkeypatch.setattr(size_search, "score_folds", score)
    groups, told = [[Setting(*sizes, "likelihood", 0.0) for sizes in losses]], []

    def tell(trial):
        told.append(trial)
        return True

    search = Search([], "accuracy", None, None)
    trials = search.run(groups, lambda setting: setting, None, tell, lambda best: [])
    assert len(told) == 4  # also after one that ends the search
    assert search.best(trials)[:2] == (1, 2)


def test_a_class_that_a_fold_lacks_counts_as_hardly_possible():
    """And so does any other that was given next to no probability."""

    class Model:
        structure = "learn"  # so that its folds are fitted one after the other

        def fit(self, X, y, weight):
            self.classes_ = np.unique(y)

        def predict_log_proba(self, X):
            return np.tile([-0.1, other], (len(X), 1))

    codes = np.array([0, 2, 0, 2, 1, 0])
    data = SimpleNamespace(X=np.zeros((6, 1)), codes=codes, weight=None, n_classes=3)
    for other in (-3.0, -1e3):
        for seen, (own, loss) in {0: (True, 0.1), 1: (False, 50.0), 2: (False, min(-other, 50.0))}.items():
            test = np.flatnonzero(codes == seen)[-1:]
            (score,) = score_folds(Model(), data, [(np.array([0, 1, 2]), test)])
            assert (score.right, score.weight) == (own, 1.0) and score.log_loss == pytest.approx(loss)


def test_labels_that_are_held_out_have_no_say_in_what_is_predicted_of_them(rng):
    labels, test = rng.permutation(np.arange(60) % 3), np.arange(40, 60)
    rows = rng.normal(size=(60, 3)) + np.eye(3)[labels]
    model = LatentClassificationModel(1, 1, kinds="continuous", unlabeled_weight=1.0, max_iter=3, random_state=0)
    folds = [(np.arange(40), test), (np.arange(20, 60), np.arange(20))]
    found = []
    for codes in (labels, np.where(np.arange(60) < 40, labels, (labels + 1) % 3)):
        data = replace(model._read_input(rows, labels, None), codes=codes)
        found.append(size_search._fold_batch(model, data, folds))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-9)
    assert not np.allclose(found[1][1], found[0][1])  # where they train


def test_starts_that_are_equally_right_but_for_rounding_are_all_among_the_most_accurate(monkeypatch):
    weights = np.array([30.0, 30.0 - 1e-9, 29.5, 30.0 + 1e-9])
    monkeypatch.setattr(restart_selection, "correct_weight", lambda *args: weights)
    found = restart_selection.most_accurate_restarts(None, SimpleNamespace(params=None), None, None)
    assert found.tolist() == [0, 1, 3]
