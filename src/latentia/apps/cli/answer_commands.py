"""Commands that ask a model: `predict`, `impute`, `sample`, `explain`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated

import numpy as np
import pandas
import typer

from latentia.apps import JsonObject
from latentia.apps.cli import options
from latentia.apps.cli.console import Screen
from latentia.apps.cli.output_files import STANDARD, check_format, check_target, plain, print_json, write_table
from latentia.apps.tables.class_labels import class_text
from latentia.apps.tables.failures import ExitCode, Failure, bad_table
from latentia.apps.tables.models import FittedClassifier, blaming, load_classifier
from latentia.apps.tables.table_files import Reading, Table, read_table
from latentia.apps.tables.typed_columns import features_as_fitted
from latentia.arrays.namespace import to_numpy
from latentia.estimators.base.classifier import decide
from latentia.estimators.latent_classifier.classifier import reasons_array
from latentia.plot.general import columns_without_values

METHODS = ("mean", "median", "mode")


def prediction_table(model: FittedClassifier, frame: pandas.DataFrame) -> pandas.DataFrame:
    """The class of each row, the probability of each class, and how unusual the row is."""
    proba = np.asarray(model.predict_proba(frame))
    columns = [model.classes_[to_numpy(decide(proba, getattr(model, "loss_matrix", None)))], *proba.T]
    if hasattr(model, "score_samples"):
        columns.append(-np.asarray(model.score_samples(frame)))
    return pandas.DataFrame(dict(zip(_answer_names(model), columns, strict=True)))


def _answer_names(model: FittedClassifier) -> list[str]:
    """The columns of `prediction_table`."""
    names = ["prediction", *(f"p({name})" for name in model.classes_.tolist())]
    return [*names, "outlier_score"] if hasattr(model, "score_samples") else names


def predict(
    model: options.ModelFile,
    table: options.TableFile,
    output: options.TableOutput = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="A column to copy to the output; may be repeated."),
    ] = None,
    encoding: options.Encoding = "utf-8",
    delimiter: options.Delimiter = None,
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Class probabilities and outlier scores.

    Writes the most probable class of each row, the probability of each class, and minus the log
    density of the row: the higher, the more unusual.
    """
    screen = Screen(as_json, quiet)
    reading = options.reading(encoding, delimiter, missing)
    fitted, found, frame = _opened(model, table, output, force, reading, keep=keep)
    kept = _kept(found, keep)
    with blaming(found.source), screen.work("predicting"):
        answers = prediction_table(fitted, frame)
    _finish(screen, pandas.concat([kept, answers], axis=1), output)


