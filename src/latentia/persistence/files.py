"""Saving and loading of estimators.

The file itself: a zip archive whose members are stored as they are, not compressed.

So no file can claim to hold more than it does, and all of its sizes add up before anything is read.
The archive has a manifest, `manifest.json`, and the members that the manifest lists: no folders to
leave, no links, nothing encrypted, nothing before, between or after.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator

from latentia.engine.messages import warn_at_caller
from latentia.persistence.format import (
    NOT_STORED,
    ArrayLayout,
    Damage,
    Decoder,
    Encoder,
    Json,
    ModelFileError,
    class_name,
)

FORMAT = "latentia model"

#: Raised whenever files of the earlier form would be misread. Added fields do not raise it.
VERSION = 1

#: Bytes of a manifest, and values in it: parsed JSON takes many times its length.
MAX_MANIFEST = 1 << 26
MAX_VALUES = 1_000_000


def save_model(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file, in place of what the file held."""
    name = type(model).__name__
    if class_name(type(model)) is None:
        raise ValueError(f"{name} is no estimator of latentia, so no model file can hold it.")
    encoder = Encoder()
    tree = encoder.encode(model, name)
    left_out = [k for k in NOT_STORED if getattr(model, k, None) is not None]
    if left_out:
        warn_at_caller(f"{name} is saved without {', '.join(left_out)}: model files hold no functions.")
    with written_whole(path) as file, new_archive(file) as archive:
        members = [_add_array(archive, number, array) for number, array in enumerate(encoder.arrays)]
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "library_version": sys.modules["latentia"].__version__,
            "class": name,
            "arrays": members,
            "model": tree,
        }
        add_member(archive, MANIFEST, json.dumps(manifest, allow_nan=False).encode())


def _add_array(archive: zipfile.ZipFile, number: int, array: np.ndarray) -> dict[str, Json]:
    layout = ArrayLayout.of(array)
    stored = layout.stored(array)
    values = stored.reshape(-1).view(np.uint8) if stored.size else b""
    size, digest = add_member(archive, array_name(number), layout.header, values)
    return layout.to_manifest() | {"size": size, "sha256": digest}


def load(path: str | os.PathLike[str]) -> BaseEstimator:
    """Read an estimator that `save` has written.

    A model file holds arrays and JSON, and no code: files of strangers may be loaded. All sizes,
    shapes and checksums are checked before memory is taken for them.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : estimator
        Fitted as it was; its predictions are the same to the last bit. Arrays of other libraries
        than NumPy are NumPy's.

    Raises
    ------
    ValueError
        The file is damaged, no model file, or of a version that this one cannot read; the message
        says which.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> import latentia
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = latentia.GaussianMixtureClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.latentia")
    ...     model.save(path)
    ...     loaded = latentia.load(path)
    >>> bool((loaded.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    try:
        with opened(path) as archive:
            manifest = _read_manifest(archive)
            layouts = _check_arrays(archive, manifest.get("arrays"))
            arrays = [_read_array(archive, number, layout) for number, layout in enumerate(layouts)]
            return _decode(manifest, arrays)
    except Damage as reason:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: {reason}.") from None
    except (zipfile.BadZipFile, EOFError, RecursionError, MemoryError, NotImplementedError) as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: it is damaged ({_line(error)}).") from None


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Json]:
    if member_size(archive, MANIFEST) > MAX_MANIFEST:
        raise Damage(f"its manifest has {member_size(archive, MANIFEST)} bytes, more than {MAX_MANIFEST}")
    pieces: list[bytes] = []
    for_each_chunk(archive, MANIFEST, pieces.append)
    text = b"".join(pieces)
    if text.count(b",") + text.count(b"[") + text.count(b"{") > MAX_VALUES:
        raise Damage(f"its manifest has more than {MAX_VALUES} values")
    try:
        manifest = json.loads(text.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Damage(f"its manifest is damaged ({_line(error)})") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Damage("it is no model file of latentia")
    version = manifest.get("version")
    if version != VERSION or type(version) is not int:
        by = str(manifest.get("library_version"))[:20]
        raise Damage(
            f"it has the format version {str(version)[:20]}, written by latentia {by}; this version reads {VERSION}"
        )
    return manifest


def _without_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an entry is there twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the number {name}")


def _check_arrays(archive: zipfile.ZipFile, entries: Json) -> list[ArrayLayout]:
    """The layout of each array; all of them are in the archive, whole, and nothing else is."""
    if not isinstance(entries, list):
        raise Damage("its manifest lists no arrays")
    names = [array_name(number) for number in range(len(entries))]
    if {*names, MANIFEST} != set(archive.namelist()):
        raise Damage("its members are not those that its manifest lists")
    layouts, digests = [], []
    for name, entry in zip(names, entries, strict=True):
        if not isinstance(entry, dict) or not {"dtype", "shape", "size", "sha256"} <= set(entry):
            raise Damage(f"its manifest does not say what {name} holds")
        layout = ArrayLayout.from_manifest(entry)
        size, expected = member_size(archive, name), len(layout.header) + layout.n_bytes
        if size != expected or entry["size"] != size:
            raise Damage(f"its member {name} has {size} bytes, and should have {expected}")
        layouts.append(layout)
        digests.append(entry["sha256"])
    for name, expected_digest in zip(names, digests, strict=True):
        digest = hashlib.sha256()
        for_each_chunk(archive, name, digest.update)
        if digest.hexdigest() != expected_digest:
            raise Damage(f"the checksum of {name} is another")
    return layouts


def _read_array(archive: zipfile.ZipFile, number: int, layout: ArrayLayout) -> np.ndarray:
    with archive.open(array_name(number)) as member:
        if member.read(len(layout.header)) != layout.header:
            raise Damage(f"the header of {array_name(number)} is not that of its array")
        stored = layout.empty()
        if stored.size:
            place = memoryview(stored.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            done = 0
            while done < len(place):
                piece = member.read(min(1 << 20, len(place) - done))
                if not piece:
                    raise Damage(f"{array_name(number)} is cut off")
                place[done : done + len(piece)] = piece
                done += len(piece)
    return layout.restored(stored)


def _decode(manifest: dict[str, Json], arrays: list[np.ndarray]) -> BaseEstimator:
    """The estimator; whatever goes wrong comes from the file."""
    by = str(manifest.get("library_version"))[:20]
    try:
        model = Decoder(arrays).decode(manifest.get("model"))
    except Damage as reason:
        raise Damage(f"{reason} (written by latentia {by})") from None
    except Exception as error:
        raise Damage(f"its values make no model ({_line(error)}; written by latentia {by})") from None
    if not isinstance(model, BaseEstimator) or type(model).__name__ != manifest.get("class"):
        raise Damage(f"it holds no {str(manifest.get('class'))[:40]}")
    return model


def _line(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(error).split())[:120] or type(error).__name__


MANIFEST = "manifest.json"

#: Bytes that are read at once.
CHUNK = 1 << 20

#: The last record of a zip archive without a comment: signature, four counts, size and offset of
#: the list of members, length of the comment.
_END = struct.Struct("<4s4H2LH")


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name only when all is written; errors name it, not the
    draft.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder: name a file in it", str(target))
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with open(draft, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        if error.filename not in (str(draft), None):
            raise
        raise type(error)(error.errno, error.strerror, str(target)) from None
    finally:
        draft.unlink(missing_ok=True)


def new_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """An empty archive; one that grows beyond 4 GiB is refused by zipfile."""
    return zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False)


def add_member(archive: zipfile.ZipFile, name: str, *parts: Any) -> tuple[int, str]:
    """Write buffers as one member without a date; its size and SHA-256."""
    size, digest = 0, hashlib.sha256()
    with archive.open(zipfile.ZipInfo(name), "w") as member:
        for part in parts:
            view = memoryview(part).cast("B") if memoryview(part).nbytes else memoryview(b"")
            for start in range(0, view.nbytes, CHUNK):
                piece = view[start : start + CHUNK]
                member.write(piece)
                digest.update(piece)
            size += view.nbytes
    return size, digest.hexdigest()


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The archive of a file whose list of members is sound."""
    with open(path, "rb") as file:
        _check_end(file)
        with zipfile.ZipFile(file) as archive:
            _check_members(archive, os.fstat(file.fileno()).st_size)
            yield archive


