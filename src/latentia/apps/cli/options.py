"""Arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from latentia.apps.tables.failures import ExitCode, Failure
from latentia.apps.tables.table_files import Reading
from latentia.apps.tables.typed_columns import ORDINAL
from latentia.families.latent_factors.kinds import COLUMN_MODELS

#: What a column may be.
KINDS = tuple(COLUMN_MODELS)

TableFile = Annotated[
    str, typer.Argument(metavar="TABLE", help="CSV, TSV, Parquet, Arrow or Feather, also gzipped; - is standard input.")
]
ModelFile = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file that 'latentia fit' or save has written.")
]
Target = Annotated[
    str, typer.Option("--target", "-t", help="The column of classes; its empty cells mark unlabeled rows.")
]
KnownTarget = Annotated[
    str | None, typer.Option("--target", "-t", help="The column of classes; by default the one that was fitted.")
]
TableOutput = Annotated[
    str | None, typer.Option("--output", "-o", help="The table to write; by default CSV on standard output.")
]
CellsOutput = Annotated[
    str | None, typer.Option("--output", "-o", help="The table to write: what each cell of each row adds.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON object to standard output, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notes.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of all that is random.")]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of text files.")]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="One character between cells; found by itself otherwise.")
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="TEXT", help="Also counts as a missing cell, besides ?, NA, NaN, null ..."),
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COLUMN", help="A column to leave out; may be repeated.")
]
Kind = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        help=f"What a column is, of {', '.join(KINDS)}, or ordinal:low<middle<high; may be repeated.",
    ),
]
Effort = Annotated[str, typer.Option("--effort", help="How much is tried: fast, balanced or best.")]


def kinds(given: list[str] | None) -> dict[str, str]:
    """Columns and their kinds; levels follow that of an ordinal one: ordinal:low<middle<high."""
    found = {}
    for option in given or []:
        name, has_levels, levels = option.partition(f"={ORDINAL}")
        name, _, kind = (name, "", ORDINAL + levels) if has_levels else option.rpartition("=")
        if not name or kind not in KINDS and not has_levels:
            raise Failure(ExitCode.USAGE, f"--kind {option}: allowed is COLUMN=KIND, with one of {', '.join(KINDS)}")
        found[name] = kind
    return found


def reading(encoding: str, delimiter: str | None, missing: list[str] | None) -> Reading:
    """How text is read."""
    return Reading(encoding, "\t" if delimiter == "\\t" else delimiter, frozenset(missing or []))
