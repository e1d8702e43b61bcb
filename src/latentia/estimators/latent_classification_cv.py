"""Latent classification models whose sizes are chosen by cross-validation.

Which settings the search over sizes tries: given ones, else the defaults for such tables.

The wrapper search of latent classification models: trials, what is better, and when to stop.

The model that a search has chosen, and what the search answers by it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from latentia.arrays.namespace import take_rows, to_numpy
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import OBJECTIVES
from latentia.estimators.base.classifier import (
    LearnedAttributesMixin,
    as_frame_if_possible,
    delegated,
    delegated_on_rows,
)
from latentia.estimators.base.estimator import Attributes, LatentEstimator, StepNotifier, on_device_of
from latentia.estimators.base.generative import check_objective
from latentia.estimators.base.reading import GenerativeInput, PartedInput, TrainingTable
from latentia.estimators.base.training import choose_by_held_out_labels, choose_tempering
from latentia.estimators.latent_classification import LatentClassificationModel
from latentia.scale.tables import is_lazy
from latentia.solvers import Outcome
from latentia.table.columns import Kinds
from latentia.table.encoder import ColumnEncoder
from latentia.table.frames import TableLike
from latentia.table.labels import LabelsLike
from latentia.table.options import (
    Callback,
    Check,
    RandomState,
    check_number,
    choice,
    integer,
    legacy_generator,
    optional,
    random_generator,
)
from latentia.table.rows import rows_for_estimator
from latentia.table.weights import Fold, FoldsLike, PriorsLike, make_folds, refuse_row_numbers

#: Numbers of factors that are tried for continuous tables, first with one component. Then numbers
#: of components with the best number of factors, half of it, and few: many small components win
#: where classes are no ellipsoids. Langseth & Nielsen (2005) try all numbers of factors, each with
#: twelve numbers of components up to 40.
LATENT = (1, 2, 4, 8, 16)

COMPONENTS = (3, 10, 20)

FEW_LATENT = (1, 2)

#: Numbers of factors and components that they try for binary tables (2009).
BINARY_LATENT = (2, 5, 10, 15, 20, 25, 30, 35, 40, 50, 75, 100)

BINARY_COMPONENTS = (1, 2)

RIDGE = 0.3

#: What is tried for mixed tables, which no paper has.
MIXED_LATENT = (0, 2, 4, 8)

MIXED_COMPONENTS = (1, 2)

MIXED_RIDGES = (0.3, 3.0)


def search_settings(grids: dict[str, list[Any] | None], data: TrainingTable, n_rows: int) -> list[list[Setting]]:
    """What is tried, by the number of factors: what is given, else what is usual for tables of this
    kind.
    """
    q_grid = latent_sizes(grids, data)
    groups = []
    for q in q_grid:
        usual = default_grids(data, q)
        m_grid, objectives, ridges = (grids[name] or usual[name] for name in Setting._fields[1:])
        sizes = [m for m in sorted(set(m_grid)) if q * m <= n_rows]
        groups.append([Setting(int(q), int(m), o, float(r)) for m in sizes for o in objectives for r in ridges])
    groups = [group for group in groups if group]
    if not groups:
        raise ValueError(
            f"n_latent={q_grid} and n_components={m_grid}: no pair has n_latent * n_components <= {n_rows}, "
            "the rows of a fold."
        )
    return groups


def refinements(grids: dict[str, list[Any] | None], data: TrainingTable, n_rows: int, best: Setting) -> list[Setting]:
    """What is tried beside the best of the settings: components, where only one was tried."""
    if grids["n_components"] is not None or set(data.encoder.kinds) != {"continuous"}:
        return []
    few = {*FEW_LATENT, max(1, best.n_latent // 2), best.n_latent}
    sizes = sorted(few.intersection(latent_sizes(grids, data)))
    return [best._replace(n_latent=q, n_components=m) for q in sizes for m in COMPONENTS if q * m <= n_rows]


def latent_sizes(grids: dict[str, list[Any] | None], data: TrainingTable) -> list[Any]:
    """Numbers of factors to try, given or usual, that such a table can have."""
    q_grid, most = grids["n_latent"] or default_grids(data, 0)["n_latent"], data.X.shape[1] * data.n_classes
    found = [q for q in q_grid if q <= most]
    if not found:
        raise ValueError(f"n_latent={q_grid}; at least one must be at most n_features * n_classes = {most}.")
    return found


def default_grids(data: TrainingTable, q: int) -> dict[str, Sequence[Any]]:
    """Numbers of factors, and what is tried with q of them, for tables of this kind."""
    if set(data.encoder.kinds) == {"continuous"}:
        grids: Any = LATENT, [1], ["likelihood"], [RIDGE]
    elif not is_mixed(data.encoder):
        grids = BINARY_LATENT, BINARY_COMPONENTS, ["likelihood"], [RIDGE]
    elif q > 0:
        grids = MIXED_LATENT, MIXED_COMPONENTS, ["likelihood"], MIXED_RIDGES
    else:  # a single component without factors would know no classes
        grids = MIXED_LATENT, {2, data.n_classes}, ["likelihood", "conditional"], MIXED_RIDGES
    return dict(zip(Setting._fields, grids, strict=True))


def check_grids(grids: dict[str, list[Any] | None]) -> None:
    """Validate what the arguments ask to be tried."""
    for name, ge, whole in (("n_latent", 0, True), ("n_components", 1, True), ("ridge", 0, False)):
        grid = grids[name]
        if grid is not None and (not grid or isinstance(grid[0], str)):
            given, what = grid[0] if grid else grid, "integer" if whole else "number"
            raise ValueError(f"{name}={given!r}; allowed are None, one {what} or a sequence of {what}s >= {ge}.")
        for value in grid or []:
            check_number(name, value, ge=ge, integer=whole)
    objectives = grids["objective"]
    if objectives is not None and not objectives:
        raise ValueError(f"objective={objectives!r}; allowed are None, or one or more of {list(OBJECTIVES)}.")
    for objective in objectives or []:
        check_objective("objective", objective)


def is_mixed(encoder: ColumnEncoder) -> bool:
    """Whether the table is none of those that the papers treat."""
    return set(encoder.kinds) not in ({"continuous"}, {"binary"})


def as_list(grid: Any) -> list[Any]:
    """One value or several as a list; checks refuse what is neither."""
    grid = grid.tolist() if hasattr(grid, "tolist") else grid
    return list(grid) if isinstance(grid, Sequence) and not isinstance(grid, str) else [grid]


#: Log probabilities below this count as this: one confident mistake must not decide a search.
MIN_LOG_PROBA = -50.0


class Setting(NamedTuple):
    """What the search varies."""

    n_latent: int
    n_components: int
    objective: str
    ridge: float


class CVTrial(NamedTuple):
    """A setting and its cross-validated scores."""

    n_latent: int
    n_components: int
    objective: str
    ridge: float
    mean_accuracy: float
    std_accuracy: float
    mean_log_loss: float
    std_log_loss: float
    seconds: float

    def score(self, scoring: str) -> float:
        """Accuracy, or log loss with its sign turned, so that more is better."""
        return self.mean_accuracy if scoring == "accuracy" else -self.mean_log_loss

    @property
    def setting(self) -> Setting:
        return Setting(self.n_latent, self.n_components, self.objective, self.ridge)

    def summary(self) -> str:
        """A line to read."""
        sizes = f"n_latent={self.n_latent} n_components={self.n_components}"
        scores = f"accuracy {self.mean_accuracy:.4f}, log loss {self.mean_log_loss:.4f}"
        return f"{sizes} {self.objective} ridge={self.ridge:g}: {scores} ({self.seconds:.1f} s)"

    def rank(self, scoring: str) -> tuple[float, float]:
        """What is compared: accuracy, then log loss, or the other way round."""
        scores = round(self.mean_accuracy, 10), -self.mean_log_loss
        return scores if scoring == "accuracy" else scores[::-1]


class Search(NamedTuple):
    """How settings are compared."""

    folds: list[Fold]
    scoring: str
    patience: int | None  # numbers of factors without gain that end the search; None for all
    n_jobs: int | None

    def run(
        self,
        groups: Sequence[Sequence[Setting]],
        model_of: Callable[[Setting], Any],
        data: GenerativeInput,
        report: Callable[[CVTrial], bool],
        refine: Callable[[Setting], list[Setting]],
    ) -> list[CVTrial]:
        """Score the settings, one group after the other; a group counts by its best.

        What `refine` says of the best comes last. `report` may end the search.
        """
        trials: list[CVTrial] = []
        best: tuple[float, float] | None = None
        waited = 0
        ahead = max(1, effective_n_jobs(self.n_jobs))  # groups that several processes look at together
        with Parallel(n_jobs=self.n_jobs) as parallel:

            def score(settings: Sequence[Setting]) -> list[CVTrial]:
                jobs = [delayed(score_folds)(model_of(setting), data, self.folds) for setting in settings]
                return [self._summary(*done) for done in zip(settings, parallel(jobs), strict=True)]

            def scored(groups: Sequence[Sequence[Setting]]) -> Iterator[list[CVTrial]]:
                for first in range(0, len(groups), ahead):
                    some = groups[first : first + ahead]
                    found = iter(score([setting for group in some for setting in group]))
                    yield from ([next(found) for _ in group] for group in some)

            for mine in scored(groups):
                trials += mine
                top = max(trial.rank(self.scoring) for trial in mine)
                waited = 0 if best is None or top > best else waited + 1
                best = top if best is None else max(best, top)
                if any([report(trial) for trial in mine]):
                    return trials
                if self.patience is not None and waited >= self.patience:
                    break
            for mine in scored([[setting] for setting in refine(self.best(trials).setting)]):
                trials += mine
                if any([report(trial) for trial in mine]):
                    break
        return trials

    def best(self, trials: Sequence[CVTrial]) -> CVTrial:
        """The best trial; of equals the smallest, and of those the first."""
        return max(trials, key=lambda t: (t.rank(self.scoring), -t.n_latent, -t.n_components))

    def _summary(self, setting: Setting, scores: Sequence[_FoldScore]) -> CVTrial:
        sizes = [s.weight for s in scores]
        right, loss = np.array([s.right for s in scores]), np.array([s.log_loss for s in scores])
        mean, mean_loss = float(np.average(right, weights=sizes)), float(np.average(loss, weights=sizes))
        return CVTrial(*setting, mean, float(right.std()), mean_loss, float(loss.std()), sum(s.seconds for s in scores))


class _FoldScore(NamedTuple):
    right: float
    log_loss: float
    weight: float  # of the rows that were scored
    seconds: float


def trains_in_columns(model: LatentClassificationModel) -> bool:
    """Whether folds can be columns of weights: EM alone, and no graph to be learned."""
    return model.structure == "full" and model._objective().rises_under_em


def score_folds(model: Any, data: GenerativeInput, folds: Sequence[Fold]) -> list[_FoldScore]:
    """How well a model of each training part knows the classes of the test part.

    Models that EM trains are one batch, in which a fold is a column of weights. The others are
    trained one after the other.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # columns or values that a fold happens to lack
        predict = _fold_batch if trains_in_columns(model) else _fold_by_fold
        log_proba = predict(model, data, folds)
    seconds = (time.perf_counter() - started) / len(folds)
    scores = []
    for (_, test), each in zip(folds, log_proba, strict=True):
        y, weight = data.codes[test], np.ones(len(test)) if data.weight is None else data.weight[test]
        right = np.average(each.argmax(axis=1) == y, weights=weight)
        loss = 0.0 - np.average(np.clip(each, MIN_LOG_PROBA, 0.0)[np.arange(len(test)), y], weights=weight)
        scores.append(_FoldScore(float(right), float(loss), float(weight.sum()), seconds))
    return scores


