"""What users hand in: frames, labels, weights, tables in parts; and what is doubted."""

from __future__ import annotations

import re
import tempfile
from typing import Any
from unittest.mock import patch

import numpy as np

import latentia
from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
)
from latentia.engine.rows import ArraySource
from latentia.estimators.base.reading import MixedTable
from latentia.families.latent_factors.kinds import COLUMN_MODELS
from latentia.scale import tables as small_tables
from latentia.table import labels, standardization, weights
from latentia.table import labels as label_matrices
from latentia.table.columns import number_columns
from latentia.table.encoder import Merging
from latentia.table.labels import output_units, read_outputs

from ..describe import answers, describe, learned, refusal
from ..digest import tree
from ..registry import Group
from ..tables import complete, label_matrix, mixed, numbers, outputs

SCENARIOS = Group()
FEW: Any = {"max_iter": 2, "n_init": 1, "random_state": 0}


def encoded(found: Any) -> dict[str, Any]:
    return {name: value if value is None else np.asarray(value) for name, value in found._asdict().items()}


@SCENARIOS
def labels_of_all_types() -> dict[str, Any]:
    given: dict[str, Any] = {
        "integers": [3, -1, 5, 3, 5, -1],
        "signs": [-1, 1, 1, -1],
        "words": ["b", None, "a", "b"],
        "nan": np.array([1.0, np.nan, 0.0]),
        "bools": [True, False, True],
        "mixed": np.array(["x", np.nan, "y"], dtype=object),
        "empty_text": ["", "a", "b", ""],
        "column": np.array([[1], [2], [1]]),
        "unsigned": np.array([1, 2, 255], dtype=np.uint8),
    }
    found: dict[str, Any] = {name: encoded(labels.read_labels(y, len(y), "auto")) for name, y in given.items()}
    found["none_marks"] = encoded(labels.read_labels([3, -1, 5], 3, None))
    found["nine_marks"] = encoded(labels.read_labels([3, 9, -1, 3], 4, 9))
    classes = np.array([3, 5, 8])
    found["known"] = labels.encode_known_labels([5, 3, -1, 8], classes, 4, -1)
    found["scored"] = [np.asarray(part) for part in labels.labels_to_score([5, -1, 3], 3, -1, classes)[:2]]
    found["missing"] = labels.is_missing(np.array(["a", None, np.nan, 1.0], dtype=object))
    for name, y in {"unknown": [3, 4], "short": [3], "matrix": [[1, 0], [0, 1]], "dict": {"a": 1}}.items():
        found[f"refused {name}"] = refusal(labels.encode_known_labels, y, classes, 2, -1)
    found["all_unlabeled"] = refusal(labels.read_labels, [-1, -1], 2, -1)
    found["inf"] = refusal(labels.read_labels, [np.inf, 1.0], 2, "auto")
    return found


@SCENARIOS
def label_matrices_of_all_types() -> dict[str, Any]:
    Y = np.array([[1, -1, 0], [0, 1, 1], [1, 0, 0], [0, 1, -1]])
    found: dict[str, Any] = {
        "integers": encoded(label_matrices.encode_label_matrix(Y, 4, "auto")),
        "nan": encoded(label_matrices.encode_label_matrix(np.where(Y < 0, np.nan, Y), 4, "auto")),
        "none": encoded(label_matrices.encode_label_matrix(np.where(Y < 0, None, Y), 4, "auto")),
        "classes": encoded(label_matrices.encode_label_matrix(["a", "b", None, "c"], 4, "auto")),
        "columns": label_matrices.class_columns(np.array([0, 2, -1, 1]), 3),
        "two": label_matrices.class_columns(np.array([0, 1, -1, 1]), 2),
        "read": label_matrices.read_label_matrix([[True, False], [False, True]]),
    }
    for name, y in {"three": Y + 2, "half": Y + 0.5, "words": [["a", "b"]] * 4, "ragged": [[0, 1], [1]]}.items():
        found[f"refused {name}"] = refusal(label_matrices.read_label_matrix, y)
    return found


