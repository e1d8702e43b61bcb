"""Training of one candidate model after another on the same rows.

1. L-BFGS on the standardized rows from random weights of two sizes and from k-means centroids, with
   a light ridge (the paper starts from maximum likelihood, too). It costs little and its value
   foretells the bound's, so three times as many restarts are tried as go on. The one maximum of a
   convex likelihood is found from any point, so there step 2 follows at once.
2. Variational Bayes or maximum likelihood from those points (`inference`). Of a large table, where
   there are several optima, a sample sees all restarts, and all rows the one that is best there.
3. Its score: on held-out rows, or by what the criterion says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.engine.contracts import Params
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart, stack_restarts
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.latent_softmax.distinct_rows import held_out_weight
from latentia.estimators.latent_softmax.effort import FULL
from latentia.estimators.latent_softmax.fitted import Averaging, Candidate, Criterion
from latentia.estimators.latent_softmax.inference import Inference, Options
from latentia.estimators.latent_softmax.model_specs import ModelSpec
from latentia.estimators.latent_softmax.modeled_rows import ModeledRows, with_weight
from latentia.estimators.latent_softmax.search_rules import HeldOutScore
from latentia.solvers import BatchedLBFGS, Step

#: Precision of the weights in the likelihood that initial points maximize, on standardized rows.
INITIAL_RIDGE = 0.01

#: Restarts tried by likelihood for each that goes on.
SCREENING_FACTOR = 3

#: Fraction of the rows on which `criterion="validation"` compares models.
HELD_OUT = 0.25


@dataclass(frozen=True)
class Trainer:
    """Trains and scores candidates.

    `log_unit` is the log of the volume of a unit of the outputs, by which log densities of modeled
    outputs exceed those of the outputs as they came; zero for classes.
    """

    rows: ModeledRows
    held_out: ArraySource | None
    inference: Inference
    criterion: Criterion
    averaging: Averaging
    options: Options
    rng: np.random.Generator
    notifier: StepNotifier
    log_unit: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether a callback has asked to stop."""
        return self.notifier.stopped

    def train(self, spec: ModelSpec, extra_points: tuple[Params, ...] = ()) -> Candidate:
        """Train a model, also from `extra_points`, and score it."""
        candidate = self._train(spec, extra_points)
        return candidate._replace(score=self._score(candidate))

    def train_on(self, rows: ModeledRows, candidate: Candidate) -> Candidate:
        """Train a candidate's model to the end, on other rows and also from its point estimate."""
        full = replace(self, rows=rows, options=self.options._replace(effort=FULL))
        return full._train(candidate.model.spec, (candidate.model.point_estimate,))

    def _train(self, spec: ModelSpec, extra_points: tuple[Params, ...]) -> Candidate:
        began = time.perf_counter()
        rows = self.rows.modeled
        log_jacobian = rows.total_weight * self.log_unit

        def tell(step: Step) -> bool:
            return self.notifier(step._replace(value=step.value - log_jacobian))

        some = self.rows if spec.is_convex else self.rows.sample(self.rng)
        points = stack_restarts([*self._initial_points(spec, some), *extra_points])
        trained = self.inference.train(spec, some, points, self.options, tell)
        if some is not self.rows:
            trained = self.inference.go_on(spec, self.rows, trained, self.options, tell)
        point = trained.model.point_estimate
        log_likelihood = float(to_numpy(RowProblem(spec.likelihood(), Likelihood(), rows).sweep(point).value))
        penalty = spec.n_free(rows.n_features + 1) * float(np.log(rows.total_weight))
        solution, winner = trained.solution, trained.winner
        return Candidate(
            model=trained.model,
            curve=solution.curves[winner],
            n_iter=int(solution.n_iter[winner]),
            outcome=trained.outcome,
            restart_objectives=-np.sort(-solution.value),
            log_evidence=trained.log_evidence,
            corrected_log_evidence=trained.corrected_log_evidence,
            log_likelihood=log_likelihood,
            bic=-2 * log_likelihood + penalty,
            seconds=time.perf_counter() - began,
        ).in_units(log_jacobian)

    def _initial_points(self, spec: ModelSpec, rows: ModeledRows) -> list[Params]:
        """Points of maximum likelihood for the modeled rows, one per restart."""
        family = spec.likelihood(INITIAL_RIDGE)
        n_kept, effort = self.options.n_restarts, self.options.effort
        n_restarts = 1 if spec.is_convex else SCREENING_FACTOR * n_kept
        random_points = family.init(rows.standardized, self.rng, n_restarts)
        if self.inference.needs_screening(spec):
            problem = RowProblem(family, Likelihood(), rows.standardized)
            solver = BatchedLBFGS(min(effort.screening_steps, self.options.max_iter), effort.screening_tol)
            solution = solver.solve(problem, random_points)
            best = np.argsort(-solution.value, kind="stable")[:n_kept]
            points = [select_restart(solution.params, int(k)) for k in best]
        else:
            points = [select_restart(random_points, 0)]
        modeled = [spec.undo_standardization(point, rows.preprocess) for point in points]
        return self.inference.initial_points(spec, modeled, effort)

    def _score(self, candidate: Candidate) -> float:
        """What the choice of the model maximizes."""
        if self.held_out is None:
            return self.inference.score(candidate, self.criterion)
        weight = self.held_out.weight
        weight = np.ones(self.held_out.n_rows) if weight is None else weight
        return HeldOutScore(candidate.model.log_predictive(self.averaging, self.held_out) - self.log_unit, weight)


def hold_out(rows: ModeledRows, rng: np.random.Generator) -> tuple[ModeledRows, ArraySource | None]:
    """Rows to train on, and a quarter of each class to compare on; None if that is nothing."""
    rows = rows.sample(rng)
    source = rows.modeled
    if not rows.are_distinct:
        rest, apart = source.hold_out(HELD_OUT, rng)
        return (rows, None) if apart is None else (rows.replace(rest), apart)
    assert isinstance(source, ArraySource)
    labels = source.y if source.y.ndim == 1 and source.y.dtype.kind in "iu" else np.zeros(source.n_rows, dtype=int)
    held_out = held_out_weight(source.X, labels, source.weight, HELD_OUT, rng)
    if not held_out.any():
        return rows, None
    kept = (1.0 if source.weight is None else source.weight) - held_out
    return rows.replace(with_weight(source, kept)), with_weight(source, held_out)
