"""Child processes that never outlive us, and free loopback ports.

On Linux the kernel sends a child SIGKILL when the thread that started it ends (elsewhere only
stop() ends it), so start children from the main thread. They run in their own session: Ctrl-C
reaches only us, and we end them in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from outpost_tools import FOLDER

_PR_SET_PDEATHSIG = 1
# Looked up here, because between fork and exec we must not import or load a library.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_HELD: list[socket.socket] = []  # the ports that free_port() returned


def die_with_parent() -> None:
    """For `preexec_fn`."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def tools_environment(**more: str) -> dict[str, str]:
    """Our environment, with `outpost_tools` importable even when the package is not installed."""
    tools = str(FOLDER.parent)
    path = os.pathsep.join(p for p in (tools, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "PYTHONPATH": path, **more}


def start(
    arguments: list[str], *, log: Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.Popen:
    """Start a child whose output is appended to the file `log`."""
    with log.open("ab") as output:
        return spawn(arguments, output, cwd=cwd, env=env)


def spawn(
    arguments: list[str],
    output: IO[bytes] | int,
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.Popen:
    """Start a child. output: a file, or subprocess.PIPE."""
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - it allocates nothing and takes no lock
    )


def stop(process: subprocess.Popen | None, *, grace_s: float = 10.0) -> int | None:
    """Sends SIGTERM, and SIGKILL after `grace_s`. Returns the exit status; None if there was no
    process."""
    if process is None:
        return None
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    return kill(process)


def kill(process: subprocess.Popen | None) -> int | None:
    """Sends SIGKILL: like a power failure, nothing is flushed. Returns the exit status; None if
    there was no process."""
    if process is None:
        return None
    if process.poll() is None:
        process.kill()
    return process.wait()


def end_on_signals() -> None:
    """SIGTERM and SIGINT cancel the task, so `finally` and `async with` end its children."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, task.cancel)


def free_port() -> int:
    """A loopback port for a server that we start. No later call in any process returns it again
    until this process ends. Raises OSError if no port was free.

    It is below the kernel's range for outgoing connections: a restarted server needs the same port
    again, and a port of that range might be taken by then.
    """
    for _ in range(50):
        port = 10000 + int.from_bytes(os.urandom(2), "little") % 20000
        with contextlib.suppress(OSError):
            _hold(port)
            return port
    raise OSError(errno.EADDRINUSE, "50 ports between 10000 and 29999 were all in use")


def _hold(port: int) -> None:
    """Binds the port, but does not listen on it: servers can take it because they set SO_REUSEADDR,
    but a later search for a free port cannot. Raises OSError if another process has the port."""
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))  # exclusively: SO_REUSEADDR is not set yet
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        may_be_served = _may_be_served(port)
    except OSError:
        held.close()
        raise
    if may_be_served:
        _HELD.append(held)
    else:
        held.close()


def _may_be_served(port: int) -> bool:
    """Whether a server can listen although we hold the port. Linux allows it; on other systems we
    do not hold it, and may lose it."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
            server.listen()
        except OSError:
            return False
    return True


def tail(log: Path, lines: int = 5) -> str:
    """The last lines of a child's output, for an error message."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
