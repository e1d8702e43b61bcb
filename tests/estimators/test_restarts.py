"""Screening and race among the starts of softmax models never drop the best one."""

import numpy as np
import pytest

from latentia import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor, MultimodalSoftmaxClassifier


@pytest.fixture(scope="module")
def stripes():
    """Six stripes of two classes in turn: most starts end at local optima."""
    x = np.sort(np.random.default_rng(0).uniform(-3, 3, 90))
    return x[:, None], (np.floor(x) % 2).astype(int)


@pytest.mark.parametrize("model", [MultimodalSoftmaxClassifier(3), MixtureOfExpertsClassifier(4)], ids=str)
def test_of_the_starts_that_are_screened_the_best_goes_on(stripes, model):
    """One start goes on, of several that were tried: it ends where the best of many do."""
    options = dict(inference="ml", ridge=0.01, max_iter=100, tol=1e-3)
    best = model.set_params(n_init=6, random_state=0, **options).fit(*stripes).objective_curve_[-1]
    ends = [model.set_params(n_init=1, random_state=seed).fit(*stripes).objective_curve_[-1] for seed in range(5)]
    np.testing.assert_allclose(ends, best, rtol=0.01)


def test_the_winner_of_the_race_has_run_to_its_end(stripes):
    """Of six starts four go on after some steps: the best, had it stayed behind, would still win, and not have converged."""
    x, y = stripes[0], np.abs(stripes[0][:, 0]) % 2
    model = MixtureOfExpertsRegressor(2, n_init=6, tol=1e-6, random_state=0).fit(x, y)
    ends = model.restart_objectives_
    assert ends[0] > ends[1] + 1 and model.n_iter_ > 40  # or there was no race to lose
    assert model.converged_
    assert model.search_results_["log_likelihood"][0] > ends[0]  # of what predicts: a bound lies below it
