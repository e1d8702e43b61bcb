"""Solvers: how an objective is raised, from many restarts in one batch.

- `em`: EM and variational Bayes; `accelerated_em`: the same with Anderson acceleration;
- `quasi_newton_vb`: variational Bayes whose means take quasi-Newton steps;
- `damped_ascent`: fixed-point steps that may overshoot, damped and accelerated;
- `anderson`: the acceleration of both;
- `structural_em`: EM alternating with a search over structures;
- `lbfgs`: SciPy's L-BFGS, one start, with early stopping: SciPy decides when to stop;
  `batched_lbfgs`: many starts at once, to screen them, with a stopping rule of its own;
  `lbfgs_history`: its past steps;
- `adam`: stochastic ascent by mini-batches, for tables too large to be read for every step;
  `held_out`: early stopping of both;
- `restarts`: the record of how each restart went; `structure_choice`: which structure to keep;
- `solution`: what every solver reports: steps, curves, and the `Outcome` that ended it.

A solver sees a `Problem` and nothing else: it may import `engine` and `numerics`.
Start with `em`.
"""

from latentia.solvers.accelerated_em import AcceleratedEM
from latentia.solvers.adam import Adam
from latentia.solvers.batched_lbfgs import BatchedLBFGS
from latentia.solvers.damped_ascent import DampedAscent
from latentia.solvers.em import EM
from latentia.solvers.lbfgs import LBFGS
from latentia.solvers.quasi_newton_vb import QuasiNewtonVB
from latentia.solvers.solution import Outcome, Solution, Solver, Step, StepCallback, ignore_step
from latentia.solvers.structural_em import StructuralEM

__all__ = [
    "EM",
    "LBFGS",
    "AcceleratedEM",
    "Adam",
    "BatchedLBFGS",
    "DampedAscent",
    "StepCallback",
    "QuasiNewtonVB",
    "Outcome",
    "Solution",
    "Solver",
    "Step",
    "StructuralEM",
    "ignore_step",
]
