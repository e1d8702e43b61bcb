"""Commands that learn from a table: `fit`, `compare`, `report`."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from latentia.apps import JsonObject
from latentia.apps.cli import options
from latentia.apps.cli.answer_commands import prediction_table
from latentia.apps.cli.console import Screen, listener
from latentia.apps.cli.output_files import (
    STANDARD,
    check_format,
    check_target,
    check_targets,
    print_json,
    write_page,
    write_table,
)
from latentia.apps.cli.usual_choices import usual_choices
from latentia.apps.report import report_html
from latentia.apps.tables.class_labels import amounts_note, read_labels
from latentia.apps.tables.failures import ExitCode, Failure, bad_table
from latentia.apps.tables.models import blaming, labels_as_fitted, load_classifier
from latentia.apps.tables.table_files import Table, numbered, read_table
from latentia.apps.tables.typed_columns import Features, features_as_fitted, find_features
from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier
from latentia.estimators.latent_classification import LatentClassificationModel
from latentia.estimators.latent_classifier import LatentClassifier
from latentia.evaluation.compare import compare as compare_classifiers

#: Different values of a text column; rarer ones are one value.
MAX_CATEGORIES = 50

EFFORTS = ("fast", "balanced", "best")


def fit(
    table: options.TableFile,
    target: options.Target,
    output: Annotated[str, typer.Option("--output", "-o", help="The model file to write.")],
    effort: options.Effort = "balanced",
    report: Annotated[str | None, typer.Option("--report", help="Also write an HTML report to this file.")] = None,
    predictions: Annotated[
        str | None, typer.Option("--predictions", help="Also write predictions of all rows to this table.")
    ] = None,
    ignore: options.Ignore = None,
    kind: options.Kind = None,
    seed: options.Seed = 0,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes that fit folds.")] = 1,
    encoding: options.Encoding = "utf-8",
    delimiter: options.Delimiter = None,
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn to predict a column of a table."""
    screen = Screen(as_json, quiet)
    _check_effort(effort)
    check_targets([output, report, predictions], force, [table])
    check_format(predictions)
    found = read_table(table, options.reading(encoding, delimiter, missing))
    labels, features = _learnable(found, target, ignore, kind, screen)
    model = _classifier(effort, seed, features, jobs if jobs > 1 else None)
    with blaming(found.source), screen.work("fitting") as show:
        model.set_params(callback=listener(show)).fit(features.frame, labels)
    model.set_params(callback=None)
    model.target_name_ = target
    model.missing_marks_ = tuple(missing or ())
    model.number_forms_ = {name: tuple(form) for name, form in features.forms.items()}
    model.save(output)
    files = {"model": output}
    if predictions is not None:
        with blaming(found.source), screen.work("predicting"):
            write_table(prediction_table(model, features.frame), predictions)
        files["predictions"] = predictions
    if report is not None:
        with blaming(found.source), screen.work("writing the report"):
            page = report_html(model, numbered(features.frame), labels, title=f"{target} in {found.title}")
        write_page(page, report)
        files["report"] = report
    if as_json:
        print_json(_facts(model, features, labels) | {"files": files, "notes": screen.notes})
    elif not quiet:
        _show_fit(screen, model)
        for what, path in files.items():
            screen.report(f"{what}: {path}")


def _check_effort(effort: str) -> None:
    if effort not in EFFORTS:
        raise Failure(ExitCode.USAGE, f"--effort {effort}: allowed are {', '.join(EFFORTS)}")


def _classifier(effort: str, seed: int, features: Features, n_jobs: int | None = None) -> LatentClassifier:
    return LatentClassifier(effort=effort, n_jobs=n_jobs, **_reading(seed, features))


def _reading(seed: int, features: Features) -> dict[str, Any]:
    """Options of all models of tables; what a note explained needs no warning."""
    kinds = {name: "categorical" for name in sorted(features.explained)} | features.kinds
    return {
        "random_state": seed,
        "unlabeled": None,
        "max_categories": MAX_CATEGORIES,
        "kinds": kinds or "auto",
    }


def _learnable(
    table: Table, target: str, ignore: list[str] | None, kind: list[str] | None, screen: Screen
) -> tuple[np.ndarray, Features]:
    """Labels and columns, shown."""
    kinds = options.kinds(kind)
    labels, asked = read_labels(table, target), (("--ignore", ignore or []), ("--kind", [*kinds]))
    for option, given in asked:
        if target in given:
            raise Failure(ExitCode.USAGE, f"{option} {target}: {target} is the target")
        unknown = next((name for name in given if name not in table.frame), None)
        if unknown is not None:
            raise bad_table(table.source, f"{option} {unknown}: there is no such column")
    names = [name for name in table.names if name != target and name not in (ignore or [])]
    if not names:
        raise bad_table(table.source, f"one column, {target!r}; there is none to learn from")
    features = find_features(table, names, {name: kinds[name] for name in names if name in kinds})
    for note in amounts_note(labels, target) + features.notes:
        screen.note(note)
    for name, reason in features.left_out.items():
        screen.note(f"column {name!r} is left out: {reason}")
    if not screen.is_silent:
        _show_table(screen, features, labels, target)
    return labels, features