def impute(
    model: options.ModelFile,
    table: options.TableFile,
    output: options.TableOutput = None,
    method: Annotated[
        str, typer.Option("--method", help="What gaps get: mean, median, or mode (whole numbers stay whole).")
    ] = "mean",
    encoding: options.Encoding = "utf-8",
    delimiter: options.Delimiter = None,
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Fill the missing cells of a table.

    Each gap gets what the model expects there. Columns that the model does not know, or has seen
    no value of, stay as they are.
    """
    screen = Screen(as_json, quiet)
    if method not in METHODS:
        raise Failure(ExitCode.USAGE, f"--method {method}: allowed are {', '.join(METHODS)}")
    fitted, found, frame = _opened(model, table, output, force, options.reading(encoding, delimiter, missing), "impute")
    with blaming(found.source), screen.work("imputing"):
        filled = fitted.impute(frame, method=method)
    if not isinstance(filled, pandas.DataFrame):
        filled = pandas.DataFrame(np.asarray(filled), columns=list(frame))
    known = frame.loc[:, ~columns_without_values(fitted)]
    complete = found.frame.assign(**{name: filled[name].to_numpy() for name in known})
    n_filled = int(known.isna().to_numpy().sum())
    _finish(screen, complete, output, {"n_filled": n_filled}, f"{n_filled} cell{'s' * (n_filled != 1)} filled")


def sample(
    model: options.ModelFile,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows to draw.")] = 10,
    of_class: Annotated[str | None, typer.Option("--class", help="Draw rows of this class alone.")] = None,
    output: options.TableOutput = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw new rows with their classes from a model."""
    screen = Screen(as_json, quiet)
    check_target(output, force, [model])
    check_format(output)
    fitted = load_classifier(model, "sample")
    label = None if of_class is None else _class_named(fitted, of_class)
    fitted.set_params(random_state=seed)
    with blaming(model), screen.work("drawing"):
        X, y = fitted.sample(rows, label)
    names = getattr(fitted, "feature_names_in_", None)
    names = [f"column_{k + 1}" for k in range(fitted.n_features_in_)] if names is None else list(names)
    drawn = X if isinstance(X, pandas.DataFrame) else pandas.DataFrame(np.asarray(X), columns=names)
    _finish(screen, drawn.assign(**{getattr(fitted, "target_name_", "class"): y}), output)


def _class_named(model: FittedClassifier, name: str) -> Hashable:
    found = [label for label in model.classes_.tolist() if class_text(label) == class_text(name)]
    if not found:
        classes = ", ".join(map(str, model.classes_.tolist()[:20]))
        raise Failure(ExitCode.USAGE, f"--class {name}: the classes of this model are {classes}")
    return found[0]


def explain(
    model: options.ModelFile,
    table: options.TableFile,
    output: options.CellsOutput = None,
    encoding: options.Encoding = "utf-8",
    delimiter: options.Delimiter = None,
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Which cells speak for which class.

    Shows what the cells of each column add to the log odds of each class, on average, and writes
    what each cell of a row adds to the log odds of the class predicted.
    """
    screen = Screen(as_json, quiet)
    reading = options.reading(encoding, delimiter, missing)
    fitted, found, frame = _opened(model, table, output, force, reading, "explain")
    with blaming(found.source), screen.work("explaining"):
        cells = reasons_array(fitted.explain(frame))  # (rows, columns, classes)
        proba = np.asarray(fitted.predict_proba(frame))
    best, each = to_numpy(decide(proba, getattr(fitted, "loss_matrix", None))), np.arange(len(proba))
    rows = pandas.DataFrame(cells[each, :, best], columns=list(frame))
    answers = pandas.DataFrame({"prediction": fitted.classes_[best], "probability": proba[each, best]})
    rows = pandas.concat([answers, rows.add_prefix("adds:")], axis=1)
    strength = np.abs(cells).mean(axis=0)  # (columns, classes)
    order = np.argsort(-strength.mean(axis=1), kind="stable")
    names, classes = list(frame), [str(c) for c in fitted.classes_.tolist()]
    importance = {names[k]: dict(zip(classes, strength[k].tolist(), strict=True)) for k in order}
    if as_json and output == STANDARD:
        output = None
    if output is not None:
        write_table(rows, output)
    if as_json:
        print_json(
            {"importance": importance, "rows": rows} if output is None else {"importance": importance, "output": output}
        )
    if as_json or output == STANDARD:
        return
    screen.say("what a cell adds to the log odds of each class, mean of the absolute values\n")
    screen.grid(["column", *classes], [[name, *(f"{v:.3f}" for v in row.values())] for name, row in importance.items()])


def _opened(
    model: str,
    table: str,
    output: str | None,
    force: bool,
    reading: Reading,
    *needed: str,
    keep: list[str] | None = None,
) -> tuple[FittedClassifier, Table, pandas.DataFrame]:
    """A model and a table that it can read; the output is free."""
    check_target(output, force, [model, table])
    check_format(output)
    fitted = load_classifier(model, "predict_proba", *needed)
    if getattr(fitted, "multilabel_", False):
        raise Failure(ExitCode.BAD_MODEL, f"{model} predicts several labels a row, which the command line does not")
    answers = _answer_names(fitted)
    twice = next((name for name in keep or [] if name in answers), None)
    if twice is not None:
        raise Failure(ExitCode.USAGE, f"--keep {twice}: the output has a column of this name: {', '.join(answers)}")
    found = read_table(table, reading.for_model(fitted))
    return fitted, found, features_as_fitted(found, fitted)


def _kept(table: Table, names: list[str] | None) -> pandas.DataFrame:
    lacking = [name for name in names or [] if name not in table.frame]
    if lacking:
        raise bad_table(table.source, f"--keep {lacking[0]}: there is no such column")
    return table.frame[list(dict.fromkeys(names or []))]


def _finish(
    screen: Screen, frame: pandas.DataFrame, output: str | None, facts: JsonObject | None = None, done: str = ""
) -> None:
    """Write the answers where they were asked for."""
    output = None if output == STANDARD else output
    if screen.as_json:
        if output is not None:
            write_table(frame, output)
        where: JsonObject = {"rows": plain(frame)} if output is None else {"output": output, "n_rows": len(frame)}
        print_json({**(facts or {}), **where, "notes": screen.notes})
        return
    write_table(frame, output)
    if output is not None:
        screen.report(f"{done + '; ' if done else ''}{len(frame)} row{'s' * (len(frame) != 1)} written to {output}")