@SCENARIOS
def checked_weights() -> dict[str, Any]:
    classes, codes = np.array(["a", "b", "c"]), np.array([0, 1, 2, -1])
    found: dict[str, Any] = {
        "weight": weights.check_weight([1, 2, 0, 3.5], 4),
        "none": str(weights.check_weight(None, 4)),
        "empirical": str(weights.check_priors("empirical", classes)),
        "uniform": weights.check_priors("uniform", classes),
        "given": weights.check_priors([0.5, 0.2, 0.3], classes),
        "by_class": weights.check_priors({"c": 0.2, "a": 0.5, "b": 0.3}, classes),
        "losses": weights.check_loss_matrix([[0, 1, 2], [3, 0, 4], [5, 6, 0]], 3),
    }
    refused: dict[str, Any] = {
        "negative": lambda: weights.check_weight([1, -1, 0, 1], 4),
        "infinite": lambda: weights.check_weight([1, np.inf, 0, 1], 4),
        "text": lambda: weights.check_weight(["a"] * 4, 4),
        "axes": lambda: weights.check_weight([[1.0]] * 4, 4),
        "zero": lambda: weights.check_weight([0, 0, 0, 0], 4),
        "class": lambda: weights.check_weight([1, 0, 1, 1], 4, codes, classes),
        "priors": lambda: weights.check_priors([0.5, 0.5], classes),
        "sum": lambda: weights.check_priors([0.5, 0.2, 0.2], classes),
        "sign": lambda: weights.check_priors([0.7, 0.5, -0.2], classes),
        "word": lambda: weights.check_priors("equal", classes),
        "keys": lambda: weights.check_priors({"a": 1.0, "d": 0.5}, classes),
        "square": lambda: weights.check_loss_matrix([[0, 1]], 3),
        "nan": lambda: weights.check_loss_matrix(np.full((3, 3), np.nan), 3),
    }
    return found | {f"refused {name}": refusal(call) for name, call in refused.items()}


@SCENARIOS
def standard_units() -> dict[str, Any]:
    table = numbers()
    moments = standardization.column_moments(table.X, table.weight, np.dtype(float))
    own = standardization.Standardizer.from_moments(*moments)
    common = standardization.Standardizer.from_moments(*moments, common_scale=True)
    rows = own.prepare(table.X)
    power = standardization.learn_power_transform(table.X, table.weight, own, [True, True, False, True])
    transformed = power.prepare(table.X)
    t, powers = np.linspace(-3, 3, 13), np.array([[-0.7], [0.0], [0.6], [1.0], [2.0], [2.8]])
    v = standardization.power_of(t, powers, 2 - powers)
    found = {
        "moments": tree(moments),
        "rows": rows.values,
        "observed": rows.observed,
        "back": own.inverse_transform(rows.values),
        "jacobian": own.log_det_jacobian(rows),
        "common": common.prepare(table.X).values,
        "only": own.only([True, False, True, False]).prepare(table.X).values,
        "power": np.asarray(power.power),
        "transformed": transformed.values,
        "power_back": power.inverse_transform(transformed.values),
        "power_expected": power.inverse_transform_expected(0.9 * transformed.values),
        "power_jacobian": power.log_det_jacobian(transformed),
        "power_of": v,
        "inverse": standardization.inverse_power_of(v[[0, 2, 3, 5]], powers[[0, 2, 3, 5]], 2 - powers[[0, 2, 3, 5]]),
        "beyond": power.inverse_transform(np.full((2, 4), [[9.0], [-9.0]])),
        "empty": own.n_empty_columns,
    }
    for name in (True, False):
        from scipy import sparse

        X = sparse.csr_array(np.where(np.abs(table.new) > 2, np.nan_to_num(table.new), 0.0))
        made = standardization.make_preprocessor(X, np.arange(1.0, 13.0), name)
        found[f"sparse {name}"] = {"scale": made.scale, "rows": made.prepare(X).values.toarray()}
    return found


@SCENARIOS
def strange_columns() -> dict[str, Any]:
    """Constant, empty and huge columns."""
    table = complete()
    X = np.column_stack([table.X, np.full(43, 7.0), np.full(43, np.nan), table.X[:, 0] * 1e30])
    model = GaussianMixtureClassifier(1, covariance="full", **FEW).fit(X, table.y, table.weight)
    found = describe(model, X[:6])
    second = X.copy()
    second[:, 6] = np.nan
    again = LatentClassificationModel(1, **FEW).fit(second, table.y)
    return found | {"second": describe(again, second[:6]), "bic": again.bic(second, table.y)}