def _weight_of_unlabeled_rows(model: LatentClassificationModel, data: GenerativeInput) -> float:
    """What `fit` would give unlabeled rows."""
    rng, source = random_generator(model.random_state), data.make_source()
    plan = model._plan(data, source, rng, StepNotifier())
    return choose_by_held_out_labels(plan, source, model.unlabeled_weight, False, rng).unlabeled_weight


def _fold_batch(model: Any, data: GenerativeInput, folds: Sequence[Fold]) -> list[np.ndarray]:
    weight = np.ones(data.codes.shape) if data.weight is None else data.weight
    columns = np.zeros((len(weight), len(folds)))
    for number, (train, _) in enumerate(folds):
        columns[train, number] = weight[train]
    fits = model._train_columns(data, columns, random_generator(model.random_state))
    log_proba = []
    for fit, column, (_, test) in zip(fits, columns.T, folds, strict=True):
        source = ArraySource(data.X, data.codes, column, data.preprocessor.prepare)
        tempering = choose_tempering(fit.model, source, model.temperature, fit.is_posterior)
        log_proba.append(to_numpy(replace(fit.model, tempering=tempering).log_proba(take_rows(data.X, test))))
    return log_proba


def _fold_by_fold(model: Any, data: GenerativeInput, folds: Sequence[Fold]) -> list[np.ndarray]:
    X, log_proba = rows_for_estimator(data.X), []
    for train, test in folds:
        weight = None if data.weight is None else data.weight[train]
        model.fit(take_rows(X, train), data.codes[train], weight)
        full = np.full((len(test), data.n_classes), MIN_LOG_PROBA)
        full[:, model.classes_] = to_numpy(model.predict_log_proba(take_rows(X, test)))
        log_proba.append(full)
    return log_proba


