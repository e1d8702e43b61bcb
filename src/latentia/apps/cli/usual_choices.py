"""What one would pick instead: classifiers of scikit-learn with the encoding that each needs."""

from __future__ import annotations

import numpy as np
import pandas
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler


def usual_choices(frame: pandas.DataFrame, seed: int) -> dict[str, Pipeline]:
    """Names to classifiers for tables with these columns."""
    numbers = [name for name in frame if pandas.api.types.is_numeric_dtype(frame[name].dtype)]
    texts = [name for name in frame if name not in numbers]
    as_floats = FunctionTransformer(_floats)
    filled = make_column_transformer(
        (make_pipeline(as_floats, SimpleImputer(keep_empty_features=True), StandardScaler()), numbers),
        (
            make_pipeline(FunctionTransformer(_words), OneHotEncoder(handle_unknown="ignore", sparse_output=False)),
            texts,
        ),
    )
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    coded = make_column_transformer((as_floats, numbers), (make_pipeline(FunctionTransformer(_words), codes), texts))
    boosting = HistGradientBoostingClassifier(random_state=seed)
    return {
        "imputation + logistic regression": make_pipeline(filled, LogisticRegression(max_iter=1000)),
        "imputation + random forest": make_pipeline(filled, RandomForestClassifier(300, random_state=seed)),
        "gradient boosting": make_pipeline(coded, boosting),
    }


def _floats(columns: pandas.DataFrame) -> np.ndarray:
    return columns.astype("float64").to_numpy()


def _words(columns: pandas.DataFrame) -> np.ndarray:
    """Text; a missing cell is a word of its own."""
    return columns.astype(object).where(columns.notna(), "").astype(str).to_numpy(dtype=object)
