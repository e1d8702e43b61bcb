"""Who may ask Studio, how much, and that it lives on: against a real server on the loopback address."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest
from studio_client import Studio

from latentia.apps.studio import guard, limits, server, uploads
from latentia.apps.studio.routes import STATIC

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def studio():
    with Studio() as running:
        yield running


def test_the_page_is_served_with_a_strict_policy(studio):
    page = studio.send("GET", "/", X_Studio_Token=None)
    assert page.status == 200 and b"<!DOCTYPE html>" in page.content
    headers = {name.lower(): value for name, value in page.headers.items()}
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_every_file_of_the_page_is_there_and_asks_for_no_other_server(studio):
    names = [path.name for path in STATIC.iterdir()]
    assert {"index.html", "main.js", "theme.css"} <= set(names)
    for name in names:
        text = (STATIC / name).read_text(encoding="utf-8")
        assert studio.send("GET", f"/static/{name}").status == 200
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|style=", text), name
        for imported in re.findall(r'from "\./(\w+\.js)"', text):
            assert imported in names
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?! type=\"module\" src=)|<style| on\w+=", page)


REFUSED = {
    "no token": (401, {"X_Studio_Token": None}),
    "another token": (401, {"X_Studio_Token": "A" * 32}),
    "another page": (403, {"Origin": "https://evil.example"}),
    "a page on another port": (403, {"Origin": "http://127.0.0.1:1"}),
    "a page without a name": (403, {"Origin": "null"}),
    "another site, as browsers tell": (403, {"Sec_Fetch_Site": "cross-site"}),
    "another server of this site": (403, {"Sec_Fetch_Site": "same-site"}),
    "another name of this machine": (421, {"Host": "evil.example"}),
    "this machine from outside": (421, {"Host": "192.168.0.1"}),
}


@pytest.mark.parametrize("path", ["/api/state", "/api/take/model.latentia", "/api/board"])
@pytest.mark.parametrize("why", REFUSED)
def test_strangers_are_refused(studio, why, path):
    status, headers = REFUSED[why]
    answer = studio.send("GET", path, **headers)
    assert answer.status == status and set(answer.json) == {"problem"}
    assert studio.send("GET", "/api/state").status == 200


def test_the_page_itself_is_let_in(studio):
    origin = f"http://127.0.0.1:{studio.server.port}"
    assert studio.send("POST", "/api/stop", b"{", Origin=origin).status == 400  # let in, and found to be no JSON
    assert studio.send("GET", "/api/state", Origin=origin, Sec_Fetch_Site="same-origin").status == 200


MALFORMED = {
    "/api/fit": [
        b"",
        b"[",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"target": 3}',
        b'{"target": "y", "effort": "fast", "kinds": [1]}',
    ],
    "/api/row": [b'{"row": "1"}', b'{"row": true}', b'{"row": 1.5}', b'{"row": 0, "changes": {"x": 3}}', b"\xff\xfe"],
    "/api/board": [b"{}", b'{"pixels": [1, 2]}', b'{"pixels": ["a"]}', b'{"pixels": [' + b"99," * 63 + b"1]}"],
    "/api/example": [b'{"name": "../../etc/passwd"}', b'{"name": null}'],
}


@pytest.mark.parametrize("path", MALFORMED)
def test_malformed_requests_are_refused_in_a_sentence(studio, path):
    for body in MALFORMED[path]:
        answer = studio.send("POST", path, body)
        assert answer.status == 400 and answer.json["problem"].endswith("."), (body[:40], answer)


def test_other_addresses_and_methods_are_refused(studio):
    assert studio.send("DELETE", "/api/state").status == 405
    assert studio.send("POST", "/api/state", {}).status == 405
    assert studio.send("GET", "/static/../workspace.py").status == 404
    assert studio.send("GET", "/static/%2e%2e/workspace.py").status == 404
    assert studio.send("GET", "/static//etc/passwd").status == 404
    assert studio.send("GET", "/api/take/%2e%2e%2fsecret").status in (404, 409)
    assert studio.send("GET", "/" + "a" * 5000).status == 414


def test_what_is_too_large_is_refused_before_it_is_read(studio):
    answer = studio.send("POST", "/api/table?name=x.csv", b"", Content_Length=str(1 << 40))
    assert answer.status == 413 and "16 MB" in answer.json["problem"]
    answer = studio.send("POST", "/api/row", b"", Content_Length=str(limits.MAX_REQUEST_BYTES + 1))
    assert answer.status == 413
    assert studio.send("POST", "/api/row", b"", Content_Length="-5").status == 400


def test_a_body_that_never_says_its_size_is_cut_off(studio):
    with socket.create_connection(("127.0.0.1", studio.server.port), timeout=20) as line:
        head = f"POST /api/row HTTP/1.1\r\nHost: 127.0.0.1:{studio.server.port}\r\nX-Studio-Token: {studio.server.token}\r\n"
        line.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        found = b""
        try:
            for _ in range(40):
                line.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        except OSError:  # the server has closed the line
            pass
        try:
            found = line.recv(1 << 16)
        except OSError:
            pass
        assert b"413" in found.split(b"\r\n")[0] or found == b""
    assert studio.send("GET", "/api/state").status == 200


def test_a_body_that_does_not_come_is_given_up(studio, monkeypatch):
    monkeypatch.setattr("latentia.apps.studio.guard.ARRIVAL_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", studio.server.port), timeout=20) as line:
        head = f"POST /api/row HTTP/1.1\r\nHost: 127.0.0.1:{studio.server.port}\r\nX-Studio-Token: {studio.server.token}\r\n"
        line.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
        assert b"408" in line.recv(1 << 16).split(b"\r\n")[0]


def test_nonsense_on_the_line_harms_nobody(studio):
    for noise in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\nHost: a\r\nHost: b\r\n\r\n",
        b"A" * 100_000,
    ):
        with socket.create_connection(("127.0.0.1", studio.server.port), timeout=20) as line:
            line.sendall(noise)
            line.settimeout(0.2)
            try:
                line.recv(4096)
            except OSError:
                pass
    assert studio.send("GET", "/api/state").status == 200


def test_a_packed_bomb_is_refused(studio):
    bomb = gzip.compress(b"a,b\n" + b"1,2\n" * (limits.MAX_TABLE_BYTES // 3))
    assert len(bomb) < 1 << 20
    answer = studio.send("POST", "/api/table?name=bomb.csv.gz", bomb)
    assert answer.status == 413 and "unpacked" in answer.json["problem"]


def test_an_error_that_nobody_foresaw_is_told_to_the_page(studio, monkeypatch):
    monkeypatch.setattr(studio.workspace, "_lock", None)  # so that whatever is asked fails
    answer = studio.send("GET", "/api/state")
    assert answer.status == 500 and "an error of its own (TypeError: " in answer.json["problem"]
    monkeypatch.undo()
    assert studio.send("GET", "/api/state").status == 200


@pytest.mark.matrix
def test_fifty_requests_at_once_are_all_answered(studio):
    def ask(number):
        if number % 5 == 0:
            return studio.send("POST", "/api/board", {"pixels": [None] * 32 + [float(number % 17)] * 32}).status
        return studio.send("GET", "/api/state").status

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        assert list(pool.map(ask, range(50))) == [200] * 50


def test_names_of_files_cannot_lead_anywhere():
    for name in ("../../etc/passwd", "..\\..\\x", "/etc/passwd", 'a"\r\nSet-Cookie: x', "..", ""):
        found = uploads.plain_name(name, "table.csv")
        assert not set(found) & set('/\\"\r\n') and found not in ("", ".", "..")


def folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"{uploads.FOLDER}*")}


@pytest.mark.matrix
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_command_shows_its_link_and_leaves_nothing_behind(how, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("x,y\n" + "".join(f"{k % 7},{'ab'[k % 2]}\n" for k in range(40)))
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONUNBUFFERED": "1", "COLUMNS": "300"}
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "latentia", "studio", str(table), "--no-browser"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        link = re.search(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{32})", process.stdout.readline())
        assert link
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", int(link[1])), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        process.send_signal(how)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "tmp"]


def test_the_command_refuses_what_it_cannot_open(latentia, tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2,3\n")
    found = latentia("studio", tmp_path / "bad.csv", "--no-browser")
    assert found.code == 3 and "line 2" in found.err
    found = latentia("studio", tmp_path / "none.latentia", "--no-browser")
    assert found.code == 4 and len(found.errors) == 1


@pytest.mark.skipif(os.name == "nt", reason="there a signal to oneself is the end")
def test_the_command_serves_what_it_opened_until_it_is_interrupted(latentia, tmp_path, monkeypatch):
    """Without a line to listen on: the link, the browser, what is open, and how it ends."""
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{k % 7},{'ab'[k % 2]}\n" for k in range(12)))
    served, opened = [], []

    class Timer:
        def __init__(self, seconds, function, arguments):
            self.start = lambda: function(*arguments)

    def run(self):
        served.append(self)
        os.kill(os.getpid(), signal.SIGTERM)  # which is an interruption here
        time.sleep(10)

    monkeypatch.setattr(server, "threading", types.SimpleNamespace(Timer=Timer))
    monkeypatch.setattr(server.webbrowser, "open", opened.append)
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: run(self))
    closed = []
    monkeypatch.setattr(server.Workspace, "close", lambda self: closed.append(self))
    before = signal.getsignal(signal.SIGTERM)
    ended = latentia("studio", tmp_path / "t.csv", "--no-browser")
    link = re.search(r"http://127\.0\.0\.1:\d+/#token=([\w-]{32})", ended.out)
    assert ended.code == 0 and link and not opened and signal.getsignal(signal.SIGTERM) is before
    assert closed[0].describe()["table"]["rows"] == 12
    ended = latentia("studio")
    assert ended.code == 0 and len(closed) == 2 and closed[1].describe()["table"] is None
    assert opened == re.findall(r"http://[^\s]*", ended.out) and link[0] not in opened  # a token of its own each time
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = latentia("studio", "--port", taken.getsockname()[1], "--no-browser")
    assert ended.code == 2 and ended.errors[0].startswith("latentia: --port ") and len(served) == 2


def test_without_its_packages_the_command_names_the_extra(latentia, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "latentia.apps.studio.server")
    ended = latentia("studio")
    assert ended.code == 2 and "latentia[studio]" in ended.errors[0]


def body_in_parts(parts, seconds_between=0.0, limit=10):
    """What a limited body gives of a request that comes in parts."""

    async def read():
        left = iter(parts)

        async def receive():
            await asyncio.sleep(seconds_between)
            return {"type": "http.request", "body": next(left)}

        body = guard.LimitedBody(receive, limit)
        return [(await body())["body"] for _ in parts]

    return asyncio.run(read())


def test_a_body_may_be_as_long_as_the_limit_and_not_longer():
    assert body_in_parts([b"12345", b"", b"67890"]) == [b"12345", b"", b"67890"]
    with pytest.raises(guard.Refusal, match="more than") as refused:
        body_in_parts([b"12345", b"67890", b"1"])
    assert refused.value.status == 413


def test_a_body_has_one_deadline_however_many_parts_it_comes_in(monkeypatch):
    monkeypatch.setattr(guard, "ARRIVAL_SECONDS", 0.1)
    assert body_in_parts([b"1"] * 3) == [b"1"] * 3
    with pytest.raises(guard.Refusal, match="in time") as refused:
        body_in_parts([b"1"] * 9, seconds_between=0.04)
    assert refused.value.status == 408


@pytest.mark.skipif(os.name == "nt", reason="there a signal to oneself is the end")
def test_signals_are_handled_as_before_once_studio_has_ended():
    def handler(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with server._ended_by_signals():
            assert signal.getsignal(signal.SIGTERM) is not handler
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("nothing was interrupted")
        assert signal.getsignal(signal.SIGTERM) is handler
        with pytest.raises(KeyError), server._ended_by_signals():
            raise KeyError
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
