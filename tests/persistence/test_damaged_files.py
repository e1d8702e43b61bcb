"""Damaged and hostile model files: each is refused in one line, takes no more memory than it has bytes, and writes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_iris

import latentia
from latentia import GaussianMixtureClassifier
from latentia.persistence.files import save_model
from latentia.persistence.format import ModelFileError

X, y = load_iris(return_X_y=True)

#: What a program may need besides three times the file.
SMALL = 1 << 20


@pytest.fixture(scope="module")
def model():
    options = {"inference": "ml", "n_init": 1, "covariance": "diag", "unlabeled_weight": 1.0, "random_state": 0}
    return GaussianMixtureClassifier(**options).fit(X, np.array(["a", "b", "c"])[y])


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "a"
    model.save(path)
    return path.read_bytes()


def parts(whole):
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("manifest.json")), members


def archive_of(manifest, members, compression=zipfile.ZIP_STORED, more=(), comment=b""):
    """An archive of these members, as a forger would write it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in [*members.items(), *more]:
            archive.writestr(name, content)
        text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        archive.writestr("manifest.json", text)
        archive.comment = comment
    return out.getvalue()


def refused(content, folder):
    """The line that says why."""
    path = folder / "model.latentia"
    path.write_bytes(content)
    before = {p: p.stat().st_mtime_ns for p in folder.iterdir()}
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as said:
            latentia.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    line = str(said.value)
    assert "\n" not in line and len(line) < 500 and str(path) in line
    assert peak < 3 * len(content) + SMALL, f"{peak} bytes for a file of {len(content)}"
    assert {p: p.stat().st_mtime_ns for p in folder.iterdir()} == before
    return line


