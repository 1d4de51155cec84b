"""Keeps the answers to the questions of `outpost provision` until a board has them, so that a later
failure (a board that does not answer, a full disk, Ctrl-C) does not lose them.

There is one file per kind of board under `${XDG_STATE_HOME:-~/.local/state}/outpost`. Only its
owner may read it, and passwords are not in it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from outpost_tools.boards.settings.settings_file import SECRET_KEYS
from outpost_tools.errors import ToolError
from outpost_tools.machine.interpreters import own_folder


class Draft:
    """kind: the board's name. answers: the last answers, by key."""

    def __init__(self, kind: str) -> None:
        try:
            folder = own_folder("XDG_STATE_HOME", "~/.local/state")
        except ToolError:  # no folder to keep answers in
            folder = Path(os.devnull)
        self._path = folder / f"answers-{kind}.json"
        self.answers: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self.answers = found if isinstance(found, dict) else {}

    def keep(self, answers: dict[str, Any]) -> None:
        """Replace the answers that were kept. If the disk refuses, the questions continue all the
        same."""
        content = {key: answers[key] for key in answers if key not in SECRET_KEYS}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file)
            new.replace(self._path)

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
