"""Files that name what no model holds, to run code when they are loaded or asked: refused, and nothing runs."""

from __future__ import annotations

import contextlib
import pickle
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from test_damaged_files import archive_of, parts

import latentia
from latentia import GaussianMixtureClassifier
from latentia.engine import parts as engine_parts
from latentia.engine.rows import MaskMissing
from latentia.estimators.base.estimator import LatentEstimator
from latentia.families.latent_factors.kinds import ColumnLayout
from latentia.persistence.files import save_model
from latentia.persistence.format import ModelFileError
from latentia.scale.files import DataFile, LazyAnswers, ScannedTable
from latentia.scale.tables import AnswerPart
from latentia.table.frames import ColumnType, as_frame

X, y = load_iris(return_X_y=True)


class Payload:
    """What leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return exec, (f"open({str(self.mark)!r}, 'w').close()",)


def an(cls, /, **state):
    """The entry of an object."""
    return {"object": f"{cls.__module__}:{cls.__qualname__}", "state": state}


def source(path):
    """Rows in parts that lie in a file."""
    folder = an(engine_parts.TemporaryFolder, name=path)
    parts = an(engine_parts.LocalParts, readers=[folder], fits_memory=False)
    return an(engine_parts.ChunkedSource, parts=parts, totals=[], n_features=1)


#: What stands in the place of the other models of an average, given the path of the payload.
OTHERS = {
    "rows in parts": source,
    "a temporary folder": lambda path: [an(engine_parts.TemporaryFolder, name=path)],
    "a table of files": lambda path: an(ScannedTable, files=[an(DataFile, path=path)]),
    "answers to a table": lambda path: an(LazyAnswers, _table=an(ScannedTable, files=[path]), _answer=source(path)),
    "a question to an estimator": lambda path: [an(AnswerPart, estimator=None, method=path, options={"dict": []})],
    "a function of functools": lambda path: [{"object": "functools:partial", "state": {"func": path}}],
    "a class of scikit-learn": lambda path: [{"object": "sklearn.pipeline:Pipeline", "state": {"steps": []}}],
    "the same under a name of ours": lambda path: [
        {"object": f"{LatentEstimator.__module__}:BaseEstimator", "state": {}}
    ],
    "an address in memory": lambda path: [
        an(
            ColumnLayout,
            __array_interface__={"dict": [["data", {"tuple": [8, False]}], ["shape", {"tuple": [1]}]]},
        )
    ],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "a"
    GaussianMixtureClassifier(random_state=0).fit(X, y).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_code_beside_a_model_never_runs(whole, others, tmp_path):
    """The checksums of the file are right; what it would run lies in another file."""
    mark, payload = tmp_path / "mark", tmp_path / "readme.txt"
    payload.write_bytes(pickle.dumps(Payload(mark)))
    manifest, members = parts(whole)
    manifest["model"]["state"]["_model"]["state"]["others"] = others(str(payload))
    path = tmp_path / "model.latentia"
    path.write_bytes(archive_of(manifest, members))
    said = None
    try:
        loaded = latentia.load(path)
    except ModelFileError as error:
        said = str(error)
    else:
        with contextlib.suppress(Exception):
            loaded.predict_proba(X)
    assert not mark.exists(), "code ran"
    assert said is not None, "it was loaded"
    assert "\n" not in said and str(path) in said and "written by latentia" in said


def test_the_payload_leaves_its_mark(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "mark")))
    assert (tmp_path / "mark").exists()


def test_a_model_that_holds_another_class_of_the_package_is_not_saved(tmp_path):
    """Such a file could not be loaded."""
    model = GaussianMixtureClassifier().fit(X, y)
    model.means_ = MaskMissing()
    with pytest.raises(
        ValueError, match=r"\.means_=MaskMissing.*cannot be saved: .*MaskMissing is none of the classes"
    ):
        model.save(tmp_path / "a")
    model.means_ = engine_parts  # a module
    with pytest.raises(ValueError, match="cannot be saved: .* and this is a builtins.module"):
        model.save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- files that only classes of the list would open
class Opened:
    """Which files are opened while it is asked to look."""

    def __init__(self):
        self.looks, self.paths = False, []
        sys.addaudithook(self.hear)  # which stays until Python ends

    def hear(self, event, args):
        if self.looks and event == "open":
            self.paths.append(str(args[0]))


OPENED = Opened()


@contextlib.contextmanager
def not_opened(path):
    OPENED.paths.clear()
    OPENED.looks = True
    try:
        yield
    finally:
        OPENED.looks = False
    assert str(path) not in OPENED.paths


@pytest.fixture
def zone(tmp_path):
    path = tmp_path / "zone"
    path.write_bytes(b"TZif" + bytes(60))
    return path


def test_a_time_zone_is_no_file_when_a_model_is_loaded(zone, tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "model.latentia"
    save_model(GaussianMixtureClassifier(priors=pandas.Timestamp("2020-01-01", tz="Europe/Paris")), path)
    assert str(latentia.load(path).priors.tz) == "Europe/Paris"
    manifest, members = parts(path.read_bytes())
    manifest["model"]["state"]["priors"]["pandas"]["state"]["parts"]["tuple"][2] = f"dateutil/{zone}"
    path.write_bytes(archive_of(manifest, members))
    with not_opened(zone), pytest.raises(ModelFileError, match="is the time zone of a file"):
        latentia.load(path)


@pytest.mark.parametrize("dtype", ["datetime64[ns, {}]", "M8[ns, {}]", "timestamp[ns, tz={}][pyarrow]"])
def test_a_time_zone_is_no_file_when_rows_are_written(zone, dtype):
    pytest.importorskip("pandas")
    kind = ColumnType(dtype.format(f"dateutil/{zone}"))
    with not_opened(zone), pytest.raises(ValueError, match="is the time zone of a file"):
        as_frame("pandas", ["a"], [np.zeros(2)], [kind])
