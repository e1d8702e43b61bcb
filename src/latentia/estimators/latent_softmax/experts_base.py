"""What mixtures of experts for classes and for numbers share: tree, search, gates."""

from __future__ import annotations

import math
from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from latentia.arrays.namespace import Array, namespace, transpose
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.latent_softmax.base import LatentSoftmaxEstimator, SoftmaxFit, SoftmaxInput
from latentia.estimators.latent_softmax.expert_tree_spec import ExpertTreeSpec
from latentia.estimators.latent_softmax.fitted import Candidate, FittedModel, search_table
from latentia.estimators.latent_softmax.model_specs import WeightEstimate
from latentia.estimators.latent_softmax.search_rules import Patience, best_model
from latentia.estimators.latent_softmax.training import Trainer
from latentia.families.softmax_tree.experts import Expert
from latentia.table.options import Check, check_choice, check_number, integer
from latentia.table.rows import method_of_rows


def check_depth(name: str, depth: Any) -> None:
    """1 or 2, and no bool, float or array."""
    if not isinstance(depth, Integral) or isinstance(depth, bool) or depth not in (1, 2):
        raise ValueError(f"{name}={depth!r}; allowed are 1 (a mixture) and 2 (a mixture of mixtures).")


class ExpertEstimator(LatentSoftmaxEstimator):
    """A mixture of experts. Subclasses say what an expert is."""

    _CHECKS: ClassVar[dict[str, Check]] = {"max_experts": integer(ge=1), "depth": check_depth}

    @abstractmethod
    def _expert(self, n_targets: int) -> Expert:
        """What an expert is, of so many classes or outputs."""

    def _check_options(self) -> None:
        super()._check_options()
        if isinstance(self.n_experts, str):
            check_choice("n_experts", self.n_experts, ["auto"], ", an int, or one int per level")
            return
        numbers = np.atleast_1d(np.asarray(self.n_experts, dtype=object)).tolist()
        for number in numbers:
            check_number("n_experts", number, ge=1, integer=True, besides=", one for each level, or 'auto'")
        if len(numbers) not in (1, self.depth):
            raise ValueError(
                f"n_experts={self.n_experts!r} has {len(numbers)} entries; allowed are 'auto', an int, or {self.depth} "
                f"ints for depth={self.depth}."
            )

    @property
    def _is_search(self) -> bool:
        return isinstance(self.n_experts, str)

    def _trees(self) -> list[tuple[int, ...]]:
        """Branches of the gates of every tree to be tried."""
        if not self._is_search:
            numbers = np.atleast_1d(np.asarray(self.n_experts)).astype(int).tolist()
            return [tuple(numbers * self.depth if len(numbers) == 1 else numbers)]
        max_width = self.max_experts if self.depth == 1 else math.isqrt(self.max_experts)
        return [(width,) * self.depth for width in range(1, max_width + 1)]

    def _search(self, trainer: Trainer, data: SoftmaxInput) -> SoftmaxFit:
        candidates: list[Candidate] = []
        patience = Patience(self.patience)
        for branches in self._trees():
            spec = ExpertTreeSpec(branches, self._expert(data.n_targets), self._prior)
            candidates.append(trainer.train(spec))
            if trainer.stopped or patience.ends_with(candidates[-1].score):
                break
        specs = [candidate.model.spec for candidate in candidates]
        columns = {"n_experts": [spec.n_experts for spec in specs], "branches": [spec.branches for spec in specs]}
        best = best_model([candidate.score for candidate in candidates], columns["n_experts"])
        return SoftmaxFit(candidates[best], search_table(candidates, **columns))

    def _model_attributes(self, data: SoftmaxInput, model: FittedModel) -> Attributes:
        gates, experts = model.spec.undo_standardization(model.point_estimate, data.preprocessor)
        return {
            "n_experts_": model.spec.n_experts,
            "gate_weights_": tuple(gate[..., :-1] for gate in gates),
            "gate_intercepts_": tuple(gate[..., -1] for gate in gates),
            "expert_weights_": experts.weights[..., :-1],
            "expert_intercepts_": experts.weights[..., -1],
        }

    @method_of_rows
    def expert_proba(self, X: Any) -> Array:
        """Probabilities of the experts given x: the gates' product along the path to each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_experts)
            Experts of one group lie side by side.
        """

        def gates(estimate: WeightEstimate, rows: MaskedRows) -> Array:
            return transpose(self._model.fitted.spec.gate_log_proba(estimate, *estimate.inputs(rows)))

        log_proba = self._map_rows(X, gates)
        return namespace(log_proba).exp(log_proba)
