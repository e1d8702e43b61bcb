"""More than two hundred broken tables: each ends with one line and its exit code, soon, and writes nothing."""

from __future__ import annotations

import gzip
import io
import time
import tracemalloc
import zipfile
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from small_tables import make_table

from latentia.apps.tables.failures import Failure
from latentia.apps.tables.table_files import Reading, read_table
from latentia.apps.tables.text_tables import MAX_CELL, MAX_LINE

TABLE = make_table(40)
LINES = TABLE.splitlines()


def with_line(number: int, text: str, lines: list[str] = LINES) -> bytes:
    return "\n".join([*lines[:number], text, *lines[number + 1 :]]).encode()


def ragged() -> Iterator[tuple[str, bytes]]:
    for delimiter in ",;\t|":
        lines = make_table(40, delimiter).splitlines()
        for number in (1, 2, 17, 30, 40):
            for what, text in {
                "more": lines[number] + delimiter + "x",
                "fewer": lines[number].rpartition(delimiter)[0],
                "one": "x",
            }.items():
                yield f"ragged {delimiter!r} {what} {number}", with_line(number, text, lines)


def quotes() -> Iterator[tuple[str, bytes]]:
    for number in (0, 1, 5, 12, 25, 39, 40):
        cells = LINES[number].split(",")
        for place in (0, 2, 4):
            opened = ",".join([*cells[:place], '"' + cells[place], *cells[place + 1 :]])
            yield f"open quote {number} {place}", with_line(number, opened)
        yield f"text after a quote {number}", with_line(number, ",".join(['"a"b', *cells[1:]]))


def encodings() -> Iterator[tuple[str, bytes]]:
    words = TABLE.replace("red", "größe").replace("blue", "日本")
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "shift-jis", "gb18030"):
        text = words.replace("größe", "x") if name == "shift-jis" else words
        yield f"encoding {name}", text.encode(name)
    for name in ("latin-1", "cp1252", "cp437", "mac-roman"):
        yield f"encoding {name}", words.replace("日本", "naïve").encode(name)
    for byte in (0x80, 0xC0, 0xE9, 0xFE, 0xFF):
        yield f"byte {byte:x}", TABLE.encode().replace(b"red", bytes([byte]), 1)
    yield "cut in a character", ("größe," * 5 + "\n").encode() + "ö".encode()[:1]
    for number in (0, 1, 20):
        yield f"zero byte {number}", with_line(number, LINES[number].replace(",", ",\0", 1))


def columns() -> Iterator[tuple[str, bytes]]:
    yield "one column", "\n".join(line.rpartition(",")[2] for line in LINES).encode()
    yield "one column, numbers", b"1\n2\n3\n"
    yield "one word", b"kind"
    for text in ("", "\n", "\n\n\n", " ", "\r\n", "﻿", ",", ",,,\n", LINES[0], LINES[0] + "\n", LINES[0] + "\n\n\n"):
        yield f"no rows {text!r}", text.encode()
    for name in ("size", "color", "two", "code", "kind"):
        yield f"two columns {name}", with_line(0, LINES[0].replace("color" if name != "color" else "size", f" {name} "))
    for name in ("Kind", "KIND", "class", "k\u0131nd", "kind2", "ki nd"):
        yield f"no target {name}", with_line(0, LINES[0].replace("kind", name))
    yield "a table without a header", "\n".join(LINES[1:]).encode()


def contents() -> Iterator[tuple[str, bytes]]:
    frame = pd.read_csv(io.StringIO(TABLE), dtype=str)
    for what, target in {
        "no labels": "",
        "one class": "yes",
        "missing words": "NA",
        "all different": [f"c{k}" for k in range(40)],
        "numbers": [f"{k / 7:.3f}" for k in range(40)],
        "dates": [f"2020-01-{k % 31 + 1:02d}T{k}" for k in range(40)],
    }.items():
        yield f"target {what}", frame.assign(kind=target).to_csv(index=False).encode()
    for value in ("inf", "-inf", "1e999", "-1e400", "Infinity"):
        yield f"number {value}", frame.assign(size=[value, *range(39)]).to_csv(index=False).encode()
    names = [f"name{k}" for k in range(80)]
    only = pd.DataFrame({"id": names, "other": names[::-1], "kind": ["no", "yes"] * 40})
    yield "ids alone", only.to_csv(index=False).encode()


