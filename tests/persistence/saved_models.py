"""Fitted models of every kind: what `save` may meet, and the names of all classes that it writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import estimator_cases
import numpy as np
import pandas as pd
from sklearn.base import clone

import latentia
from latentia import GaussianMixtureClassifier as GMC
from latentia import LatentClassificationModel as LCM
from latentia import LatentClassificationModelCV as LCMCV
from latentia import LatentClassifier as LC
from latentia import MixtureOfExpertsClassifier as MEC
from latentia import MixtureOfExpertsRegressor as MER
from latentia import MultimodalSoftmaxClassifier as MMS
from latentia import ProbitEmbeddingClassifier as PEC
from latentia.engine.sweep import Conditional, Hybrid, Likelihood, Margin
from latentia.persistence.format import Encoder

FEW: dict[str, Any] = {"n_init": 1, "max_iter": 3, "tol": 1e-2, "random_state": 0}
BATCH = {"unlabeled_weight": 1.0, "temperature": 1.0}
INFERENCES = ("vb", "ml")


def plain(model: Any) -> Any:
    """A model of the package itself: the tests' own class reads kinds from the values."""
    if isinstance(model, estimator_cases.MixedLCM):
        return LCM(**model.get_params()).set_params(kinds=["continuous"] * 3 + ["binary"])
    return model