@SCENARIOS
def encoders() -> dict[str, Any]:
    table = mixed()
    found: dict[str, Any] = {}
    for name, options in {
        "auto": {},
        "merged": {"max_categories": 2},
        "frequent": {"min_frequency": 6},
        "share": {"min_frequency": 0.25},
        "counts": {"kinds": {"visits": "count", "two": "categorical"}},
        "ordinal": {"kinds": ["continuous"] * 2 + ["binary"] * 2 + ["categorical", "ordinal", "ordinal"]},
    }.items():
        model = LatentClassificationModel(0, **options)
        form = MixedTable(model.kinds, Merging(model.max_categories, model.min_frequency), "missing", COLUMN_MODELS)
        rows, encoder, attributes = form.read(model, table.X)
        found[name] = {
            "rows": rows if isinstance(rows, np.ndarray) else np.asarray(rows),
            "kinds": " ".join(encoder.kinds),
            "modeled": " ".join(encoder.modeled_kinds),
            "sizes": encoder.sizes,
            "categories": [None if c is None else " ".join(map(str, c)) for c in encoder.categories],
            "new": encoder.encode(table.new, "missing"),
            "decoded": encoder.decode(np.nan_to_num(encoder.encode(table.new, "missing"), nan=0.8)),
        }
    found["continuous"] = " ".join(number_columns(table.X[["size", "price"]].to_numpy()).kinds)
    return found


@SCENARIOS.with_(is_slow=True)
def frames_of_polars() -> dict[str, Any]:
    import pandas as pd
    import polars

    table = mixed()
    columns = {n: [None if pd.isna(v) else v for v in table.X[n].astype(object)] for n in table.X}
    frame = polars.DataFrame({n: [bool(x) if isinstance(x, np.bool_) else x for x in v] for n, v in columns.items()})
    model = LatentClassificationModel(1, 1, **FEW).fit(frame, table.y, table.weight)
    return describe(model, frame[:8]) | {"names": " ".join(model.feature_names_in_), "sample": model.sample(3)}


