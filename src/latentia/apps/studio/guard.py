"""Who may ask: the page itself, and nobody else.

A page of a stranger can send requests to this machine, or have its own name lead here. So every
request must name this server (`Host`), come from its own page (`Origin`, `Sec-Fetch-Site`) and,
where it asks for anything but the page's files, bring the token, which only the link has that the
terminal shows. Every answer forbids the browser to run or load what is not the page's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import JSONResponse

from latentia.apps.studio.limits import ARRIVAL_SECONDS, MAX_MODEL_BYTES, MAX_REQUEST_BYTES, MAX_TABLE_BYTES
from latentia.apps.studio.problems import Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "x-studio-token"

#: Bytes of a request, by its path.
MAX_BYTES = {"/api/table": MAX_TABLE_BYTES, "/api/model": MAX_MODEL_BYTES}

MAX_PATH = 1000

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Refusal(Problem):
    """Why a request is not answered."""

    def __init__(self, status: int, message: str):
        super().__init__(message, status)


class Guard:
    """Stands before an application; the port is that of the server."""

    def __init__(self, app: Application, token: str, port: int):
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets: the server closes them
        sent = Answer(send)
        try:
            self._check(scope)
            await self.app(scope, LimitedBody(receive, _limit(scope)), sent)
        except Refusal as refusal:
            await sent.refuse(scope, receive, refusal.status, str(refusal))
        except Exception:  # which the application has told the page; the server lives on
            await sent.refuse(scope, receive, 500, "Studio met an error of its own.")

    def _check(self, scope: Scope) -> None:
        headers = _Headers(scope)
        if len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > MAX_PATH:
            raise Refusal(414, "The address is too long.")
        if headers.only("host") not in self.hosts:
            raise Refusal(421, "This server answers to 127.0.0.1 and localhost alone.")
        if headers.has("origin") and headers.only("origin") not in self.origins:
            raise Refusal(403, "Requests of other pages are refused.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise Refusal(405, "Allowed are GET and POST.")
        if not scope["path"].startswith("/api/"):
            return
        if headers.only("sec-fetch-site") not in ("", "same-origin", "none"):
            raise Refusal(403, "Requests of other pages are refused.")
        if not secrets.compare_digest(headers.only(TOKEN_HEADER).encode(), self.token.encode()):
            raise Refusal(401, "The token is missing. Open Studio by the link that the terminal shows.")
        length = headers.only("content-length")
        if length and (not length.isascii() or not length.isdigit()):
            raise Refusal(400, "The length of the request is no number.")
        if length and int(length) > _limit(scope):
            raise _too_large(_limit(scope))


class _Headers:
    """Headers of a request; one that comes twice counts as none."""

    def __init__(self, scope: Scope):
        self._found: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def has(self, name: str) -> bool:
        return name in self._found

    def only(self, name: str) -> str:
        values = self._found.get(name, [])
        return values[0] if len(values) == 1 else ""


def _limit(scope: Scope) -> int:
    return MAX_BYTES.get(scope["path"], MAX_REQUEST_BYTES)


def _too_large(limit: int) -> Refusal:
    size = f"{limit >> 20} MB"
    return Refusal(413, f"That is more than the {size} that Studio takes. Open a part of it.")


class LimitedBody:
    """The body of a request, up to a size and within a time."""

    def __init__(self, receive: Receive, limit: int):
        self._receive, self._limit, self._left = receive, limit, limit
        self._deadline: float | None = None

    async def __call__(self) -> Message:
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + ARRIVAL_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise Refusal(408, "The request did not arrive in time.") from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _too_large(self._limit)
        return message


class Answer:
    """Sends an answer with the headers that all answers have."""

    def __init__(self, send: Send):
        self._send, self._started = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            message["headers"] = [
                *((k, v) for k, v in message.get("headers", []) if k.decode("latin-1").lower() not in HEADERS),
                *((name.encode(), value.encode()) for name, value in HEADERS.items()),
            ]
        await self._send(message)

    async def refuse(self, scope: Scope, receive: Receive, status: int, message: str) -> None:
        """One sentence, and the connection is closed: what is left of the request is not read."""
        if not self._started:
            response = JSONResponse({"problem": message}, status, headers={"connection": "close"})
            await response(scope, receive, self)
