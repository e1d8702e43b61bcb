"""How latent classification models are trained: sizes, posterior or point, solver, which start
wins.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import cycle
from typing import Any, ClassVar

import numpy as np

from latentia.engine.rows import TableSource
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.generative import GenerativeFit
from latentia.estimators.base.generative_input import TrainingTable
from latentia.estimators.base.generative_options import warn_of_idle_components
from latentia.estimators.base.streaming import StreamMixin
from latentia.estimators.base.tempering import Tempering
from latentia.estimators.base.unlabeled_weight import WEIGHTS
from latentia.estimators.latent_classification.restart_selection import best_restart
from latentia.families.latent_factors.answers import to_canonical_form
from latentia.families.latent_factors.e_step import BoundRules
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import ColumnLayout
from latentia.families.latent_factors.posterior import BayesianLatentFactors
from latentia.solvers import EM, AcceleratedEM, Solution, Solver, StructuralEM
from latentia.solvers.em import WINDOW
from latentia.table.options import Check, check_choice, check_number, choice, integer, number
from latentia.table.rows import is_complete

#: Factors where their number is left to us: of a posterior, and of a point.
MAX_AUTO_LATENT = 8
POINT_N_LATENT = 2

#: Starts of a posterior with several components.
POSTERIOR_N_INIT = 5

#: Components of the models that are averaged over where all sizes are left to us, beside one. Each
#: needs a weight of labeled rows, and one of rows for each column. The weights of unlabeled rows,
#: where these are left to us too, are all tried with one component and in turn with more.
AVERAGED_COMPONENTS = (2, 3, 4, 6)
LABELS_PER_COMPONENT = 3

#: How often the one whose weight labels have chosen counts.
CHOSEN_VOTES = 3

#: They need neither converge as far as a model that stands alone, nor see all rows.
AVERAGED_TOL = 3.0
AVERAGED_ROWS = 5000


#: Where models of columns with bounds are only compared: how far bounds settle, how many factors
#: there are at most, and iterations of EM.
ROUGH_BOUNDS = BoundRules(tol=1e-3, max_rounds=4)
ROUGH_N_LATENT = 4
ROUGH_MAX_ITER = 12


def size_or_auto(least: int) -> Check:
    """A check: a number of factors or components, or "auto"."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, str):
            check_choice(name, value, ["auto"], f" and integers >= {least}")
        else:
            check_number(name, value, ge=least, integer=True, besides=", or 'auto'")

    return check


