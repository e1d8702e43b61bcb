"""Tables to try, from data that ships with scikit-learn: with gaps and rows without a class."""

from __future__ import annotations

import numpy as np
import pandas
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from latentia.apps.studio.problems import Problem
from latentia.apps.tables.table_files import Table

LOADERS = {"iris": load_iris, "wine": load_wine, "tumors": load_breast_cancer}
TARGETS = {"iris": "species", "wine": "cultivar", "tumors": "diagnosis"}

#: Shares of cells that are missing, and of rows without a class.
GAPS, UNLABELED = 0.05, 0.1


def example_table(name: str) -> Table:
    """A table as text, as if it came from a file."""
    if name not in LOADERS:
        raise Problem(f"There is no example {name!r}; there are {', '.join(LOADERS)}.", 400)
    data = LOADERS[name]()
    rng = np.random.default_rng(0)
    cells = np.array([[f"{value:.6g}" for value in row] for row in data.data], dtype=object)
    cells[rng.random(cells.shape) < GAPS] = None
    labels = np.array([str(data.target_names[k]) for k in data.target], dtype=object)
    labels[rng.random(labels.size) < UNLABELED] = None
    names = [str(n).replace(" (cm)", "") for n in data.feature_names]
    frame = pandas.DataFrame({n: pandas.Series(list(cells[:, k]), dtype=object) for k, n in enumerate(names)})
    frame[TARGETS[name]] = pandas.Series(list(labels), dtype=object)
    return Table(f"{name}.csv", frame, is_text=True)
