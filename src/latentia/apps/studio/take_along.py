"""What can be taken along: the code that fits the same model, and files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas

from latentia.apps.report import report_html
from latentia.apps.studio.choices import Choices
from latentia.apps.studio.map_view import MapView
from latentia.apps.studio.uploads import FOLDER
from latentia.apps.tables.models import FittedClassifier
from latentia.apps.tables.table_files import numbered

#: Names of columns are strangers' text: in code they are always literals.
OF_A_FIT = """# Fits the model that Studio showed: {target!r} in table.csv.

import pandas

from latentia import LatentClassifier, write_report

table = pandas.read_csv(
    "table.csv",
{dtypes}    keep_default_na=False,
    na_values=[""],
    float_precision="round_trip",
)
y = table.pop({target!r}).astype(object)
y = y.where(y.notna(), None)  # rows without a class
X = table
X.index += 1  # rows are counted from 1, as in Studio

{model}
model.fit(X, y)
{after}print(model.leaderboard_)
model.save("model.latentia")
write_report(model, X, y, "report.html", title={title!r})
"""

OF_A_FILE = """# Asks the model that Studio showed.

import latentia

model = latentia.load("model.latentia")
X, y = model.sample(10)  # or rows of your own, with the columns {names}
print(model.predict_proba(X))
"""

#: Types that a reader finds by itself.
INFERRED = ("float64", "int64")

#: A fit that was stopped is stopped again after as many candidates.
STOPPED = """tried = []


def stop(event):
    tried.append(event)
    return len(tried) >= {n_tried}


"""


def fit_code(choices: Choices, n_tried: int | None) -> str:
    """Python that fits the same model to the table of `table_file`; `n_tried` candidates if the
    fit was stopped.
    """
    table = table_of(choices)
    dtypes = {name: _dtype(table[name]) for name in table if str(table[name].dtype) not in INFERRED}
    model = f"model = LatentClassifier(\n    {_arguments(choices)}\n)"
    if n_tried is not None:
        model = STOPPED.format(n_tried=n_tried) + model[:-2] + "\n    callback=stop,\n)"
    return OF_A_FIT.format(
        target=choices.target,
        dtypes=f"    dtype={_listed(dtypes)},\n" if dtypes else "",
        model=model,
        after="model.set_params(callback=None)\n" if n_tried is not None else "",
        title=f"{choices.target} in table.csv",
    )


def file_code(view: MapView) -> str:
    """Python that asks a model from a file."""
    return OF_A_FILE.format(names=_listed(view.facts.columns[:8]).replace("\n", " "))


def _arguments(choices: Choices) -> str:
    model = choices.classifier()
    defaults, given = type(model)().get_params(), model.get_params()
    return "\n    ".join(f"{name}={value!r}," for name, value in given.items() if value != defaults[name])


def _dtype(column: pandas.Series) -> str:
    name = str(column.dtype)
    return "str" if name in ("object", "string") else name


def _listed(value: dict[str, str] | list[str]) -> str:
    """A literal, over several lines if it is long."""
    if len(repr(value)) <= 80:
        return repr(value)
    if isinstance(value, dict):
        return "{\n" + "".join(f"        {k!r}: {v!r},\n" for k, v in value.items()) + "    }"
    return "[\n" + "".join(f"    {v!r},\n" for v in value) + "]"


def table_of(choices: Choices) -> pandas.DataFrame:
    """The columns that were learned from, and the classes."""
    labels = pandas.Series(list(choices.labels), dtype=object)
    known = [label for label in labels if label is not None]
    if all(isinstance(label, int) for label in known):
        labels = labels.astype("Int64")
    return choices.frame.reset_index(drop=True).assign(**{choices.target: labels})


def table_file(choices: Choices) -> bytes:
    return bytes(table_of(choices).to_csv(index=False, lineterminator="\n").encode())


def model_file(model: FittedClassifier) -> bytes:
    """A model file; the folder in which it is made is gone at once."""
    with tempfile.TemporaryDirectory(prefix=FOLDER) as folder:
        path = Path(folder) / "model.latentia"
        model.save(path)
        return path.read_bytes()


def report_file(view: MapView) -> bytes:
    title = f"{view.target} in {view.origin}"
    frame = numbered(pandas.DataFrame(view.as_fitted(view.frame)))  # arrays have no names of rows
    return report_html(view.model, frame, view.labels, title=title).encode()