def as_table(trials: Sequence[CVTrial]) -> Any:
    """A data frame with one row per trial, or a dict of lists without pandas."""
    return as_frame_if_possible({name: [getattr(t, name) for t in trials] for name in CVTrial._fields})


class SearchedModel(NamedTuple):
    """The model that a search has chosen, and what it has learned."""

    model: LatentClassificationModel
    learned: Attributes
    outcome: Outcome
    setting: Setting
    score: float
    table: Any


class ChosenModelMixin(LearnedAttributesMixin, ClassifierMixin):
    """Predictions of `best_estimator_`."""

    predict = delegated_on_rows(LatentClassificationModel.predict)
    predict_proba = delegated_on_rows(LatentClassificationModel.predict_proba)
    predict_log_proba = delegated_on_rows(LatentClassificationModel.predict_log_proba)
    predict_joint_log_proba = delegated_on_rows(LatentClassificationModel.predict_joint_log_proba)
    score = delegated(LatentClassificationModel.score)
    score_samples = delegated_on_rows(LatentClassificationModel.score_samples)
    responsibilities = delegated_on_rows(LatentClassificationModel.responsibilities)
    impute = delegated_on_rows(LatentClassificationModel.impute)
    sample = delegated(LatentClassificationModel.sample)
    bic = delegated(LatentClassificationModel.bic)
    aic = delegated(LatentClassificationModel.aic)


