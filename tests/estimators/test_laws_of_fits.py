"""Laws of a fit that every public estimator obeys: options, callbacks, restarts, refits, failures, copies, frames, searches."""

import inspect
import pickle

import numpy as np
import pytest
from estimator_cases import CASES, MixedLCM, answer, public_estimators
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted
from tolerances import EQUAL, MAX_RELATIVE_DECREASE, REFIT

few_steps = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_no_public_estimator_is_left_out():
    quick, settled = ({type(getattr(case, which)) for case in CASES} for which in ("quick", "settled"))
    assert quick == settled == public_estimators() | {MixedLCM}


# ---------------------------------------------------------------- options
def test_every_bad_option_is_named_with_its_value_and_what_is_allowed(case, data, y):
    for name in case.quick.get_params():
        with pytest.raises(ValueError, match=rf"{name}='nonsense'; (allowed|expected)"):
            clone(case.quick).set_params(**{name: "nonsense"}).fit(data.X, y)


def test_every_bad_option_of_a_method_is_named(case, data, y, fits):
    """But switches, which are true or false of any value, and scikit-learn's own names."""
    model, given = fits(case, "quick"), {"X": data.X, "y": y}
    for name, method in inspect.getmembers(type(model), callable):
        if name.startswith(("_", "set_", "fit", "partial_fit", "save", "get_")):
            continue
        options = {p.name: p.default for p in list(inspect.signature(method).parameters.values())[1:]}
        needed = [
            n for n, default in options.items() if default is inspect.Parameter.empty or n == "y" and name == "score"
        ]
        for option in set(options) - {*needed, "return_std", "return_cov"}:
            with pytest.raises((ValueError, TypeError), match=option):
                getattr(model, name)(**{n: given[n] for n in needed}, **{option: "nonsense"})


@pytest.mark.estimators("streams")
def test_a_stream_names_bad_options_as_a_fit_does(case, data, y):
    for name in case.quick.get_params():
        model = clone(case.quick).set_params(objective="likelihood").set_params(**{name: "nonsense"})
        with pytest.raises(ValueError, match=rf"{name}='nonsense'; (allowed|expected)"):
            model.partial_fit(data.X, y, np.unique(y))


def test_every_number_has_bounds_or_a_type(case, data, y):
    numbers = [k for k, v in case.quick.get_params().items() if isinstance(v, int | float) and not isinstance(v, bool)]
    assert {"max_iter", "tol", "n_init"} <= set(numbers)
    for name in set(numbers) - {"verbose"}:  # negative verbosity is silence
        for wrong in (-1, np.nan):
            with pytest.raises(ValueError, match=rf"{name}={wrong}; (allowed|expected)"):
                clone(case.quick).set_params(**{name: wrong}).fit(data.X, y)


@few_steps
def test_a_fit_changes_no_argument(case, quick, data, y):
    X, labels, weight = data.X.copy(), y.copy(), np.ones(45)
    before = pickle.dumps(quick.get_params())
    quick.set_params(max_iter=2).fit(X, labels, sample_weight=weight)
    assert pickle.dumps(quick.set_params(max_iter=case.quick.max_iter).get_params()) == before
    for now, then in ((X, data.X), (labels, y), (weight, np.ones(45))):
        np.testing.assert_array_equal(now, then)


# ---------------------------------------------------------------- copies
def test_a_pickled_model_says_the_same_and_a_clone_has_learned_nothing(case, data, fits):
    model = fits(case, "quick")
    np.testing.assert_array_equal(answer(pickle.loads(pickle.dumps(model)), data.X), answer(model, data.X))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(model))
    with pytest.raises(NotFittedError):
        clone(model).predict(data.X)


@pytest.mark.parametrize(
    "model", sorted(public_estimators(), key=lambda cls: cls.__name__), ids=lambda cls: cls.__name__
)
def test_nothing_is_answered_before_a_fit(model, data):
    """All methods but those that fit or set something; attributes are simply not there."""
    unfitted, asked = model(), []
    for name, method in inspect.getmembers(model, callable):
        if name.startswith(("_", "set_", "fit", "partial_fit", "get_params", "get_metadata")):
            continue
        needed = [p.name for p in inspect.signature(method).parameters.values() if p.default is p.empty][1:]
        given = {"X": data.X, "y": data.classes, "path": "nowhere", "n_samples": 2}
        asked.append(name)
        with pytest.raises(NotFittedError, match=model.__name__):
            getattr(unfitted, name)(*(given[n] for n in needed if n in given))
    assert {"predict", "score", "save", "summary"} <= set(asked)
    assert not [name for name in dir(unfitted) if name.endswith("_") and name[0] != "_" and hasattr(unfitted, name)]