def small_frame() -> pd.DataFrame:
    """A column of every kind and of every type of values, some with gaps."""
    turn, days = np.arange(60) % 4, pd.date_range("2020-01-01", periods=4)
    letters = np.array(list("abcd"))
    return pd.DataFrame(
        {
            "number": np.linspace(0, 1, 60) ** 2,
            "gaps": np.where(np.arange(60) % 5 == 0, np.nan, np.arange(60)),
            "text": letters[turn],
            "two": letters[turn // 2],
            "flag": turn > 1,
            "whole": pd.array(np.where(turn == 0, None, turn), dtype="Int64"),
            "count": turn * 3,
            "ordered": pd.Categorical(letters[turn], ordered=True),
            "dates": pd.Categorical(days.take(turn)),
            "zoned": pd.Categorical(days.tz_localize("Europe/Paris").take(turn)),
            "spans": pd.Categorical((days - days[0]).take(turn)),
            "months": pd.Categorical(pd.period_range("2020-01", periods=4, freq="M").take(turn)),
            "intervals": pd.cut(np.arange(60.0), 3),
        }
    )


def fitted_models(folder: Path) -> Iterator[Any]:
    """One of every kind that the options of the estimators ask for, each trained for a few steps."""
    data = estimator_cases.make_data()
    gaps = np.where(np.random.default_rng(0).random(data.X.shape) < 0.2, np.nan, data.X)
    hidden = np.where(np.arange(data.classes.size) % 3, data.classes, -1)
    for case in estimator_cases.CASES:
        for model in (case.quick, case.settled):
            yield clone(plain(model)).set_params(max_iter=3).fit(data.X, case.y(data))
    yield from _mixtures(data, gaps, hidden)
    yield from _factors(data, gaps, hidden)
    yield from _conditional(data)
    yield from _embeddings(data)
    yield from _stacks(data, gaps, hidden)
    yield from _of_files(data, folder)


def _mixtures(data: Any, gaps: np.ndarray, hidden: np.ndarray) -> Iterator[Any]:
    empty = gaps.copy()
    empty[:, 1] = np.nan
    tables = (data.X, gaps, empty)
    for covariance, inference in itertools.product(("diag", "full", "tied", "spherical"), INFERENCES):
        for X in tables:
            model = GMC(2, covariance=covariance, inference=inference, **BATCH, **FEW)
            yield model.fit(X, hidden)
            yield clone(model).partial_fit(X, data.classes, [0, 1, 2]).partial_fit(X, hidden)
    for objective in (Likelihood(), Conditional(), Margin(ramp=1.0), Hybrid()):
        yield GMC(2, objective=objective, **FEW).fit(gaps, data.classes)
        yield LCM(1, objective=objective, kinds="continuous", **FEW).fit(data.X, data.classes)
    yield GMC("bic", covariance="auto", priors="uniform", **FEW).fit(gaps, hidden)
    yield GMC(marginals="normal", early_stopping=True, objective="margin", **FEW).fit(data.X, data.classes)


def _factors(data: Any, gaps: np.ndarray, hidden: np.ndarray) -> Iterator[Any]:
    frame, y = small_frame(), np.arange(60) // 30
    kinds = {"count": "count"}
    two = {"text": "categorical", "two": "categorical", "count": "ordinal"}
    for inference, n_latent in itertools.product(INFERENCES, (0, 1)):
        own = {"inference": inference, **BATCH, **FEW}
        for table in (frame, frame.drop(columns="gaps")):
            yield LCM(n_latent, kinds=kinds, **own).set_output(transform="pandas").fit(table, y)
        yield LCM(n_latent, 2, kinds=two, max_categories=3, **own).fit(frame, y)
        yield LCM(n_latent, kinds=kinds, **own).partial_fit(frame, y, [0, 1]).partial_fit(frame, y)
        for X in (data.X, gaps):
            yield LCM(n_latent, kinds="continuous", **own).partial_fit(X, data.classes, [0, 1, 2])
    yield LCM(**FEW).fit(gaps, hidden)  # an average over models
    yield LCM(2, structure="learn", kinds="continuous", **FEW).fit(data.X, data.classes)
    yield LCM(2, structure="learn", kinds=kinds, **FEW).fit(frame, y)
    yield LCM(1, refine="importance", **FEW).fit(frame, y)
    yield LCMCV([1], [1], cv=2, objective=[Likelihood(), Margin()], **FEW).fit(data.X, data.classes)
    yield LCMCV([0, 1], [1], cv=2, kinds=kinds, **FEW).fit(frame, y)


def _conditional(data: Any) -> Iterator[Any]:
    for inference, standardize in itertools.product(INFERENCES, (True, False)):
        own = {"inference": inference, "standardize": standardize, **FEW}
        yield MMS(max_subclasses=2, max_models=2, **own).fit(data.X, data.classes)
        yield MMS(1, **own).fit(data.X, data.classes)
        for size in ({"n_experts": 2}, {"max_experts": 2}, {"n_experts": 2, "depth": 2}):
            yield MEC(**size, **own).fit(data.X, data.classes)
            yield MER(**size, **own).fit(data.X, np.column_stack([data.numbers, -data.numbers]))


def _embeddings(data: Any) -> Iterator[Any]:
    from scipy import sparse

    wide = np.random.default_rng(0).normal(size=(12, 20))
    for prior, semi in itertools.product(("entries", "columns", "rows"), (False, True)):
        own = {"prior": prior, "semi_supervised": semi, **FEW}
        yield PEC(2, **own).fit(data.X, data.labels)
        yield PEC("evidence", **own).fit(data.X, data.classes)
        yield PEC(2, standardize=False, **own).fit(data.X, data.labels)
        yield PEC(2, **own).fit(sparse.csr_array(data.X), data.labels)
        yield PEC(2, **own).fit(wide, np.arange(12) % 3)


def _stacks(data: Any, gaps: np.ndarray, hidden: np.ndarray) -> Iterator[Any]:
    own = {"cv": 2, **FEW}
    frame, y = small_frame()[["number", "gaps", "text", "dates"]], np.arange(60) // 30
    for effort in ("fast", "balanced", "best"):
        yield LC(effort=effort, **own).fit(gaps, hidden)
    yield LC(effort="balanced", priors="uniform", **own).fit(frame, y)
    yield LC(effort="fast", **own).fit(frame, np.stack([y, 1 - y], axis=1))
    yield LC(effort="fast", **own).fit(data.X, data.labels)


def _of_files(data: Any, folder: Path) -> Iterator[Any]:
    """Models of tables in parts hold what those of arrays do, and nothing of the parts."""
    frame = pd.DataFrame(data.X, columns=list("abcd")).assign(label=data.classes)
    half = len(frame) // 2
    for k, part in enumerate((frame[:half], frame[half:])):
        part.to_parquet(folder / f"{k}.parquet")
    numbers = folder / "numbers"
    numbers.mkdir()
    frame.assign(label=data.numbers).to_parquet(numbers / "0.parquet")
    table = latentia.scan(folder / "*.parquet", target="label")
    for model in (GMC(2, **FEW), LCM(1, **FEW), PEC(2, **FEW), MMS(2, **FEW), MEC(2, **FEW), LC(effort="fast", **FEW)):
        yield model.fit(table)
    yield MER(2, **FEW).fit(latentia.scan(numbers / "*.parquet", target="label"))


def class_names(tree: Any) -> Iterator[str]:
    """The classes that the tree of a manifest names."""
    if isinstance(tree, list):
        for part in tree:
            yield from class_names(part)
    elif isinstance(tree, dict):
        if isinstance(tree.get("object"), str):
            yield tree["object"]
        for part in tree.values():
            yield from class_names(part)


def written_classes(models: Iterator[Any], tell: Callable[[Any, str], None] = lambda model, name: None) -> set[str]:
    """The names of all classes in the files of these models."""
    found: set[str] = set()
    for model in models:
        for name in class_names(Encoder().encode(model, type(model).__name__)):
            if name not in found:
                tell(model, name)
            found.add(name)
    return found
