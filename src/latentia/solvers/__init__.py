"""Solvers: how an objective is raised, from many restarts in one batch.

- `em`: EM and variational Bayes, plain and with Anderson acceleration; what every solver reports:
  steps, curves, restarts, and the `Outcome` that ended it;
- `ascent`: variational Bayes whose means take quasi-Newton steps, and fixed-point steps that may
  overshoot, damped and accelerated;
- `lbfgs`: SciPy's L-BFGS, one start, with early stopping, and many starts at once to screen them;
- `structural`: EM alternating with a search over structures, and which structure to keep.

A solver sees a `Problem` and nothing else: it may import `engine` and `arrays`. Start with `em`.
"""

from latentia.solvers.ascent import DampedAscent, QuasiNewtonVB
from latentia.solvers.em import EM, AcceleratedEM, Outcome, Solution, Solver, Step, StepCallback, ignore_step
from latentia.solvers.lbfgs import LBFGS, BatchedLBFGS
from latentia.solvers.structural import StructuralEM

__all__ = [
    "EM",
    "LBFGS",
    "AcceleratedEM",
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
