"""Commands as tests run them: in this process, with files in a folder of their own."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import pytest
from small_tables import make_table


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """Lines on the error stream that are no notes."""
        return [line for line in self.err.splitlines() if not line.startswith("note: ")]


@pytest.fixture
def latentia(capsys, monkeypatch):
    """Runs a command."""
    from latentia.apps.cli.app import run  # here, since few tests want it

    def call(*arguments: object, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run([str(a) for a in arguments])
        return Ended(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A folder with a table and the model of it."""
    from latentia.apps.cli.app import run

    folder = tmp_path_factory.mktemp("fitted")
    (folder / "table.csv").write_text(make_table())
    options = ["-t", "kind", "-o", str(folder / "model.latentia"), "--effort", "fast", "-q"]
    assert run(["fit", str(folder / "table.csv"), *options]) == 0
    return folder