@SCENARIOS
def doubted_columns() -> dict[str, Any]:
    import pandas as pd

    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    good = rng.normal(size=60) + y
    columns: dict[str, Any] = {
        "ids": [f"row-{k}" for k in range(60)],
        "dates": pd.date_range("2020-01-01", periods=60),
        "date_texts": [f"2020-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(60)],
        "number_texts": [f"{x:.4f}" for x in good],
        "slip": [*np.round(good[:59], 3).tolist(), "n.a."],
        "few_slip": [*(k % 7 for k in range(59)), "?"],
        "Unnamed: 0": np.arange(60),
        "target": y,
        "many": [f"v{k % 40}" for k in range(60)],
        "lists": [[k] for k in range(60)],
        "infinite": np.where(np.arange(60) == 3, np.inf, good),
    }
    found = {}
    for name, column in columns.items():
        frame = pd.DataFrame({"good": good, name: column})
        found[name] = refusal(LatentClassificationModel(0, **FEW).fit, frame, y)
    frame = pd.DataFrame({"good": good, "ids": columns["ids"], "dates": columns["dates"], "slip": columns["slip"]})
    found["all"] = refusal(LatentClassificationModel(0, **FEW).fit, frame, y)
    found["numbers_only"] = refusal(
        GaussianMixtureClassifier(**FEW).fit, pd.DataFrame({"a": good, "b": columns["ids"]}), y
    )
    found["kind"] = refusal(LatentClassificationModel(0, kinds={"good": "ratio"}).fit, frame[["good"]], y)
    found["kind_name"] = refusal(LatentClassificationModel(0, kinds={"bad": "binary"}).fit, frame[["good"]], y)
    found["binary"] = refusal(LatentClassificationModel(0, kinds="binary").fit, frame[["good"]], y)
    found["count"] = refusal(LatentClassificationModel(0, kinds="count").fit, frame[["good"]], y)
    found["number_of_kinds"] = refusal(LatentClassificationModel(0, kinds=["binary"] * 3).fit, frame[["good"]], y)
    return found


@SCENARIOS
def doubted_labels() -> dict[str, Any]:
    table = complete()
    model = GaussianMixtureClassifier(1, covariance="diag", **FEW)
    found = {"single": model.fit(table.X, np.zeros(43, dtype=int)).predict_proba(table.new[:2])}
    found["assumed"] = (
        GaussianMixtureClassifier(1, covariance="diag", **FEW)
        .fit(table.X, np.where(table.y == 2, -1, table.y))
        .classes_
    )
    found["leaked"] = model.fit(np.column_stack([table.X, table.y]), table.y).classes_
    found["idle"] = (
        GaussianMixtureClassifier([9, 20, 2], covariance="diag", **FEW).fit(table.X[:25], table.y[:25]).n_components_
    )
    dropped = MultimodalSoftmaxClassifier(1, **FEW).fit(table.X, np.where(table.y == 2, -1, table.y))
    return found | {"dropped": dropped.predict_proba(table.new[:3]), "score": dropped.score(table.new, table.new_y - 1)}


@SCENARIOS
def numbers_to_predict() -> dict[str, Any]:
    y = np.array([[1.0, 200.0], [2.0, 100.0], [4.0, 150.0], [np.nan, np.nan]])
    values, is_vector = read_outputs(y[:3], 3)
    units = output_units(values, np.array([1.0, 2.0, 0.5]), is_vector, 1e30)
    found: dict[str, Any] = {
        "values": values,
        "units": tree(units),
        "standardized": units.standardize(values),
        "log_unit": units.log_unit,
    }
    found["unknown"] = tree(read_outputs(y, 4, may_be_unknown=True))
    found["half"] = refusal(read_outputs, [[1.0, np.nan], [2.0, 3.0]], 2)
    for name, given in {"nan": y, "text": ["a", "b"], "short": [1.0], "inf": [np.inf, 1.0]}.items():
        found[f"refused {name}"] = refusal(read_outputs, given, 2 if name != "nan" else 4)
    return found


def _in_parts(stays: bool = True) -> Any:
    """Small tables are kept in their parts, as large ones are."""
    return (
        patch.object(small_tables, "SMALL_MIB", 0)
        if stays
        else patch.object(small_tables, "SMALL_MIB", small_tables.SMALL_MIB)
    )


def _models() -> dict[str, Any]:
    return {
        "mixture": GaussianMixtureClassifier(2, covariance="full", unlabeled=-1, unlabeled_weight=0.4, **FEW),
        "factors": LatentClassificationModel(1, 1, unlabeled=-1, unlabeled_weight=0.4, **FEW),
        "conditional": GaussianMixtureClassifier(
            1,
            covariance="diag",
            objective="conditional",
            early_stopping=True,
            validation_fraction=0.3,
            unlabeled=-1,
            **FEW,
        ),
    }


@SCENARIOS.with_(is_slow=True)
def dask_arrays() -> dict[str, Any]:
    import dask
    import dask.array as da

    table = numbers()
    X = da.from_array(table.X, chunks=((17, 1, 25), 2))
    y, w = da.from_array(table.y, chunks=20), da.from_array(table.weight, chunks=43)
    found: dict[str, Any] = {}
    with dask.config.set(scheduler="sync"), _in_parts():
        for name, model in _models().items():
            model.fit(X, y, w)
            found[name] = learned(model) | {
                "proba": model.predict_proba(X).compute(),
                "score": model.score(X, y, w),
                "bic": model.bic(X, y),
                "aic": model.aic(X, y),
                "record": {n: v for n, v in model.training_record_.items() if n != "seconds"},
            }
        found["impute"] = model.impute(X).compute()
        found["refused_y"] = refusal(model.fit, table.X, y)
        found["refused_length"] = refusal(model.fit, X, y[:-1])
        found["refused_stream"] = refusal(model.partial_fit, X, y)
    return found


@SCENARIOS.with_(is_slow=True)
def dask_frames() -> dict[str, Any]:
    import dask
    import dask.dataframe as dd

    table = mixed()
    frame = table.X.assign(kind=[None if label is None else str(label) for label in table.y])
    with dask.config.set({"scheduler": "sync", "dataframe.convert-string": False}), _in_parts():
        parts = dd.from_pandas(frame, npartitions=3)
        X = parts[[c for c in frame.columns if c != "kind"]]
        model = LatentClassificationModel(1, 1, kinds={"visits": "count"}, unlabeled_weight=0.3, **FEW).fit(
            X, parts["kind"]
        )
        return learned(model) | {"proba": model.predict_proba(X).compute(), "impute": model.impute(X).compute()}


@SCENARIOS.with_(is_slow=True)
def softmax_in_parts() -> dict[str, Any]:
    import dask
    import dask.array as da

    table = complete()
    X, y = da.from_array(table.X, chunks=((20, 23), 4)), da.from_array(table.y, chunks=30)
    A, b, w, new, _ = outputs(n_outputs=2)
    found: dict[str, Any] = {}
    with dask.config.set(scheduler="sync"), _in_parts(), patch.object(small_tables, "is_small", lambda *sizes: False):
        small = patch("latentia.estimators.base.estimator.bring_small", lambda *args: None)
        with small:
            model = MultimodalSoftmaxClassifier([1, 2, 1], **FEW).fit(X, y)
            found["softmax"] = learned(model) | {"proba": model.predict_proba(X).compute(), "bic": model.bic(X, y)}
            experts = MixtureOfExpertsRegressor(2, **FEW).fit(
                da.from_array(A, chunks=(15, 3)), da.from_array(b, chunks=20)
            )
            found["experts"] = learned(experts) | {
                "predict": experts.predict(new),
                "score": experts.score(da.from_array(A, chunks=9), da.from_array(b, chunks=20)),
            }
            L, Y, *_ = label_matrix()
            embedding = latentia.ProbitEmbeddingClassifier(2, max_iter=4).fit(
                da.from_array(L, chunks=13), da.from_array(Y, chunks=13)
            )
            found["embedding"] = learned(embedding) | {"proba": embedding.predict_proba(L)}
    return found


@SCENARIOS.with_(is_slow=True)
def files() -> dict[str, Any]:
    table = mixed()
    frame = table.X.assign(
        grade=table.X["grade"].astype(str), kind=[None if v is None else str(v) for v in table.y], w=table.weight
    )
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, _in_parts():
        for name, first, last in (("a", 0, 20), ("b", 20, 44)):
            frame[first:last].to_parquet(f"{folder}/{name}.parquet", row_group_size=9)
        frame.to_csv(f"{folder}/all.csv", index=False)
        parts = latentia.scan(f"{folder}/*.parquet", target="kind", weight="w")
        model = LatentClassificationModel(1, 1, **FEW).fit(parts)
        found |= {
            "shape": parts.shape,
            "repr": repr(parts).replace(folder, "folder"),
            "columns": " ".join(parts.columns),
        }
        found |= {
            "learned": learned(model),
            "proba": model.predict_proba(parts).compute(),
            "score": model.score(parts),
            "bic": model.bic(parts),
        }
        model.impute(parts).to_parquet(f"{folder}/filled.parquet")
        import pandas as pd

        found["filled"] = pd.read_parquet(f"{folder}/filled.parquet")
        some = latentia.scan(f"{folder}/all.csv", target="kind", columns=["size", "price", "visits"])
        mixture = GaussianMixtureClassifier(1, covariance="full", unlabeled_weight=0.2, **FEW).fit(some)
        found |= {"csv": learned(mixture), "csv_proba": mixture.predict_proba(some).compute()}
        stack = latentia.LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(some)
        found["stack"] = learned(stack)
        for name, call in {
            "target": lambda: latentia.scan(f"{folder}/a.parquet", target="none"),
            "missing": lambda: latentia.scan(f"{folder}/c.parquet"),
            "kinds": lambda: latentia.scan([f"{folder}/a.parquet", f"{folder}/all.csv"]),
            "columns": lambda: latentia.scan(f"{folder}/a.parquet", columns=["size", "length"]),
            "no_target": lambda: GaussianMixtureClassifier().fit(latentia.scan(f"{folder}/all.csv", columns=["size"])),
            "with_y": lambda: GaussianMixtureClassifier().fit(some, table.y),
        }.items():
            found[f"refused {name}"] = refusal(call).replace(folder, "folder")
    return found


@SCENARIOS
def sources() -> dict[str, Any]:
    """Rows as solvers see them: drawn, held out, in batches."""
    table = numbers()
    source = ArraySource(table.X, table.y, table.weight)
    rng = np.random.default_rng
    kept, held_out = source.hold_out(0.3, rng(0))
    found: dict[str, Any] = {
        "totals": {str(label): tuple(total) for label, total in source.label_totals.items()},
        "total_weight": source.total_weight,
        "half": source.with_unlabeled_weight(0.5).total_weight,
        "labeled": source.labeled_only().total_weight,
        "kept": kept.y,
        "held_out": held_out.y,
        "held_out_rows": held_out.X,
        "drawn": source.draw_rows(9, rng(1)).X,
        "drawn_evenly": source.draw_rows(9, rng(1), by_weight=False).X,
        "spread": source.spread_rows(7).X,
        "spread_labeled": source.spread_rows(7, labeled=True).X,
        "first": source.first_rows(4).X,
        "subset": source.subset(np.array([4, 1, 30])).X,
        "dropped": source.drop_rows(np.array([4, 1, 30])).X,
        "numbers": source.draw_numbers({0: 3, 1: 2, 2: 1}, 5),
        "sampled": source.sample_rows(6, rng(3)).rows.values,
    }
    return found


@SCENARIOS
def single_rows() -> dict[str, Any]:
    table = numbers()
    model = GaussianMixtureClassifier(2, covariance="full", unlabeled=-1, **FEW).fit(table.X.tolist(), table.y.tolist())
    return answers(model, table.new[:1].tolist())


@SCENARIOS.with_(is_slow=True)
def no_tables() -> dict[str, Any]:
    """What is no table, and tables that cannot be used."""
    import datetime

    import pandas as pd
    import polars

    y = np.arange(6) % 2
    X = np.arange(12.0).reshape(6, 2)
    frame = pd.DataFrame(X, columns=["a", "b"])
    odd: dict[str, Any] = {
        "none": None,
        "text": "table.csv",
        "dict": {"a": [1, 2]},
        "dicts": [{"a": 1}] * 6,
        "ragged": [[1, 2]] * 5 + [[1]],
        "series": frame["a"],
        "deep": X[:, :, None],
        "twice": pd.concat([frame, frame], axis=1),
        "levels": pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
        "dates": frame.assign(b=pd.date_range("2020", periods=6)),
        "date_objects": frame.assign(b=[datetime.date(2020, 1, k + 1) for k in range(6)]),
        "lazy": polars.DataFrame({"a": [1.0] * 6}).lazy(),
        "infinite": frame.assign(b=[np.inf] + [1.0] * 5),
        "objects": frame.assign(b=[object()] * 6),
        "masked": np.ma.array(X, mask=X > 8),
        "bytes": np.array([[b"a"]] * 6),
        "swapped": y,
    }
    found: dict[str, Any] = {}
    for name, table in odd.items():
        for kind, model in {"g": GaussianMixtureClassifier(**FEW), "f": LatentClassificationModel(0, **FEW)}.items():
            found[f"{name} {kind}"] = refusal(model.fit, table, y).partition(" at 0x")[0]
    found["order"] = refusal(GaussianMixtureClassifier(**FEW).fit, y, X)
    found["labels"] = refusal(GaussianMixtureClassifier(**FEW).fit, X, "a")
    found["types"] = refusal(GaussianMixtureClassifier(**FEW).fit, X, ["a", 1, "b", 2, "a", 1])
    found["masked_labels"] = (
        GaussianMixtureClassifier(1, **FEW)
        .fit(X, np.ma.array(y, mask=[0, 0, 1, 0, 0, 0]))
        .training_record_["n_unlabeled"]
    )
    found["narwhals"] = describe(LatentClassificationModel(0, **FEW).fit(_narwhals(frame), y), frame)
    found["seed"] = refusal(GaussianMixtureClassifier(random_state="x").fit, X, y)
    found["folds"] = refusal(latentia.LatentClassificationModelCV([1], cv=[3]).fit, X, y)
    found["sizes"] = refusal(latentia.LatentClassificationModelCV([99], cv=2).fit, X, y)
    found["objectives"] = refusal(latentia.LatentClassificationModelCV([1], objective=["a"]).fit, X, y)
    found["widest"] = refusal(GaussianMixtureClassifier(**FEW).fit, np.array([[1e300], [-1e300]] * 3), y)
    found["widest_frame"] = refusal(GaussianMixtureClassifier(**FEW).fit, pd.DataFrame({"w": [1e300, -1e300] * 3}), y)
    found["components"] = refusal(GaussianMixtureClassifier([1, 2, 3]).fit, X, y)
    found["subclasses"] = refusal(MultimodalSoftmaxClassifier([1, 2, 3]).fit, X, y)
    found["threshold"] = refusal(MultimodalSoftmaxClassifier(threshold=[0.1, 2.0]).fit, X, y)
    return found


def _narwhals(frame: Any) -> Any:
    import narwhals

    return narwhals.from_native(frame)


@SCENARIOS.with_(is_slow=True)
def lists_and_words() -> dict[str, Any]:
    """Object arrays, lists of words, columns of many types."""
    import pandas as pd

    rows = [
        ["a", 1.0, True],
        ["b", 2.0, False],
        ["a", None, True],
        ["c", 3.5, None],
        ["b", 1.5, False],
        ["a", 0.5, True],
    ] * 3
    y = np.array([0, 1, 0, 1, 1, 0] * 3)
    frame = pd.DataFrame(
        {
            "when": pd.Categorical(pd.to_datetime(["2020-01-01", "2020-02-01", "2020-01-01"] * 6)),
            "span": pd.Categorical(pd.to_timedelta([1, 2, 1] * 6, unit="D")),
            "range": pd.cut(pd.Series(np.arange(18.0) % 7), 3),
            "month": pd.Categorical(pd.PeriodIndex(["2020-01", "2020-02", "2020-03"] * 6, freq="M")),
            "small": np.arange(18, dtype=np.int8) % 2,
            "level": pd.Categorical([3, 1, 2] * 6, ordered=True),
            "exact": pd.array([1, None, 3] * 6, dtype="Int64"),
        }
    )
    first = LatentClassificationModel(0, 1, **FEW).fit(np.array(rows, dtype=object), y)
    second = LatentClassificationModel(1, 1, **FEW).fit(frame, y)
    third = LatentClassificationModel(0, 1, kinds=["categorical", "continuous"], **FEW).fit(
        np.column_stack([np.arange(18) % 3, np.arange(18.0)]), y
    )
    gap = frame.copy()
    gap.loc[2:5, ["when", "range", "level", "small"]] = None
    return {
        "objects": describe(first, np.array(rows[:4], dtype=object)),
        "kinds": " ".join(second.kinds_),
        "frame": describe(second, frame[:5]),
        "filled": second.impute(gap[:6]),
        "drawn": second.sample(4),
        "coded": describe(third, np.array([[0.0, np.nan], [1.0, 3.0], [np.nan, 5.0]])),
        "unseen": third.predict_proba(np.array([[7.0, 1.0]])),
        "alike": refusal(
            LatentClassificationModel(0, handle_unknown="error", **FEW).fit(np.array(rows, dtype=object), y).predict,
            np.array([["A", 1.0, True]], dtype=object),
        ),
    }


@SCENARIOS
def constant_columns() -> dict[str, Any]:
    """Columns without any spread, under every covariance."""
    table = complete()
    X = table.X.copy()
    X[:, 1], X[:, 2] = 7.0, np.where(np.arange(43) < 42, 0.5, 0.6)
    found: dict[str, Any] = {}
    for covariance in ("diag", "full", "tied", "spherical"):
        for inference in ("vb", "ml"):
            model = GaussianMixtureClassifier(1, covariance=covariance, inference=inference, **FEW).fit(
                X, table.y, table.weight
            )
            found[f"{covariance} {inference}"] = {
                "means": model.means_,
                "covariances": model.covariances_,
                "scores": model.score_samples(X[:5]),
            }
    moments = standardization.column_moments(X, table.weight, np.dtype(float))
    for common in (False, True):
        made = standardization.Standardizer.from_moments(*moments, common_scale=common)
        found[f"common {common}"] = {"shift": made.shift, "scale": made.scale, "rows": made.prepare(X[:3]).values}
    zeros = standardization.Standardizer.from_moments(
        np.array([0.0, 3.0, 5.0]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 4.0]), common_scale=True
    )
    return found | {"empty": tree((zeros.shift, zeros.scale)), "n_empty": zeros.n_empty_columns}