def _check_end(file: IO[bytes]) -> None:
    """The list of members must end where the file does, and be where it says."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    start = file.read(4)
    if start != b"PK\x03\x04":
        raise Damage("it is no model file of latentia" if size else "it is empty")
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    if len(end) < _END.size:
        raise Damage("it is cut off")
    signature, disk, first_disk, here, total, length, offset, comment = _END.unpack(end)
    if signature != b"PK\x05\x06" or comment:
        raise Damage("it is cut off, or something was added at its end")
    if disk or first_disk or here != total or offset + length + _END.size != size or 46 * total > length:
        raise Damage("its list of members is damaged")
    file.seek(0)


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    members, seen, in_all = archive.infolist(), set(), 0
    for member in members:
        name = member.orig_filename
        if name != MANIFEST and not _is_array_name(name):
            raise Damage(f"it has a member {name[:80]!r}, which no model file has")
        if name in seen:
            raise Damage(f"it has two members {name!r}")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise Damage(f"its member {name!r} is compressed, which members of model files are not")
        if member.flag_bits & ~0x800:
            raise Damage(f"its member {name!r} is encrypted or of an unknown form")
        if (member.external_attr >> 16) & 0o170000 not in (0, 0o100000):
            raise Damage(f"its member {name!r} is a link or a folder")
        seen.add(name)
        in_all += member.file_size
    if in_all > size:
        raise Damage(f"its members claim {in_all} bytes, and the file has {size}")
    if MANIFEST not in seen:
        raise Damage(f"it has no {MANIFEST}")


def _is_array_name(name: str) -> bool:
    number = name.removeprefix("arrays/").removesuffix(".npy")
    return name == array_name(number) and number.isascii() and number.isdigit() and len(number) < 8


def array_name(number: int | str) -> str:
    """The member that holds an array."""
    return f"arrays/{number}.npy"


def member_size(archive: zipfile.ZipFile, name: str) -> int:
    """Bytes of a member."""
    return archive.getinfo(name).file_size


def for_each_chunk(archive: zipfile.ZipFile, name: str, use: Callable[[bytes], object]) -> None:
    """Read a member piece by piece; its CRC is checked at its end."""
    with archive.open(name) as member:
        while piece := member.read(CHUNK):
            use(piece)