class FactorTrainingMixin(StreamMixin[LatentFactors, BayesianLatentFactors]):
    """The family, the solver and the starts that the options ask for."""

    _starts_from_posterior = True
    n_latent: int | str
    n_components: int | str
    noise: str
    structure: str
    selection: str
    ridge: float
    bound_tol: float
    bound_max_iter: int
    refine: str | None
    _CHECKS: ClassVar[dict[str, Check]] = {
        "n_latent": size_or_auto(0),
        "n_components": size_or_auto(1),
        "ridge": number(ge=0),
        "noise": choice("auto", "tied", "untied"),
        "structure": choice("full", "learn"),
        "selection": choice("accuracy", "likelihood"),
        "bound_tol": number(ge=0),
        "bound_max_iter": integer(ge=1),
    }

    def _train(self, data: TrainingTable, rng: np.random.Generator, notifier: StepNotifier) -> GenerativeFit:
        if not self._averages(data):
            return super()._train(data, rng, notifier)
        sizes, weights = self._averaged_components(data), self._averaged_weights(data)
        # before rows are drawn, which weights stand for
        sample_seed, *seeds = rng.integers(2**31, size=1 + len(sizes) + len(weights))
        fit = super()._train(data, rng, notifier)
        settings = list(zip(sizes, cycle(weights or [fit.unlabeled_weight])))
        settings += [(1, weight) for weight in weights if weight != fit.unlabeled_weight]
        if data.rows.n_rows > AVERAGED_ROWS:
            data = data.sample(np.random.default_rng(sample_seed), AVERAGED_ROWS)
        others: list[FittedModel] = []
        for (n_components, weight), seed in zip(settings, seeds, strict=False):
            if notifier.stopped:
                break
            own = {"n_components": n_components, "unlabeled_weight": weight, "n_init": 1}
            other = copy(self).set_params(tol=AVERAGED_TOL * self.tol, **own)
            others.append(other._train(data, np.random.default_rng(seed), notifier).model)
        votes = CHOSEN_VOTES if weights else 1
        return fit._replace(model=replace(fit.model, others=tuple(others), n_votes=votes))

    def _averages(self, data: TrainingTable) -> bool:
        """Whether predictions are averaged over models.

        Bounds of other columns than continuous ones would take too long.
        """
        if self._trains_points() or self.refine is not None:
            return False
        return self.n_latent == self.n_components == "auto" and set(data.encoder.kinds) == {"continuous"}

    def _averaged_components(self, data: TrainingTable) -> list[int]:
        """Numbers of components of the models that predictions are averaged over, beside one."""
        labeled = sum(totals.weight for code, totals in data.rows.label_totals.items() if code >= 0)
        most = min(labeled / LABELS_PER_COMPONENT, data.rows.total_weight / data.n_features)
        return [m for m in AVERAGED_COMPONENTS if m <= most]

    def _averaged_weights(self, data: TrainingTable) -> list[float]:
        """Weights of unlabeled rows that predictions are averaged over, if there is a choice."""
        unlabeled = data.rows.label_totals.get(-1)
        if self.unlabeled_weight != "auto" or unlabeled is None or not unlabeled.n_weighted:
            return []
        return list(WEIGHTS)

    def _make_family(
        self, data: TrainingTable, source: TableSource, rng: np.random.Generator, notifier: StepNotifier
    ) -> LatentFactors:
        n_latent = self._choose_n_latent(data)
        n_components = 1 if isinstance(self.n_components, str) else self.n_components
        warn_of_idle_components([n_components], [data.rows.n_rows], ["X"])
        return LatentFactors(
            ColumnLayout.from_kinds(data.encoder.modeled_kinds, data.encoder.sizes),
            data.n_classes,
            n_latent,
            n_components,
            tied=self.noise == "tied" or (self.noise == "auto" and (self._trains_points() or n_components == 1)),
            var_floor=self.var_floor,
            complete=is_complete(data.rows, data.moments.weight_sum),
            all_edges=self.structure == "full" or n_latent == 0,
            log_prior=data.log_prior,
            ridge=self.ridge,
            bound_tol=self.bound_tol,
            bound_max_iter=self.bound_max_iter,
        )

    def _open_family(self, family: LatentFactors) -> LatentFactors:
        other = copy(family)
        other.complete = False  # later batches may have gaps
        return other

    def _choose_n_latent(self, data: TrainingTable) -> int:
        if not isinstance(self.n_latent, str):
            return int(self.n_latent)
        if self._trains_points():
            return POINT_N_LATENT
        return min(MAX_AUTO_LATENT, data.n_features - data.preprocessor.n_empty_columns)

    def _trains_points(self) -> bool:
        return self.inference == "ml" or self.structure == "learn" or not self._objective().rises_under_em

    def _make_posterior_family(self, family: LatentFactors, data: TrainingTable) -> BayesianLatentFactors | None:
        return BayesianLatentFactors(family) if family.all_edges else None

    def _rough(self, family: LatentFactors | BayesianLatentFactors) -> tuple[Any, int]:
        layout = (family.model if isinstance(family, BayesianLatentFactors) else family).layout
        max_iter = ROUGH_MAX_ITER if layout.n_bounded else super()._rough(family)[1]
        return family.with_bounds(ROUGH_BOUNDS, ROUGH_N_LATENT), max_iter

    def _choose_tempering(
        self, model: FittedModel, source: TableSource, is_posterior: bool, with_offsets: bool = True
    ) -> Tempering:
        rough = replace(model, family=model.family.with_bounds(ROUGH_BOUNDS))
        return super()._choose_tempering(rough, source, is_posterior, with_offsets)

    def _n_restarts(self, family: LatentFactors | BayesianLatentFactors) -> int:
        if isinstance(family, BayesianLatentFactors):
            if isinstance(self.n_init, str):
                return 1 if family.model.n_components == 1 else POSTERIOR_N_INIT
            return int(self.n_init)
        return super()._n_restarts(family) if family.n_latent > 0 or family.n_components > 1 else 1

    def _trains_in_columns(self) -> bool:
        """Whether folds can be columns of weights: EM alone, and no graph to be learned."""
        return self._objective().rises_under_em and self.structure == "full"

    def _em_solver(self, family: LatentFactors | BayesianLatentFactors) -> Solver[Any]:
        if isinstance(family, BayesianLatentFactors):
            return AcceleratedEM(self.max_iter, WINDOW * self.tol)
        em = EM(self.max_iter, self.tol)
        return em if family.all_edges else StructuralEM(em)

    def _select_restart(
        self,
        family: LatentFactors | BayesianLatentFactors,
        solution: Solution,
        source: TableSource,
        rng: np.random.Generator,
    ) -> int:
        if isinstance(family, BayesianLatentFactors):
            return super()._select_restart(family, solution, source, rng)
        return best_restart(family, solution, source, rng, by_accuracy=self.selection == "accuracy")

    def _finish(self, model: FittedModel[LatentFactors]) -> FittedModel[LatentFactors]:
        family = model.family if model.family.all_edges else model.family.with_edges(model.params.edges)
        return replace(model, family=family, params=to_canonical_form(model.params))
