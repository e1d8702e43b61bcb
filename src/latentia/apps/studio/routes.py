"""The addresses that the page asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from latentia.apps import JsonObject
from latentia.apps.studio import asked
from latentia.apps.studio.problems import Problem
from latentia.apps.studio.uploads import plain_name
from latentia.apps.studio.workspace import Workspace

STATIC = Path(__file__).parent / "static"


def make_app(workspace: Workspace) -> Starlette:
    """The application, without its guard."""

    def get(path: str, answer: Callable[[], JsonObject]) -> Route:
        async def handle(request: Request) -> Response:
            return JSONResponse(await run_in_threadpool(answer))

        return Route(path, handle, methods=["GET"])

    def post(path: str, answer: Callable[..., JsonObject], read: Callable[[JsonObject], JsonObject]) -> Route:
        async def handle(request: Request) -> Response:
            arguments = read(asked.parse(await request.body()))
            return JSONResponse(await run_in_threadpool(answer, **arguments))

        return Route(path, handle, methods=["POST"])

    def upload(path: str, answer: Callable[[bytes, str], JsonObject]) -> Route:
        async def handle(request: Request) -> Response:
            name = request.query_params.get("name", "")
            return JSONResponse(await run_in_threadpool(answer, await request.body(), name))

        return Route(path, handle, methods=["POST"])

    async def take(request: Request) -> Response:
        name = request.path_params["name"]
        content, kind = await run_in_threadpool(workspace.file, name)
        disposition = f'attachment; filename="{plain_name(name, "file")}"'
        return Response(content, media_type=kind, headers={"content-disposition": disposition})

    routes = [
        Route("/", _page, methods=["GET"]),
        get("/api/state", workspace.describe),
        upload("/api/table", workspace.open_table),
        upload("/api/model", workspace.open_model),
        post("/api/example", workspace.open_example, asked.example),
        post("/api/fit", workspace.start_fit, asked.fit),
        get("/api/fit", workspace.fit_progress),
        post("/api/stop", workspace.stop_fit, asked.nothing),
        get("/api/map", workspace.describe_map),
        post("/api/row", workspace.describe_row, asked.row),
        post("/api/gaps", workspace.describe_gaps, asked.row),
        get("/api/board", workspace.board.describe),
        post("/api/board", workspace.board.answer, asked.drawing),
        Route("/api/take/{name}", take, methods=["GET"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, exception_handlers={Problem: _problem, Exception: _error})


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")


async def _problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return JSONResponse({"problem": str(problem), "column": problem.column}, problem.status)


async def _error(request: Request, error: Exception) -> Response:
    """Not foreseen: the page shows it, and whoever sees it can report it."""
    return JSONResponse({"problem": f"Studio met an error of its own ({type(error).__name__}: {error})."}, 500)
