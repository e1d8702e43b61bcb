"""Solvers: how an objective is maximized."""

from latentia.solvers.accelerated_em import AcceleratedEM
from latentia.solvers.batched_lbfgs import BatchedLBFGS
from latentia.solvers.em import EM
from latentia.solvers.lbfgs import LBFGS
from latentia.solvers.quasi_newton_vb import QuasiNewtonVB
from latentia.solvers.solution import Outcome, Solution, Solver, Step, StepCallback, ignore_step
from latentia.solvers.structural_em import StructuralEM

__all__ = [
    "EM",
    "LBFGS",
    "AcceleratedEM",
    "BatchedLBFGS",
    "StepCallback",
    "QuasiNewtonVB",
    "Outcome",
    "Solution",
    "Solver",
    "Step",
    "StructuralEM",
    "ignore_step",
]
