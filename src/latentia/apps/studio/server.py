"""The server: one user, the loopback address, until it is interrupted."""

from __future__ import annotations

import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from latentia.apps.studio.guard import Guard
from latentia.apps.studio.routes import make_app
from latentia.apps.studio.workspace import Workspace

ADDRESS = "127.0.0.1"


class StudioServer:
    """A bound server with its link; `run` serves until it is stopped."""

    def __init__(self, workspace: Workspace, port: int = 0):
        self.workspace = workspace
        self.token = secrets.token_urlsafe(24)
        self._socket = socket.create_server((ADDRESS, port))
        self.port = int(self._socket.getsockname()[1])
        self.app = Guard(make_app(workspace), self.token, self.port)
        config = uvicorn.Config(
            self.app,
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.port}/"

    @property
    def link(self) -> str:
        """With the token where no server and no log ever sees it."""
        return f"{self.address}#token={self.token}"

    def run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.workspace.close()
            self._socket.close()

    def stop(self) -> None:
        self._server.should_exit = True


def serve(workspace: Workspace, port: int, open_browser: bool, show_link: Callable[[str], None]) -> None:
    """Serve until the user interrupts; the terminal shows the link."""
    with _ended_by_signals():
        server = StudioServer(workspace, port)
        show_link(server.link)
        if open_browser:
            threading.Timer(0.5, webbrowser.open, [server.link]).start()
        server.run()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A request to end is an interruption, so that everything is cleaned up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
