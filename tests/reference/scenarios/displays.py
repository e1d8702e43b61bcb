"""What displays hold, and what they draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia import (
    CalibrationDisplay,
    CompletionDisplay,
    EmbeddingDisplay,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    LatentMapDisplay,
    LoadingsDisplay,
    MixtureOfExpertsClassifier,
    MultimodalSoftmaxClassifier,
    ObjectiveCurveDisplay,
    ProbitEmbeddingClassifier,
    SearchResultsDisplay,
    StructureDisplay,
)
from latentia.plot.general import visible_range

from ..describe import refusal
from ..digest import Frame
from ..registry import Group
from ..tables import complete, label_matrix, mixed, numbers

SCENARIOS = Group()
FEW: Any = {"max_iter": 3, "n_init": 1, "random_state": 0}


def held(display: Any) -> dict[str, Any]:
    """What it draws."""
    kept = {name: value for name, value in vars(display).items() if not name.endswith("_") and name != "figure"}
    return {
        n: " | ".join(map(str, v)) if isinstance(v, list | tuple) and v and isinstance(v[0], str) else v
        for n, v in kept.items()
    }


def picture(figure: Any) -> dict[str, Any]:
    """All marks, lines, boxes, words and limits of a figure."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgba

    found: dict[str, Any] = {
        "suptitles": [text.get_text() for text in (figure._suptitle, figure._supxlabel, figure._supylabel) if text]
    }
    found["legends"] = [t.get_text() for legend in figure.legends for t in legend.get_texts()]
    for k, ax in enumerate(figure.axes):
        words = [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *(t.get_text() for t in ax.texts)]
        ticks = (
            [t.get_text() for t in (*ax.get_xticklabels(), *ax.get_yticklabels())] if ax.images or ax.patches else []
        )
        legend = [t.get_text() for t in ax.get_legend().get_texts()] if ax.get_legend() else []
        lines = [line.get_xydata() for line in ax.lines]
        offsets = [c.get_offsets() for c in ax.collections]
        paths = [path.vertices for c in ax.collections for path in c.get_paths()[:40]]
        colors = [to_rgba(line.get_color()) for line in ax.lines] + [
            c for col in ax.collections for c in np.atleast_2d(col.get_facecolor())[:3]
        ]
        colors += [to_rgba(text.get_color()) for text in ax.texts]
        patches = [_patch(p) for p in ax.patches]
        places = [(*text.get_position(), *getattr(text, "xy", ()), text.get_rotation()) for text in ax.texts]
        widths = [(line.get_linewidth(), line.get_markersize()) for line in ax.lines]
        widths += [np.r_[c.get_linewidths()[:3], c.get_sizes()[:3]] for c in ax.collections if hasattr(c, "get_sizes")]
        styles = [f"{line.get_linestyle()}{line.get_marker()}" for line in ax.lines]
        found[f"axes {k}"] = " | ".join([*words, *ticks, *legend, *styles, ax.get_xscale(), ax.get_yscale()])
        found[f"marks {k}"] = Frame(
            ["limits", "lines", "marks", "paths", "colors", "patches", "images", "places", "widths", "ticks"],
            [
                [*ax.get_xlim(), *ax.get_ylim()],
                _all(lines),
                _all(offsets),
                _all(paths) if len(paths) < 60 else [float(len(paths))],
                _all(colors),
                _all(patches),
                _all([np.ma.filled(image.get_array(), np.nan) for image in ax.images]),
                _all(places),
                _all(widths),
                _all([ax.get_xticks(), ax.get_yticks()] if ticks else []),
            ],
        )
    plt.close(figure)
    return found


def _patch(patch: Any) -> list[float]:
    if hasattr(patch, "center"):
        return [*patch.center, patch.width, patch.height, getattr(patch, "angle", 0.0)]
    if hasattr(patch, "get_xy"):
        return np.ravel(patch.get_xy()).tolist() + [
            getattr(patch, "get_width", float)(),
            getattr(patch, "get_height", float)(),
        ]
    return np.ravel(patch.get_path().vertices).tolist()


def _all(arrays: list[Any]) -> list[float]:
    parts = [np.ravel(np.asarray(a, dtype=float)) for a in arrays]
    return np.concatenate(parts).tolist() if parts else []


def shown(display: Any) -> dict[str, Any]:
    return held(display) | {"picture": picture(display.figure_)}


def factors(table: Any, *args: Any, **options: Any) -> Any:
    return LatentClassificationModel(*args, **FEW, unlabeled_weight=0.5, **options).fit(
        table.X, table.y, sample_weight=table.weight
    )


