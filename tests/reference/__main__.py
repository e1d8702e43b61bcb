"""Writes the answers of all groups, or of those named, as they are now."""

from __future__ import annotations

import os
import sys
import traceback

os.environ.setdefault("MPLBACKEND", "agg")

from .registry import answer, groups, write  # noqa: E402

failed: list[str] = []
for name, group in groups().items():
    if name in sys.argv[1:] or not sys.argv[1:]:
        found = {}
        for key, scenario in group.items():
            try:
                found[key] = answer(scenario)
            except Exception:
                traceback.print_exc()
                failed.append(f"{name}-{key}")
        write(name, found)
        print(f"{name}: {len(group)} scenarios")
sys.exit(f"these failed and are not written: {', '.join(failed)}" if failed else 0)