@few_steps
def test_the_same_random_state_gives_the_same_model(case, quick, data, y, fits):
    np.testing.assert_array_equal(answer(quick.fit(data.X, y), data.X), answer(fits(case, "quick"), data.X))


@few_steps
@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_keep_their_names(case, brief, frame, data, y, fits):
    library = pytest.importorskip(frame)
    names = ["a", "b", "c", "d"]
    table = library.DataFrame(dict(zip(names, data.X.T, strict=True)))
    assert brief.fit(table, y).feature_names_in_.tolist() == names
    np.testing.assert_allclose(answer(brief, table), answer(fits.brief(case), data.X), **REFIT)


# ---------------------------------------------------------------- refits and failures
@few_steps
def test_a_refit_leaves_nothing_of_the_fit_before(case, data, y):
    """Whatever was fitted before: other settings, another target, names of columns and labels."""
    pd = pytest.importorskip("pandas")
    settled = clone(case.settled).set_params(max_iter=2)
    fresh = clone(settled).fit(data.X, y)
    frame = pd.DataFrame(data.X, columns=list("abcd"))
    for other in CASES:
        if type(other.quick) is not type(settled):
            continue
        labels = other.y(data)
        labels = pd.DataFrame(labels, columns=["u", "v"]) if labels.ndim == 2 else labels
        model = clone(other.quick).set_params(max_iter=2).fit(frame, labels)
        model.set_params(**settled.get_params()).fit(data.X, y)
        assert set(vars(model)) == set(vars(fresh))
        np.testing.assert_array_equal(answer(model, data.X), answer(fresh, data.X))


class Spoiled(Exception):
    """What the callback of a spoiled fit raises."""


def spoil(step):
    """Breaks a fit in its first step, a search only in the fit of its winner."""
    if hasattr(step, "solver"):
        raise Spoiled


@few_steps
@pytest.mark.parametrize("mishap", ["infinite", "too few labels", "no labels", "other columns", "other outputs"])
def test_a_failed_fit_loses_nothing(case, mishap, data, y, fits):
    model = pickle.loads(pickle.dumps(fits(case, "quick")))
    before, predicted, names = answer(model, data.X), model.predict(data.X), sorted(vars(model))
    bad_X, bad_y = {
        "infinite": (np.where(data.X > 6, np.inf, data.X), y),
        "too few labels": (data.X, y[:-1]),
        "no labels": (data.X, np.full(y.shape, np.nan)),
        "other columns": (data.X[:, :2] / 3, y),  # well, but for the callback
        "other outputs": (data.X, {"classes": data.labels[:, 0], "numbers": -y, "labels": data.classes}[case.target]),
    }[mishap]
    if mishap.startswith("other"):
        model.set_params(callback=spoil)
    with pytest.raises((ValueError, Spoiled)):
        model.fit(bad_X, bad_y)
    assert sorted(vars(model)) == names
    np.testing.assert_array_equal(answer(model, data.X), before)
    np.testing.assert_array_equal(model.predict(data.X), predicted)


# ---------------------------------------------------------------- callbacks
@few_steps
def test_a_callback_that_returns_true_stops_the_fit_and_hears_no_more(case, quick, data, y):
    heard = []

    def stop(step):
        if hasattr(step, "solver"):  # a search tells of its trials as well
            heard.append(step)
        return len(heard) == 2

    model = quick.set_params(callback=stop, tol=0.0).fit(data.X, y)
    assert [step.iteration for step in heard] == [1, 2]
    assert all(isinstance(step.solver, str) and np.isfinite(step.value) and step.n_running >= 1 for step in heard)
    assert model.stopping_reason_ == "stopped by the callback" and not model.converged_
    assert np.isfinite(answer(model, data.X)).all()


@few_steps
def test_all_listeners_hear_the_step_at_which_one_of_them_stops(case, quick, data, y, capsys):
    """The bar on the terminal is the last to be told."""
    quick.set_params(callback=lambda step: hasattr(step, "solver"), verbose=1, tol=0.0).fit(data.X, y)
    assert "step 1:" in "".join(capsys.readouterr())


class Recorder:
    """A scikit-learn callback that keeps what fitted estimators say."""

    def __init__(self, X, last):
        self.X, self.last, self.said = X, last, []

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...
    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is not None:
            self.said.append(answer(fitted_estimator, self.X))
        return len(self.said) == self.last


