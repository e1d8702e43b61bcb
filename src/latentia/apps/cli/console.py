"""What is shown: results on standard output, progress and notes on the error stream."""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RichCast
from rich.table import Table as Grid
from rich.text import Text
from sklearn.exceptions import ConvergenceWarning

from latentia.engine.messages import format_seconds
from latentia.estimators.latent_classifier.search import Trial
from latentia.solvers.em import Step

#: What only Python understands.
CODE = re.compile(r"handle_unknown=|kinds=|max_categories|X\[|(pandas|numpy)\.")


def leave_closed_pipe() -> None:
    """Nobody reads standard output any more: what is written from now on goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Printer(Console):
    """A console that goes on in silence when nobody reads it any more: the work is not lost. Files
    and pipes have no edge at which lines are broken.
    """

    def __init__(self, **options: Any):
        super().__init__(highlight=False, **options)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = 1000

    def on_broken_pipe(self) -> None:
        """Instead of an exit."""
        leave_closed_pipe()


class Screen:
    """Where a command speaks; silent for machines, except for errors. The quiet get results."""

    def __init__(self, as_json: bool, quiet: bool):
        self.as_json, self.is_silent = as_json, as_json or quiet
        self.notes: list[str] = []

    def say(self, text: str = "", style: str | None = None) -> None:
        """A line of the result."""
        if not self.as_json:
            Printer(soft_wrap=True).print(Text(text, style or ""))

    def report(self, text: str) -> None:
        """A line on what was done, which the quiet do not need."""
        if not self.is_silent:
            self.say(text)

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
        """A table of the result; columns after the first are aligned to the right."""
        if self.as_json:
            return
        grid = Grid(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for place, name in enumerate(header):
            grid.add_column(Text(name), justify="right" if place else "left", overflow="fold")
        for row in rows:
            grid.add_row(*(Text(cell) for cell in row))
        Printer().print(grid)

    def show(self, value: RichCast) -> None:
        """Something that knows how it is drawn."""
        if not self.as_json:
            Printer().print(value)

    def note(self, text: str) -> None:
        """A remark, in one line; machines get all of them at the end."""
        line = " ".join(text.split())
        if line not in self.notes:
            self.notes.append(line)
            if not self.is_silent:
                print(f"note: {line}", file=sys.stderr)

    @contextmanager
    def work(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show that something is under way, and how far it is; warnings become notes."""
        started = time.perf_counter()
        console = Console(stderr=True, quiet=self.is_silent)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ConvergenceWarning)
            with console.status(Text(f"{what} ...")) as status:

                def show(detail: str) -> None:
                    status.update(Text(f"{what}: {detail} ({format_seconds(time.perf_counter() - started)})"))

                yield show
        for warning in found:
            if issubclass(warning.category, UserWarning):
                self.note(_without_code(str(warning.message)))


def _without_code(text: str) -> str:
    """A warning without the sentences that name arguments and functions of Python."""
    return " ".join(part for part in re.split(r"(?<=\.) ", text) if not CODE.search(part))


def listener(show: Callable[[str], None]) -> Callable[[Step | Trial], bool]:
    """A callback of fits that tells of candidates and steps."""

    def hear(event: Step | Trial) -> bool:
        if isinstance(event, Trial):
            show(f"tried {event.candidate}, log loss {event.log_loss:.3f}; {event.leader} leads")
        else:
            show(f"{event.solver} step {event.iteration}")
        return False

    return hear