#: Arguments that the search has beyond those of the model.
SEARCH_ONLY = ("cv", "search", "patience", "scoring", "refit_n_init", "n_jobs")

#: Starts of a fit in the search where their number is left to us.
SEARCH_N_INIT = 2

#: Stands for whatever the search will choose, where the rest of the model is checked.
DEFAULT_SETTING = Setting(1, 1, "likelihood", RIDGE)


class LatentClassificationModelCV(
    ChosenModelMixin,
    LearnedAttributesMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassifierMixin,
    LatentEstimator,
):
    """A latent classification model whose sizes and objective are found by the wrapper of the
    papers: cross-validation on the training rows.

    Every setting of the numbers of factors and components, the objective and the ridge is scored on
    `cv` folds by its accuracy or log loss; the best is fitted on all rows. Sizes with ``n_latent >
    n_features * n_classes`` or ``n_latent * n_components > n_samples`` of a training fold are left
    out, as in the papers. Of a large table in parts a sample of 64 MiB is searched.

    Parameters
    ----------
    n_latent : int, sequence of int or None, default=None
        Numbers of factors to try, in this order. None: 1, 2, 4, 8, 16 for continuous tables; 2, 5,
        10, 15, ..., 40, 50, 75, 100 for binary ones (as in the paper); 0, 2, 4, 8 for mixed ones.
    n_components : int, sequence of int or None, default=None
        Numbers of components to try. None: one, then 3, 10 and 20 with one and two factors, the
        best number and half of it, as far as `n_latent` has them, for continuous tables; 1 and 2
        for binary and mixed ones; without factors, 2 and the number of classes.
    objective : str, sequence of str or None, default=None
        Objectives to try, as in `LatentClassificationModel`. None: the likelihood, as in the
        papers; for mixed tables without factors also the conditional likelihood, which with a
        component for each class can represent logistic regression.
    ridge : float, sequence of float or None, default=None
        Precisions of the prior to try, as in `LatentClassificationModel`. None: 0.3 for continuous
        and for binary tables, 0.3 and 3 for mixed ones.
    scoring : {"accuracy", "log_loss"} or None, default=None
        What the search compares; the other breaks ties. None: accuracy for continuous and for
        binary tables, as in the papers; log loss, which is the steadier, for mixed ones.
    cv : int, cross-validation generator, iterable or None, default=5
        Folds; an integer makes stratified, shuffled ones (plain ones if a class has fewer rows),
        None five of them. A splitter sees the labeled rows of positive weight; an iterable holds
        pairs of training and test rows, as row numbers of X or masks. Unlabeled rows are in every
        training part and in no test part, rows of weight zero in neither.
    search : {"greedy", "exhaustive"}, default="greedy"
        "greedy": go through `n_latent`, score each by its best setting, and stop once `patience` of
        them brought no gain; "exhaustive": all settings.
    patience : int, default=3
        Numbers of factors without gain after which the greedy search stops.
    refit_n_init : int or None, default=None
        Number of starts of the final fit; None: `n_init`. The fits of the search have `n_init`,
        two if that is "auto".
    n_jobs : int or None, default=None
        Processes that score settings in parallel, as in joblib.
    callback : callable, default=None
        Called with each setting tried (it has the columns of `search_results_` as attributes), and
        then with each step of the final fit (which has `solver` instead); return True to stop.
    others : as in `LatentClassificationModel`
        But ``inference="ml"``, points as in the papers, is the default here; there it is "vb".

    Attributes
    ----------
    n_latent_, n_components_, objective_, ridge_ : int, int, str, float
        The setting chosen.
    best_score_ : float
        Its cross-validated accuracy, or negated log loss if that chose it.
    search_results_ : pandas.DataFrame, or dict of lists without pandas
        One row per setting tried: `n_latent`, `n_components`, `objective`, `ridge`, `mean_accuracy`
        and `mean_log_loss` with their standard deviations over the folds (`std_accuracy`,
        `std_log_loss`), `seconds`.
    best_estimator_ : LatentClassificationModel
        The chosen model, fitted on all rows; what it has learned are attributes here, too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassificationModelCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassificationModelCV([1, 2], [1], n_init=3, random_state=0).fit(X, y)
    >>> model.n_latent_ in (1, 2), len(model.search_results_["n_latent"])
    (True, 2)
    """

    _CHECKS: ClassVar[dict[str, Check]] = {
        "search": choice("greedy", "exhaustive"),
        "scoring": optional(choice("accuracy", "log_loss")),
        "patience": integer(ge=1),
        "refit_n_init": optional(integer(ge=1)),
        "n_jobs": optional(integer()),
    }

    transform = delegated_on_rows(LatentClassificationModel.transform)  # here, or `set_output` does not see it

    def __init__(
        self,
        n_latent: int | Sequence[int] | None = None,
        n_components: int | Sequence[int] | None = None,
        *,
        cv: FoldsLike = 5,
        search: str = "greedy",
        patience: int = 3,
        scoring: str | None = None,
        refit_n_init: int | None = None,
        n_jobs: int | None = None,
        noise: str = "tied",
        structure: str = "full",
        kinds: Kinds = "auto",
        selection: str = "accuracy",
        inference: str = "ml",
        marginals: str = "power",
        unlabeled_weight: float | str = "auto",
        temperature: float | str = "auto",
        objective: str | Sequence[str] | None = None,
        trade_off: float = 1.0,
        margin: float = 1.0,
        ramp: float | None = None,
        priors: PriorsLike = "empirical",
        var_floor: float = 1e-3,
        n_init: int | str = "auto",
        max_iter: int = 500,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        loss_matrix: ArrayLike | None = None,
        ridge: float | Sequence[float] | None = None,
        max_categories: int | None = None,
        min_frequency: int | float | None = None,
        handle_unknown: str = "missing",
        refine: str | None = None,
        n_importance_samples: int = 200,
        bound_tol: float = 1e-3,
        bound_max_iter: int = 100,
        unlabeled: str | int | None = "auto",
        random_state: RandomState = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ):
        self.n_latent = n_latent
        self.n_components = n_components
        self.noise = noise
        self.structure = structure
        self.kinds = kinds
        self.selection = selection
        self.inference = inference
        self.marginals = marginals
        self.unlabeled_weight = unlabeled_weight
        self.temperature = temperature
        self.objective = objective
        self.trade_off = trade_off
        self.margin = margin
        self.ramp = ramp
        self.priors = priors
        self.var_floor = var_floor
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.loss_matrix = loss_matrix
        self.ridge = ridge
        self.max_categories = max_categories
        self.min_frequency = min_frequency
        self.handle_unknown = handle_unknown
        self.refine = refine
        self.n_importance_samples = n_importance_samples
        self.bound_tol = bound_tol
        self.bound_max_iter = bound_max_iter
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose
        self.cv = cv
        self.search = search
        self.patience = patience
        self.scoring = scoring
        self.refit_n_init = refit_n_init
        self.n_jobs = n_jobs

    def _check_options(self) -> None:
        super()._check_options()
        check_grids(self._grids())
        self._model_with(DEFAULT_SETTING)._check_options()

    def _model_with(self, setting: Setting, **others: Any) -> LatentClassificationModel:
        """The model that this estimator searches for, with one of the settings tried."""
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in SEARCH_ONLY}
        return LatentClassificationModel(**(own | setting._asdict() | others))

    def _read_input(self, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None) -> TrainingTable:
        if is_lazy(X):
            refuse_row_numbers(self.cv)
        return self._model_with(DEFAULT_SETTING)._read_input(X, y, sample_weight)

    def _train(self, data: TrainingTable, rng: np.random.Generator, notifier: StepNotifier) -> SearchedModel:
        state = legacy_generator(self.random_state)
        scoring = self.scoring or ("log_loss" if is_mixed(data.encoder) else "accuracy")
        some = data.sample(rng) if isinstance(data, PartedInput) else data
        some = some if isinstance(self.priors, str) else replace(some, log_prior=None)  # as candidates have it
        folds = make_folds(self.cv, some.codes, some.weight, lambda: state.randint(2**31 - 1))
        search = Search(folds, scoring, self.patience if self.search == "greedy" else None, self.n_jobs)
        seed, n_rows = int(state.randint(2**31 - 1)), min(len(train) for train, _ in folds)
        groups = search_settings(self._grids(), data, n_rows)
        weight = _weight_of_unlabeled_rows(self._candidate(data.encoder, groups[0][0], seed), some)
        trials = search.run(
            groups,
            lambda setting: self._candidate(data.encoder, setting, seed, weight),
            some,
            self._report,
            lambda best: refinements(self._grids(), data, n_rows, best),
        )
        best = search.best(trials)
        n_init = self.n_init if self.refit_n_init is None else self.refit_n_init
        model = self._model_with(best.setting, n_init=n_init)
        searched = SearchedModel(model, {}, Outcome.MAX_ITER, best.setting, best.score(scoring), as_table(trials))
        inner = StepNotifier()
        inner.listeners.append(notifier)
        notifier.attributes_at = lambda params: self._fitted_attributes(
            data, searched._replace(learned=inner.attributes_at(params))
        )
        fitted = model._train(data, rng, inner)
        learned = data.attributes | model._fitted_attributes(data, fitted)
        return searched._replace(learned=learned, outcome=fitted.outcome)

    def _fitted_attributes(self, data: TrainingTable, fitted: SearchedModel) -> Attributes:
        best = clone(fitted.model)
        best._set_learned(on_device_of(fitted.learned, data.X))
        return {
            "best_estimator_": best,
            "best_score_": fitted.score,
            "search_results_": fitted.table,
            **{f"{name}_": value for name, value in fitted.setting._asdict().items()},
        }

    def _grids(self) -> dict[str, list[Any] | None]:
        """What the arguments ask to be tried; None for the defaults."""
        return {n: None if getattr(self, n) is None else as_list(getattr(self, n)) for n in Setting._fields}

    def _candidate(self, encoder: ColumnEncoder, setting: Setting, seed: int, weight: Any = "auto") -> Any:
        """A model to be scored on folds of the coded rows."""
        return self._model_with(
            setting,
            random_state=seed,
            verbose=0,
            **dict.fromkeys(("callback", "loss_matrix", "max_categories", "min_frequency")),  # rare values share codes
            unlabeled=-1,  # as in codes
            n_init=SEARCH_N_INIT if isinstance(self.n_init, str) else self.n_init,
            handle_unknown="missing",  # a training part may lack a category that its test part has
            kinds=encoder.modeled_kinds,
            priors=self.priors if isinstance(self.priors, str) else "empirical",  # a fold may lack a class
            unlabeled_weight=weight if isinstance(self.unlabeled_weight, str) else self.unlabeled_weight,
        )

    def _report(self, trial: CVTrial) -> bool:
        if self.verbose > 0:
            print(trial.summary(), file=sys.stderr)
        return bool(self.callback(trial)) if self.callback is not None else False

    def __sklearn_tags__(self) -> Tags:
        return self._model_with(DEFAULT_SETTING).__sklearn_tags__()

    @property
    def _n_features_out(self) -> int:
        return int(self.best_estimator_._n_features_out)
