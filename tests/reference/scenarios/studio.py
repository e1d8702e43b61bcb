"""Studio's answers, asked without a server."""

from __future__ import annotations

import json
import re
from typing import Any

from ..describe import refusal
from ..quick import few_steps
from ..registry import Group
from .commands import make_table

SCENARIOS = Group()


def fitted() -> Any:
    from latentia.apps.studio.workspace import Workspace

    workspace = Workspace()
    opened = workspace.open_table(make_table(40).encode(), "../things.csv")
    with few_steps(by_default=True):
        begun = workspace.start_fit("kind", {"color": "categorical", "id": "left out"}, "fast")
        workspace._job.wait(60)
    return workspace, opened, begun


def told(answer: Any) -> str:
    """An answer as the page gets it, without times."""
    return re.sub(r'"seconds": [^,}]*', "", json.dumps(answer))


@SCENARIOS.with_(rtol=1e-3, is_slow=True)
def work() -> dict[str, Any]:
    """Numbers here are rounded for the page."""
    workspace, opened, begun = fitted()
    found = {
        "opened": told(opened),
        "progress": told(workspace.fit_progress()),
        "map": told(workspace.describe_map()),
        "row": told(workspace.describe_row(3, {})),
        "edited": told(workspace.describe_row(5, {"size": "4,5", "color": None})),
        "gaps": told(workspace.describe_gaps(5, {"size": None, "color": None, "two": None})),
        "state": told(workspace.describe()),
        "target": workspace.file("table.csv")[0].decode(),
        "code": workspace.file("code.py")[0].decode(),
        "kinds": [workspace.file(name)[1] for name in ("code.py", "model.latentia", "report.html", "table.csv")],
    }
    for name, call in {
        "row": lambda: workspace.describe_row(99, {}),
        "number": lambda: workspace.describe_row(1, {"size": "abc"}),
        "finite": lambda: workspace.describe_row(1, {"size": "inf"}),
        "level": lambda: workspace.describe_row(1, {"color": "violet"}),
        "column": lambda: workspace.describe_row(1, {"none": "1"}),
        "file": lambda: workspace.file("none.txt"),
        "target": lambda: workspace.start_fit("none", {}, "fast"),
        "kind": lambda: workspace.start_fit("kind", {"size": "odd"}, "fast"),
        "effort": lambda: workspace.start_fit("kind", {}, "most"),
        "example": lambda: workspace.open_example("none"),
        "table": lambda: workspace.open_table(b"", "a.csv"),
        "model": lambda: workspace.open_model(b"abc", "a.latentia"),
    }.items():
        found[f"refused {name}"] = refusal(call)
    return found


@SCENARIOS
def requests() -> dict[str, Any]:
    from latentia.apps.studio import asked

    found: dict[str, Any] = {
        "row": asked.row({"row": 3, "changes": {"a": "1", "b": None}}),
        "fit": asked.fit({"target": "a", "kinds": {"b": "count"}, "effort": "fast"}),
        "nothing": asked.nothing({"a": 1}),
        "parse": asked.parse(b'{"a": 1}'),
    }
    for name, call in {
        "json": lambda: asked.parse(b"{"),
        "list": lambda: asked.parse(b"[1]"),
        "row": lambda: asked.row({"row": True}),
        "changes": lambda: asked.row({"row": 1, "changes": {"a": 1}}),
        "long": lambda: asked.row({"row": 1, "changes": {"a": "x" * 1001}}),
        "fit": lambda: asked.fit({"target": 1}),
        "kinds": lambda: asked.fit({"target": "a", "kinds": [], "effort": "fast"}),
        "pixels": lambda: asked.drawing({"pixels": [0] * 3}),
        "ink": lambda: asked.drawing({"pixels": [17] * 64}),
    }.items():
        found[f"refused {name}"] = refusal(call)
    return found
