"""The demo tells the truth about its models."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import latentia
from latentia.apps.cli import demo


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_its_numbers_are_found_again_from_table_and_models(monkeypatch, capsys):
    seen = []
    table = load_breast_cancer(return_X_y=True)
    monkeypatch.setattr(demo, "load_breast_cancer", lambda return_X_y: (table[0][::9, :3], table[1][::9]))
    monkeypatch.setattr(demo, "compare", lambda candidates, X, y, cv: "the comparison")
    monkeypatch.setattr(demo, "write_report", lambda *arguments, **options: seen.append((arguments, options)))
    quick = {"unlabeled": -1, "random_state": 0, "max_iter": 2, "n_init": 1}
    found = {
        "LatentClassifier (fast)": latentia.LatentClassifier(effort="fast", cv=2, **quick),
        "a mixture": latentia.GaussianMixtureClassifier(1, **quick),
        "regression": make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()),
    }
    monkeypatch.setattr(demo, "models", lambda: found)
    demo.main()
    out = capsys.readouterr().out
    X, y, complete, truth = demo.table_with_missing()
    hidden, gaps = y < 0, np.isnan(X)
    assert (truth[~hidden] == y[~hidden]).all() and (complete[~gaps] == X[~gaps]).all()
    assert f"{len(X)} rows x 3 columns; {gaps.mean():.0%} of the cells and {hidden.mean():.0%} of the labels" in out
    model = found["LatentClassifier (fast)"]
    assert found["regression"].classes_.tolist() == [0, 1]  # which took unlabeled rows for a class of their own
    assert f"expected {model.expected_accuracy_:.1%}" in out and "the comparison" in out
    for name, each in found.items():
        share = (each.predict(X[hidden]) == truth[hidden]).mean()
        assert re.search(rf"{re.escape(name)} +accuracy {share:.1%}", out)
    rows, columns = np.nonzero(gaps)

    def error(filled):
        return np.sqrt(np.mean(((filled - complete[rows, columns]) / complete.std(axis=0)[columns]) ** 2))

    own, plain = error(model.impute(X)[rows, columns]), error(np.nanmean(X, axis=0)[columns])
    assert f"an error of {own:.2f} standard deviations ({plain:.2f} by column means)" in out
    assert seen[0][0][0] is model and np.array_equal(seen[0][0][2], y)
