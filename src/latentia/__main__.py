"""`python -m latentia`, or `latentia`: from a file to an answer."""

from __future__ import annotations

import sys

USAGE = """usage: latentia [--help] [--version] COMMAND ...

Commands:
  demo           fit, compare and report on a table with gaps and few labels

The other commands (fit, predict, impute, sample, explain, compare, report, studio) need more packages:
  pip install 'latentia[cli]' or 'latentia[studio]'"""


def main() -> int:
    """Run a command, or without the extra `cli` what needs no more than the package."""
    arguments = sys.argv[1:]
    try:
        from latentia.apps.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("latentia"):
            raise
        return _without_extra(arguments)
    return run(arguments or ["--help"])


def _without_extra(arguments: list[str]) -> int:
    if arguments in ([], ["-h"], ["--help"]):
        print(USAGE)
        return 0
    if arguments == ["--version"]:
        from latentia import __version__

        print(f"latentia {__version__}")
        return 0
    if arguments != ["demo"]:
        print(USAGE, file=sys.stderr)
        return 2
    from latentia.apps.cli import demo

    demo.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
