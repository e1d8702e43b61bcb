"""Exit codes, and the failures that have them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ends."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    BAD_TABLE = 3
    BAD_MODEL = 4
    NOT_WRITTEN = 5
    INTERRUPTED = 130


class Failure(Exception):
    """A reason to stop, in one line."""

    def __init__(self, code: ExitCode, message: str):
        super().__init__(" ".join(message.split()))
        self.code = code


def bad_table(source: str, reason: str) -> Failure:
    """A table that cannot be used."""
    return Failure(ExitCode.BAD_TABLE, f"{source}: {reason}")