@SCENARIOS.with_(is_slow=True)
def calibration() -> dict[str, Any]:
    table = numbers(sizes=(30, 22, 14))
    model = factors(table, 1, 1, unlabeled=-1)
    rng = np.random.RandomState(1)
    proba = rng.dirichlet([1.0, 2.0, 0.5], 40)
    by_hand = CalibrationDisplay.from_predictions(rng.randint(0, 3, 40), proba, n_bins=4)
    rest = CalibrationDisplay.from_estimator(model, table.X, table.y, n_bins=5, plot=False)
    return {"by_hand": shown(by_hand), "error": by_hand.error, "of_model": held(rest), "its_error": rest.error}


@SCENARIOS
def completion() -> dict[str, Any]:
    rng = np.random.RandomState(2)
    X = np.abs(rng.normal(size=(36, 12))) + np.repeat([[0.0, 2.0], [2.0, 0.0], [1.0, 1.0]], 12, axis=0) @ rng.uniform(
        size=(2, 12)
    )
    model = LatentClassificationModel(2, 1, **FEW).fit(X, np.repeat(["a", "b", "c"], 12))
    display = CompletionDisplay.from_estimator(model, X[3], shape=(4, 3), true_class="a")
    lines = CompletionDisplay.from_estimator(model, X[20], shape=(3, 4), plot=False, lines=[0, 2])
    return {"all": shown(display), "lines": held(lines)}


@SCENARIOS.with_(is_slow=True)
def embedding() -> dict[str, Any]:
    X, Y, _, _ = label_matrix()
    model = ProbitEmbeddingClassifier(3, max_iter=6).fit(X, Y)
    table = complete()
    y = np.where(np.arange(43) % 7 == 0, -1, table.y)
    classes = ProbitEmbeddingClassifier(2, max_iter=6, unlabeled=-1).fit(table.X, y)
    two = ProbitEmbeddingClassifier(1, max_iter=6).fit(table.X, np.minimum(table.y, 1))
    return {
        "labels": shown(
            EmbeddingDisplay.from_estimator(model, X, Y, dims=(2, 0), label_names=["p", "q", "r"], n_columns=2)
        ),
        "classes": shown(EmbeddingDisplay.from_estimator(classes, table.X, y)),
        "two": shown(EmbeddingDisplay.from_estimator(two, table.X, np.minimum(table.y, 1), size=5.0)),
        "dims": refusal(EmbeddingDisplay.from_estimator, model, X, Y, dims=(0, 3)),
    }


@SCENARIOS
def maps() -> dict[str, Any]:
    table = mixed()
    model = factors(table, 3, 1)
    return {
        "best": shown(LatentMapDisplay.from_estimator(model, table.X, table.y)),
        "given": held(LatentMapDisplay.from_estimator(model, table.X, table.y, factors=(2, 0), plot=False)),
        "refused": refusal(LatentMapDisplay.from_estimator, model, table.X, table.y, factors=(0, 3)),
    }


@SCENARIOS
def loadings() -> dict[str, Any]:
    table = mixed()
    model = factors(table, 3, 2, kinds={"visits": "count"})
    short = LoadingsDisplay.from_estimator(model, max_rows=5, max_factors=2, plot=False)
    return {"all": shown(LoadingsDisplay.from_estimator(model)), "short": held(short)}


@SCENARIOS
def structure() -> dict[str, Any]:
    model = LatentClassificationModel(2, 1, structure="learn", **FEW).fit(complete().X, complete().y)
    names = StructureDisplay.from_estimator(model)
    return shown(names)


@SCENARIOS
def curves() -> dict[str, Any]:
    model = factors(complete(), 2, 1)
    curve = np.array([-900.0, -40.0, -30.0, -28.0, -27.5, -27.4])
    return {
        "curve": shown(ObjectiveCurveDisplay.from_estimator(model)),
        "range": visible_range(curve),
        "flat": visible_range(np.ones(3)),
    }


@SCENARIOS.with_(is_slow=True)
def search_results() -> dict[str, Any]:
    table = complete()
    search = LatentClassificationModelCV([1, 2], [1], cv=2, **FEW).fit(table.X, table.y)
    board = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(table.X, table.y)
    subclasses = MultimodalSoftmaxClassifier(max_subclasses=2, max_models=3, max_iter=2, n_init=1, random_state=0).fit(
        table.X, table.y
    )
    experts = MixtureOfExpertsClassifier(
        max_experts=2, criterion="bic", max_iter=2, n_init=1, random_state=0, inference="ml"
    ).fit(table.X, table.y)
    sizes = ProbitEmbeddingClassifier("evidence", max_iter=3).fit(table.X, table.y)
    return {
        "sizes": shown(SearchResultsDisplay.from_estimator(search)),
        "board": shown(SearchResultsDisplay.from_estimator(board)),
        "subclasses": held(SearchResultsDisplay.from_estimator(subclasses, max_rows=2, plot=False)),
        "experts": held(SearchResultsDisplay.from_estimator(experts, plot=False)),
        "dimensions": held(SearchResultsDisplay.from_estimator(sizes, plot=False)),
        "refused": refusal(SearchResultsDisplay.from_estimator, sizes.set_params(n_latent=1).fit(table.X, table.y)),
    }