@SCENARIOS
def codes_at_the_edge() -> dict[str, Any]:
    """Arrays of codes that fit has not seen, one beyond the last and before the first."""
    rng = np.random.RandomState(0)
    X = np.column_stack(
        [rng.randint(0, 3, 30), rng.randint(2, 5, 30), rng.normal(size=30), rng.randint(0, 4, 30)]
    ).astype(float)
    y = (X[:, 2] > 0).astype(int)
    found: dict[str, Any] = {}
    odd = np.array(
        [
            [3.0, 2.0, 0.0, 1.0],
            [-1.0, 4.0, 1.0, 2.0],
            [0.0, 5.0, -1.0, 3.0],
            [1.0, 1.0, 0.5, 4.0],
            [2.0, 3.0, np.nan, 0.0],
            [0.5, 2.0, 0.1, 1.5],
        ]
    )
    for kinds in (["categorical"] * 2 + ["continuous", "ordinal"], ["ordinal", "categorical", "continuous", "count"]):
        for merge in (None, 2):
            model = LatentClassificationModel(0, 1, kinds=kinds, max_categories=merge, **FEW).fit(X, y)
            name = f"{kinds[0]} {merge}"
            found[name] = {
                "encoded": model._model.encoder.encode(odd[:, :], "missing")
                if kinds[3] != "count"
                else model._model.encoder.encode(odd[:5], "missing")
            }
            found[name]["proba"] = model.predict_proba(odd[:5])
            found[name]["refused"] = refusal(model.set_params(handle_unknown="error").predict, odd[:5])
            found[name]["filled"] = model.set_params(handle_unknown="missing").impute(odd[:5])
    table = mixed()
    merged = LatentClassificationModel(0, 1, max_categories=2, **FEW).fit(table.X, table.y)
    new = table.new.copy()
    new.loc[1:3, "color"] = "violet"
    found["merged"] = merged.impute(new)
    found["drawn"] = merged.sample(5)
    return found


