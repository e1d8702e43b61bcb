"""How the training went, and how to do it again."""

from __future__ import annotations

import platform

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator

from latentia.apps.report.elements import Section, code, figure, number, paragraph, side_by_side
from latentia.apps.report.facts import Facts
from latentia.apps.report.svg import Plot
from latentia.arrays.namespace import to_numpy
from latentia.engine.messages import format_seconds
from latentia.plot.general import visible_range


def objective_curves(facts: Facts) -> Section | None:
    """What was maximized, after each sweep."""
    curves = [("Objective", facts.model)]
    if hasattr(facts.model, "density_estimator_"):
        member = facts.model.density_estimator_
        curves = [
            ("Weights of the candidates", facts.model),
            (f"Best generative member: {type(member).__name__}", member),
        ]
    drawn = [_curve(title, model) for title, model in curves if np.size(getattr(model, "objective_curve_", ())) > 1]
    if not drawn:
        return None
    record = getattr(facts.model, "training_record_", {})
    note = f"Fitted in {format_seconds(record['seconds'])}." if "seconds" in record else ""
    reason = getattr(facts.model, "stopping_reason_", "")
    return Section("Objective curves", paragraph(f"{note} The solver {_ended(reason)}.") + side_by_side(*drawn))


def _ended(reason: str) -> str:
    return f"ended ({reason})" if reason else "has ended"


def _curve(title: str, model: BaseEstimator) -> str:
    values = to_numpy(model.objective_curve_).astype(float)
    steps = np.arange(values.size)
    keep = np.unique(np.linspace(0, values.size - 1, 400).astype(int))
    low, high = visible_range(values)
    plot = Plot((0, float(steps[-1])), (low, high), height=220)
    plot.axes("sweep", "objective")
    shown = keep[values[keep] >= low]
    plot.line(np.stack([steps[shown], values[shown]], axis=1), "c0")
    drawing = plot.draw(title, f"From {number(values[0])} to {number(values[-1], 6)} in {values.size - 1} sweeps.")
    return figure(drawing, f"{title}: {number(values[-1], 6)} after {values.size - 1} sweeps.")


def reproduce(facts: Facts) -> Section | None:
    """Code that fits the same model, and versions."""
    from latentia import __version__

    name = type(facts.model).__name__
    home = "latentia" if type(facts.model).__module__.startswith("latentia.") else type(facts.model).__module__
    lines = [
        f"from {home} import {name}",
        "from latentia import write_report",
        "",
        f"model = {facts.model!r}",
        "model.fit(X, y)",
        'write_report(model, X, y, "report.html")',
    ]
    versions = {
        "latentia": __version__,
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "Python": platform.python_version(),
    }
    made_with = ", ".join(f"{what} {version}" for what, version in versions.items())
    seed = facts.model.get_params(deep=False).get("random_state", 0)
    note = " random_state is None: another fit may differ a little." if seed is None else ""
    return Section("How to reproduce it", code("\n".join(lines)) + paragraph(f"Made with {made_with}.{note}"))
