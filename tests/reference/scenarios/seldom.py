"""What seldom happens: parts of tables that do not go together, options that nobody combines, arithmetic at its end."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.base import clone

import latentia
from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.arrays.namespace import in_main_memory
from latentia.estimators.latent_classifier.features import rows_without_cells
from latentia.evaluation.compare import named_scorers
from latentia.persistence.format import ArrayLayout, Decoder, Encoder
from latentia.scale import tables as label_digest
from latentia.scale import tables as small_tables
from latentia.scale import tables as target_parts
from latentia.scale.files import LazyAnswers
from latentia.scale.tables import LazyTable, method_of_rows
from latentia.solvers.em import warn_if_decreased
from latentia.table import cells
from latentia.table import columns as column_kinds
from latentia.table.columns import _with_unseen_values
from latentia.table.labels import read_label_matrix, read_outputs
from latentia.table.standardization import ColumnMoments, Scale
from latentia.table.weights import check_weight

from ..describe import describe, refusal
from ..registry import Group
from ..tables import complete, label_matrix, mixed, numbers, outputs

SCENARIOS = Group()
FEW: Any = {"max_iter": 2, "n_init": 1, "random_state": 0}


@SCENARIOS
def targets_in_parts() -> dict[str, Any]:
    """What is learned of y from the digests of its parts."""
    import pandas as pd

    classes = target_parts.ClassReader("auto")
    objects = [np.array(y, dtype=object) for y in (["b", None, "b"], ["c", "a"], [None])]
    words = classes.learn([classes.digest(y, len(y)) for y in objects])
    of_class = classes.learn([classes.digest(np.array(y), len(y)) for y in ([2, -1, 5], [5, 5], [-1])])
    either = target_parts.LabelMatrixReader(-1)
    columns = either.learn([either.digest(np.array(y), len(y)) for y in ([[1], [2], [-1]], [[4], [2]])])
    frame = pd.DataFrame({"a": [1, 0, -1], "b": [0, -1, -1]})
    matrix = either.learn([either.digest(frame, 3), either.digest(1 - frame[:1], 1)])
    numbers_of = target_parts.OutputReader()
    told = [numbers_of.digest(np.array(y), len(y)) for y in ([np.nan, 3.0, -7.0], [np.nan], [2.0, 1.0])]
    found = numbers_of.learn(told)
    wide = numbers_of.digest(np.ones((2, 2)), 2)
    return {
        "classes": of_class.classes,
        "codes": of_class.encode(np.array([5, -1, 2]), 3),
        "words": [repr(c) for c in words.classes.tolist()],
        "codes of words": words.encode(objects[0], 3),
        "known classes": of_class.known(of_class.encode(np.array([5, -1, 2]), 3)),
        "columns": columns.encode(pd.DataFrame({"y": [4, -1, 1]}), 3),
        "known columns": columns.known(columns.encode(np.array([[4], [-1], [1]]), 3)),
        "of a matrix": [*matrix.n_positive, matrix.n_labeled, *map(str, matrix.names)],
        "known rows": matrix.known(matrix.encode(frame, 3)),
        "outputs": [found.n_outputs, found.is_vector, *found.largest, *found.known(np.array([[np.nan], [2.0]]))],
        "refused": [
            refusal(numbers_of.learn, [told[0], wide]),
            refusal(numbers_of.learn, told[1:2]),
            refusal(label_digest.digest_labels, np.ones((2, 2))),
            refusal(label_digest.digest_labels, None),
            refusal(classes.learn, [classes.digest(np.array(y), 1) for y in ([1], ["a"])]),
            refusal(read_outputs, [[1.0], [2.0, 3.0]], 2),
            refusal(either.learn, [either.digest(np.full((2, 12), -1), 2)]),
            refusal(either.learn, [either.digest(np.full((2, 10), -1), 2)]),
            refusal(lambda: classes.learn([classes.digest(np.array(["b", 3], dtype=object), 2)])),
            refusal(read_label_matrix, np.ones(3)),
            refusal(read_label_matrix, np.ones((2, 2, 2))),
        ],
    }


@SCENARIOS
def parts_of_other_tables() -> dict[str, Any]:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    count = partial(small_tables.count_rows, meta=frame)
    return {
        "rows": [count((frame, [1, 2], None)), count((frame[:0], [], None))],
        "refused": [
            refusal(small_tables._check_schema, frame[["b", "a"]], frame),
            refusal(small_tables._check_schema, frame.assign(a=["1", "2"]), frame),
            refusal(small_tables._check_schema, np.ones((2, 3)), np.ones((0, 2))),
            refusal(count, (frame, [1], None)),
            refusal(count, (frame, [1, 2], [1.0])),
        ],
    }


class Answers:
    """Says how it was asked."""

    callback = "a listener"

    def _require_fitted(self) -> None:
        pass

    @method_of_rows
    def tell(self, X: Any, y: Any = None, a: int = 0, *, b: int = 0) -> str:
        return f"{X} {y} {a} {b} {self.callback}"


class Parted(LazyTable):
    """Two rows, a part each."""

    def map_rows(self, fn: Any, y: Any = None) -> str:
        return " / ".join(fn(row) if y is None else fn(row, y[row]) for row in range(2))

    gather = make = map_rows


@SCENARIOS
def questions_in_parts() -> dict[str, Any]:
    """Labels come in parts with the rows; other arguments go to all parts as they are."""
    tell = Answers().tell
    found = {
        "nothing": tell(Parted()),
        "values": tell(Parted(), None, 1, b=2),
        "labels": tell(Parted(), "pq", b=2),
        "labels by name": tell(Parted(), a=1, y="pq"),
        "others": refusal(tell, Parted(), c=2),
    }
    answers = LazyAnswers([np.ones(2), np.zeros(3)], lambda rows: (rows + 1, rows[:, None] * [1, 2]))
    return found | {"told": repr(answers), "first": answers.compute()[0], "second": answers.compute()[1]}


@SCENARIOS.with_(is_slow=True)
def answers_by_dask() -> dict[str, Any]:
    import dask.array as da
    import dask.bag as db
    import dask.dataframe as dd
    import pandas as pd

    X, y, _, new, _ = outputs()
    model = MixtureOfExpertsRegressor(2, inference="ml", **FEW).fit(X, y)
    mean, std = model.predict(da.from_array(new, chunks=((5, 0, 7), 3)), return_std=True)
    table = complete()
    classifier = GaussianMixtureClassifier(1, covariance="diag", **FEW).fit(table.X, table.y)
    rows = dd.from_pandas(pd.DataFrame(table.X), npartitions=3)
    labels = dd.from_pandas(pd.Series(table.y), npartitions=2)
    return {
        "mean": mean.compute(),
        "std": std.compute(),
        "positional": model.predict(da.from_array(new, chunks=(4, 3)), True)[1].compute(),
        "score": [classifier.score(rows, labels), classifier.score(table.X, table.y)],
        "of_no_label": refusal(classifier.score, rows, labels.map(lambda _: None, meta=("y", object))),
        "axes": refusal(classifier.score, rows, da.ones((43, 2))),
        "no_table": refusal(classifier.predict, db.from_sequence([1, 2])),
    }


@SCENARIOS
def files_that_cannot_be_scanned() -> dict[str, Any]:
    from pyarrow import dataset

    with tempfile.TemporaryDirectory(prefix="latentia-") as folder:
        here = os.getcwd()
        os.chdir(folder)
        try:
            Path("a.csv").write_text("a,b\n" + "1,2\n" * 300_000 + "x,2\n")
            Path("b.csv").write_text("a,b,y\n1,2,0\n3,5,1\n" * 3)
            model = GaussianMixtureClassifier(1, covariance="diag", **FEW)
            table = latentia.scan("b.csv", target="y")
            return {
                "mixed": refusal(latentia.scan, "a.csv", target="b").split(" dtype")[0],
                "empty": refusal(latentia.scan, dataset.dataset([]), target="b"),
                "other": refusal(latentia.scan, ["a.csv", "c.txt"], target="b"),
                "labels": refusal(table.map_rows, len, np.ones(3)),
                "y": refusal(model.fit, table, np.ones(6)),
            }
        finally:
            os.chdir(here)


@SCENARIOS
def columns() -> dict[str, Any]:
    import pandas as pd

    table = mixed()
    empty = table.X.assign(color=None, two=np.nan)
    model = LatentClassificationModel(1, 1, kinds={"two": "binary", "color": "categorical"}, **FEW)
    with patch("warnings.warn"):
        model.fit(empty, table.y)
    scale = Scale(np.array([2.0, 4.0]))
    rows = scale.prepare(np.array([[1.0, 8.0], [3.0, 2.0]]))
    moments = in_main_memory(ColumnMoments(np.ones(2), np.zeros(2), np.ones(2)))
    return {
        "kinds": " ".join(model.kinds_),
        "filled": model.impute(empty[:4]).astype(str).to_numpy().tolist()[1][2:],
        "unseen": [*_with_unseen_values(np.array([0, 2]), 4), *_with_unseen_values(np.array([5.0, 7.0]), 4)],
        "bits": [column_kinds.holds_only_bits(pd.DataFrame({"a": [0, 1]})), column_kinds.holds_only_bits(np.eye(2))],
        "scaled": rows.values,
        "back": [*scale.inverse_transform(rows.values).ravel(), *scale.log_det_jacobian(rows), *scale.shift],
        "moments": [type(moments).__name__, *moments.std],
        "weight": check_weight(2.5, 3),
        "without": rows_without_cells(np.array([[1, 2], [3, 4]])),
        "refused": [
            refusal(LatentClassificationModel(1, kinds=3).fit, table.X, table.y),
            refusal(LatentClassificationModel(1).fit, table.X[:0], []),
            refusal(named_scorers, {"own": 3}),
            refusal(named_scorers, ["accuracy", 3]),
            refusal(named_scorers, 3),
            refusal(MultimodalSoftmaxClassifier(threshold=[0.5, 2.0]).fit, [[0.0], [1.0]], [0, 1]),
        ],
    }


@SCENARIOS
def whole_numbers() -> dict[str, Any]:
    """Integers as categories and levels, with values that were never seen, in every integer type and as floats."""
    rng = np.random.RandomState(1)
    X = np.stack([rng.randint(2, 5, 40) * 10, rng.randint(0, 3, 40), rng.randint(-2, 2, 40)], axis=1)
    y = (X[:, 0] + rng.randint(0, 20, 40) > 40).astype(int)
    model = LatentClassificationModel(1, 1, kinds=["categorical", "ordinal", "continuous"], **FEW).fit(X, y)
    new = X[:5].copy()
    new[1, 0], new[2, 1] = 33, 7
    found = {dtype: model.predict_proba(new.astype(dtype)) for dtype in ("int8", "int64", "float32", "float64")}
    return found | {"filled": model.impute(new.astype(float)), "sample": model.sample(4)[0]}


@SCENARIOS
def many_values() -> dict[str, Any]:
    """Doubts of columns with many different values, each named with its cure."""
    words = [f"word {k}" for k in range(40)]
    days = [f"2024-01-{k:02d}" for k in range(1, 32)]
    for name, values, n_known in (("few", words[:30], 30), ("often", words, 80), ("days", days, 62), ("7", words, 81)):
        cells.check_many_values(name, values, n_known)  # which may warn
    return {
        "refused": [
            refusal(cells.check_many_values, "id", words, 79),
            refusal(cells.check_many_values, "day", days, 61),
            refusal(cells.check_many_values, 3, [str(k) for k in range(31)], 31),
            refusal(cells.check_many_values, "both", [*words[:20], *map(str, range(20))], 45),
            refusal(cells.check_many_values, "dates and words", [*words[:20], *days], 52),
        ],
        "slips": [
            str(cells.text_among_numbers(values, np.array(counts)))
            for values, counts in (
                (["1", "2.5", "x"], [30, 20, 1]),
                (["1", "2.5", "x", "y"], [30, 20, 2, 1]),
                (["1", "x", "007"], [3, 3, 1]),
                (["1", "2"], [3, 3]),
            )
        ],
    }


@SCENARIOS
def label_matrices_of_a_stack() -> dict[str, Any]:
    """Given as lists or frames, with options that are for classes, which are refused, and a label that is known in one
    row.
    """
    import pandas as pd

    X, Y, new, _ = label_matrix()
    stack = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0)
    plain = stack.fit(X, Y)
    found = {"plain": describe(plain, new), "sample": refusal(plain.sample, 2)}
    proba = plain.predict_proba(new)
    for options in ({"priors": [0.5, 0.2, 0.3]}, {"loss_matrix": 1 - np.eye(3)}):
        found["refused " + "".join(options)] = refusal(clone(stack).set_params(**options).fit, X, Y)
    stack.set_params(unlabeled=1)
    for name, labels in (("lists", Y.tolist()), ("frame", pd.DataFrame(Y, columns=list("abc")))):
        stack.fit(X, labels)
        found[name] = bool(np.array_equal(stack.predict_proba(new), proba))
    found["names"] = " ".join(stack.label_names_)
    rare = Y.copy()
    rare[:, 2] = -1
    rare[3, 2] = 1
    return found | {"rare": stack.fit(X, rare).expected_log_loss_, "rare_proba": stack.predict_proba(new[:3])}


@SCENARIOS.with_(is_slow=True)
def limits_of_choices() -> dict[str, Any]:
    table = numbers()
    with patch("latentia.estimators.gaussian_mixture.MAX_MATRIX_COLUMNS", 3):
        narrow = GaussianMixtureClassifier(1, unlabeled=-1, **FEW).fit(table.X, table.y)
    with patch("latentia.estimators.latent_classification.ACCURACY_ROWS", 12):
        some = LatentClassificationModel(2, 1, unlabeled=-1, **FEW | {"n_init": 3}).fit(table.X, table.y)
    search = LatentClassificationModelCV([1, 2, 3], [1], cv=2, search="greedy", patience=1, unlabeled=-1, **FEW)
    search.fit(table.X, table.y)
    one = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0)
    with patch("warnings.warn"):
        one.fit(table.X, np.zeros(43, dtype=int))
    return {
        "narrow": describe(narrow, table.new),
        "some": some.objective_curve_,
        "tried": len(search.search_results_["n_latent"]),
        "sizes": refusal(LatentClassificationModelCV([4], [30], cv=2, **FEW).fit, table.X, table.truth),
        "one_class": one.explain(table.new[:3]),
    }


@SCENARIOS
def embeddings_beyond_memory() -> dict[str, Any]:
    """Rows that may not be kept are read again in every sweep, and those in parts are left in their units."""
    import dask.array as da
    from sklearn import config_context

    X, Y, new, _ = label_matrix()
    model = ProbitEmbeddingClassifier(2, max_iter=3, random_state=0)
    found = {"kept": model.fit(X, Y).predict_proba(new)}
    with config_context(working_memory=0.0005):
        found["read"] = model.fit(X, Y).predict_proba(new)
    model.set_params(standardize=False)
    found["raw"] = model.fit(X / 10, Y).predict_proba(new / 10)
    rows, labels = da.from_array(X / 10, chunks=(17, 5)), da.from_array(Y, chunks=(17, 3))
    with patch.object(small_tables, "SMALL_MIB", 0), patch.object(small_tables, "SMALL_TABLE_MIB", 0):
        found["raw_in_parts"] = model.fit(rows, labels).predict_proba(new / 10)
    return found


@SCENARIOS.with_(rtol=1e-4, is_slow=True)
def stacks_of_large_tables() -> dict[str, Any]:
    """A sample is cross-validated; then the members see all parts, Gaussians the categories as numbers."""
    import dask.dataframe as dd

    table = mixed(n=130)
    frame = table.X.drop(columns=["old", "grade"]).assign(y=table.y)
    lazy = dd.from_pandas(frame, npartitions=3)
    stack = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0)
    with (
        patch.object(small_tables, "SMALL_MIB", 0),
        patch.object(small_tables, "SMALL_TABLE_MIB", 0),
        patch("latentia.estimators.base.reading.SAMPLE_MIB", 80 * 8 * 5 / 2**20),
    ):
        stack.fit(lazy.drop(columns=["y"]), lazy["y"])
    new = table.new.drop(columns=["old", "grade"])
    found = {"rows": stack.training_record_["n_rows"], "held_out": list(stack.held_out_proba_.shape)}
    found |= {vote.member.__class__.__name__ + str(k): k for k, vote in enumerate(stack._model.votes)}
    for k, vote in enumerate(stack._model.votes):
        found[f"proba of {k}"] = vote.member.log_proba(stack._model.encoder.encode(new, "missing"))
    return found | {"proba": stack.predict_proba(new), "density": stack.score_samples(new)}


@SCENARIOS
def damaged_values() -> dict[str, Any]:
    encoder, decoder = Encoder(), Decoder([np.arange(3)])
    generator = np.random.Generator(np.random.Philox(1))
    state = np.random.RandomState(np.random.PCG64(1))
    bools = np.array([0, 1, 7], dtype=np.uint8).view(bool)
    return {
        "refused": [
            refusal(encoder.encode, generator, "random_state"),
            refusal(encoder.encode, state, "random_state"),
            refusal(decoder.decode, {"objects": [1, 2], "shape": [2.0]}),
            refusal(decoder.decode, {"objects": [1, 2], "shape": [3]}),
            refusal(decoder.decode, {"objects": [1, 2], "shape": [2, "1"]}),
            refusal(decoder.decode, {"objects": [1, 2], "shape": [-2, -1]}),
            refusal(decoder.decode, {"array": 1}),
            refusal(decoder.decode, {"array": -1}),
            refusal(decoder.decode, {"tuple": 3}),
            refusal(ArrayLayout.of(np.zeros(3, dtype=bool)).restored, bools),
        ],
        "read": [*decoder.decode({"array": 0}), *decoder.decode({"objects": ["a", 2], "shape": [2]})],
    }


@SCENARIOS
def objectives_that_fall() -> dict[str, Any]:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for gain in ([0.0, 1.0], [-1e-16, -1e-14], [0.5, -0.25]):
            warn_if_decreased(np.array(gain), np.array([3.0, 7.0]), 2e-16)
    return {"said": [str(w.message) for w in caught]}
