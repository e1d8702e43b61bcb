"""Solvers: how an objective is maximised."""

from latentia.solvers.em import EM
from latentia.solvers.lbfgs import LBFGS
from latentia.solvers.record import Solution, Step

__all__ = ["EM", "LBFGS", "Solution", "Step"]
