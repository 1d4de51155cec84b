"""Listens on this machine only, until SIGTERM or SIGINT. Work on a board is then interrupted as
Ctrl-C interrupts `outpost flash`: the board's program starts again before we end.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from outpost_tools.boards.setup.app import application
from outpost_tools.boards.setup.desk import Desk
from outpost_tools.boards.setup.guard import Guard
from outpost_tools.boards.setup.jobs import Jobs
from outpost_tools.pages import http_server
from outpost_tools.terminal.ending import exit_on_signals

_HOST = "127.0.0.1"  # never another one: the page writes to boards and handles passwords
_INTERRUPTED = 130  # the exit status, as that of `outpost flash`


class _Server(http_server.Server):
    """Ends the work on boards before it ends itself."""

    def __init__(self, config: uvicorn.Config, jobs: Jobs) -> None:
        super().__init__(config, http_server.MOST)
        self._jobs = jobs

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self._jobs.end)
        await super().shutdown(sockets)


def serve(desk: Desk, *, opens: bool, say: Callable[[str], None]) -> int:
    """Returns the exit status. opens: whether to open a browser. say: called with the address.
    Raises ToolError."""
    listener = http_server.listener(_HOST, 0, f"{_HOST}")
    guard = Guard(application(desk), listener.getsockname()[1])
    config = http_server.configuration(guard, lifespan="off")
    exit_on_signals()
    try:
        say(f"setup page: {guard.url} (Ctrl-C ends it)")
        if opens:  # in a thread: with some browsers, the call returns when they are closed
            threading.Thread(target=webbrowser.open, args=(guard.url,), daemon=True).start()
        _Server(config, desk.jobs).run(sockets=[listener])
    except SystemExit:
        return _INTERRUPTED if desk.jobs.were_interrupted else 0
    finally:
        listener.close()
    return 0
