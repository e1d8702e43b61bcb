"""The arena: tables x settings x methods, ours beside the usual choices of scikit-learn.

    python benchmarks/arena.py run [--tables iris wine] [--settings complete both] [--methods latent logistic]
                                   [--ours 'wide=LatentClassificationModel(8)'] [--repeats 2] [--jobs 2] [--limit 600]
    python benchmarks/arena.py impute [the same options]
    python benchmarks/arena.py report [--methods ...] [--reference logistic] [--files a.csv b.csv]

Every trial appends one line to a CSV file; a later run skips what the file has, so that an interrupted run goes on where
it stopped, and new methods are added to old results (`--redo latent` runs a method again). `report` writes a Markdown
summary beside it. `--quick` is the small part that tests run.

Settings: complete tables; 20 or 50 % of all cells deleted at random, of training and test rows; 5, 10 or 20 labels a
class, the other training rows unlabeled; both: 50 % and 10 labels. Ours, self-training and label spreading see the
unlabeled rows; the others, and a method of ours whose name ends in "@labeled", get the labeled rows alone.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

from arena_report import read, write_report
from arena_trials import IMPUTE_SETTINGS, MIXED, NAMES, SETTINGS, Trial, default_tables, run_trial
from joblib import Parallel, delayed, parallel_config
from methods import LABELED_ONLY, OURS, evaluate
from usual_choices import CLASSIFIERS, IMPUTERS, SEMI_SUPERVISED

RESULTS = Path(__file__).parent / "results"
FIELDS = (*Trial._fields, "log_loss", "accuracy", "calibration", "rmse", "bad_rows", "seconds", "cpu_seconds", "status")
QUICK = {
    "run": {"tables": ["iris", "synthetic-mixed"], "settings": ["complete", "both"],
            "methods": ["prior", "logistic", "naive-bayes", "latent", "mixture"]},
    "impute": {"tables": ["iris"], "settings": ["impute30"], "methods": ["mean", "neighbors", "mixture"]},
}  # fmt: skip


def trials_of(options: argparse.Namespace) -> list[Trial]:
    """All trials asked for, the repeats outermost: a run that is cut short has seen every table."""
    imputing = options.command == "impute"
    ours = dict(option.split("=", 1) for option in options.ours)
    usual = IMPUTERS if imputing else CLASSIFIERS
    for expression in ours.values():
        evaluate(expression)  # a slip comes up here, not in every trial
    tables = options.tables or [t for t in default_tables() if not (imputing and is_mixed(t))]
    settings = options.settings or list(IMPUTE_SETTINGS if imputing else SETTINGS)
    methods = options.methods
    if methods is None:
        methods = [*ours] if ours else [*OURS, *usual]
    methods = list(dict.fromkeys([*methods, *ours]))
    check("--tables", tables, NAMES)
    check("--methods", [m.removesuffix(LABELED_ONLY) for m in methods if m not in ours], [*OURS, *usual])
    return [
        Trial(table, setting, repeat, method, ours.get(method, ""))
        for repeat in range(options.repeats)
        for table in tables
        for setting in settings
        for method in methods
        if not (method in SEMI_SUPERVISED and SETTINGS[setting].labels is None)
    ]


def check(option: str, given: list[str], known: list[str]) -> None:
    for name in given:
        if name not in known:
            sys.exit(f"{option} must be of {', '.join(known)}; got {name!r}")


def is_mixed(table: str) -> bool:
    return table in MIXED or table == "synthetic-mixed"


def run(options: argparse.Namespace) -> None:
    """Run what the file lacks, each result written as it comes."""
    path = options.file
    known = [row for row in (read([path]) if path.exists() else []) if row["method"] not in options.redo]
    if options.redo and path.exists():
        path.unlink()
        append(path, known)
    done = {tuple(row[field] for field in Trial._fields[:4]): row["expression"] for row in known}
    todo = []
    for trial in trials_of(options):
        before = done.get(trial[:4])
        if before is None:
            todo.append(trial)
        elif before != trial.expression:
            sys.exit(f"{trial.method} stands for {before!r} in {path}: choose another name, or --redo {trial.method}")
    print(f"{len(todo)} trials to run, {len(known)} in {path}", flush=True)
    start = time.perf_counter()
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(options.jobs, return_as="generator_unordered", batch_size=1)(
            delayed(run_trial)(trial, options.limit) for trial in todo
        )
        for k, result in enumerate(results, 1):
            append(path, [result])
            progress(k, len(todo), time.perf_counter() - start, result)
    print()


def append(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items() if v is not None} for row in rows
        )


def progress(k: int, n: int, elapsed: float, result: dict) -> None:
    """One line that is written over on a terminal, a line every tenth of the way elsewhere; failures always."""
    where = f"{result['table']} {result['setting']} {result['repeat']} {result['method']}"
    if result["status"] != "ok":
        print(f"\n{where}: {result['status']}", flush=True)
    left = elapsed / k * (n - k)
    if sys.stdout.isatty():
        print(f"\r{k}/{n}, {elapsed:.0f} s, about {left:.0f} s to go: {where:60.60s}", end="", flush=True)
    elif k == n or k * 10 // n > (k - 1) * 10 // n:
        print(f"{k}/{n}, {elapsed:.0f} s, about {left:.0f} s to go", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("run", "classify"), ("impute", "fill deleted cells of tables of numbers")):
        command = commands.add_parser(name, help=what)
        command.add_argument("--tables", nargs="+")
        command.add_argument("--settings", nargs="+", choices=list(SETTINGS if name == "run" else IMPUTE_SETTINGS))
        command.add_argument("--methods", nargs="+")
        command.add_argument("--ours", nargs="+", default=[], metavar="NAME=EXPRESSION", help="further estimators")
        command.add_argument("--repeats", type=int, default=2)
        command.add_argument("--jobs", type=int, default=1, help="processes")
        command.add_argument("--limit", type=float, default=600, help="seconds for one trial")
        command.add_argument("--redo", nargs="+", default=[], metavar="METHOD", help="forget the results of these")
        command.add_argument("--quick", action="store_true", help="a small part, in seconds")
        command.add_argument("--file", type=Path, default=RESULTS / "arena.csv")
    report = commands.add_parser("report", help="summarize")
    report.add_argument("--files", type=Path, nargs="+", default=[RESULTS / "arena.csv"])
    report.add_argument("--methods", nargs="+")
    report.add_argument("--tables", nargs="+")
    report.add_argument("--reference", default="logistic", help="method that ratios and tests are against")
    report.add_argument("--by-table", action="store_true", help="also the log loss of every table")
    report.add_argument("--to", type=Path, help="Markdown file; by default beside the (first) CSV file")
    options = parser.parse_args(arguments)
    if options.command == "report":
        write_report(options)
        return
    if options.quick:
        options.repeats = 1
        for option, value in QUICK[options.command].items():
            if getattr(options, option) is None:
                setattr(options, option, value)
    run(options)


if __name__ == "__main__":
    main()
