"""The commands, and how they end."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from latentia import __version__
from latentia.apps.cli import answer_commands, demo, studio_command, training_commands
from latentia.apps.cli.console import leave_closed_pipe
from latentia.apps.tables.failures import ExitCode, Failure

EPILOG = (
    "Exit codes: 0 done, 1 unexpected error, 2 wrong usage, 3 unusable table, 4 unusable model file, "
    "5 output not written (it exists: --force overwrites), 130 interrupted."
)

app = typer.Typer(
    name="latentia",
    help="Class probabilities from tables with gaps, few labels and mixed columns.",
    epilog=EPILOG,
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"latentia {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=False)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Class probabilities from tables with gaps, few labels and mixed columns."""


for _command in (
    training_commands.fit,
    answer_commands.predict,
    answer_commands.impute,
    answer_commands.sample,
    answer_commands.explain,
    training_commands.compare,
    training_commands.report,
    studio_command.studio,
):
    app.command()(_command)


@app.command("demo")
def _demo() -> None:
    """Fit, compare and report on a table with gaps and few labels."""
    demo.main()


def run(arguments: list[str]) -> int:
    """Run a command; the exit code. Failures are one line on the error stream."""
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="latentia", standalone_mode=False)
        sys.stdout.flush()
        if result == ExitCode.INTERRUPTED:  # as some versions of typer say it
            raise KeyboardInterrupt
        return int(result or ExitCode.OK)
    except Failure as failure:
        return _fail(failure.code, str(failure))
    except (KeyboardInterrupt, typer.Abort):
        return _fail(ExitCode.INTERRUPTED, "interrupted")
    except (BrokenPipeError, SystemExit) as end:  # typer makes an exit of the former
        if not isinstance(end if isinstance(end, BrokenPipeError) else end.__context__, BrokenPipeError):
            raise
        leave_closed_pipe()  # whoever read the output has seen enough
        return ExitCode.OK
    except MemoryError:
        return _fail(ExitCode.UNEXPECTED, "out of memory")
    except Exception as error:
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    if hasattr(error, "format_message"):  # wrong usage, found by typer
        return _fail(ExitCode.USAGE, error.format_message() or "a command is missing; latentia --help lists them")
    if os.environ.get("LATENTIA_DEBUG"):
        traceback.print_exc()
    if isinstance(error, OSError):
        return _fail(ExitCode.NOT_WRITTEN, f"{error.filename or 'a file'}: {error.strerror or error}")
    return _fail(ExitCode.UNEXPECTED, f"{type(error).__name__}: {error} (LATENTIA_DEBUG=1 shows where)")


def _fail(code: ExitCode, message: str) -> int:
    print(f"latentia: {' '.join(message.split())}", file=sys.stderr)
    return int(code)