@SCENARIOS
def refusals() -> dict[str, Any]:
    table = complete()
    points = MultimodalSoftmaxClassifier(1, max_iter=2, n_init=1).fit(table.X, table.y)
    names = {
        LatentMapDisplay: (table.X, table.y),
        LoadingsDisplay: (),
        StructureDisplay: (),
        EmbeddingDisplay: (table.X, table.y),
    }
    return {cls.__name__: refusal(cls.from_estimator, points, *args) for cls, args in names.items()} | {
        "unfitted": refusal(LoadingsDisplay.from_estimator, LatentClassificationModel())
    }


@SCENARIOS.with_(is_slow=True)
def corners() -> dict[str, Any]:
    """Many classes, one dimension, frames, parts of a table."""
    import pandas as pd

    X, Y, _, _ = label_matrix()
    rng = np.random.RandomState(0)
    many = ProbitEmbeddingClassifier(2, max_iter=3).fit(rng.normal(size=(36, 3)), np.arange(36) % 12)
    single = ProbitEmbeddingClassifier(1, max_iter=3).fit(X, Y)
    table = complete()
    frame = pd.DataFrame(table.X, columns=list("abcd"))
    model = LatentClassificationModel(2, 1, **FEW).fit(frame, table.y)
    labels = ProbitEmbeddingClassifier(2, max_iter=3).fit(X, Y)
    stack = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(frame, table.y)
    found: dict[str, Any] = {
        "many": picture(EmbeddingDisplay.from_estimator(many, rng.normal(size=(9, 3)), np.arange(9)).figure_),
        "single": picture(EmbeddingDisplay.from_estimator(single, X, Y).figure_),
        "some": held(LatentMapDisplay.from_estimator(model, frame, table.y, max_points=9, plot=False)),
        "stack": held(LatentMapDisplay.from_estimator(stack, frame, table.y, plot=False)),
        "labeled": picture(LatentMapDisplay.from_estimator(model, frame, table.y).figure_),
        "unlabeled": picture(LatentMapDisplay.from_estimator(model, frame).figure_),
        "calibration": held(CalibrationDisplay.from_estimator(labels, X, Y, n_bins=3, plot=False)),
        "completion": held(CompletionDisplay.from_estimator(model, table.X[0], shape=(2, 2), plot=False)),
        "correlated": held(StructureDisplay.from_estimator(model, min_correlation=0.4, plot=False)),
        "strongest": held(StructureDisplay.from_estimator(model, max_columns=2, min_correlation=0.1, plot=False)),
        "largest": held(LoadingsDisplay.from_estimator(model, max_rows=2, max_factors=1, plot=False)),
        "named": picture(
            CalibrationDisplay.from_estimator(labels, X, Y, n_bins=3, plot=False).plot(name="mine").figure_
        ),
        "stack_loadings": held(LoadingsDisplay.from_estimator(stack, plot=False)),
    }
    refused: dict[str, Any] = {
        "names": lambda: EmbeddingDisplay.from_estimator(labels, X, Y, label_names=["a"]),
        "labels": lambda: EmbeddingDisplay.from_estimator(labels, X, Y[:, :2]),
        "shape": lambda: CompletionDisplay.from_estimator(model, table.X[0], shape=(3, 2)),
        "class": lambda: CompletionDisplay.from_estimator(model, table.X[0], shape=(2, 2), true_class=9),
        "lines": lambda: CompletionDisplay.from_estimator(model, table.X[0], shape=(2, 2), lines=[5]),
        "kind": lambda: CompletionDisplay.from_estimator(labels, X[0], shape=(5, 1)),
        "codes": lambda: CalibrationDisplay.from_predictions([0, 1], np.ones((3, 2)) / 2),
        "nothing": lambda: CalibrationDisplay.from_predictions([-1, -1], np.ones((2, 2)) / 2),
        "bins": lambda: CalibrationDisplay.from_predictions([0, 1], np.ones((2, 2)) / 2, n_bins=0),
        "one_factor": lambda: LatentMapDisplay.from_estimator(
            LatentClassificationModel(1, **FEW).fit(frame, table.y), frame
        ),
        "columns": lambda: EmbeddingDisplay.from_estimator(labels, X, Y, n_columns=0),
        "curve": lambda: ObjectiveCurveDisplay.from_estimator(frame),
    }
    return found | {f"refused {name}": refusal(call) for name, call in refused.items()}
