"""A row's answer depends on the row and the model, not on the rows that share its chunk."""

import numpy as np
import pandas as pd
import pytest
import sklearn

from latentia import LatentClassificationModel


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    columns = {
        "a": rng.normal(size=120) + y,
        "b": rng.choice(list("xyz"), 120),
        "c": rng.integers(0, 2, 120),
        "d": rng.choice(list("pqrs"), 120),
    }
    return pd.DataFrame(columns), y


@pytest.mark.parametrize("bound_max_iter", [2, 100])
def test_chunks_change_nothing(mixed, bound_max_iter):
    X, y = mixed
    fits = []
    for megabytes in (1024, 0.02):
        with sklearn.config_context(working_memory=megabytes):
            model = LatentClassificationModel(
                2, 2, n_init=2, max_iter=6, tol=0, bound_max_iter=bound_max_iter, random_state=0
            )
            with pytest.warns(Warning, match="max_iter=6 reached"):
                fits.append(model.fit(X, y).predict_proba(X))
    np.testing.assert_allclose(fits[1], fits[0], rtol=1e-9)


def test_rows_one_by_one(mixed):
    X, y = mixed
    model = LatentClassificationModel(2, 2, n_init=2, random_state=0, tol=1e-2).fit(X, y)
    alone = np.vstack([model.transform(X.iloc[k : k + 1]) for k in range(10)])
    np.testing.assert_allclose(alone, model.transform(X)[:10], rtol=1e-9, atol=1e-12)
