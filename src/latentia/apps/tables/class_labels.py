"""Columns of classes: as they are fitted, and as text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

import numpy as np

from latentia.apps.tables.failures import bad_table
from latentia.apps.tables.table_files import Table
from latentia.table.cells import NUMBER

#: Classes that are numbers, as other programs write them in columns with and without gaps.
WHOLE = re.compile(r"(0|-?[1-9]\d{0,17})(?:\.0*)?", re.ASCII)

#: A target of more different values than this may hold ids or amounts, not classes.
MANY_CLASSES = 20


def read_labels(table: Table, target: str) -> np.ndarray:
    """The classes, None where a row has none; whole numbers are integers, else text stays text."""
    if target not in table.frame:
        hint = did_you_mean([target], table.names)
        raise bad_table(table.source, f"no column {target!r}; {hint}its columns are {listed(table.names)}")
    cells = table.frame[target]
    labels = np.array(
        [None if missing else value for value, missing in zip(cells, cells.isna(), strict=True)], dtype=object
    )
    known = [label for label in labels if label is not None]
    if all(_whole(label) is not None for label in known):
        labels = np.array([None if label is None else _whole(label) for label in labels], dtype=object)
    try:
        n_classes = len(set(labels.tolist()) - {None})
    except TypeError:
        raise bad_table(table.source, f"the target {target!r} holds lists; a class is one value") from None
    if n_classes < 2:
        what = f"one class, {known[0]!r}" if known else "no label in any row"
        raise bad_table(table.source, f"the target {target!r} has {what}; two classes are needed")
    if n_classes > MANY_CLASSES and 2 * n_classes > len(known):
        raise bad_table(
            table.source,
            f"the target {target!r} has {n_classes} different values in {len(known)} labels; classes have several rows",
        )
    return labels


def amounts_note(labels: np.ndarray, target: str) -> list[str]:
    """A word where the classes may be amounts, such as ages."""
    classes = {label for label in labels if label is not None}
    if len(classes) <= MANY_CLASSES or not all(NUMBER.fullmatch(str(label)) for label in classes):
        return []
    return [
        f"the target {target!r} holds {len(classes)} different numbers; each is learned as a class, not as an amount"
    ]


def _whole(label: object) -> int | None:
    """The whole number that a class is, if any: 1, "1", 1.0 and "1.0" are the same one."""
    if isinstance(label, str):
        found = WHOLE.fullmatch(label)
        return int(found[1]) if found else None
    if isinstance(label, float) and label.is_integer() or isinstance(label, int) and not isinstance(label, bool):
        return int(label)
    return None


def class_text(label: object) -> str:
    """A class as text, the same for all ways to write a number."""
    whole = _whole(label)
    return str(label) if whole is None else str(whole)


def did_you_mean(lacking: Sequence[str], names: Sequence[str]) -> str:
    """A question to who has written names of columns in another way; "" if none is like them."""
    plainly = {name.strip().casefold(): name for name in names}
    found = {name: difflib.get_close_matches(name.strip().casefold(), plainly, n=1) for name in lacking}
    meant = [plainly[near[0]] for near in found.values() if near]
    return f"did you mean {listed(meant)}? " if len(meant) == len(lacking) else ""


def listed(names: Sequence[str]) -> str:
    """Names for a message."""
    shown = ", ".join(repr(name[:40]) for name in names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
