"""Latent classification models whose numbers of factors and components are chosen by cross-validation."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import check_random_state

from latentia._arrays import to_numpy
from latentia.latent_classification import LatentClassificationModel
from latentia.validation import check_choice, check_number, check_weight, encode_labels

#: Numbers of components that Langseth & Nielsen (2005) try, and of factors and components that they try for binary tables (2009).
COMPONENTS = (1, 2, 3, 4, 5, 10, 15, 20, 25, 30, 35, 40)
BINARY_LATENT = (2, 5, 10, 15, 20, 25, 30, 35, 40, 50, 75, 100)
BINARY_COMPONENTS = (1, 2)


class Trial(NamedTuple):
    """One pair of sizes and its cross-validated scores."""

    n_latent: int
    n_components: int
    mean_accuracy: float
    std_accuracy: float
    mean_log_loss: float
    seconds: float

    @property
    def rank(self) -> tuple[float, float]:
        """What is compared: accuracy, then log loss."""
        return round(self.mean_accuracy, 10), -self.mean_log_loss


class LatentClassificationModelCV(LatentClassificationModel):
    """A latent classification model whose sizes are found by the wrapper of the papers: cross-validated accuracy on the training rows.

    Every pair (q, m) of numbers of factors and components is scored by the accuracy of `cv` folds, ties broken by the log loss; the best pair is fitted on
    all rows. Pairs with ``q > n_features * n_classes`` or ``q * m > n_samples`` of a training fold are left out, as in the papers.

    Parameters
    ----------
    n_latent : int, sequence of int or None, default=None
        Numbers of factors to try, in this order. None: 1, 2, ... up to ``n_features * n_classes`` for continuous tables, and 2, 5, 10, 15, ..., 40, 50, 75, 100
        if a column is binary or categorical.
    n_components : int, sequence of int or None, default=None
        Numbers of components to try. None: 1, 2, 3, 4, 5, 10, 15, ..., 40 for continuous tables, else 1 and 2.
    cv : int, cross-validation generator or iterable, default=5
        Folds; an integer makes stratified, shuffled ones (plain ones if a class has fewer rows). Unlabelled rows are in every training part.
    search : {"greedy", "exhaustive"}, default="greedy"
        "greedy": go through `n_latent`, score each by its best number of components, and stop once `patience` of them brought no gain; "exhaustive": all pairs.
    patience : int, default=1
        Numbers of factors without gain after which the greedy search stops.
    n_jobs : int or None, default=None
        Processes that fit folds in parallel, as in joblib.
    callback : callable, default=None
        Called with each `Trial` of the search; a true answer ends it. The final fit passes its steps too.
    **others
        As in `LatentClassificationModel`.

    Attributes
    ----------
    n_latent_, n_components_ : int
        The sizes chosen.
    best_score_ : float
        Their cross-validated accuracy.
    results_ : pandas.DataFrame, or dict of lists without pandas
        One row per pair tried: `n_latent`, `n_components`, `mean_accuracy`, `std_accuracy` over the folds, `mean_log_loss`, `seconds`.
    **others
        As in `LatentClassificationModel`, of the model fitted on all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassificationModelCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassificationModelCV([1, 2], [1], n_init=3, random_state=0).fit(X, y)
    >>> model.n_latent_ in (1, 2), len(model.results_["n_latent"])
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
        n_jobs: int | None = None,
        noise: str = "tied",
        structure: str = "full",
        kinds: Any = "auto",
        selection: str = "accuracy",
        objective: str = "likelihood",
        trade_off: float = 1.0,
        margin: float = 1.0,
        ramp: float | None = None,
        priors: Any = "empirical",
        var_floor: float = 1e-3,
        n_init: int = 10,
        max_iter: int = 200,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        loss_matrix: Any = None,
        ridge: float = 0.3,
        unknown: str = "missing",
        refine: str | None = None,
        n_draws: int = 200,
        inner_tol: float = 1e-5,
        inner_max_iter: int = 100,
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
            objective=objective,
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
            ridge=ridge,
            unknown=unknown,
            refine=refine,
            n_draws=n_draws,
            inner_tol=inner_tol,
            inner_max_iter=inner_max_iter,
            random_state=random_state,
            callback=callback,
            verbose=verbose,
        )
        self.cv = cv
        self.search = search
        self.patience = patience
        self.n_jobs = n_jobs

    def _check_sizes(self) -> None:
        check_choice("search", self.search, ["greedy", "exhaustive"])
        check_number("patience", self.patience, least=1, integer=True)
        for name, least in (("n_latent", 0), ("n_components", 1)):
            grid = getattr(self, name)
            if grid is None:
                continue
            if isinstance(grid, str) or np.size(grid) == 0:
                raise ValueError(f"{name}={grid!r}; allowed are None, an integer or a sequence of integers >= {least}.")
            for number in np.atleast_1d(np.asarray(grid, dtype=object)).tolist():
                check_number(name, number, least=least, integer=True)

    def _sizes(self) -> tuple[int, int]:
        return self.n_latent_, self.n_components_

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LatentClassificationModelCV:
        """Search the sizes by cross-validation, and fit the best on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,)
            Classes; -1 (integers), None or NaN (others) mark unlabelled rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a row of weight 2 counts as that row twice.

        Returns
        -------
        self : estimator
        """
        self._check_options()
        rows = self._check_rows(X, reset=True)
        labels = encode_labels(y, rows.shape[0])
        weight = check_weight(sample_weight, rows.shape[0], labels.codes, labels.classes)
        rng = check_random_state(self.random_state)
        folds = self._folds(labels.codes, rng)
        q_grid, m_grid = self._grids(len(labels.classes))
        n_rows = min(len(train) for train, _ in folds)
        trials = self._search(rows, labels.codes, weight, folds, q_grid, m_grid, n_rows, int(rng.randint(2**31 - 1)))
        best = max(trials, key=lambda t: (t.rank, -t.n_latent, -t.n_components))
        self.n_latent_, self.n_components_, self.best_score_ = best.n_latent, best.n_components, best.mean_accuracy
        self.results_ = _as_table(trials)
        return super().fit(X, y, sample_weight)

    def _grids(self, n_classes: int) -> tuple[list[int], list[int]]:
        most = self.n_features_in_ * n_classes
        continuous = all(kind == "continuous" for kind in self.table_.kinds)
        usual = range(1, most + 1) if continuous else BINARY_LATENT
        q_grid = [int(q) for q in (usual if self.n_latent is None else np.atleast_1d(self.n_latent))]
        m_grid: Any = COMPONENTS if continuous else BINARY_COMPONENTS
        m_grid = m_grid if self.n_components is None else np.atleast_1d(self.n_components)
        if all(q > most for q in q_grid):
            raise ValueError(f"n_latent={q_grid}; at least one must be at most n_features * n_classes = {most}.")
        return [q for q in q_grid if q <= most], sorted({int(m) for m in m_grid})

    def _folds(self, codes: np.ndarray, rng: np.random.RandomState) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of training and test rows; unlabelled rows belong to every training part."""
        labelled, others = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        cv = self.cv
        if isinstance(cv, int | np.integer):
            check_number("cv", cv, least=2, integer=True)
            if labelled.size < cv:
                raise ValueError(
                    f"cv={cv}, but X has n_samples={labelled.size} labelled rows: allowed is at most one fold per row."
                )
            rare = np.bincount(codes[labelled])[np.unique(codes[labelled])].min() < cv
            cv = (KFold if rare else StratifiedKFold)(int(cv), shuffle=True, random_state=rng.randint(2**31 - 1))
        cv = check_cv(cv, codes[labelled], classifier=True)
        blank = np.zeros((labelled.size, 1))
        return [
            (np.sort(np.concatenate([labelled[train], others])), labelled[test])
            for train, test in cv.split(blank, codes[labelled])
        ]

    def _search(
        self,
        rows: Any,
        codes: np.ndarray,
        weight: np.ndarray | None,
        folds: list[tuple[np.ndarray, np.ndarray]],
        q_grid: list[int],
        m_grid: list[int],
        n_rows: int,
        seed: int,
    ) -> list[Trial]:
        trials: list[Trial] = []
        best: tuple[float, float] | None = None
        waited = 0
        with Parallel(n_jobs=self.n_jobs) as parallel:
            for q in q_grid:
                sizes = [m for m in m_grid if q * m <= n_rows]
                jobs = [(m, k) for m in sizes for k in range(len(folds))]
                scores = parallel(
                    delayed(_score_fold)(self._candidate(q, m, seed), rows, codes, weight, *folds[k]) for m, k in jobs
                )
                mine = [
                    _summary(q, m, [s for (n, _), s in zip(jobs, scores, strict=True) if n == m], folds) for m in sizes
                ]
                if not mine:
                    continue
                trials += mine
                stop = [self._report(trial) for trial in mine]
                top = max(trial.rank for trial in mine)
                waited = 0 if best is None or top > best else waited + 1
                best = top if best is None else max(best, top)
                if any(stop) or (self.search == "greedy" and waited >= self.patience):
                    break
        if not trials:
            raise ValueError(
                f"n_latent={q_grid} and n_components={m_grid}: no pair has n_latent * n_components <= {n_rows}, the rows of a fold."
            )
        return trials

    def _candidate(self, q: int, m: int, seed: int) -> LatentClassificationModel:
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in ("cv", "search", "patience", "n_jobs")}
        kinds = [
            "binary" if c is not None and c.size == 2 else kind
            for kind, c in zip(self.table_.kinds, self.table_.categories, strict=True)
        ]
        own |= {
            "n_latent": q,
            "n_components": m,
            "random_state": seed,
            "callback": None,
            "verbose": 0,
            "kinds": kinds,
            "loss_matrix": None,
        }
        if not isinstance(self.priors, str):
            own["priors"] = "empirical"  # a fold may lack a class that the user's priors name
        return LatentClassificationModel(**own)

    def _report(self, trial: Trial) -> bool:
        if self.verbose:
            line = f"q={trial.n_latent} m={trial.n_components}: accuracy {trial.mean_accuracy:.4f}, log loss {trial.mean_log_loss:.4f}"
            print(f"{line} ({trial.seconds:.1f} s)", file=sys.stderr)
        return bool(self.callback(trial)) if self.callback is not None else False


class _FoldScore(NamedTuple):
    right: float
    log_loss: float
    seconds: float


def _score_fold(
    model: LatentClassificationModel,
    rows: Any,
    codes: np.ndarray,
    weight: np.ndarray | None,
    train: np.ndarray,
    test: np.ndarray,
) -> _FoldScore:
    """Fit on one part of the coded rows and score on the other."""
    started = time.perf_counter()
    rows = to_numpy(rows) if isinstance(rows, np.ndarray) else rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # columns or values that a fold happens to lack
        model.fit(rows[train, ...], codes[train], None if weight is None else weight[train])
        proba = to_numpy(model.predict_log_proba(rows[test, ...]))
    full = np.full((len(test), codes.max() + 1), -50.0)
    full[:, model.classes_] = np.maximum(proba, -50.0)
    right = np.mean(full.argmax(axis=1) == codes[test])
    return _FoldScore(
        float(right), float(-full[np.arange(len(test)), codes[test]].mean()), time.perf_counter() - started
    )


def _summary(q: int, m: int, scores: list[_FoldScore], folds: list[tuple[np.ndarray, np.ndarray]]) -> Trial:
    sizes = np.array([len(test) for _, test in folds], dtype=float)
    right, loss = np.array([s.right for s in scores]), np.array([s.log_loss for s in scores])
    mean = float(np.average(right, weights=sizes))
    return Trial(q, m, mean, float(right.std()), float(np.average(loss, weights=sizes)), sum(s.seconds for s in scores))


def _as_table(trials: list[Trial]) -> Any:
    table = {name: [getattr(t, name) for t in trials] for name in Trial._fields}
    try:
        from pandas import DataFrame
    except ImportError:
        return table
    return DataFrame(table)