def test_the_whole_file_loads(model, whole, tmp_path):
    (tmp_path / "a").write_bytes(whole)
    assert np.array_equal(latentia.load(tmp_path / "a").predict_proba(X), model.predict_proba(X))
    manifest, members = parts(whole)  # and so does what the forger makes of it without a change
    (tmp_path / "b").write_bytes(archive_of(manifest, members))
    assert np.array_equal(latentia.load(tmp_path / "b").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("k", range(40))
def test_files_that_are_cut_off_are_refused(whole, k, tmp_path):
    refused(whole[: k * len(whole) // 40], tmp_path)


@pytest.mark.parametrize("k", range(80))
def test_a_changed_bit_is_found_or_changes_nothing(model, whole, k, tmp_path):
    """A zip archive has bits that say nothing of its content, such as dates."""
    place = int(np.random.default_rng(k).integers(len(whole)))
    changed = bytearray(whole)
    changed[place] ^= 1 << (k % 8)
    path = tmp_path / "a"
    path.write_bytes(changed)
    try:
        loaded = latentia.load(path)
    except ModelFileError as error:
        assert "\n" not in str(error)
    else:
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\x05\x06" + b"\0" * 18, b"\x80\x04N.", b"a,b\n1,2\n", os.urandom(999)]
)
def test_files_of_another_form_are_refused(content, tmp_path):
    refused(content, tmp_path)


def test_a_folder_is_no_model_file(tmp_path):
    with pytest.raises(OSError):
        latentia.load(tmp_path)


# ---------------------------------------------------------------- the archive
PATHS = [
    "/etc/passwd",
    "../a",
    "arrays/../../a",
    "arrays/0.npy/../b",
    "C:\\a",
    "arrays\\0.npy",
    "arrays/00x.npy",
    "a\0.npy",
    "arrays/",
    "x" * 300,
]


@pytest.mark.parametrize("name", PATHS)
def test_members_that_no_model_file_has_are_refused(whole, name, tmp_path):
    manifest, members = parts(whole)
    refused(archive_of(manifest, members, more=[(name, b"x")]), tmp_path)


def test_members_in_excess_twice_or_absent_are_refused(whole, tmp_path):
    manifest, members = parts(whole)
    assert "manifest lists" in refused(archive_of(manifest, members, more=[("arrays/999.npy", b"x")]), tmp_path)
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = archive_of(manifest, members, more=[("arrays/0.npy", members["arrays/0.npy"])])
    assert "two members" in refused(twice, tmp_path)
    fewer = {name: content for name, content in members.items() if name != "arrays/0.npy"}
    refused(archive_of(manifest, fewer), tmp_path)
    assert "no manifest.json" in refused(
        archive_of(manifest, members).replace(b"manifest.json", b"arrays/98.npy"), tmp_path
    )


def test_compressed_members_are_refused_before_they_are_read(whole, tmp_path):
    """Bombs: ten megabytes of zeros in ten kilobytes, as an array and as the manifest."""
    manifest, members = parts(whole)
    zeros = b"0" * 10_000_000
    for bomb in (
        archive_of(manifest, members | {"arrays/0.npy": zeros}, zipfile.ZIP_DEFLATED),
        archive_of(b"[" + zeros + b"]", members, zipfile.ZIP_DEFLATED),
        archive_of(manifest, members, zipfile.ZIP_BZIP2),
        archive_of(manifest, members, zipfile.ZIP_LZMA),
    ):
        assert "compressed" in refused(bomb, tmp_path)


def listed(content):
    """Offsets of the entries in the list of members."""
    return [k for k in range(len(content)) if content.startswith(b"PK\x01\x02", k)]


@pytest.mark.parametrize("size", [2**20, 2**31, 2**32 - 1])
def test_sizes_that_the_file_does_not_have_are_refused(whole, size, tmp_path):
    for field in (20, 24), (24,), (20,):
        forged = bytearray(whole)
        for offset in field:
            struct.pack_into("<L", forged, listed(whole)[0] + offset, size)
        refused(bytes(forged), tmp_path)


def test_members_over_each_other_are_refused(whole, tmp_path):
    """Many members of the same bytes claim more than the file has."""
    forged, places = bytearray(whole), listed(whole)
    largest = max(range(len(places)), key=lambda k: struct.unpack_from("<L", whole, places[k] + 24)[0])
    size, offset = (
        struct.unpack_from("<L", whole, places[largest] + 24)[0],
        struct.unpack_from("<L", whole, places[largest] + 42)[0],
    )
    for place in places:
        struct.pack_into("<LL", forged, place + 20, size, size)
        struct.pack_into("<L", forged, place + 42, offset)
    assert "claim" in refused(bytes(forged), tmp_path)


@pytest.mark.parametrize("bit", [0, 3, 5, 6, 13])
def test_encrypted_members_are_refused(whole, bit, tmp_path):
    forged = bytearray(whole)
    forged[listed(whole)[0] + 8 + bit // 8] |= 1 << bit % 8
    assert "encrypted" in refused(bytes(forged), tmp_path)


@pytest.mark.parametrize("mode", [0o120777, 0o040755, 0o060644, 0o010644])
def test_links_folders_and_devices_are_refused(whole, mode, tmp_path):
    forged = bytearray(whole)
    struct.pack_into("<L", forged, listed(whole)[0] + 38, mode << 16)
    assert "link" in refused(bytes(forged), tmp_path)


def test_what_comes_before_or_after_is_refused(whole, tmp_path):
    manifest, members = parts(whole)
    for content in (whole + b"x", b"x" + whole, whole + whole, archive_of(manifest, members, comment=b"hello")):
        refused(content, tmp_path)


@pytest.mark.parametrize("field, size", [(8, 2), (10, 2), (12, 4), (16, 4), (20, 2)])
def test_a_forged_end_is_refused(whole, field, size, tmp_path):
    forged = bytearray(whole)
    forged[len(whole) - 22 + field : len(whole) - 22 + field + size] = b"\xff" * size
    refused(bytes(forged), tmp_path)


# ---------------------------------------------------------------- the arrays
def change_array(**changes):
    return lambda manifest, members: manifest["arrays"][0].update(changes)


def forged_array(header, n_bytes=0):
    """Another member, with the checksum and the size that it has."""

    def change(manifest, members):
        content = header + b"\0" * n_bytes
        members["arrays/0.npy"] = content
        manifest["arrays"][0].update(size=len(content), sha256=hashlib.sha256(content).hexdigest())

    return change


ARRAYS = [
    change_array(sha256="0" * 64),
    change_array(sha256=None),
    change_array(size=10**12),
    change_array(size="12"),
    change_array(shape=[2**40, 2**40]),
    change_array(shape=[10**30]),
    change_array(shape=[-1]),
    change_array(shape=[1.5]),
    change_array(shape=[True]),
    change_array(shape=[2] * 200),
    change_array(shape="3"),
    change_array(shape=None),
    change_array(axes=[5]),
    change_array(axes=[0, 0]),
    change_array(axes="0"),
    change_array(dtype="|O"),
    change_array(dtype="|V8"),
    change_array(dtype="<U0"),
    change_array(dtype="<U99999999"),
    change_array(dtype="<f99"),
    change_array(dtype=[["a", "<f8"]]),
    change_array(dtype={"names": []}),
    change_array(dtype="__import__('os').system('true')"),
    forged_array(b"\x93NUMPY\x01\x00"),
    forged_array(
        b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }" + b" " * 60 + b"\n", 8
    ),
    lambda manifest, members: manifest["arrays"].__setitem__(0, 5),
    lambda manifest, members: manifest["arrays"].__setitem__(0, {}),
    lambda manifest, members: manifest["arrays"].clear(),
    lambda manifest, members: manifest.update(arrays={"0": 1}),
    lambda manifest, members: manifest["arrays"].extend([{}] * 1000),
]


@pytest.mark.parametrize("change", ARRAYS, ids=range(len(ARRAYS)))
def test_forged_arrays_are_refused(whole, change, tmp_path):
    manifest, members = parts(whole)
    change(manifest, members)
    refused(archive_of(manifest, members), tmp_path)


def test_text_that_is_none_is_refused(whole, tmp_path):
    manifest, members = parts(whole)
    (number,) = [k for k, entry in enumerate(manifest["arrays"]) if entry["dtype"].startswith("<U")]
    content = members[f"arrays/{number}.npy"]
    content = content[:-4] + b"\xff\xff\xff\xff"
    members[f"arrays/{number}.npy"] = content
    manifest["arrays"][number]["sha256"] = hashlib.sha256(content).hexdigest()
    assert "no character" in refused(archive_of(manifest, members), tmp_path)


# ---------------------------------------------------------------- the manifest
def tree_with(value):
    def change(manifest):
        manifest["model"]["state"]["priors"] = value

    return change


def twister(position, n=624):
    return {"bit_generator": "MT19937", "state": {"dict": [["key", {"array": 0}], ["pos", position]]}, "n": n}


VALUES = [
    {"object": "os:system", "state": {}},
    {"object": "builtins:eval", "state": {}},
    {"object": "latentia.persistence.format:Decoder", "state": {"arrays": []}},
    {"object": "latentia.engine.contracts:Family", "state": {}},
    {"object": "latentia.engine.contracts:ABC", "state": {}},
    {"object": "latentia.estimators.base.estimator:time", "state": {}},
    {"object": "latentia.estimators.base.estimator:LatentEstimator.fit", "state": {}},
    {"object": "latentia.table.standardization:ColumnError", "state": {}},
    {"object": "latentia.no.such:Thing", "state": {}},
    {"object": ["latentia"], "state": {}},
    {"object": "latentia.table.frames:PlainValues", "state": {"form": "array"}},
    {"object": "latentia.table.frames:PlainValues", "state": {"form": "array", "parts": [], "other": 1}},
    {"object": "latentia.table.frames:PlainValues", "state": []},
    {"object": "latentia.table.frames:PlainValues", "state": {"a b": 1}},
    {"object": "latentia.engine.sweep:Margin", "state": {"nu": 1}},
    {"object": "latentia.engine.sweep:Margin"},
    {"same": 10**9},
    {"same": -1},
    {"same": None},
    {"array": 10**9},
    {"array": -1},
    {"array": "0"},
    {"array": True},
    {"pickle": "gASVAAAAAAAAAAAu"},
    {"tuple": 5},
    {"dict": [[1, 2, 3]]},
    {"dict": [[[], 2]]},
    {"set": [[1]]},
    {"float": "1e400"},
    {"bytes": "xyz"},
    {"bytes": 10**9},
    {"scalar": ["<f8", "00"]},
    {"scalar": ["|O", "0000000000000000"]},
    {"scalar": 5},
    {"dtype": "|O"},
    {"date": "tomorrow"},
    {"days": [10**30, 0, 0]},
    {"decimal": "no"},
    {"objects": [1, 2], "shape": [10**9]},
    {"objects": [], "shape": [0, 10**18]},
    {"objects": [1, 2]},
    {"pandas": {"tuple": []}},
    {
        "pandas": {
            "object": "latentia.table.frames:PlainValues",
            "state": {"form": "PeriodIndex", "parts": {"tuple": [{"array": 0}, "x"]}},
        }
    },
    {"splitter": "GridSearchCV", "state": {}},
    {"splitter": "KFold", "state": {"n_splits": "x"}},
    {"generator": {"dict": [["bit_generator", "Philox"], ["state", 1]]}},
    {
        "generator": {
            "dict": [["bit_generator", "MT19937"], ["state", {"dict": [["key", {"array": 0}], ["pos", 10**6]]}]]
        }
    },
    {"generator": {"dict": [["bit_generator", "PCG64"], ["state", 1]]}},
    {"random_state": {"dict": [["bit_generator", "PCG64"]]}},
    {"random_state": 5},
    {},
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_forged_values_are_refused(whole, value, tmp_path):
    manifest, members = parts(whole)
    manifest["model"]["state"]["priors"] = value
    refused(archive_of(manifest, members), tmp_path)


def deep(n):
    return json.dumps(parts_of_nothing()).replace('"NEST"', "[" * n + "]" * n).encode()


def parts_of_nothing():
    return {
        "format": "latentia model",
        "version": 1,
        "class": "GaussianMixtureClassifier",
        "arrays": [],
        "model": "NEST",
    }


MANIFESTS = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"format": "latentia model"}',
    b'{"format": "latentia model", "version": 1, "arrays": [], "arrays": []}',
    b'{"format": "latentia model", "version": NaN}',
    b'{"format": "latentia model", "version": ' + b"9" * 5000 + b"}",
    json.dumps(parts_of_nothing()).encode(),
    deep(100),
    deep(100_000),
    json.dumps(parts_of_nothing()).replace('"NEST"', "[" + "[]," * 2_000_000 + "[]]").encode(),
    json.dumps(parts_of_nothing()).replace('"NEST"', "1e999999").encode(),
]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=range(len(MANIFESTS)))
def test_forged_manifests_are_refused(manifest, tmp_path):
    refused(archive_of(manifest, {}), tmp_path)


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.0, 10**40])
def test_other_versions_of_the_format_are_named(whole, version, tmp_path):
    manifest, members = parts(whole)
    manifest.update(version=version, library_version="9.9")
    line = refused(archive_of(manifest, members), tmp_path)
    assert "written by latentia 9.9; this version reads 1" in line


