"""What mixtures of experts for classes and for numbers share: the tree, its search, and its gates."""

from __future__ import annotations

import math
from abc import abstractmethod
from numbers import Integral
from typing import Any

import numpy as np

from latentia.engine.contracts import MaskedRows, Params
from latentia.estimators.latent_softmax.base import LatentSoftmaxEstimator, search_table
from latentia.estimators.latent_softmax.model_specs import ExpertTreeSpec
from latentia.estimators.latent_softmax.training import Fitted, Rows
from latentia.families.building_blocks.expected_softmax import log_expected_softmax
from latentia.families.building_blocks.gaussian_weights import augment, scores_of
from latentia.families.experts.gating_tree import path_scores
from latentia.inputs.options import check_choice, check_number
from latentia.numerics.array_api import Array, namespace, transpose
from latentia.numerics.packed_symmetric import packed_outer


class ExpertEstimator(LatentSoftmaxEstimator):
    """What mixtures of experts for classes and for numbers share: the tree, its search, and its gates."""

    _linear = False

    def _check_options(self) -> None:
        super()._check_options()
        check_number("max_experts", self.max_experts, ge=1, integer=True)
        # the type first: an array has no truth of its own, and 1.0 cannot repeat a list
        if not isinstance(self.depth, Integral) or isinstance(self.depth, bool) or self.depth not in (1, 2):
            raise ValueError(f"depth={self.depth!r}; allowed are 1 (a mixture) and 2 (a mixture of mixtures).")
        if isinstance(self.n_experts, str):
            check_choice("n_experts", self.n_experts, ["auto"], ", an int, or one int per level")
            return
        numbers = np.atleast_1d(np.asarray(self.n_experts, dtype=object)).tolist()
        for number in numbers:
            check_number("n_experts", number, ge=1, integer=True)
        if len(numbers) not in (1, self.depth):
            raise ValueError(
                f"n_experts={self.n_experts!r} has {len(numbers)} entries; allowed are 'auto', an int, or {self.depth} ints for depth={self.depth}."
            )

    def _trees(self) -> list[tuple[int, ...]]:
        """Branches of the gates of every tree to be tried."""
        if not self._is_search:
            numbers = np.atleast_1d(np.asarray(self.n_experts)).astype(int).tolist()
            return [tuple(numbers * self.depth if len(numbers) == 1 else numbers)]
        most = self.max_experts if self.depth == 1 else math.isqrt(self.max_experts)
        return [(width,) * self.depth for width in range(1, most + 1)]

    @property
    def _is_search(self) -> bool:
        return isinstance(self.n_experts, str)

    @abstractmethod
    def _n_scores(self) -> int:
        """Number of scores that an expert has."""

    def _search(self, rows: Rows, fit_one: Any, watch: Any) -> Fitted:
        fits: list[Fitted] = []
        for branches in self._trees():
            fits.append(fit_one(ExpertTreeSpec(branches, self._n_scores(), self._linear, self._prior)))
            if watch.stopped:
                break
        self.search_results_ = search_table(
            fits,
            n_experts=[math.prod(fit.structure.branches) for fit in fits],
            branches=[fit.structure.branches for fit in fits],
        )
        return max(fits, key=lambda fit: fit.score)

    def _set_fitted_attributes(self, structure: Any, params: Params, exact: Params, weights: Params) -> None:
        self.structure_, self.params_, self.exact_, self.point_ = structure, params, exact, weights
        self.n_experts_ = math.prod(structure.branches)
        raw = structure.undo_standardization(weights, self.preprocessor_)
        self.gate_weights_ = tuple(gate[..., :-1] for gate in raw.gates)
        self.gate_biases_ = tuple(gate[..., -1] for gate in raw.gates)
        self.expert_weights_, self.expert_biases_ = raw.experts[..., :-1], raw.experts[..., -1]

    def _gate_log_proba(self, x: Array, outer: Array | None) -> Array:
        """Log probabilities (L, N) of the experts; averaged where `outer` is given."""
        log_gates = []
        for level, point in enumerate(self.point_.gates):
            posterior = self._posterior.gates[level] if outer is not None else None
            log_gates.append(log_expected_softmax(*scores_of(point, posterior, x, outer)))
        return path_scores(log_gates)

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

        def gates(rows: MaskedRows) -> Array:
            x = augment(rows.values)
            return transpose(self._gate_log_proba(x, packed_outer(x) if self._averages else None))

        log_proba = self._by_rows(X, gates)
        return namespace(log_proba).exp(log_proba)

    def _numbers_per_row(self) -> int:
        size, n_experts = self.n_features_in_ + 1, self.n_experts_
        return size * (size + 1) // 2 + 4 * n_experts * (n_experts + self.structure_.n_scores**2)
