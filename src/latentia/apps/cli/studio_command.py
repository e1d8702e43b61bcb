"""The command that opens a page: `studio`."""

from __future__ import annotations

from typing import Annotated

import typer

from latentia.apps.cli.console import Screen
from latentia.apps.tables.failures import ExitCode, Failure


def studio(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A table, or a model file (.latentia), to open.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; a free one by default.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")] = True,
) -> None:
    """Open a local page on a table or a model.

    Fit the table, look at and edit every row, draw digits. Serves this machine alone, until it is
    interrupted (Ctrl+C).
    """
    try:
        from latentia.apps.studio.problems import Problem
        from latentia.apps.studio.server import serve
        from latentia.apps.studio.workspace import Workspace
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("latentia"):
            raise
        raise Failure(ExitCode.USAGE, "studio needs more packages: pip install 'latentia[studio]'") from None
    screen = Screen(as_json=False, quiet=False)
    workspace = Workspace()
    if file is not None:
        try:
            with screen.work(f"opening {file}"):
                workspace.open_path(file)
        except Problem as problem:
            raise Failure(ExitCode.BAD_TABLE, str(problem)) from None
    try:
        serve(workspace, port, browser, lambda link: screen.say(f"Studio is at {link}\nCtrl+C ends it."))
    except OSError as error:
        raise Failure(ExitCode.USAGE, f"--port {port}: {error.strerror or error}") from None
