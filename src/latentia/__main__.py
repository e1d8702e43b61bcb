"""`python -m latentia`: what to run first."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the demo."""
    if sys.argv[1:] != ["demo"]:
        print("usage: python -m latentia demo", file=sys.stderr)
        return 2
    from latentia import demo

    demo.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
