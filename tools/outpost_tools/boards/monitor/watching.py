"""Two ways to watch a board at its port: listen to it, or stop it and look. following.py watches it
at the broker."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from outpost_tools.boards.files import install, plan
from outpost_tools.boards.port import kinds
from outpost_tools.boards.port.connection import Board, connected
from outpost_tools.boards.port.console import check_port
from outpost_tools.boards.selftest import selftest
from outpost_tools.errors import ToolError
from outpost_tools.text.visible import visible

_POLL_S = 0.2
_SPACE = (
    "import gc, os\ngc.collect()\ns = os.statvfs('/')\nprint(gc.mem_free(), s[0] * s[3], s[0] * "
    "s[2])"
)
_NOT_INSTALLED = "not installed by `outpost flash`"
_QUIET_S = 60.0
_MOST_LINE = 4096  # bytes shown as one line
_QUIET = (
    "nothing in 60 s, as it should be. Does it send? --settings TOML shows its messages; --look "
    "stops it and looks (not said again)"
)
Say = Callable[[str], None]


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def _tell_way(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ended(until: float | None) -> bool:
    return until is not None and time.monotonic() > until


# --- Listen ---


def listen(port: str, until: float | None, tell: Say = say) -> None:
    """Print what the board prints; send nothing. Raises ToolError when the port goes away."""
    import serial

    check_port(port)
    rest = b""
    try:
        with serial.Serial(port, timeout=_POLL_S, exclusive=True) as line:
            _tell_way(f"listening at {port}; Ctrl-C ends. A healthy board prints nothing")
            quiet_at = time.monotonic() + _QUIET_S
            while not ended(until):
                if quiet_at is not None and time.monotonic() > quiet_at:
                    _tell_way(_QUIET)
                    quiet_at = None
                *lines, rest = (rest + line.read(max(1, line.in_waiting))).split(b"\n")
                if len(rest) > _MOST_LINE:  # wrong speed of the port, or output without line ends
                    lines, rest = [*lines, rest], b""
                for one in lines:
                    quiet_at = None
                    tell(visible(one.rstrip(b"\r")))
    except BrokenPipeError:  # of our stdout, not of the port
        raise
    except (serial.SerialException, OSError) as error:
        if "exclusively lock" in str(error):
            raise ToolError(
                f"{port}: in use by another program; close it (a terminal, mpremote, an IDE)"
            ) from None
        raise ToolError(f"{port}: connection lost; is the board still plugged in?") from None


# --- Stop and look ---


def probe(port: str, answer_s: float) -> list[tuple[str, str]]:
    """What the board is, and whether Outpost is on it.

    Stops the program and restarts it. Raises ToolError.
    """
    with connected(port, answer_s) as board:
        return _who(board)


def _who(board: Board) -> list[tuple[str, str]]:
    return [
        ("board", str(kinds.ask(board))),
        ("outpost", _version(install.read_text(board, plan.RECORD))),
    ]


def look(port: str, answer_s: float) -> list[tuple[str, str]]:
    """Rows of a table. Stops the program and restarts it. Raises ToolError."""
    with connected(port, answer_s) as board:
        rows = _who(board)
        heap, free, size = board.run(_SPACE)[-1].split()
        rows.append(
            (
                "free",
                f"{int(heap):,} bytes of heap, {int(free):,} of {int(size):,} in the filesystem",
            )
        )
        crash = install.read_text(board, "/crash.txt")
        if rows[1][1] != _NOT_INSTALLED:
            found = selftest.outbox(board)
            rows.append(("outbox", found if isinstance(found, str) else _fill(found)))
    lines = crash.strip().splitlines()
    rows += [
        ("crash.txt" if not number else "", visible(line))
        for number, line in enumerate(lines or ["none"])
    ]
    return rows


def _version(record: str) -> str:
    try:
        about = json.loads(record)
        return visible(f"{about['version']} for {about['board']}")
    except (ValueError, KeyError, TypeError):
        return _NOT_INSTALLED


def _fill(outbox: selftest.Outbox) -> str:
    return (
        f"{outbox.held} messages held in {outbox.blocks} blocks, stream {outbox.stream}, boot "
        f"{outbox.boot - 1}{outbox.troubles}"
    )
