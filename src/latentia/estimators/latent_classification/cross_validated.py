"""Latent classification models whose numbers of factors and components are chosen by cross-validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from latentia.engine.objectives import OBJECTIVES
from latentia.estimators.base.callbacks import check_callback, check_verbose
from latentia.estimators.base.fitting import transactional_fit
from latentia.estimators.latent_classification.model import LatentClassificationModel
from latentia.estimators.latent_classification.size_search import Rows, Search, Setting, Trial, as_table
from latentia.inputs.labels import encode_labels
from latentia.inputs.options import check_choice, check_number, legacy_generator
from latentia.inputs.splits import make_folds
from latentia.inputs.weights import check_loss_matrix, check_priors, check_weight

#: Numbers of components that Langseth & Nielsen (2005) try for continuous tables.
COMPONENTS = (1, 2, 3, 4, 5, 10, 15, 20, 25, 30, 35, 40)


#: Numbers of factors and components that they try for binary tables (2009).
BINARY_LATENT = (2, 5, 10, 15, 20, 25, 30, 35, 40, 50, 75, 100)


BINARY_COMPONENTS = (1, 2)


RIDGE = 0.3


#: What is tried for mixed tables, which no paper has.
MIXED_LATENT = (0, 2, 4, 8)


MIXED_COMPONENTS = (1, 2)


MIXED_RIDGES = (0.3, 3.0)


#: Arguments that the search has beyond those of the model.
SEARCH_ONLY = ("cv", "search", "patience", "scoring", "refit_n_init", "n_jobs")


class LatentClassificationModelCV(LatentClassificationModel):
    """A latent classification model whose sizes and objective are found by the wrapper of the papers: cross-validation on the training rows.

    Every setting of the numbers of factors and components, the objective and the ridge is scored on `cv` folds by its accuracy or log loss; the best is fitted on
    all rows. Sizes with ``n_latent > n_features * n_classes`` or ``n_latent * n_components > n_samples`` of a training fold are left out, as in the papers.

    Parameters
    ----------
    n_latent : int, sequence of int or None, default=None
        Numbers of factors to try, in this order. None: 1, 2, ... up to ``n_features * n_classes`` for continuous tables; 2, 5, 10, 15, ..., 40, 50, 75, 100
        for binary ones (both as in the papers); 0, 2, 4, 8 for mixed ones.
    n_components : int, sequence of int or None, default=None
        Numbers of components to try. None: 1, 2, 3, 4, 5, 10, 15, ..., 40 for continuous tables, 1 and 2 for binary and mixed ones; without factors, 2 and the number of
        classes.
    objective : str, sequence of str or None, default=None
        Objectives to try, as in `LatentClassificationModel`. None: the likelihood, as in the papers; for mixed tables without factors also the conditional likelihood, which
        with a component for each class can represent logistic regression.
    ridge : float, sequence of float or None, default=None
        Precisions of the prior to try, as in `LatentClassificationModel`. None: 0.3 for continuous and for binary tables, 0.3 and 3 for mixed ones.
    scoring : {"accuracy", "log_loss"} or None, default=None
        What the search compares; the other breaks ties. None: accuracy for continuous and for binary tables, as in the papers; log loss, which is the steadier, for mixed ones.
    cv : int, cross-validation generator, iterable or None, default=5
        Folds; an integer makes stratified, shuffled ones (plain ones if a class has fewer rows), None five of them. A splitter sees the labeled rows of positive weight;
        an iterable holds pairs of training and test rows, as row numbers of X or masks. Unlabeled rows are in every training part and in no test part, rows of weight
        zero in neither.
    search : {"greedy", "exhaustive"}, default="greedy"
        "greedy": go through `n_latent`, score each by its best setting, and stop once `patience` of them brought no gain; "exhaustive": all settings.
    patience : int, default=1
        Numbers of factors without gain after which the greedy search stops.
    refit_n_init : int or None, default=None
        Number of starts of the final fit; None: `n_init`, which the fits of the search have.
    n_jobs : int or None, default=None
        Processes that fit folds in parallel, as in joblib.
    callback : callable, default=None
        Called with each `Trial` of the search; a true answer ends it. The final fit passes its steps too.
    **others
        As in `LatentClassificationModel`.

    Attributes
    ----------
    n_latent_, n_components_, objective_, ridge_ : int, int, str, float
        The setting chosen.
    best_score_ : float
        Its cross-validated accuracy, or log loss with its sign turned if that chose it: more is better.
    search_results_ : pandas.DataFrame, or dict of lists without pandas
        One row per setting tried: `n_latent`, `n_components`, `objective`, `ridge`, `mean_accuracy` and `mean_log_loss` with their standard deviations over the folds
        (`std_accuracy`, `std_log_loss`), `seconds`.
    **others
        As in `LatentClassificationModel`, of the model fitted on all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassificationModelCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassificationModelCV([1, 2], [1], n_init=3, random_state=0).fit(X, y)
    >>> model.n_latent_ in (1, 2), len(model.search_results_["n_latent"])
    (True, 2)
    """

    def __init__(
        self,
        n_latent: int | Sequence[int] | None = None,
        n_components: int | Sequence[int] | None = None,
        *,
        cv: Any = 5,
        search: str = "greedy",
        patience: int = 1,
        scoring: str | None = None,
        refit_n_init: int | None = None,
        n_jobs: int | None = None,
        noise: str = "tied",
        structure: str = "full",
        kinds: Any = "auto",
        selection: str = "accuracy",
        objective: str | Sequence[str] | None = None,
        trade_off: float = 1.0,
        margin: float = 1.0,
        ramp: float | None = None,
        priors: Any = "empirical",
        var_floor: float = 1e-3,
        n_init: int = 10,
        max_iter: int = 500,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        loss_matrix: Any = None,
        ridge: float | Sequence[float] | None = None,
        handle_unknown: str = "missing",
        refine: str | None = None,
        n_importance_samples: int = 200,
        bound_tol: float = 1e-3,
        bound_max_iter: int = 100,
        random_state: Any = None,
        callback: Callable[..., Any] | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            n_latent,  # type: ignore[arg-type]
            n_components,  # type: ignore[arg-type]
            noise=noise,
            structure=structure,
            kinds=kinds,
            selection=selection,
            objective=objective,  # type: ignore[arg-type]
            trade_off=trade_off,
            margin=margin,
            ramp=ramp,
            priors=priors,
            var_floor=var_floor,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            loss_matrix=loss_matrix,
            ridge=ridge,  # type: ignore[arg-type]
            handle_unknown=handle_unknown,
            refine=refine,
            n_importance_samples=n_importance_samples,
            bound_tol=bound_tol,
            bound_max_iter=bound_max_iter,
            random_state=random_state,
            callback=callback,
            verbose=verbose,
        )
        self.cv = cv
        self.search = search
        self.patience = patience
        self.scoring = scoring
        self.refit_n_init = refit_n_init
        self.n_jobs = n_jobs

    def _check_searched(self) -> None:
        check_choice("search", self.search, ["greedy", "exhaustive"])
        if self.scoring is not None:
            check_choice("scoring", self.scoring, ["accuracy", "log_loss"])
        check_number("patience", self.patience, least=1, integer=True)
        if self.refit_n_init is not None:
            check_number("refit_n_init", self.refit_n_init, least=1, integer=True)
        if self.n_jobs is not None:
            check_number("n_jobs", self.n_jobs, integer=True)
        for name, least, integer in (("n_latent", 0, True), ("n_components", 1, True), ("ridge", 0, False)):
            grid = getattr(self, name)
            if grid is None:
                continue
            if isinstance(grid, str) or not _listed(grid):
                what = "integer" if integer else "number"
                raise ValueError(f"{name}={grid!r}; allowed are None, one {what} or a sequence of {what}s >= {least}.")
            for number in _listed(grid):
                check_number(name, number, least=least, integer=integer)

    def _check_objective(self) -> None:
        if self.objective is None:
            return
        if not _listed(self.objective):
            raise ValueError(f"objective={self.objective!r}; allowed are None, or one or more of {list(OBJECTIVES)}.")
        for name in _listed(self.objective):
            check_choice("objective", name, OBJECTIVES)

    def _check_final(self, classes: np.ndarray) -> None:
        """Refuse what only the final fit would look at, before the search has cost its time."""
        check_priors(self.priors, classes)
        check_loss_matrix(self.loss_matrix, len(classes))
        check_callback(self.callback)
        check_verbose(self.verbose)

    def _effective_param(self, name: str) -> Any:
        return getattr(self, f"{name}_")

    def _n_restarts(self) -> int:
        usual = super()._n_restarts()
        return usual if usual == 1 or self.refit_n_init is None else self.refit_n_init

    @transactional_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LatentClassificationModelCV:
        """Search by cross-validation, and fit the best setting on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,)
            Classes; -1 (integers), None or NaN (others) mark unlabeled rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a row of weight 2 counts as that row twice.

        Returns
        -------
        self : estimator
        """
        self._check_options()
        coded = self._check_rows(X, reset=True)
        labels = encode_labels(y, coded.shape[0])
        self._check_final(labels.classes)
        weight = check_weight(sample_weight, coded.shape[0], labels.codes, labels.classes)
        rng = legacy_generator(self.random_state)
        patience = self.patience if self.search == "greedy" else None
        scoring = self.scoring or ("log_loss" if self._is_mixed() else "accuracy")
        rows = Rows(coded, labels.codes, weight)
        folds = make_folds(self.cv, labels.codes, weight, lambda: rng.randint(2**31 - 1))
        search = Search(folds, scoring, patience, self.n_jobs)
        seed = int(rng.randint(2**31 - 1))
        groups = self._settings(len(labels.classes), min(len(train) for train, _ in search.folds))
        trials = search.run(groups, lambda setting: self._candidate(setting, seed), rows, self._report)
        best = search.best(trials)
        self.n_latent_, self.n_components_, self.objective_, self.ridge_ = best.setting
        self.best_score_ = best.score(scoring)
        self.search_results_ = as_table(trials)
        return super().fit(X, y, sample_weight)

    def _settings(self, n_classes: int, n_rows: int) -> list[list[Setting]]:
        """What is tried, by the number of factors: what is given, else what is usual for tables of this kind."""
        grids = {
            name: None if getattr(self, name) is None else _listed(getattr(self, name)) for name in Setting._fields
        }
        most = self.n_features_in_ * n_classes
        q_grid = grids["n_latent"] or self._usual(0, n_classes)["n_latent"]
        if all(q > most for q in q_grid):
            raise ValueError(f"n_latent={q_grid}; at least one must be at most n_features * n_classes = {most}.")
        groups = []
        for q in q_grid:
            usual = self._usual(q, n_classes)
            m_grid, names, ridges = (grids[name] or usual[name] for name in Setting._fields[1:])
            sizes = [m for m in sorted(set(m_grid)) if q * m <= n_rows]
            groups.append([Setting(int(q), int(m), name, float(r)) for m in sizes for name in names for r in ridges])
        groups = [group for group, q in zip(groups, q_grid, strict=True) if group and q <= most]
        if not groups:
            raise ValueError(
                f"n_latent={q_grid} and n_components={m_grid}: no pair has n_latent * n_components <= {n_rows}, the rows of a fold."
            )
        return groups

    def _is_mixed(self) -> bool:
        """Whether the table is none of those that the papers treat."""
        return set(self.table_.kinds) not in ({"continuous"}, {"binary"})

    def _usual(self, q: int, n_classes: int) -> dict[str, Sequence[Any]]:
        """Numbers of factors, and what is tried with q of them."""
        if set(self.table_.kinds) == {"continuous"}:
            grids: Any = range(1, self.n_features_in_ * n_classes + 1), COMPONENTS, ["likelihood"], [RIDGE]
        elif not self._is_mixed():
            grids = BINARY_LATENT, BINARY_COMPONENTS, ["likelihood"], [RIDGE]
        elif q > 0:
            grids = MIXED_LATENT, MIXED_COMPONENTS, ["likelihood"], MIXED_RIDGES
        else:  # a single component without factors would know no classes
            grids = MIXED_LATENT, {2, n_classes}, ["likelihood", "conditional"], MIXED_RIDGES
        return dict(zip(Setting._fields, grids, strict=True))

    def _candidate(self, setting: Setting, seed: int) -> LatentClassificationModel:
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in SEARCH_ONLY}
        own |= {"random_state": seed, "callback": None, "verbose": 0, "loss_matrix": None}
        own["handle_unknown"] = "missing"  # a training part may lack a category that its test part has
        own |= setting._asdict() | {"kinds": self.table_.modeled_kinds}
        if not isinstance(self.priors, str):
            own["priors"] = "empirical"  # a fold may lack a class that the user's priors name
        return LatentClassificationModel(**own)

    def _report(self, trial: Trial) -> bool:
        if self.verbose > 0:
            sizes = f"q={trial.n_latent} m={trial.n_components} {trial.objective} ridge={trial.ridge:g}"
            scores = f"accuracy {trial.mean_accuracy:.4f}, log loss {trial.mean_log_loss:.4f}"
            print(f"{sizes}: {scores} ({trial.seconds:.1f} s)", file=sys.stderr)
        return bool(self.callback(trial)) if self.callback is not None else False


def _listed(grid: Any) -> list[Any]:
    """One value or several as a list; checks refuse what is neither."""
    grid = grid.tolist() if hasattr(grid, "tolist") else grid
    return list(grid) if isinstance(grid, Sequence) and not isinstance(grid, str) else [grid]
