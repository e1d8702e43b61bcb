"""Tables as newcomers bring them: what is read, and what is refused with a sentence that helps."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest

import latentia
from latentia.table.columns import found_kind, given_kinds, holds_only_bits
from latentia.table.encoder import Levels, Merging
from latentia.table.frames import ColumnType, PlainValues, distinct_values
from latentia.table.rows import plain_table, warn_of_other_order

ESTIMATORS = [
    latentia.GaussianMixtureClassifier(random_state=0),
    latentia.LatentClassificationModel(n_init=1, random_state=0),
    latentia.ProbitEmbeddingClassifier(),
    latentia.MultimodalSoftmaxClassifier(1),
    latentia.MixtureOfExpertsRegressor(1),
]
every_estimator = pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)


@pytest.fixture
def y():
    return np.arange(40) % 2


@pytest.mark.parametrize("model", ESTIMATORS[:2], ids=lambda m: type(m).__name__)
def test_masked_cells_are_missing(model, rng, y):
    X = rng.normal(size=(40, 3)) + y[:, None]
    mask = rng.random(X.shape) < 0.2
    masked = model.fit(np.ma.masked_array(X, mask), y).predict_proba(np.ma.masked_array(X, mask))
    np.testing.assert_array_equal(
        masked, model.fit(np.where(mask, np.nan, X), y).predict_proba(np.where(mask, np.nan, X))
    )


def test_masked_labels_are_unknown(rng, y):
    X, mask = rng.normal(size=(40, 2)) + y[:, None], np.arange(40) % 5 == 0
    a = latentia.GaussianMixtureClassifier().fit(X, np.ma.masked_array(y, mask))
    b = latentia.GaussianMixtureClassifier(unlabeled=-1).fit(X, np.where(mask, -1, y))
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize("bad", [[np.inf, 0.0], [-np.inf, np.inf], [1.5, np.inf]])
def test_infinity_in_a_frame_is_refused(bad, y):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(40.0), "c": np.resize(bad, 40)})
    with pytest.raises(ValueError, match="infinity"):
        latentia.LatentClassificationModel().fit(frame, y)


@every_estimator
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_dates_are_refused_by_the_name_of_their_column(model, zone, y):
    pandas = pytest.importorskip("pandas")
    dates = pandas.Series(pandas.date_range("2020", periods=40)).dt.tz_localize(zone)
    with pytest.raises(TypeError, match="column 'd' of X holds dates.*convert"):
        model.fit(pandas.DataFrame({"a": range(40), "d": dates}), y)


@every_estimator
@pytest.mark.parametrize("cell", [[1, 2], datetime.date(2020, 1, 1)], ids=["list", "date"])
def test_objects_are_refused_by_the_name_of_their_column(model, cell, y):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(40), "c": [cell] * 40})
    with pytest.raises(TypeError, match="column 'c' of X holds"):
        model.fit(frame, y)


@every_estimator
def test_tables_without_columns_are_refused(model, y):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="no column"):
        model.fit(pandas.DataFrame(index=range(40)), y)


@every_estimator
def test_lazy_frames_are_refused_with_the_cure(model):
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"call \.collect\(\)"):
        model.fit(polars.DataFrame({"a": [1.0, 2.0]}).lazy(), [0, 1])


@pytest.mark.parametrize("model", ESTIMATORS[:2], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "labels, message", [("target", "pass the labels themselves"), ([["a"], ["b", "c"]], "MultiLabelBinarizer")]
)
def test_labels_that_are_no_labels_are_refused_with_the_cure(model, labels, message):
    with pytest.raises(ValueError, match=message):
        model.fit([[0.0], [1.0]], labels)


def test_a_regressor_is_not_sent_to_classifiers(y):
    with pytest.raises(ValueError, match=r"SimpleImputer\(\), MixtureOfExpertsRegressor\(\)\)\.$"):
        latentia.MixtureOfExpertsRegressor(1).fit([[np.nan], [1.0], [2.0]], [0.0, 1.0, 2.0])


@pytest.mark.parametrize("model", ESTIMATORS[:2], ids=lambda m: type(m).__name__)
def test_densities_of_rows_with_gaps_change_with_the_units_of_their_known_cells(model, rng, y):
    X, units = rng.normal(size=(40, 3)) + y[:, None], np.array([0.01, 3.0, 200.0])
    X[rng.random(X.shape) < 0.3] = np.nan
    plain, scaled = model.fit(X, y).score_samples(X), model.fit(X * units, y).score_samples(X * units)
    np.testing.assert_allclose(scaled, plain - ~np.isnan(X) @ np.log(units), rtol=1e-6, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Column 1 has no known value")
def test_categories_without_a_known_value():
    X = np.column_stack([np.arange(6.0), np.full(6, np.nan)])
    model = latentia.LatentClassificationModel(kinds=["continuous", "categorical"], random_state=0).fit(X, [0, 1] * 3)
    assert model.impute(X).dtype == np.float64 and model.sample(3)[0].dtype == np.float64
    np.testing.assert_array_equal(model.impute(X)[:, 0], X[:, 0])


@pytest.mark.parametrize("cell", [3.0, -1.0, 0.5])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_beside_the_codes_of_a_column_are_unknown(cell, rng):
    """Also the next one, which a new category would have."""
    X, y = np.column_stack([np.arange(30) % 3, rng.normal(size=30)]), np.arange(30) % 2
    model = latentia.LatentClassificationModel(
        1, kinds=["categorical", "continuous"], handle_unknown="error", max_iter=2, random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="which fit did not see"):
        model.predict([[cell, 0.0]])


def arrow_table(rng, y):
    """A column of each type that a model reads, some with gaps."""
    pyarrow = pytest.importorskip("pyarrow")
    gaps = np.arange(40) % 5 == 0
    return pyarrow.table(
        {
            "size": rng.normal(size=40) + y,
            "narrow": pyarrow.array(rng.normal(size=40), pyarrow.float32(), mask=gaps),
            "whole": pyarrow.array(np.arange(40) % 4, mask=gaps),
            "color": pyarrow.array(np.array(["red", "blue"], dtype=object)[y], mask=gaps),
            "code": pyarrow.array(np.array(["a", "b", "c"])[np.arange(40) % 3]).dictionary_encode(),
            "member": pyarrow.array(np.arange(40) % 3 == 0, mask=gaps),
        }
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tables_of_arrow_are_read_as_frames_and_come_back_as_tables(rng, y, tmp_path):
    table = arrow_table(rng, y)
    frame = table.to_pandas().astype({"code": "category"})
    model = latentia.LatentClassificationModel(1, max_iter=5, random_state=0)
    expected = model.fit(frame, y).predict_proba(frame)
    np.testing.assert_array_equal(model.fit(table, y).predict_proba(table), expected)
    assert model.feature_names_in_.tolist() == table.column_names
    assert model.kinds_ == ("continuous", "continuous", "continuous", "categorical", "categorical", "binary")
    for method in ("mean", "mode"):
        full = model.impute(table, method=method)
        assert full.schema.names == table.schema.names and not any(column.null_count for column in full.columns)
        types = dict(zip(full.column_names, map(str, full.schema.types), strict=True))
        assert types.pop("whole") == ("double" if method == "mean" else "int64")
        assert types.items() <= {field.name: str(field.type) for field in table.schema}.items()
        assert full.column("size").equals(table.column("size"))
    drawn, _ = model.sample(3)
    assert drawn.shape == (3, 6) and drawn.column_names == table.column_names
    model.save(tmp_path / "m.latentia")
    assert latentia.load(tmp_path / "m.latentia").impute(table).equals(model.impute(table))
    page = latentia.write_report(model, table, y, tmp_path / "r.html").read_text()
    assert "What was imputed" in page and "narrow" in page


def test_tables_of_arrow_are_refused_by_the_names_of_their_columns(rng, y):
    pyarrow = pytest.importorskip("pyarrow")
    table = arrow_table(rng, y)
    with pytest.raises(ValueError, match="X holds text in column 'color': 'blue'"):
        latentia.GaussianMixtureClassifier().fit(table, y)
    dated = table.append_column("day", pyarrow.array([datetime.date(2020, 1, 1)] * 40))
    with pytest.raises(TypeError, match=r"column 'day' of X holds dates \(date32\[day\]\)"):
        latentia.LatentClassificationModel().fit(dated, y)
    with pytest.raises(ValueError, match="several columns of the name 'size'"):
        latentia.LatentClassificationModel().fit(table.append_column("size", table.column("size")), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Column 'nothing' has no known")
def test_tables_of_arrow_keep_the_order_of_levels_and_may_be_batches(rng, y):
    pyarrow = pytest.importorskip("pyarrow")
    codes = pyarrow.array(np.arange(40) % 3, pyarrow.int8(), mask=np.arange(40) % 7 == 0)
    levels = pyarrow.DictionaryArray.from_arrays(codes, ["low", "middle", "high"], ordered=True)
    table = pyarrow.table({"x": rng.normal(size=40) + y, "level": levels, "nothing": pyarrow.nulls(40)})
    model = latentia.LatentClassificationModel(1, max_iter=5, random_state=0).fit(table, y)
    assert model.kinds_[1] == "ordinal" and model.categories_[1].tolist() == ["low", "middle", "high"]
    full = model.impute(table).column("level").combine_chunks()
    assert full.type.ordered and full.null_count == 0
    assert full.to_pylist()[1:7] == ["middle", "high", "low", "middle", "high", "low"]
    np.testing.assert_array_equal(model.predict_proba(table.to_pandas()), model.predict_proba(table))  # gaps are gaps
    batch = table.to_batches()[0]
    np.testing.assert_array_equal(model.predict_proba(batch), model.predict_proba(table))
    parts = pyarrow.concat_tables([table.slice(0, 10), table.slice(10)])
    np.testing.assert_array_equal(model.predict_proba(parts), model.predict_proba(table))


def test_a_column_of_lists_is_refused_by_its_name(y):
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="column 'l' of X holds a list"):
        latentia.LatentClassificationModel().fit(polars.DataFrame({"a": y * 1.0, "l": [[1, 2]] * 40}), y)


def test_masked_cells_are_missing_in_the_precision_of_the_others():
    cells, mask = np.arange(6).reshape(3, 2), np.eye(3, 2, dtype=bool)
    for dtype, expected in (("float32", "float32"), ("float64", "float64"), ("int32", "float64"), ("bool", "float64")):
        table = plain_table(np.ma.array(cells.astype(dtype), mask=mask))
        assert table.dtype == expected and not np.ma.isMaskedArray(table)
        np.testing.assert_array_equal(np.isnan(table), mask)
        np.testing.assert_array_equal(table[~mask], cells.astype(dtype)[~mask])


@pytest.mark.parametrize(
    "rows, labels, is_told",
    [
        ([2, 0, 1], [0, 1, 2], True),
        ([0, 1, 2], [0, 1, 2], False),
        ([0, 1, 2], [7, 8, 9], False),
        ([0, 0, 1], [0, 1, 1], False),  # of which nobody knows which belong together
        ([0, 1], [0, 1, 2], False),
    ],
)
def test_only_the_same_rows_in_another_order_are_told(rows, labels, is_told):
    X, y = pd.DataFrame({"a": np.arange(len(rows))}, index=rows), pd.Series(np.arange(len(labels)), index=labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_other_order(X, y)
        warn_of_other_order(X.to_numpy(), y)
    assert len(caught) == is_told


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gaps_of_a_category_that_is_binary_get_one_of_its_values(rng, y):
    code = pd.Categorical(np.where(np.arange(40) % 5 == 0, None, 10 + 10 * y), [10, 20])
    frame = pd.DataFrame({"x": rng.normal(size=40) + y, "code": code})
    model = latentia.LatentClassificationModel(1, kinds={"code": "binary"}, max_iter=5, random_state=0).fit(frame, y)
    full = model.impute(frame)["code"]
    assert full.dtype == code.dtype and not full.isna().any()


@pytest.mark.parametrize("form", ["object", "string", "array"])
def test_na_of_pandas_is_a_gap_wherever_numbers_are_expected(rng, y, form):
    plain = pd.DataFrame({"a": rng.normal(size=40) + y, "b": rng.normal(size=40)})
    plain.loc[::5, "b"] = np.nan
    cells = pd.Series([pd.NA if np.isnan(v) else v for v in plain["b"]], dtype=object)
    table = plain.assign(b=cells.astype("object" if form == "array" else form))
    table, plain = (f.to_numpy() if form == "array" else f for f in (table, plain))
    one, other = (latentia.GaussianMixtureClassifier(random_state=0).fit(X, y) for X in (plain, table))
    np.testing.assert_array_equal(other.predict_proba(table), one.predict_proba(plain))
    with pytest.raises(ValueError, match="X has missing cells"):
        latentia.MultimodalSoftmaxClassifier().fit(table, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Column 'empty' has no known value")
@pytest.mark.parametrize(
    "dtype, floats", [("Int64", "Float64"), ("UInt8", "Float64"), ("int32[pyarrow]", "double[pyarrow]")]
)
def test_nullable_integers_are_completed_by_nullable_numbers(rng, y, dtype, floats):
    size = pd.Series(rng.integers(10, 90, 40) + y, dtype=dtype).mask(np.arange(40) % 5 == 0)
    frame = pd.DataFrame({"x": rng.normal(size=40) + y, "size": size, "empty": pd.Series([None] * 40, dtype=dtype)})
    kinds = {"x": "continuous", "size": "continuous", "empty": "categorical"}
    model = latentia.LatentClassificationModel(1, kinds=kinds, max_iter=5, random_state=0).fit(frame, y)
    for method, expected in (("mean", floats), ("mode", dtype)):
        full = model.impute(frame, method=method)
        assert str(full["size"].dtype) == expected and not full["size"].isna().any()
        assert (full["size"] == size)[size.notna()].all()
        assert str(full["empty"].dtype) == dtype and full["empty"].isna().all()
    assert str(model.impute(frame.dropna(subset="size"))["size"].dtype) == dtype


@pytest.mark.parametrize("dtype", [ColumnType("int64"), None], ids=["frame", "objects"])
def test_whole_numbers_are_binary_if_there_are_two_or_a_fold_shows_one_of_zero_and_one(dtype):
    kinds = [found_kind(dtype, values) for values in ([3, 7], [0, 1], [0], [1], [7], [0, 1, 2])]
    assert kinds == ["binary"] * 4 + ["continuous"] * 2


def test_a_column_has_no_more_codes_than_allowed_and_the_rarest_values_share_one(rng):
    for _ in range(100):
        counts = rng.integers(1, 8, rng.integers(1, 9))
        merging = Merging(int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        levels = Levels.of(PlainValues.from_values(list("abcdefgh")[: counts.size])).merge(counts, merging)
        shares = np.bincount(levels.codes)[levels.codes] > 1
        assert levels.n_codes <= merging.max_categories
        assert not shares.any() or shares.all() or counts[shares].max() <= counts[~shares].min()
        assert (counts[~shares] >= merging.min_frequency).all() or (~shares).sum() == levels.n_codes


def test_types_of_columns_are_known_by_their_names():
    kinds = {
        "is_integer": ("int8", "UInt64", "int64[pyarrow]"),
        "is_float": ("float32", "Float64", "double", "halffloat"),
        "is_bool": ("bool", "boolean", "Boolean"),
        "is_category": ("category", "Categorical", "Enum", "dictionary"),
        "is_date": ("datetime64[ns]", "timestamp[us]", "date32[day]", "period[M]", "interval[datetime64[ns], right]"),
        "": ("object", "string", "interval[int64, right]", "list<item: int64>"),
    }
    for wanted, names in kinds.items():
        for name in names:
            found = [kind for kind in list(kinds)[:-1] if getattr(ColumnType(name), kind)]
            assert found == [wanted] * bool(wanted), name


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([3.5, 1.5, 2.5]),
        pd.Index(["c", "a", "b"]),
        pd.Index([(1, 2), "x", 3], tupleize_cols=False),
        pd.IntervalIndex.from_breaks([0, 1, 5, 7], closed="left"),
        pd.interval_range(pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), periods=3),
        pd.date_range("2020-01-01", periods=3, tz="Europe/Paris"),
        pd.timedelta_range("3h", periods=3),
        pd.period_range("2020-01", periods=3, freq="M"),
    ],
    ids=lambda index: type(index).__name__,
)
def test_some_of_the_values_of_a_column_are_those_values(index):
    values = PlainValues.from_index(index)
    for numbers in ([2, 0], [1], []):
        taken = values.take(numbers)
        assert len(taken) == len(numbers) and taken.tolist() == [index[k] for k in numbers]
        assert taken.to_index().tolist() == taken.tolist()


def test_kinds_are_given_by_names_and_by_numbers_where_no_column_has_such_a_name():
    known = ("count", "binary")
    assert given_kinds({0: "count"}, [1, 0], known) == [None, "count"]
    assert given_kinds({0: "count", -1: "binary"}, ["a", "b"], known) == ["count", "binary"]
    assert given_kinds({"b": "count"}, ["a", "b"], known) == [None, "count"]


def test_bytes_are_text():
    values, numbers = distinct_values(np.array([[b"red"], [b"blue"], [b"red"]]), 0)
    assert values == ["blue", "red"] and numbers.tolist() == [1, 0, 1]


def test_a_table_holds_bits_alone_wherever_they_are_known(monkeypatch):
    gap, bits = [[np.nan], [np.nan]], [[0.0], [np.nan]]
    tables = [
        (bits + gap, True),
        (gap + bits, True),
        (gap + gap, False),
        (bits + [[2.0]], False),
        ([[2.0]] + bits, False),
    ]
    for rows_at_once in (2, 100):
        monkeypatch.setattr("latentia.table.columns.SCAN_ROWS", rows_at_once)
        assert [holds_only_bits(np.array(cells)) for cells, _ in tables] == [expected for _, expected in tables]
