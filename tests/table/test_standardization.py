"""Standard units."""

import numpy as np

from latentia.table.standardization import Standardizer, column_moments


def test_in_a_common_unit_cells_have_unit_variance_on_average(rng):
    """Proportions of the columns stay; a column that does not vary counts as one of no variance."""
    X = rng.normal(size=(50, 3)) * [1.0, 20.0, 0.0] + [5.0, -3.0, 2.0]
    rows = Standardizer.from_moments(*column_moments(X, None, np.float64), common_scale=True).prepare(X).values
    np.testing.assert_allclose((rows**2).mean(), 1.0)
    np.testing.assert_allclose(rows[:, 1].std() / rows[:, 0].std(), X[:, 1].std() / X[:, 0].std())
