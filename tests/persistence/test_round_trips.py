"""A model that was saved and loaded is the model: every value of it, and what it says, to the last bit."""

from __future__ import annotations

import datetime
import decimal
import inspect
import itertools
import json
import os
import pickle
import zipfile

import estimator_cases
import numpy as np
import pandas as pd
import pytest
from saved_models import plain, small_frame
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedKFold

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.engine.contracts import Objective
from latentia.engine.sweep import Likelihood, Margin
from latentia.persistence.files import save_model
from latentia.persistence.format import ArrayLayout, Decoder, Encoder

X, y = load_iris(return_X_y=True)


def differences(a, b, path="model"):
    """Where two values are not the same to the last bit."""
    if type(a) is not type(b):
        return [f"{path}: {type(a)} and {type(b)}"]
    if isinstance(a, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return [f"{path}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"]
        if a.dtype != object:
            return [] if a.tobytes() == b.tobytes() else [f"{path}: values"]
        return differences(a.tolist(), b.tolist(), path)
    if isinstance(a, pd.DataFrame):
        return [] if a.equals(b) and (a.dtypes == b.dtypes).all() else [f"{path}: tables"]
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return [f"{path}: {len(a)} and {len(b)} values"]
        return [d for k, (p, q) in enumerate(zip(a, b, strict=True)) for d in differences(p, q, f"{path}[{k}]")]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [f"{path}: {list(a)} and {list(b)}"]
        return [d for k in a for d in differences(a[k], b[k], f"{path}[{k!r}]")]
    if type(a).__module__.startswith("latentia"):
        # in any order: a constructor's arguments come first after loading
        return differences(dict(sorted(vars(a).items())), dict(sorted(vars(b).items())), path)
    if isinstance(a, np.random.RandomState):
        return differences(a.get_state(), b.get_state(), path)
    if isinstance(a, float) and a != a:
        return [] if b != b else [f"{path}: {a} and {b}"]
    return [] if a == b else [f"{path}: {a!r} and {b!r}"]


def stored(model, folder):
    """The model from its file."""
    path = folder / "a.latentia"
    model.save(path)
    assert [file.name for file in folder.iterdir()] == ["a.latentia"]  # no draft stays behind
    return latentia.load(path)


def test_every_estimator_comes_back_to_the_last_bit(case, fits, data, tmp_path):
    model = fits(case, "quick")
    if type(plain(model)) is not type(model):
        model = estimator_cases.quietly(plain(model).fit, data.X, case.y(data))
    loaded = stored(model, tmp_path)
    assert differences(model, loaded) == []
    a, b = estimator_cases.answer(model, data.X), estimator_cases.answer(loaded, data.X)
    assert np.array_equal(a, b)
    assert model.summary() == loaded.summary()
    for method in ("score_samples", "impute", "transform"):
        if hasattr(model, method):
            assert np.array_equal(
                np.asarray(getattr(model, method)(data.X)), np.asarray(getattr(loaded, method)(data.X))
            )


@pytest.mark.parametrize("cls", sorted(estimator_cases.public_estimators(), key=lambda c: c.__name__))
def test_estimators_that_were_never_fitted_come_back(cls, tmp_path):
    with pytest.raises(NotFittedError, match=f"{cls.__name__} instance is not fitted yet: there is nothing to save"):
        cls().save(tmp_path / "a")
    save_model(cls(), tmp_path / "a")  # as a part of others
    loaded = latentia.load(tmp_path / "a")
    assert type(loaded) is cls and loaded.get_params() == cls().get_params()
    assert not hasattr(loaded, "classes_")


def labels_of_any_type():
    words = np.array(["no", "yes", "perhaps"])
    return {
        "integers": y,
        "text": words[y],
        "objects": words.astype(object)[y],
        "bools": y > 0,
        "mixed": np.array([None, 3, 4], dtype=object)[y],
        "categories": pd.Series(words[y]).astype("category"),
        "nullable": pd.Series(y).astype("Int64").mask(y == 1),
        "pandas text": pd.Series(words[y], dtype="string"),
    }


@pytest.mark.parametrize("labels", labels_of_any_type().values(), ids=labels_of_any_type())
def test_classes_of_any_type_come_back(labels, tmp_path):
    model = GaussianMixtureClassifier(inference="ml", n_init=1, covariance="diag", unlabeled_weight=1.0)
    model.fit(X, labels)
    loaded = stored(model, tmp_path)
    assert differences(model, loaded) == []
    assert model.predict(X).tolist() == loaded.predict(X).tolist()


@pytest.fixture(scope="module")
def frame():
    return small_frame()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_frames_of_text_dates_and_intervals_come_back(frame, tmp_path):
    model = LatentClassificationModel(1, n_init=1, max_iter=5, random_state=0).set_output(transform="pandas")
    model.fit(frame, np.arange(60) // 30)
    loaded = stored(model, tmp_path)
    assert differences(model, loaded) == []
    pd.testing.assert_frame_equal(model.impute(frame), loaded.impute(frame))
    pd.testing.assert_frame_equal(model.transform(frame), loaded.transform(frame))
    pd.testing.assert_frame_equal(model.sample(5)[0], loaded.sample(5)[0])


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("target", ["classes", "labels"])
def test_stacks_on_frames_come_back(frame, target, tmp_path):
    """LatentClassifier and all of its members, of classes in words and of a matrix of labels."""
    words = np.array(["no", "yes", None], dtype=object)[np.arange(60) % 5 // 2]
    labels = np.stack([np.arange(60) % 2, np.arange(60) // 30], axis=1)
    model = latentia.LatentClassifier(effort="fast", cv=2, max_iter=10, random_state=0)
    table = frame[["number", "gaps", "text", "zoned"]]
    model.fit(table, words if target == "classes" else labels)
    loaded = stored(model, tmp_path)
    assert differences(model, loaded) == []
    assert np.array_equal(model.predict_proba(table), loaded.predict_proba(table))
    assert np.array_equal(model.predict(table), loaded.predict(table))
    assert model.leaderboard_.equals(loaded.leaderboard_)
    assert differences(model, pickle.loads(pickle.dumps(model))) == []
    if target == "classes":
        assert np.array_equal(model.explain(table), loaded.explain(table))


def test_frames_of_polars_come_back(tmp_path):
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"a": np.arange(20.0), "b": ["x", "y"] * 10, "c": [True, None] * 10})
    model = LatentClassificationModel(1, n_init=1, random_state=0, tol=0.1).fit(table, np.arange(20) // 10)
    loaded = stored(model, tmp_path)
    assert loaded.impute(table).equals(model.impute(table))
    assert np.array_equal(loaded.predict_proba(table), model.predict_proba(table))


@pytest.mark.matrix
def test_tensors_come_back_as_arrays_of_numpy(tmp_path):
    torch = pytest.importorskip("torch")
    from sklearn import config_context

    model = GaussianMixtureClassifier(inference="ml", n_init=1, covariance="diag", unlabeled_weight=1.0)
    with config_context(array_api_dispatch=True):
        model.fit(torch.asarray(X, dtype=torch.float32), torch.asarray(y))
        expected = model.predict_proba(torch.asarray(X, dtype=torch.float32))
    loaded = stored(model, tmp_path)
    assert isinstance(loaded.means_, np.ndarray) and loaded.means_.dtype == np.float32
    np.testing.assert_allclose(loaded.predict_proba(X.astype(np.float32)), expected.numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"random_state": np.random.RandomState(3)},
        {"priors": {0: 0.2, 1: 0.3, 2: 0.5}},
        {"loss_matrix": np.asfortranarray(1.0 - np.eye(3)[:, ::-1])},
        {"objective": Likelihood()},
        {"n_components": (1, 2, 1)},
        {"unlabeled": None, "verbose": np.bool_(False), "tol": np.float32(1e-3), "max_iter": np.int64(20)},
    ],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_arguments_come_back(options, tmp_path):
    model = (
        GaussianMixtureClassifier(inference="ml", n_init=1, unlabeled_weight=1.0, random_state=0)
        .set_params(**options)
        .fit(X, y)
    )
    loaded = stored(model, tmp_path)
    assert differences(model, loaded) == []
    assert np.array_equal(model.predict(X), loaded.predict(X))
    a, b = model.sample(4), loaded.sample(4)
    assert np.array_equal(a[0], b[0])


@pytest.mark.parametrize(
    "folds", [RepeatedKFold(n_splits=3, n_repeats=2), RepeatedStratifiedKFold(n_splits=2, random_state=7)]
)
def test_repeated_folds_come_back(folds, tmp_path):
    model = latentia.LatentClassificationModelCV([1], [1], cv=folds)
    save_model(model, tmp_path / "a")
    loaded = latentia.load(tmp_path / "a").cv
    assert repr(loaded) == repr(folds) and loaded.get_n_splits(X, y) == folds.get_n_splits(X, y)
    with pytest.raises(
        ValueError, match="cv=GroupKFold.*of folds, model files hold KFold, .*RepeatedKFold.*pass cv as"
    ):
        save_model(model.set_params(cv=GroupKFold(3)), tmp_path / "a")


def test_folds_and_generators_come_back():
    folds = StratifiedKFold(3, shuffle=True, random_state=np.random.RandomState(1))
    generator = np.random.default_rng(5)
    values = {
        "folds": folds,
        "generator": generator,
        (1, "a"): [frozenset({1}), {2.5}, b"\x00", np.str_(""), np.float32(0.1), np.datetime64("2020-01-01"), -0.0],
        "moments": [
            datetime.date(2020, 1, 1),
            datetime.datetime(2020, 1, 1, 2, tzinfo=datetime.UTC),
            decimal.Decimal("0.10"),
            pd.Timestamp("2020-01-01", tz="Europe/Paris"),
            pd.Timedelta("3h"),
            pd.Interval(0, 1.5, closed="left"),
            pd.Period("2020-01", "M"),
        ],
        None: [float("nan"), float("inf"), 10**30, np.dtype("<f4"), datetime.timedelta(1, 2, 3)],
        "arrays": [
            np.zeros((0, 3)),
            np.array(5),
            np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0),
            np.array(["ä", "漢"]),
            np.array([["a", 1], [None, 2.5], [(), "b"]], dtype=object),
        ],
    }
    encoder = Encoder()
    tree = json.loads(json.dumps(encoder.encode(values, "values"), allow_nan=False))
    found = Decoder(encoder.arrays).decode(tree)
    assert found["generator"].random() == generator.random()
    a, b = (list(v["folds"].split(X, y)) for v in (values, found))
    assert all(np.array_equal(p[0], q[0]) for p, q in zip(a, b, strict=True))
    for name in ((1, "a"), None, "arrays", "moments"):
        assert differences(values[name], found[name]) == []
    assert found["arrays"][2].strides == values["arrays"][2].strides


@pytest.mark.parametrize(
    "kind", ["Interval", "Timestamp", "Period", "Timedelta", "scalar", "array", "text", "splitter"]
)
def test_many_values_of_a_kind_stay_apart(kind):
    """What is made on the way to encode one must not be taken for what the next one is made of."""
    days = pd.date_range("2020-01-01", periods=40)
    values = {
        "Interval": [pd.Interval(k, k + 1) for k in range(40)],
        "Timestamp": list(days),
        "Period": list(days.to_period("D")),
        "Timedelta": list(days - days[0]),
        "scalar": [np.float32(k) for k in range(40)],
        "array": [np.full(3, k) for k in range(40)],
        "text": [np.str_(k) for k in range(40)],
        "splitter": [KFold(k + 2) for k in range(40)],
    }[kind]
    for held in (values, {k: value for k, value in enumerate(values)}):
        encoder = Encoder()
        tree = json.loads(json.dumps(encoder.encode(held, "held")))
        found = Decoder(encoder.arrays).decode(tree)
        assert [repr(v) for v in (found if held is values else found.values())] == [repr(v) for v in values]


@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_arrays_that_nobody_holds_stay_apart(library):
    encoder, xp = Encoder(), pytest.importorskip(library)
    assert [encoder.encode(xp.asarray([k, k]), "made")["array"] for k in range(20)] == list(range(20))
    assert [array[0] for array in encoder.arrays] == list(range(20))


def test_shared_parts_are_stored_once(tmp_path):
    encoder, part = Encoder(), GaussianMixtureClassifier(priors=np.ones(3))
    found = Decoder(encoder.arrays).decode(encoder.encode([part, part, [part.priors]], "parts"))
    assert found[0] is found[1] and found[2][0] is found[0].priors and len(encoder.arrays) == 1


class OwnObjective(Objective):
    is_density = False

    def evaluate(self, log_joint, y):
        return Margin().evaluate(log_joint, y)


@pytest.mark.parametrize(
    "name, value, reason",
    [
        ("objective", OwnObjective(), "OwnObjective"),
        ("priors", lambda: 0, "no functions"),
        ("loss_matrix", object(), "builtins.object"),
        ("n_components", {"a": [1, {2j}]}, r"n_components\['a'\]\[1\]\[0\]=2j"),
    ],
)
def test_what_cannot_be_stored_is_named(name, value, reason, tmp_path):
    model = GaussianMixtureClassifier().set_params(**{name: value})
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(ValueError, match=rf"GaussianMixtureClassifier\.{name}.*cannot be saved") as said:
        save_model(model, tmp_path / "a")
    assert reason.replace("\\", "") in str(said.value)
    assert (tmp_path / "a").read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


def test_values_within_themselves_and_classes_of_others_are_refused(tmp_path):
    model = GaussianMixtureClassifier(priors=[])
    model.priors.append(model.priors)
    with pytest.raises(ValueError, match="too deep"):
        save_model(model, tmp_path / "a")
    with pytest.raises(ValueError, match="MixedLCM is no estimator of latentia"):
        save_model(estimator_cases.MixedLCM(), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_a_callback_is_left_out_with_a_warning(tmp_path):
    model = GaussianMixtureClassifier(callback=lambda step: False).fit(X, y)
    with pytest.warns(UserWarning, match="saved without callback"):
        loaded = stored(model, tmp_path)
    assert loaded.callback is None and model.callback is not None


def test_saving_replaces_the_file_and_is_the_same_each_time(tmp_path):
    model = GaussianMixtureClassifier(inference="ml", n_init=1, unlabeled_weight=1.0).fit(X, y)
    path = tmp_path / "a"
    path.write_bytes(b"before")
    assert model.save(path) is None
    first = path.read_bytes()
    model.save(str(path))
    assert path.read_bytes() == first
    loaded = latentia.load(str(path))
    loaded.save(path)
    assert path.read_bytes() == first
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    with pytest.raises(FileNotFoundError, match=r"no such folder/a'$"):  # the user's path, not that of a draft
        model.save(tmp_path / "no such folder" / "a")
    with pytest.raises(OSError):
        latentia.load(tmp_path / "no such file")
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        model.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_files_are_archives_of_arrays_and_json(tmp_path):
    """Others read them without this library, as the page on saving says."""
    model = GaussianMixtureClassifier(inference="ml", n_init=1, unlabeled_weight=1.0).fit(X, y)
    model.save(tmp_path / "a.latentia")
    with zipfile.ZipFile(tmp_path / "a.latentia") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        with archive.open("arrays/0.npy") as member:
            first = np.load(member, allow_pickle=False)
    assert (manifest["format"], manifest["version"], manifest["class"]) == (
        "latentia model",
        1,
        "GaussianMixtureClassifier",
    )
    assert first.shape == tuple(manifest["arrays"][0]["shape"])


def test_the_public_estimators_have_the_method():
    for cls in estimator_cases.public_estimators():
        assert issubclass(cls, BaseEstimator) and "path" in inspect.signature(cls.save).parameters


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))), ids=str)
def test_arrays_keep_the_order_of_their_axes_in_memory(axes):
    array = np.arange(24.0).reshape(2, 3, 4).transpose(axes)
    layout = ArrayLayout.of(array)
    again = layout.restored(layout.stored(array))
    np.testing.assert_array_equal(again, array)
    assert again.strides == array.strides
