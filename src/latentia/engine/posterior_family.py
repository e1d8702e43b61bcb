"""The contract of families whose parameters are the posterior of another family's."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from latentia.engine.contracts import AcceleratedFamily, GenerativeFamily, Params


class PosteriorFamily(AcceleratedFamily):
    """Trained by variational Bayes; predictions are made by the other family, the points."""

    @abstractmethod
    def predictive(self, params: Params) -> Params:
        """Parameters of the points that average over the posterior, as well as they can."""


#: The points of an estimator, and their posterior.
F = TypeVar("F", bound=GenerativeFamily)
P = TypeVar("P", bound=PosteriorFamily)