def test_attributes_of_other_versions_are_named(whole, tmp_path):
    manifest, members = parts(whole)
    manifest["model"]["state"]["brightness"] = 3
    assert "'brightness', other than in this version" in refused(archive_of(manifest, members), tmp_path)


def test_arguments_that_were_added_since_have_their_defaults(model, whole, tmp_path):
    manifest, members = parts(whole)
    del manifest["model"]["state"]["verbose"]
    (tmp_path / "a").write_bytes(archive_of(manifest, members))
    assert latentia.load(tmp_path / "a").verbose == 0


def test_another_class_than_the_manifest_says_is_refused(whole, tmp_path):
    manifest, members = parts(whole)
    manifest["class"] = "LatentClassifier"
    assert "holds no LatentClassifier" in refused(archive_of(manifest, members), tmp_path)


def test_a_large_model_takes_little_more_than_its_file(tmp_path):
    model = GaussianMixtureClassifier(priors=np.zeros(4_000_000))
    save_model(model, tmp_path / "a")
    size = (tmp_path / "a").stat().st_size
    tracemalloc.start()
    latentia.load(tmp_path / "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * size + SMALL


def test_a_save_that_fails_leaves_nothing_behind_and_the_old_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "model.latentia"
    path.write_bytes(b"before")

    def fail(*args):
        raise OSError("the disk is full")

    monkeypatch.setattr("latentia.persistence.files.add_member", fail)
    with pytest.raises(OSError):
        save_model(GaussianMixtureClassifier(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["model.latentia"] and path.read_bytes() == b"before"


def test_saving_leaves_other_files_alone(model, tmp_path):
    beside = tmp_path / "model.tmp"
    beside.write_text("mine")
    model.save(tmp_path / "model.latentia")
    assert beside.read_text() == "mine" and sorted(p.name for p in tmp_path.iterdir()) == [
        "model.latentia",
        "model.tmp",
    ]
    model.save(beside)
    latentia.load(beside)
