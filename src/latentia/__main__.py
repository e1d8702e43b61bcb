"""`python -m latentia`, or `latentia`: what to run first."""

from __future__ import annotations

import sys

USAGE = """usage: latentia demo

Commands:
  demo           fit, compare and report on a table with gaps and few labels

Options:
  -h, --help     show this text
  --version      show the version"""


def main() -> int:
    """Run the demo, or say what there is; anything else is an error."""
    arguments = sys.argv[1:]
    if arguments in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if arguments == ["--version"]:
        from latentia import __version__

        print(f"latentia {__version__}")
        return 0
    if arguments != ["demo"]:
        print(USAGE, file=sys.stderr)
        return 2
    from latentia import demo

    demo.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
