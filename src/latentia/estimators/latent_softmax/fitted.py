"""Fitted models as values: what predictions need, how training went, what decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from array_api_compat import is_numpy_array

from latentia.arrays.namespace import to_numpy
from latentia.arrays.parallel import parallel
from latentia.engine.contracts import Params
from latentia.engine.rows import ArraySource, RowRange, split_ranges
from latentia.engine.sweep import rows_per_chunk
from latentia.estimators.latent_softmax.model_specs import ModelSpec, WeightEstimate
from latentia.solvers import Outcome

S = TypeVar("S", bound=ModelSpec)


@dataclass(frozen=True)
class FittedModel(Generic[S]):
    """A model and its parameters; by maximum likelihood there is a point estimate alone."""

    spec: S
    point_estimate: Params
    bound_posterior: Params | None = None  # under the quadratic bound
    exact_posterior: Params | None = None  # under the exact likelihood

    def log_predictive(self, averaging: Averaging, rows: ArraySource) -> np.ndarray:
        """Log predictive probabilities or densities (N,) of rows."""
        estimate = averaging(self)
        size = rows_per_chunk(self.spec.prediction_floats_per_row(rows.n_features), rows.X)

        def of_rows(part: RowRange) -> np.ndarray:
            chunk = rows.subset(np.arange(part.start, part.stop)).all_rows()
            return to_numpy(self.spec.log_predictive(estimate, chunk.rows, chunk.y))

        parts = split_ranges([RowRange(0, rows.n_rows, None)], size)
        return np.concatenate(parallel(of_rows, parts, is_numpy_array(rows.X)))


#: What predictions of a model are made with.
Averaging = Callable[[FittedModel], WeightEstimate]


def plugin(model: FittedModel) -> WeightEstimate:
    """The point estimate alone."""
    return WeightEstimate(model.point_estimate)


def over_exact_posterior(model: FittedModel) -> WeightEstimate:
    """Averages over the posterior under the exact likelihood."""
    return WeightEstimate(model.point_estimate, model.exact_posterior)


def over_bound_posterior(model: FittedModel) -> WeightEstimate:
    """Averages over the posterior under the quadratic bound."""
    return WeightEstimate(model.point_estimate, model.bound_posterior)


#: Averages by the names users give; without a posterior all of them plug in the point estimate.
AVERAGES: dict[str, Averaging] = {
    "corrected": over_exact_posterior,
    "posterior": over_bound_posterior,
    "plugin": plugin,
}


class Candidate(NamedTuple):
    """A fitted model and how its training went."""

    model: FittedModel
    curve: np.ndarray
    n_iter: int
    outcome: Outcome
    restart_objectives: np.ndarray  # where each restart ended, best first
    log_evidence: float  # bound less the log number of permutations; NaN for maximum likelihood
    corrected_log_evidence: float  # exact bound plus the log number of permutations; NaN for maximum likelihood
    log_likelihood: float  # at the point estimate
    bic: float
    seconds: float
    score: float = float("nan")  # what the choice among models maximizes

    def in_units(self, log_jacobian: float) -> Candidate:
        """The same in units of the outputs in which log densities are less by `log_jacobian`."""
        return self._replace(
            curve=self.curve - log_jacobian,
            restart_objectives=self.restart_objectives - log_jacobian,
            log_evidence=self.log_evidence - log_jacobian,
            corrected_log_evidence=self.corrected_log_evidence - log_jacobian,
            log_likelihood=self.log_likelihood - log_jacobian,
            bic=self.bic + 2 * log_jacobian,
        )


class Criterion(NamedTuple):
    """What models are chosen by: held-out rows, or a number of the rows they were trained on."""

    score: Callable[[Candidate], float]
    holds_out: bool = False


def corrected_log_evidence(candidate: Candidate) -> float:
    return candidate.corrected_log_evidence


def log_evidence(candidate: Candidate) -> float:
    return candidate.log_evidence


def minus_half_bic(candidate: Candidate) -> float:
    return -candidate.bic / 2


#: Criteria by the names users give; "validation" without rows to spare goes by the evidence.
CRITERIA = {
    "validation": Criterion(corrected_log_evidence, holds_out=True),
    "evidence": Criterion(corrected_log_evidence),
    "bound": Criterion(log_evidence),
    "bic": Criterion(minus_half_bic),
}


def search_table(candidates: list[Candidate], **columns: list[Any]) -> dict[str, Any]:
    """Columns of `search_results_`, which pandas turns into a table."""
    restart_objectives = [candidate.restart_objectives for candidate in candidates]
    return {
        **columns,
        "log_evidence": np.array([candidate.log_evidence for candidate in candidates]),
        "score": np.array([candidate.score for candidate in candidates]),
        "corrected_log_evidence": np.array([candidate.corrected_log_evidence for candidate in candidates]),
        "bic": np.array([candidate.bic for candidate in candidates]),
        "log_likelihood": np.array([candidate.log_likelihood for candidate in candidates]),
        "restart_gap": np.array([float(values[0] - np.median(values)) for values in restart_objectives]),
        "n_restarts": np.array([len(values) for values in restart_objectives]),
        "n_iter": np.array([candidate.n_iter for candidate in candidates]),
        "seconds": np.array([candidate.seconds for candidate in candidates]),
    }
