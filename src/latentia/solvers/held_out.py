"""Early stopping: which parameters predict rows best that are held out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from latentia.engine.contracts import Params


class HeldOut:
    """Keeps the parameters with the least loss on held-out rows."""

    def __init__(self, validate: Callable[[Params], float] | None, patience: int):
        self.validate = validate
        self.patience = patience
        self.best: Params = None
        self.best_step = 0
        self.min_loss = np.inf
        self.n_seen = 0
        self.stopped = False

    def should_stop(self, params: Callable[[], Params]) -> bool:
        if self.validate is None:
            return False
        here = params()
        loss = self.validate(here)
        if loss < self.min_loss:
            self.best, self.best_step, self.min_loss = here, self.n_seen, loss
        self.stopped = self.n_seen - self.best_step >= self.patience
        self.n_seen += 1
        return self.stopped