@few_steps
def test_scikit_learn_callbacks_see_fitted_estimators_and_stop_them(case, quick, data, y):
    callback = pytest.importorskip("sklearn.callback")
    watch, heard = Recorder(data.X, last=2), []
    assert isinstance(watch, callback.FitCallback)
    quick.set_params(callback=lambda step: heard.append(step) if hasattr(step, "solver") else None, tol=0.0)
    model = quick.set_callbacks(watch).fit(data.X, y)
    assert len(watch.said) == len(heard) == 2 and np.isfinite(watch.said).all()
    assert model.stopping_reason_ == "stopped by the callback"


# ---------------------------------------------------------------- how a fit ends
def test_a_fit_that_did_not_converge_says_so_at_the_line_that_called(case, quick, data, y):
    with pytest.warns(ConvergenceWarning, match=r"stopped before it converged \(max_iter=1 reached\)") as heard:
        model = quick.set_params(max_iter=1, tol=0.0).fit(data.X, y)
    assert {warning.filename for warning in heard} == {__file__}
    assert not model.converged_ and model.n_iter_ == 1


@few_steps
def test_no_solver_takes_more_steps_than_max_iter_also_where_restarts_race(case, quick, data, y):
    heard = []
    quick.set_params(callback=lambda step: heard.append(step) if hasattr(step, "solver") else None)
    most = 45 if "criterion" in quick.get_params() else 9  # as many as a race has, where there is one
    model = quick.set_params(n_init=5, max_iter=most, tol=0.0).fit(data.X, y)
    assert model.n_iter_ <= most
    for solver in {step.solver for step in heard}:
        steps = [step.iteration for step in heard if step.solver == solver]
        runs = steps.count(1)  # L-BFGS goes from one restart to the next, EM from one covariance to the next
        assert len(steps) <= most * runs


@few_steps
def test_a_large_tolerance_ends_a_fit_soon(quick, data, y):
    soon = clone(quick).set_params(tol=1e3, max_iter=12).fit(data.X, y)
    assert soon.n_iter_ < quick.set_params(max_iter=12).fit(data.X, y).n_iter_


def test_the_curve_never_falls_and_has_a_point_for_each_iteration(case, fits):
    model = fits(case, "quick")
    curve = model.objective_curve_
    assert len(curve) == model.n_iter_ + 1
    assert np.diff(curve).min() >= -MAX_RELATIVE_DECREASE * np.abs(curve).max()


@few_steps
def test_the_published_fit_is_the_restart_with_the_largest_value(case, quick, data, y):
    """A callback hears the best value of the restarts that run: none is larger than what is published.

    Of one covariance type: steps of the others, which are compared first, are heard as well.
    """
    options = {"objective": "likelihood", "selection": "likelihood", "kinds": "continuous", "n_init": 6}
    options["covariance"] = "diag"
    quick.set_params(**{name: value for name, value in options.items() if name in quick.get_params()})
    heard = []
    quick.set_params(callback=lambda step: heard.append(step) if hasattr(step, "solver") else None)
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)  # in the units that solvers work in
    model = quick.fit(X, y)
    published = model.objective_curve_[-1]
    values = [step.value for step in heard if step.solver == heard[0].solver]  # another may go on from the winner
    assert max(values) <= published + 1e-9 * abs(published)
    if hasattr(model, "restart_objectives_"):
        ends = model.restart_objectives_
        assert len(ends) == 6 and ends[0] == published and (np.diff(ends) <= 0).all()


@few_steps
@pytest.mark.estimators("generative", "posteriors")
def test_the_curve_of_a_posterior_ends_at_its_evidence(case, quick, data, y):
    """A bound of the evidence, which is below the likelihood of the point that stands for the posterior."""
    model = quick.set_params(objective="likelihood").fit(data.X, y)
    log_likelihood = model.predict_joint_log_proba(data.X)[np.arange(45), y].sum()
    assert model.objective_curve_[-1] == model.log_evidence_ < log_likelihood
    assert not hasattr(quick.set_params(inference="ml").fit(data.X, y), "log_evidence_")


@few_steps
@pytest.mark.estimators("generative", "points")
def test_the_curve_of_a_likelihood_ends_at_that_of_the_published_model(case, quick, data, y):
    options = {"objective": "likelihood", "kinds": "continuous", "n_init": 4}
    model = quick.set_params(**{k: v for k, v in options.items() if k in quick.get_params()}).fit(data.X, y)
    log_likelihood = model.predict_joint_log_proba(data.X)[np.arange(45), y].sum()
    assert model.objective_curve_[-1] == pytest.approx(log_likelihood, rel=1e-9)
    assert model.aic(data.X, y) < model.bic(data.X, y)


