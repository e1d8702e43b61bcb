"""What a user would pick instead: scikit-learn's classifiers and imputers, with the encoding that each needs.

`CLASSIFIERS` and `IMPUTERS` name them; each entry builds a fresh estimator. Rows are an array of numbers or a data frame
with category columns, both with gaps. Settings are scikit-learn's defaults unless a line below says otherwise: the
arena asks what one gets without tuning.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (makes the next line's import possible)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC


class Dummies(TransformerMixin, BaseEstimator):
    """Numbers for all columns: a category column becomes one 0/1 column for each level of the training rows.

    A missing category is a row of zeros, or of NaN where `keep_gaps` (for methods that know what a gap is). A level that
    no training row has is a row of zeros. Arrays pass through.
    """

    def __init__(self, keep_gaps=False):
        self.keep_gaps = keep_gaps

    def fit(self, X, y=None):
        self.levels_ = {column: list(X[column].dropna().unique()) for column in category_columns(X)}
        return self

    def transform(self, X):
        if not self.levels_:
            return np.asarray(X, dtype=float)
        numbers = X.drop(columns=list(self.levels_)).to_numpy(dtype=float, na_value=np.nan)
        return np.column_stack(
            [numbers, *(self._dummies(X[column], levels) for column, levels in self.levels_.items())]
        )

    def _dummies(self, values, levels):
        dummies = np.stack(
            [np.zeros(len(values)), *((values == level).to_numpy(dtype=float) for level in levels)], axis=1
        )
        if self.keep_gaps:
            dummies[values.isna().to_numpy()] = np.nan
        return dummies[:, 1:]


class CalibratedSVC(ClassifierMixin, BaseEstimator):
    """RBF SVM with probabilities as scikit-learn recommends since 1.9; fewer folds where a class has fewer than five rows."""

    def fit(self, X, y):
        folds = min(5, np.unique(y, return_counts=True)[1].min())
        self.model_ = CalibratedClassifierCV(SVC(), cv=max(2, int(folds)), ensemble=False).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class MixedNaiveBayes(ClassifierMixin, BaseEstimator):
    """Gaussian naive Bayes; 0/1 columns, which would have variances of zero, as Bernoulli variables."""

    def fit(self, X, y):
        self.binary_ = np.all((X == 0) | (X == 1), axis=0)
        parts = ((GaussianNB(), ~self.binary_), (BernoulliNB(), self.binary_))
        self.parts_ = [(model.fit(X[:, columns], y), columns) for model, columns in parts if columns.any()]
        self.classes_, counts = np.unique(y, return_counts=True)
        self.log_prior_ = np.log(counts / counts.sum())
        return self

    def predict_proba(self, X):
        joint = sum(model.predict_joint_log_proba(X[:, columns]) - self.log_prior_ for model, columns in self.parts_)
        return softmax(joint + self.log_prior_, axis=1)


def filled():
    """Numbers: the mean where missing, unit variance. Categories: the most frequent level where missing, 0/1 columns."""
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    levels = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    )
    return ColumnTransformer([("levels", levels, category_columns)], remainder=numbers)


def category_columns(X):
    """Which columns are pandas categories; an array has none."""
    return [] if isinstance(X, np.ndarray) else list(X.select_dtypes("category").columns)


def chained():
    """Missing numbers by ridge regression on the other columns (`IterativeImputer`); missing categories are zeros."""
    encoded = ColumnTransformer([("levels", Dummies(), category_columns)], remainder=StandardScaler())
    return make_pipeline(encoded, iterative_ridge())


def iterative_ridge():
    return IterativeImputer(keep_empty_features=True, skip_complete=True, random_state=0)


def iterative_forest():
    """As missForest, with extremely randomized trees: 30 trees a column and at most five rounds."""
    trees = ExtraTreesRegressor(30, min_samples_leaf=2, random_state=0)
    return IterativeImputer(trees, max_iter=5, keep_empty_features=True, random_state=0)


def logistic():
    return LogisticRegression(max_iter=2000)


#: Name -> a fresh classifier.
CLASSIFIERS = {
    "prior": lambda: DummyClassifier(strategy="prior"),
    "logistic": lambda: make_pipeline(filled(), logistic()),
    "logistic-iterative": lambda: make_pipeline(chained(), logistic()),
    "svm": lambda: make_pipeline(filled(), CalibratedSVC()),
    "forest": lambda: make_pipeline(Dummies(), RandomForestClassifier(300, random_state=0)),  # splits on gaps itself
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),  # knows gaps and category columns
    "naive-bayes": lambda: make_pipeline(filled(), MixedNaiveBayes()),
    "self-training": lambda: make_pipeline(filled(), SelfTrainingClassifier(logistic())),
    "label-spreading": lambda: make_pipeline(filled(), LabelSpreading(kernel="knn")),
}

#: These learn from unlabeled rows (-1), and are of use only where there are some.
SEMI_SUPERVISED = ("self-training", "label-spreading")

#: Name -> a fresh imputer of numbers.
IMPUTERS = {
    "mean": lambda: SimpleImputer(keep_empty_features=True),
    "neighbors": lambda: InUnitVariance(KNNImputer(keep_empty_features=True)),
    "iterative-ridge": iterative_ridge,
    "iterative-forest": iterative_forest,
}


class InUnitVariance(TransformerMixin, BaseEstimator):
    """Distances need columns of one scale: impute standardized rows, and go back."""

    def __init__(self, imputer):
        self.imputer = imputer

    def fit(self, X, y=None):
        self.scaler_ = StandardScaler().fit(X)
        self.imputer.fit(self.scaler_.transform(X))
        return self

    def transform(self, X):
        return self.scaler_.inverse_transform(self.imputer.transform(self.scaler_.transform(X)))
