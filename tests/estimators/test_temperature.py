"""How much a row says of its class."""

import numpy as np
import pytest
from tolerances import REFIT

from latentia import GaussianMixtureClassifier
from latentia.estimators.base.temperature import best_temperature


def test_columns_that_repeat_each_other_are_tempered_and_a_row_of_weight_two_counts_twice(rng):
    y = np.arange(80) % 2
    X = (rng.normal(size=80) + y)[:, None] + 0.3 * rng.normal(size=(80, 8))
    weight = rng.integers(1, 4, 80)
    model = GaussianMixtureClassifier(covariance="diag", marginals="normal", random_state=0)
    weighted = model.fit(X, y, sample_weight=weight.astype(float)).temperature_
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).temperature_
    assert weighted == pytest.approx(repeated, rel=REFIT["rtol"]) and weighted > 1.2


@pytest.mark.parametrize("doubt", [0.0, 0.2])
def test_rows_are_never_made_surer_than_they_are(doubt):
    codes = np.arange(60) % 2
    said = np.where(np.arange(60) % 10 < 10 * doubt, 1 - codes, codes)  # which is right more often than it says
    log_joint = np.log(np.where(np.eye(2)[said] > 0, 0.6, 0.4))
    assert best_temperature(log_joint, np.log([0.5, 0.5]), codes, np.ones(60)) == 1.0
