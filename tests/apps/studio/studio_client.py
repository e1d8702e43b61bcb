"""A running Studio, and requests to it as a browser or a stranger would send them."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any, NamedTuple

from latentia.apps.studio.server import StudioServer
from latentia.apps.studio.workspace import Workspace


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Studio:
    """A server in a thread; a context manager."""

    def __init__(self):
        self.workspace = Workspace()
        self.server = StudioServer(self.workspace)
        self._thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self):
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self.server._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        return self

    def __exit__(self, *error):
        self.server.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def send(self, method: str, path: str, body: Any = None, **headers: str | None) -> Answer:
        """A request with the token; a header that is None is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        sent = {"X-Studio-Token": self.server.token, **{name.replace("_", "-"): v for name, v in headers.items()}}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, content, {name: v for name, v in sent.items() if v is not None})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.send("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, body: Any) -> Any:
        answer = self.send("POST", path, body)
        assert answer.status == 200, answer
        return answer.json

    def fit(self, target: str, kinds: dict[str, str] | None = None, effort: str = "fast") -> Any:
        """Fit to the end; the last progress."""
        begun = self.post("/api/fit", {"target": target, "kinds": kinds or {}, "effort": effort})
        if "problem" not in begun:
            self.workspace._job.wait(60)
            return self.get("/api/fit")
        return begun