@few_steps
@pytest.mark.estimators("has criterion")
def test_the_curve_of_a_point_estimate_ends_at_its_likelihood(case, quick, data, y):
    model = quick.set_params(inference="ml", n_init=4).fit(data.X, y)
    log_likelihood = model.search_results_["log_likelihood"][0]
    assert model.objective_curve_[-1] == pytest.approx(log_likelihood, rel=1e-9)
    if is_classifier(model):
        own = model.predict_log_proba(data.X)[np.arange(45), y].sum()
        assert own == pytest.approx(log_likelihood, rel=1e-9)
        assert model.bic(data.X, y) == pytest.approx(model.search_results_["bic"][0], rel=1e-9)


# ---------------------------------------------------------------- searches
@few_steps
@pytest.mark.filterwarnings("ignore:y has a single class:UserWarning")
@pytest.mark.estimators("searches sizes")
@pytest.mark.parametrize("grid", [[1, 2], [2, 1]], ids=str)
def test_in_a_tie_the_smallest_size_wins(case, quick, data, grid):
    """A single class is certain whatever the size."""
    quick.set_params(max_iter=2, n_latent=grid, n_components=grid, search="exhaustive")
    model = quick.fit(data.X, np.ones(45, int))
    assert len(set(model.search_results_["mean_log_loss"])) == 1  # or there is no tie
    assert (model.n_latent_, model.n_components_) == (1, 1)


@few_steps
@pytest.mark.estimators("searches sizes")
@pytest.mark.parametrize(
    "scoring, column, factor", [("accuracy", "mean_accuracy", 1), ("log_loss", "mean_log_loss", -1)]
)
def test_the_best_score_is_that_of_the_setting_chosen_and_more_is_better(case, quick, data, y, scoring, column, factor):
    labels = np.where(np.arange(45) % 4 == 0, (y + 1) % 3, y)  # so that no setting is right everywhere
    quick.set_params(scoring=scoring, max_iter=3, n_latent=[1, 2], n_components=[1, 2], search="exhaustive")
    model = quick.fit(data.X, labels)
    table = model.search_results_
    scores = factor * np.asarray(table[column])
    chosen = (np.asarray(table["n_latent"]) == model.n_latent_) & (
        np.asarray(table["n_components"]) == model.n_components_
    )
    assert len(set(scores)) > 1 and model.best_score_ == scores.max() == scores[chosen]


@few_steps
@pytest.mark.estimators("has criterion")
@pytest.mark.parametrize("depth", [1, 2])
def test_no_search_tries_more_than_it_may(case, quick, data, y, depth):
    quick.set_params(max_iter=1, n_init=1, patience=9, criterion="bic")
    if "depth" in quick.get_params():
        tried = (
            quick.set_params(n_experts="auto", max_experts=5, depth=depth).fit(data.X, y).search_results_["n_experts"]
        )
        assert max(tried) == 5 if depth == 1 else max(tried) == 4
    else:
        tried = quick.set_params(n_subclasses="auto", max_subclasses=1 + depth).fit(data.X, y).search_results_
        assert np.max(tried["n_subclasses"]) <= 1 + depth


@few_steps
@pytest.mark.estimators("has criterion")
@pytest.mark.parametrize(
    "criterion, column, factor",
    [("bound", "log_evidence", 1), ("evidence", "corrected_log_evidence", 1), ("bic", "bic", -0.5)],
)
def test_the_score_of_a_search_is_the_column_it_is_named_after(case, quick, data, y, criterion, column, factor):
    name = "n_subclasses" if "n_subclasses" in quick.get_params() else "n_experts"
    most = "max_subclasses" if name == "n_subclasses" else "max_experts"
    quick.set_params(**{name: "auto", most: 2, "criterion": criterion, "max_iter": 5, "n_init": 1})
    if quick.inference == "ml" and criterion != "bic":  # a point has no evidence
        with pytest.raises(ValueError, match=f"criterion='{criterion}' has no meaning with inference='ml'"):
            quick.fit(data.X, y)
        return
    model = quick.fit(data.X, y)
    table = model.search_results_
    np.testing.assert_allclose(table["score"], factor * table[column], **EQUAL)
    best = table[name][int(np.argmax(table["score"]))]
    assert tuple(np.atleast_1d(getattr(model, f"{name}_"))) == tuple(np.atleast_1d(best))
    assert len(table["score"]) > 1
