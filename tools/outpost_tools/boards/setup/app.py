"""The addresses of the setup page, below the path that guard.py admits.

    GET   /  /static/NAME  /state  /jobs/NUMBER?since=LINE
    POST  /check  /jobs  /load  /save                        JSON both ways

An answer has `faults` by field, or `exists` if a file of that name exists already, or, with status
400, an `error` in one line. Otherwise it has what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from outpost_tools.boards.setup import form, page
from outpost_tools.boards.setup.desk import Desk, Faulty
from outpost_tools.boards.setup.places import Exists
from outpost_tools.errors import ToolError
from outpost_tools.pages import web


def application(desk: Desk) -> Starlette:
    def show(_request: Request) -> Response:
        return HTMLResponse(page.render(desk))

    def state(_request: Request) -> Response:
        return JSONResponse(desk.state())

    def job(request: Request) -> Response:
        return _job(desk, request)

    def faults(posted: dict[str, Any]) -> dict[str, Any]:
        desk.check(posted)
        return {}

    return Starlette(
        routes=[
            Route("/", show),
            Route("/static/{name}", web.static("outpost_tools.boards.setup", *page.FILES)),
            Route("/state", state),
            Route("/jobs/{number}", job),
            Route("/check", _posted(faults), methods=["POST"]),
            Route("/jobs", _posted(desk.start), methods=["POST"]),
            Route("/load", _posted(desk.load), methods=["POST"]),
            Route("/save", _posted(desk.save), methods=["POST"]),
        ]
    )


def _job(desk: Desk, request: Request) -> Response:
    found = desk.jobs.find(request.path_params["number"])
    if found is None:
        return JSONResponse({"error": "this job is no longer listed"}, 404)
    asked = request.query_params.get("since", "0")
    since = int(asked) if asked.isdecimal() and len(asked) < 9 else 0
    is_running = found.is_running  # read before the lines, so that the last ones are not missed
    told = {"task": found.task, "port": found.port, "running": is_running}
    return JSONResponse(told | {"lines": found.lines[since:]})


def _posted(act: Callable[[dict[str, Any]], dict[str, Any]]):
    """An endpoint that runs `act` in a thread, because it may take long."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_answer, act, await request.body())

    return endpoint


def _answer(act: Callable[[dict[str, Any]], dict[str, Any]], body: bytes) -> Response:
    try:
        return JSONResponse(act(_parsed(body)))
    except Faulty as error:
        return JSONResponse({"faults": error.faults})
    except Exists as error:
        return JSONResponse({"exists": str(error)})
    except ToolError as error:
        return JSONResponse({"error": str(error)}, 400)


def _parsed(body: bytes) -> dict[str, Any]:
    """Raises ToolError."""
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False).encode()  # refuses lone surrogates
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ToolError(form.BAD)
    return found
