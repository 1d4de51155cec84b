"""Works on one board, with the functions of `outpost flash` and `outpost provision`; started by
jobs.py. The order is one line of JSON on stdin, so that no password is in a command line. Progress
is written line by line, each a JSON object with one of these:

    note            a step that begins          bar, done, total   the progress of a step
    row, text, good a result                    kind               the kind of board that was found
    end, text       good, failed (a self-test), error or interrupted
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outpost_tools.boards.flash import flashing, held
from outpost_tools.boards.flash.flashing import Report
from outpost_tools.boards.port import kinds
from outpost_tools.boards.port.connection import connected
from outpost_tools.boards.port.console import check_port
from outpost_tools.boards.port.progress import Progress, Show
from outpost_tools.boards.settings import settings_file
from outpost_tools.errors import ToolError
from outpost_tools.machine import source_tree
from outpost_tools.terminal.ending import interrupt_on_signals

_BAR_EVERY_S = 0.2
_OUT = sys.stdout  # still the original stream while mpremote's output is redirected
_INTERRUPTED = (
    "interrupted; the board's program was started again. What was copied so far is not in use yet: "
    "repeat the step, and it continues from there"
)


def tell(**line: Any) -> None:
    """Prints a line of JSON. If nobody reads it any more, the work continues: the board comes
    first."""
    with contextlib.suppress(OSError):
        print(json.dumps(line), file=_OUT, flush=True)


class Told(Progress):
    """Progress as lines of JSON."""

    def emit(self, text: str, elapsed_s: float) -> None:
        tell(note=text, at=round(elapsed_s, 1))

    @contextmanager
    def bar(self, title: str, unit: str) -> Iterator[Show]:
        told_at = 0.0

        def show(done: int, total: int) -> None:
            nonlocal told_at
            if done >= total or time.monotonic() - told_at >= _BAR_EVERY_S:
                told_at = time.monotonic()
                tell(bar=title, done=done, total=total)

        yield show


def main() -> int:
    """Returns the exit status of `outpost flash`."""
    interrupt_on_signals()
    try:
        order = json.loads(sys.stdin.readline())
        report = _kind(order) if order["task"] == "kind" else _work(order)
    except ToolError as error:
        tell(end="error", text=str(error))
        return 2
    except KeyboardInterrupt:
        tell(end="interrupted", text=_INTERRUPTED)
        return 130
    for row in report.rows:
        tell(row=row[0], text=row[1], good=row not in report.faults)
    tell(end="good" if report.is_good else "failed")
    return 0 if report.is_good else 1


def _work(order: dict[str, Any]) -> Report:
    """Raises ToolError."""
    root = source_tree.repository()
    kind = kinds.load(root, order["board"])
    ca = order["ca"].encode() if order["ca"] else None
    settings = settings_file.check(order["given"], "", Path(order["folder"]), kind, ca)
    job = flashing.Job(
        root,
        kind,
        order["port"],
        settings,
        order["dry_run"],
        order["replace"],
        progress=Told(),
        asked=held.Asked(order["held"], Path(order["folder"])),
    )
    return flashing.flash(job) if order["task"] == "flash" else flashing.provision(job)


def _kind(order: dict[str, Any]) -> Report:
    """Finds out which kind of board it is. Raises ToolError."""
    check_port(order["port"])
    progress = Told()
    progress.note(f"{order['port']}: stopping the board's program, to ask what it is")
    with connected(order["port"]) as board:
        facts = kinds.ask(board)
        progress.note("restarting the board's program")
    root = source_tree.repository()
    found = [one for one in order["boards"] if kinds.is_of(kinds.load(root, one), facts)]
    for one in found:
        tell(kind=one)
    report = Report()
    report.add("board", f"{facts}" if found else f"{facts}: none of the kinds above", bool(found))
    return report


if __name__ == "__main__":
    sys.exit(main())
