"""The results as tables, and the curves as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def write_report(results: dict[str, Any], path: Path, images: Path = IMAGES) -> None:
    """The tables as Markdown beside the JSON, and the curves where there are any."""
    sections = [_peers, _gaps, _rates, _rows, _axes, _memory]
    names = ("peers", "gaps", "rates", "rows", "axes", "memory")
    lines = ["# Speed", "", "Written by `benchmarks/speed/run.py`; what is measured is told in `docs/speed.md`.", ""]
    lines += _machines(results)
    for name, section in zip(names, sections, strict=True):
        if results.get(name):
            lines += ["", *section(results[name])]
    path.write_text("\n".join(lines) + "\n")
    if results.get("rows") and results.get("gaps"):
        draw_curves(results, images)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [" | ".join(["", *row, ""]).strip() for row in (head, ["---"] * len(head), *rows)]


def _machines(results: dict[str, Any]) -> list[str]:
    seen: dict[str, int] = {}
    for part in results.values():
        for case in part.values():
            machine = case.get("machine", {})
            words = ", ".join(f"{key} {value}" for key, value in machine.items() if value is not None)
            seen[words] = seen.get(words, 0) + 1
    return [f"- {count} cases on: {words}" for words, count in seen.items()]


def _peers(cases: dict[str, Any]) -> list[str]:
    rows = []
    for case in cases.values():
        timed = [key for key, value in case.items() if isinstance(value, dict) and "wall_s" in value]
        for key in timed:
            fit = case[key]
            spread = f"{fit['ratio']:.1f} ({fit['ratio_low']:.1f}–{fit['ratio_high']:.1f})" if "ratio" in fit else "1"
            processor = f"{fit['processor_ratio']:.1f}" if "ratio" in fit else "1"
            value = "" if fit["value"] is None else f"{fit['value']:.8g}"
            rows.append(
                [case["what"] if key == timed[0] else "", key, f"{fit['wall_s']:.2f}", spread, processor, value]
            )
    head = ["work", "fit", "seconds", "times the first (spread)", "processor time likewise", "value reached"]
    return ["## Beside what one would pick instead", "", *_table(head, rows)]


def _gaps(cases: dict[str, Any]) -> list[str]:
    rows = [
        [name, case["shape"], *(f"{s:.3f}" for s in case["seconds"]), f"{case['half_missing']:.1f}"]
        for name, case in cases.items()
    ]
    head = ["estimator", "table", "complete, s", "10 %", "25 %", "50 %", "half missing / complete"]
    return ["## Missing cells", "", *_table(head, rows)]


def _rates(cases: dict[str, Any]) -> list[str]:
    rows = [
        [
            name,
            str(case["rows"]),
            f"{1e3 * case['seconds']:.1f}",
            f"{case['gflops']:.1f}",
            f"{case['product_gflops']:.1f}",
        ]
        + [f"{case['share']:.0%}"]
        for name, case in cases.items()
    ]
    head = ["sweep", "rows", "ms", "Gflop/s of its products", "Gflop/s of a large product", "share"]
    return ["## Share of the matrix-product rate", "", *_table(head, rows)]


def _rows(cases: dict[str, Any]) -> list[str]:
    rows = [
        [
            name,
            ", ".join(f"{n}: {s:.3f}" for n, s in zip(case["rows"], case["seconds"], strict=True)),
            f"{case['slope']:.2f}",
        ]
        for name, case in cases.items()
    ]
    return ["## Growth in rows", "", *_table(["estimator", "rows: seconds", "slope of the last three"], rows)]


def _axes(cases: dict[str, Any]) -> list[str]:
    rows = [
        [
            name.replace("_", " "),
            ", ".join(f"{v:g}: {s:.3f}" for v, s in zip(case["values"], case["seconds"], strict=True)),
        ]
        + [f"{case['slope']:.2f}"]
        for name, case in cases.items()
    ]
    return ["## Growth in other sizes", "", *_table(["axis", "size: seconds", "slope"], rows)]


def _memory(cases: dict[str, Any]) -> list[str]:
    rows = [
        [name, case["shape"], f"{case['table_mib']:.0f}", f"{case['extra_mib']:.0f}"] for name, case in cases.items()
    ]
    return ["## Peak memory", "", *_table(["estimator", "table", "its MiB", "MiB of the fit besides"], rows)]


def draw_curves(results: dict[str, Any], images: Path) -> None:
    """Seconds by rows, and by share of missing cells, as one SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "speed"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 5.6), layout="constrained")
    styles = ["-", "--", ":"]
    for k, (name, case) in enumerate(results["rows"].items()):
        left.loglog(case["rows"], case["seconds"], styles[k // 5], color=f"C{k % 5}", marker="o", ms=3, label=name)
    left.set(xlabel="rows", ylabel="seconds of a fit", title="Growth in rows")
    for k, (name, case) in enumerate(results["gaps"].items()):
        relative = [s / case["seconds"][0] for s in case["seconds"]]
        right.plot(case["shares"], relative, styles[k // 5], color=f"C{k % 5}", marker="o", ms=3, label=name)
    right.set(
        xlabel="share of missing cells", ylabel="times the fit of complete rows", title="Missing cells", yscale="log"
    )
    right.axhline(4, color="0.7", lw=0.8)
    right.set_yticks([1, 2, 4, 6], ["1", "2", "4", "6"])
    right.minorticks_off()
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(
            fontsize=8, ncols=2, handlelength=3.5, loc="upper center", bbox_to_anchor=(0.5, -0.13), frameon=False
        )
    images.mkdir(exist_ok=True)
    figure.savefig(images / "speed_growth.svg", metadata={"Date": None})
    pyplot.close(figure)
