"""The file itself: a zip archive whose members are stored as they are, not compressed.

So no file can claim to hold more than it does, and all of its sizes add up before anything is read.
The archive has a manifest, `manifest.json`, and the members that the manifest lists: no folders to
leave, no links, nothing encrypted, nothing before, between or after.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from latentia.persistence.errors import Damage

#: What JSON holds.
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | float | bool | None"

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
