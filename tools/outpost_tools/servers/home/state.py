"""The folder of `outpost run`. It holds all state, so the command continues where it stopped.

boards/      settings files that `outpost setup` saved, if any
broker/      made as by `outpost broker init`, if the broker is our own
log/         the collector's segments
tables/      the pipeline's tables, with report.html beside the folder
export/      a CSV file for each day (`outpost export --days`)
alerts.toml  optional: who is told about problems; alerts.state.json: what they were told
logs/        the output of the last run of each job
.lock        held (flock) by the `outpost run` that uses the folder
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from outpost_tools.errors import ToolError


class State:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.broker = self.path / "broker"
        self.log = self.path / "log"
        self.tables = self.path / "tables"
        self.report = self.path / "report.html"
        self.export = self.path / "export"
        self.logs = self.path / "logs"
        self.alerts = self.path / "alerts.toml"
        self._lock: int | None = None

    def take(self) -> None:
        """Creates the folder and locks it. Raises ToolError, also if another process holds it."""
        try:
            for folder in (self.path, self.log, self.export, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"{self.path}: another `outpost run` works in it; stop that one, or give another "
                "folder"
            ) from None
        except FileExistsError as error:
            raise ToolError(f"{error.filename}: is a file; give the name of a folder") from None
        except OSError as error:
            raise ToolError(_refused(error.filename or self.path, error.strerror)) from None
        self._check_writable()

    def _check_writable(self) -> None:
        """Checks the existing folders, which another user may have created. Raises ToolError."""
        for folder in (self.path, self.log, *self.log.glob("*/"), self.broker, self.tables,
                       self.export, self.logs):  # fmt: skip
            if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise ToolError(_refused(folder, "Permission denied"))

    def newest_segments(self) -> dict[str, str]:
        """The newest sealed segment by collector, because each --id numbers its segments from 0.
        The result changes when there is something new for the tables. It is empty before the first
        segment."""
        newest: dict[str, str] = {}
        for path in self.log.glob("*/segment-*.seg"):
            collector = path.parent.name
            newest[collector] = max(newest.get(collector, ""), path.name)
        return newest


def _refused(path: Path | str, reason: str) -> str:
    return f"{path}: {reason}; give a folder that this user may write, or `chown` this one"
