"""Child processes that never outlive us, and free loopback ports.

A child gets SIGKILL from the kernel when the thread that started it ends (Linux; elsewhere only
stop() ends it), so start children from the main thread. They run in their own session: Ctrl-C
reaches only us, and we end them in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
# Looked up here: between fork and exec is no place to import or to load a library.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """For `preexec_fn`."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def tools_environment(**more: str) -> dict[str, str]:
    """Our environment, with `outpost_tools` importable also when the package is not installed."""
    tools = str(Path(__file__).resolve().parents[2])
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
    """SIGTERM, and SIGKILL after `grace_s`. The exit status, None when there was no process."""
    if process is None:
        return None
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    return kill(process)


def kill(process: subprocess.Popen | None) -> int | None:
    """SIGKILL, as a power failure would: nothing is flushed."""
    if process is None:
        return None
    if process.poll() is None:
        process.kill()
    return process.wait()


def end_on_signals() -> None:
    """SIGTERM and SIGINT cancel the current task: `finally` and `async with` end its children."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, task.cancel)


def free_port() -> int:
    """A loopback port nobody uses now; it lies below the kernel's range for outgoing connections
    where it can.

    A server that is restarted needs the same port again: one inside that range may be taken by an
    outgoing connection in the meantime.
    """
    for _ in range(50):
        port = 10000 + int.from_bytes(os.urandom(2), "little") % 20000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tail(log: Path, lines: int = 5) -> str:
    """The last lines of a child's output, for an error message."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
