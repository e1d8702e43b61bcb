"""Latent classification models whose sizes are chosen by cross-validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.delegation import LearnedAttributesMixin, delegated_on_rows
from latentia.estimators.base.fitting import Attributes, LatentEstimator, on_device_of
from latentia.estimators.base.generative_input import PartedInput, TrainingTable
from latentia.estimators.latent_classification import size_grid
from latentia.estimators.latent_classification.chosen_model import ChosenModelMixin, SearchedModel
from latentia.estimators.latent_classification.model import LatentClassificationModel
from latentia.estimators.latent_classification.size_search import CVTrial, Search, Setting, as_table
from latentia.solvers import Outcome
from latentia.table.encoder import ColumnEncoder
from latentia.table.lazy import is_lazy
from latentia.table.options import Check, choice, integer, legacy_generator, optional
from latentia.table.weights import make_folds, refuse_row_numbers

#: Arguments that the search has beyond those of the model.
SEARCH_ONLY = ("cv", "search", "patience", "scoring", "refit_n_init", "n_jobs")

#: Starts of a fit in the search where their number is left to us.
SEARCH_N_INIT = 2

#: Stands for whatever the search will choose, where the rest of the model is checked.
DEFAULT_SETTING = Setting(1, 1, "likelihood", size_grid.RIDGE)


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
        cv: Any = 5,
        search: str = "greedy",
        patience: int = 3,
        scoring: str | None = None,
        refit_n_init: int | None = None,
        n_jobs: int | None = None,
        noise: str = "tied",
        structure: str = "full",
        kinds: Any = "auto",
        selection: str = "accuracy",
        inference: str = "ml",
        marginals: str = "power",
        unlabeled_weight: float | str = "auto",
        temperature: float | str = "auto",
        objective: str | Sequence[str] | None = None,
        trade_off: float = 1.0,
        margin: float = 1.0,
        ramp: float | None = None,
        priors: Any = "empirical",
        var_floor: float = 1e-3,
        n_init: int | str = "auto",
        max_iter: int = 500,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        loss_matrix: Any = None,
        ridge: float | Sequence[float] | None = None,
        max_categories: int | None = None,
        min_frequency: int | float | None = None,
        handle_unknown: str = "missing",
        refine: str | None = None,
        n_importance_samples: int = 200,
        bound_tol: float = 1e-3,
        bound_max_iter: int = 100,
        unlabeled: str | int | None = "auto",
        random_state: Any = None,
        callback: Callable[..., Any] | None = None,
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
        size_grid.check_grids(self._grids())
        self._model_with(DEFAULT_SETTING)._check_options()

    def _model_with(self, setting: Setting, **others: Any) -> LatentClassificationModel:
        """The model that this estimator searches for, with one of the settings tried."""
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in SEARCH_ONLY}
        return LatentClassificationModel(**(own | setting._asdict() | others))

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> TrainingTable:
        if is_lazy(X):
            refuse_row_numbers(self.cv)
        return self._model_with(DEFAULT_SETTING)._read_input(X, y, sample_weight)

    def _n_rows(self, X: Any, data: TrainingTable) -> int:
        return data.rows.n_rows

    def _train(self, data: TrainingTable, rng: np.random.Generator, notifier: StepNotifier) -> SearchedModel:
        state = legacy_generator(self.random_state)
        scoring = self.scoring or ("log_loss" if size_grid.is_mixed(data.encoder) else "accuracy")
        some = data.sample(rng) if isinstance(data, PartedInput) else data
        some = some if isinstance(self.priors, str) else replace(some, log_prior=None)  # as candidates have it
        folds = make_folds(self.cv, some.codes, some.weight, lambda: state.randint(2**31 - 1))
        search = Search(folds, scoring, self.patience if self.search == "greedy" else None, self.n_jobs)
        seed, n_rows = int(state.randint(2**31 - 1)), min(len(train) for train, _ in folds)
        groups = size_grid.search_settings(self._grids(), data, n_rows)
        weight = self._candidate(data.encoder, groups[0][0], seed)._weight_of_unlabeled_rows(some)
        trials = search.run(
            groups,
            lambda setting: self._candidate(data.encoder, setting, seed, weight),
            some,
            self._report,
            lambda best: size_grid.refinements(self._grids(), data, n_rows, best),
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
        return {n: None if getattr(self, n) is None else size_grid.as_list(getattr(self, n)) for n in Setting._fields}

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

    def __sklearn_tags__(self) -> Any:
        return self._model_with(DEFAULT_SETTING).__sklearn_tags__()

    @property
    def _n_features_out(self) -> int:
        return int(self.best_estimator_._n_features_out)
