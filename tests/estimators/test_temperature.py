"""How much a row says of its class."""

import numpy as np
import pytest
from tolerances import REFIT

from latentia import GaussianMixtureClassifier


def test_columns_that_repeat_each_other_are_tempered_and_a_row_of_weight_two_counts_twice(rng):
    y = np.arange(80) % 2
    X = (rng.normal(size=80) + y)[:, None] + 0.3 * rng.normal(size=(80, 8))
    weight = rng.integers(1, 4, 80)
    model = GaussianMixtureClassifier(covariance="diag", marginals="normal", random_state=0)
    weighted = model.fit(X, y, sample_weight=weight.astype(float)).temperature_
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).temperature_
    assert weighted == pytest.approx(repeated, rel=REFIT["rtol"]) and weighted > 1.2