@SCENARIOS.with_(is_slow=True)
def parts_that_do_not_fit() -> dict[str, Any]:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    table = numbers()
    X, y, w = (
        da.from_array(table.X, chunks=(20, 4)),
        da.from_array(table.y, chunks=20),
        da.from_array(table.weight, chunks=20),
    )
    frame = dd.from_pandas(pd.DataFrame(table.X, columns=list("abcd")), npartitions=2)
    with_all: Any = {"max_iter": 1, "random_state": 0}
    models = {
        "mixture": GaussianMixtureClassifier(unlabeled=-1, **with_all),
        "softmax": MultimodalSoftmaxClassifier(1, unlabeled=-1, n_init=1, **with_all),
        "embedding": latentia.ProbitEmbeddingClassifier(1, max_iter=1),
    }
    found: dict[str, Any] = {}
    with dask.config.set(scheduler="sync"):
        for small in (True, False):
            with _in_parts(not small):
                for name, model in models.items():
                    odd: dict[str, Any] = {
                        "short_y": lambda m=model: m.fit(X, y[:-1]),
                        "short_weight": lambda m=model: m.fit(X, y, w[:-1]),
                        "negative_weight": lambda m=model: m.fit(X, y, -w),
                        "array_y": lambda m=model: m.fit(X, table.y),
                        "array_weight": lambda m=model: m.fit(X, y, table.weight),
                        "no_y": lambda m=model: m.fit(X),
                        "no_labels": lambda m=model: m.fit(X, y * 0 - 1),
                        "axes": lambda m=model: m.fit(X[:, 0], y),
                        "deep_weight": lambda m=model: m.fit(X, y, X),
                        "frame_y": lambda m=model: m.fit(frame, y),
                        "empty": lambda m=model: m.fit(X[:0], y[:0]),
                        "infinite": lambda m=model: m.fit(X / 0.0, y),
                    }
                    if name in ("mixture", "softmax") or not small:
                        found |= {
                            f"{name} {small} {what}": re.sub(r"-?\d+\.\d+", "#", refusal(call))
                            for what, call in odd.items()
                        }
    return found
