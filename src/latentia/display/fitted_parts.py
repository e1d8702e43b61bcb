"""What displays ask of a fitted estimator: names, and the model that has the latent factors."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import to_numpy
from latentia.families.latent_factors.answers import loading_correlations

#: Factors without a stronger correlation than this explain no column.
MIN_CORRELATION = 0.1


def factor_model(estimator: Any) -> Any:
    """The fitted model with latent factors: the estimator itself, or the best such member of a
    stack; None if there is none.
    """
    check_is_fitted(estimator)
    model = getattr(estimator, "factor_estimator_", estimator)
    return model if hasattr(model, "loadings_") and model.latent_means_.shape[1] > 0 else None


def factor_strengths(model: Any) -> np.ndarray:
    """The strongest correlation of each latent factor with a column, without its sign."""
    correlations = loading_correlations(model.loadings_, model.loading_features_, model.noise_variances_)
    return np.abs(correlations).max(axis=0)


def preprocessor_of(estimator: Any) -> Any:
    """How rows are standardized for the estimator, the best of a search, or the member of a stack
    that fills gaps; None if they are not.
    """
    model = getattr(estimator, "density_estimator_", getattr(estimator, "best_estimator_", estimator))
    return getattr(getattr(model, "_model", None), "preprocessor", None)


def columns_without_values(estimator: Any) -> np.ndarray:
    """Which columns had no known cell in `fit`, so that nothing is known of their gaps, (D,)."""
    empty = getattr(preprocessor_of(estimator), "empty_columns", None)
    return np.zeros(estimator.n_features_in_, bool) if empty is None else to_numpy(empty)


def require_factor_model(estimator: Any) -> Any:
    """The same; an error that names what is allowed if there is none."""
    model = factor_model(estimator)
    if model is None:
        raise TypeError(
            f"estimator is a {type(estimator).__name__} without latent factors; allowed are a "
            "LatentClassificationModel with n_latent > 0, and a LatentClassifier with such a member."
        )
    return model


def require_classes(estimator: Any) -> None:
    """Refuse an estimator of label matrices, in which a row has no class of its own."""
    if getattr(estimator, "multilabel_", False):
        raise ValueError(
            f"estimator is a {type(estimator).__name__} fitted to a label matrix; allowed are those fitted to classes, "
            "one for each row."
        )


def feature_names(estimator: Any) -> list[str]:
    """Names of the columns; numbered from zero, as errors do, where they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"column {place}" for place in range(estimator.n_features_in_)]


def choose_axes(name: str, chosen: Any, n_axes: tuple[int, ...], n_latent: int) -> list[int]:
    """Different latent dimensions, as many as one of `n_axes`; an error that names what is
    allowed.
    """
    axes = list(chosen) if np.ndim(chosen) == 1 else []
    valid = all(isinstance(k, Integral) and 0 <= int(k) < n_latent for k in axes)
    if not valid or len(axes) not in n_axes or len(set(axes)) < len(axes):
        count = " or ".join({1: "one", 2: "two"}[n] for n in n_axes)
        raise ValueError(f"{name}={chosen!r}; allowed are {count} different numbers from 0 to {n_latent - 1}.")
    return [int(k) for k in axes]


def class_names(estimator: Any) -> list[str]:
    """Names of the classes, or of the labels of a matrix."""
    if getattr(estimator, "multilabel_", False):
        given = getattr(estimator, "label_names_", None)
        return [f"label {k}" for k in estimator.classes_] if given is None else [str(name) for name in given]
    return [str(name) for name in estimator.classes_.tolist()]


def loading_names(estimator: Any) -> list[str]:
    """A name for each row of the loadings: the column, with its value where it has several rows."""
    names = feature_names(estimator)
    columns = np.asarray(to_numpy(estimator.loading_features_)).tolist()
    categories = getattr(estimator, "categories_", [None] * len(names))
    found, seen = [], dict.fromkeys(columns, 0)
    for column in columns:
        n_rows, place = columns.count(column), seen[column]
        seen[column] += 1
        values = categories[column]
        if n_rows == 1:
            found.append(names[column])
        elif values is not None and len(values) == n_rows:
            found.append(f"{names[column]} = {values[place]}")
        else:
            found.append(f"{names[column]}, step {place + 1}")
    return found


def left_out_note(n_shown: int, n_all: int, what: str) -> str:
    """What a picture says that does not show all columns."""
    return f"{n_shown} of {n_all} {what}:\nthe largest loadings" if n_shown < n_all else ""
