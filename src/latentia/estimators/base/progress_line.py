"""One line on the terminal, shown by itself once a fit takes long.

It is updated in place and removed when the fit ends. Nothing is written unless the error stream is
a terminal: not in notebooks, pipes, log files or tests.
"""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from latentia.engine.messages import format_seconds
from latentia.solvers import Step

#: Seconds after which a fit is slow, and between two updates of its line.
PATIENCE, INTERVAL = 30.0, 0.5


#: What seconds are counted by.
clock = time.monotonic


class ProgressLine:
    """The line of one fit; as a listener it never stops the fit."""

    def __init__(self, name: str, muted: bool = False):
        self.name, self.muted = name, muted
        self.started = clock()
        self.next_update = self.started + PATIENCE
        self.width = 0  # of what stands on the terminal

    def __call__(self, step: Step) -> bool:
        """Show a step, if the fit is slow and the last update is old enough."""
        now = clock()
        if not self.muted and now >= self.next_update:
            self.next_update = now + INTERVAL
            self._write(
                f"{self.name}: {format_seconds(now - self.started)}, {step.solver} step {step.iteration}, "
                f"objective {step.value:.4f}"
            )
        return False

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self.width:
            self._put("\r" + " " * self.width + "\r")
            self.width = 0

    def _write(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        if self._put("\r" + text.ljust(self.width)):
            self.width = len(text)

    def _put(self, text: str) -> bool:
        """Write to the error stream of the moment, if it is a terminal."""
        stream = sys.stderr
        if stream is None or not stream.isatty():
            return False
        stream.write(text)
        stream.flush()
        return True


#: The line of the outermost fit: a search and the fits inside it share one.
_outermost: ContextVar[ProgressLine | None] = ContextVar("outermost", default=None)


@contextmanager
def progress_line(name: str, muted: bool) -> Iterator[ProgressLine]:
    """The line of this fit, or of the one that it is a part of."""
    line = _outermost.get()
    if line is not None:
        yield line
        return
    in_worker = multiprocessing.current_process().name != "MainProcess"
    line = ProgressLine(name, muted=muted or in_worker)
    token = _outermost.set(line)
    try:
        yield line
    finally:
        _outermost.reset(token)
        line.clear()