def others() -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(0)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a.csv", TABLE)
    yield "zip", zipped.getvalue()
    yield "pickle", b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00N."
    yield "png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
    yield "html", b"<!doctype html><html><body>503</body></html>"
    yield "json", b'{"size": [1, 2], "kind": ["a", "b"]}'
    yield "pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
    for k in range(8):
        yield f"noise {k}", rng.bytes(500)
    yield "a long cell", with_line(3, "x" * (MAX_CELL + 1) + ",red,1,000,no")
    yield "a long line", b"a," * (MAX_LINE // 2) + b"b\n"


def compressed() -> Iterator[tuple[str, bytes]]:
    whole = gzip.compress(TABLE.encode(), mtime=0)
    for share in range(1, 10):
        yield f"gzip cut at {share}", whole[: share * len(whole) // 10]
    for place in range(10, len(whole), len(whole) // 10):  # after the header, whose date may be any
        yield f"gzip changed at {place}", whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :]
    yield "gzip bomb", gzip.compress(b"0" * 20_000_000)
    yield "gzip of nothing", gzip.compress(b"")
    yield "gzip of noise", gzip.compress(np.random.default_rng(1).bytes(300))


def binary() -> Iterator[tuple[str, bytes]]:
    frame = pd.read_csv(io.StringIO(TABLE), na_values="?")
    for what, write in (("parquet", frame.to_parquet), ("arrow", frame.to_feather)):
        out = io.BytesIO()
        write(out)
        whole = out.getvalue()
        for share in range(1, 10):
            yield f"{what} cut at {share}", whole[: share * len(whole) // 10]
        yield f"{what} and more", whole + b"more"
        yield f"{what} end", whole[:8] + b"\xff" * 16 + whole[24:-16] + b"\xff" * 12 + whole[-4:]
    for what, part in (
        ("no rows", frame[:0]),
        ("no target", frame.drop(columns="kind")),
        ("one column", frame[["kind"]]),
    ):
        out = io.BytesIO()
        part.to_parquet(out)
        yield f"parquet {what}", out.getvalue()
    out = io.BytesIO()
    frame.assign(kind=[[k] for k in range(40)]).to_parquet(out)
    yield "parquet of lists", out.getvalue()


BROKEN = [*ragged(), *quotes(), *encodings(), *columns(), *contents(), *others(), *compressed(), *binary()]


def test_there_are_more_than_two_hundred():
    assert len(BROKEN) == len({name for name, _ in BROKEN}) > 200


@pytest.mark.parametrize("content", [content for _, content in BROKEN], ids=[name for name, _ in BROKEN])
def test_broken_tables_end_with_one_line(content, latentia, tmp_path):
    table, model = tmp_path / "table", tmp_path / "model"
    table.write_bytes(content)
    started = time.perf_counter()
    ended = latentia("fit", table, "--target", "kind", "-o", model, "--effort", "fast", "-q")
    assert time.perf_counter() - started < 10
    assert ended.code == 3 and ended.out == "" and len(ended.err.splitlines()) == 1
    assert ended.err.startswith(f"latentia: {table}: ") and len(ended.err) < 600
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


@pytest.mark.matrix
@pytest.mark.parametrize("what", ["parquet", "arrow", "gzip"])
def test_changed_bits_are_refused_or_read(what, tmp_path):
    frame, rng, out = pd.read_csv(io.StringIO(TABLE), na_values="?"), np.random.default_rng(2), io.BytesIO()
    {
        "parquet": frame.to_parquet,
        "arrow": frame.to_feather,
        "gzip": lambda out: out.write(gzip.compress(TABLE.encode())),
    }[what](out)
    refused = 0
    for _ in range(40):
        changed = bytearray(out.getvalue())
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
        (tmp_path / "table").write_bytes(changed)
        try:
            read_table(str(tmp_path / "table"), Reading())
        except Failure as failure:
            refused += 1
            assert failure.code == 3
    assert refused > 2


@pytest.mark.parametrize("name", ["a long line", "a long cell", "gzip bomb", "open quote 1 0"])
def test_broken_tables_take_little_memory(name, latentia, tmp_path):
    content = dict(BROKEN)[name] if name != "open quote 1 0" else b'a,kind\n"x,no\n' + b"1,yes\n" * 500_000
    (tmp_path / "table").write_bytes(content)
    tracemalloc.start()
    try:
        ended = latentia("fit", tmp_path / "table", "--target", "kind", "-o", tmp_path / "model", "-q")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ended.code == 3
    assert peak < 3 * len(content) + 6 * MAX_LINE
