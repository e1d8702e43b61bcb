"""Solvers: how an objective is maximised."""

from latentia.solvers.accelerated_em import AcceleratedEM
from latentia.solvers.batched_lbfgs import BatchedLBFGS
from latentia.solvers.em import EM
from latentia.solvers.lbfgs import LBFGS
from latentia.solvers.quasi_newton_vb import QuasiNewtonEM
from latentia.solvers.solution import OnStep, Solution, Step, never_stop
from latentia.solvers.structural_em import StructuralEM

__all__ = [
    "EM",
    "LBFGS",
    "AcceleratedEM",
    "BatchedLBFGS",
    "OnStep",
    "QuasiNewtonEM",
    "Solution",
    "Step",
    "StructuralEM",
    "never_stop",
]