def _show_table(screen: Screen, features: Features, labels: np.ndarray, target: str) -> None:
    frame = features.frame
    rows = [
        [str(name), features.kind(name), f"{frame[name].isna().mean():.0%}", str(frame[name].nunique())]
        for name in frame
    ]
    size = f"{_many(len(frame), 'row')}, {_many(len(rows), 'column')}"
    screen.say(f"{size}, {frame.isna().to_numpy().mean():.1%} of the cells missing")
    screen.grid(["column", "kind", "missing", "values"], rows)
    classes, counts = _counted(labels)
    n_unlabeled = len(labels) - sum(counts)
    known = ", ".join(f"{name} {n}" for name, n in zip(classes[:20], counts, strict=False))
    screen.say(f"\nclasses of {target}: {known}{' ...' if len(classes) > 20 else ''}; unlabeled {n_unlabeled}\n")


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _counted(labels: np.ndarray) -> tuple[list[str | int], list[int]]:
    known = [label for label in labels.tolist() if label is not None]
    classes = sorted(set(known), key=lambda c: (str(type(c)), c))
    return classes, [known.count(c) for c in classes]


def _facts(model: LatentClassifier, features: Features, labels: np.ndarray) -> JsonObject:
    """What machines get to know of a fit."""
    classes, counts = _counted(labels)
    names = list(features.frame)
    return {
        "target": model.target_name_,
        "n_rows": len(labels),
        "n_unlabeled": len(labels) - sum(counts),
        "classes": classes,
        "class_counts": counts,
        "columns": [
            {"name": name, "kind": kind, "missing": float(features.frame[name].isna().mean())}
            for name, kind in zip(names, model.kinds_, strict=True)
        ],
        "left_out": features.left_out,
        "expected_log_loss": model.expected_log_loss_,
        "expected_accuracy": model.expected_accuracy_,
        "never_held_out": model.never_held_out_.tolist(),
        "leaderboard": model.leaderboard_,
    }


def _show_fit(screen: Screen, model: LatentClassifier) -> None:
    board = model.leaderboard_
    header = ["candidate", "log loss", "accuracy", "weight"]
    columns = zip(board["candidate"], board["log_loss"], board["accuracy"], board["weight"], strict=True)
    rows = [
        [name, _unless_nan(loss, ".3f"), _unless_nan(right, ".1%"), f"{weight:.2f}"]
        for name, loss, right, weight in columns
    ]
    screen.grid(header, rows)
    loss, right = model.expected_log_loss_, model.expected_accuracy_
    expected = "unknown: too few different labeled rows to hold some out"
    if not np.isnan(loss):
        absent = ", ".join(map(str, model.never_held_out_[:10]))
        without = f" (without {absent}: never held out)" if absent else ""
        expected = f"accuracy {right:.1%}, log loss {loss:.3f}{without}"
    screen.say(f"\nexpected of new rows: {expected}")


def _unless_nan(value: float, form: str) -> str:
    return "" if np.isnan(value) else format(value, form)


def compare(
    table: options.TableFile,
    target: options.Target,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="A table to write; the ranking is shown in any case.")
    ] = None,
    effort: options.Effort = "fast",
    folds: Annotated[int, typer.Option("--folds", min=2, max=100, help="Folds of the cross-validation.")] = 5,
    ignore: options.Ignore = None,
    kind: options.Kind = None,
    seed: options.Seed = 0,
    encoding: options.Encoding = "utf-8",
    delimiter: options.Delimiter = None,
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Rank classifiers by cross-validation.

    The estimators that suit the table and the usual choices of scikit-learn, on the same folds; the
    corrected resampled t-test says which are significantly worse than the best.
    """
    screen = Screen(as_json, quiet)
    _check_effort(effort)
    check_target(output, force, [table])
    check_format(output)
    found = read_table(table, options.reading(encoding, delimiter, missing))
    labels, features = _learnable(found, target, ignore, kind, screen)
    candidates = {
        "LatentClassifier": _classifier(effort, seed, features),
        "LatentClassificationModel": LatentClassificationModel(**_reading(seed, features)),
    }
    if all(features.kind(name) != "categorical" for name in features.frame):
        candidates["GaussianMixtureClassifier"] = GaussianMixtureClassifier(random_state=seed, unlabeled=None)
    candidates |= usual_choices(features.frame, seed)
    with blaming(found.source), screen.work(f"comparing {len(candidates)} classifiers on {folds} folds"):
        result = compare_classifiers(candidates, features.frame, labels, folds, random_state=seed)
    ranking = result.to_frame().drop(columns=["dataset", "best"]).sort_values(["rank", "log_loss"])
    to_standard = output == STANDARD
    if output is not None and not (to_standard and as_json):
        write_table(ranking, output)
    if as_json:
        print_json({"target": target, "folds": folds, "ranking": ranking, "notes": screen.notes})
    elif not to_standard:
        screen.show(result)


def report(
    model: options.ModelFile,
    table: options.TableFile,
    output: Annotated[str, typer.Option("--output", "-o", help="The HTML file to write; - is standard output.")],
    target: options.KnownTarget = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of the page.")] = None,
    encoding: options.Encoding = "utf-8",
    delimiter: options.Delimiter = None,
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write an HTML report on a model and a table with classes."""
    screen = Screen(as_json, quiet)
    if as_json and output == STANDARD:
        raise Failure(ExitCode.USAGE, "--output -: --json writes to standard output, too; name a file")
    check_target(output, force, [model, table])
    fitted = load_classifier(model)
    found = read_table(table, options.reading(encoding, delimiter, missing).for_model(fitted))
    target = target or getattr(fitted, "target_name_", None)
    if target is None:
        raise Failure(ExitCode.USAGE, f"{model} does not say which column it predicts; name it by --target")
    labels = labels_as_fitted(read_labels(found, target), fitted, keep_others=True)
    frame = features_as_fitted(found, fitted)
    with blaming(found.source), screen.work("writing the report"):
        page = report_html(fitted, numbered(frame), labels, title=title or f"{target} in {found.title}")
    write_page(page, output)
    if as_json:
        print_json({"files": {"report": output}, "notes": screen.notes})
    elif output != STANDARD:
        screen.report(f"report: {output}")
