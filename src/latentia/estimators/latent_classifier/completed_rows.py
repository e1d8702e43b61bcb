"""Rows as candidates that know no gaps see them: completed by models of the first candidate, each
part once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from latentia.arrays.namespace import Array, take_rows
from latentia.estimators.latent_classifier.features import Completion
from latentia.estimators.latent_classifier.members import CompletedMember, GenerativeMember, Member
from latentia.estimators.latent_classifier.training_rows import TrainingRows

#: Cells of a completed part that are kept for other candidates, at most.
MAX_KEPT = 2**22


@dataclass(frozen=True)
class CompletedRows:
    """The labeled rows that a model was fitted to and those that were held out from it, without
    gaps.
    """

    completion: Completion
    X: Array
    labeled_rows: np.ndarray  # numbers among X
    test_rows: Array | None
    _kept: dict[str, Array] = field(default_factory=dict)

    def labeled(self) -> Array:
        """The labeled rows."""
        return self._kept["labeled"] if "labeled" in self._kept else self._complete("labeled", self.labeled_cells())

    def labeled_cells(self) -> Array:
        """The same with their gaps."""
        return take_rows(self.X, self.labeled_rows)

    def log_proba(self, member: Member) -> Array:
        """What a member says of the rows that were held out."""
        assert self.test_rows is not None
        if not isinstance(member, CompletedMember):
            return member.log_proba(self.test_rows)
        completed = self._kept["test"] if "test" in self._kept else self._complete("test", self.test_rows)
        return member.log_proba_of(completed, self.test_rows)

    def _complete(self, part: str, X: Array) -> Array:
        completed = self.completion(X)
        if completed.shape[0] * completed.shape[1] <= MAX_KEPT:
            self._kept[part] = completed
        return completed


def completed_rows(members: Sequence[Member], rows: TrainingRows, tests: Sequence[Array] = ()) -> list[CompletedRows]:
    """Of each of the first candidate's models, with the rows held out from it, if any."""
    found = []
    for number, member in enumerate(members):
        assert isinstance(member, GenerativeMember)
        test = tests[number] if number < len(tests) else None
        found.append(CompletedRows(Completion.by(member.model), rows.data.X, rows.labeled(number)[0], test))
    return found
