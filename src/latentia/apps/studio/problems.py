"""What the page says instead of an answer: one sentence, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from latentia.apps.tables.failures import Failure

#: Options of the command line mean nothing on a page.
OPTION = re.compile(r"(; |, )?--\w+ [^;:.]*")


class Problem(Exception):
    """A request that cannot be answered, for a reason that its author can do something about.

    To say so is an answer (200), unless the request is one that the page does not send.
    """

    def __init__(self, message: str, status: int = 200, column: str | None = None):
        super().__init__(" ".join(message.split()))
        self.status, self.column = status, column


@contextmanager
def explained(advice: str) -> Iterator[None]:
    """What is wrong with a table becomes a sentence, followed by another that helps."""
    try:
        yield
    except Failure as failure:
        raise Problem(f"{sentence(OPTION.sub('', str(failure)))} {advice}") from None
    except (ValueError, TypeError) as error:
        raise Problem(f"{sentence(str(error))} {advice}") from None


def sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
