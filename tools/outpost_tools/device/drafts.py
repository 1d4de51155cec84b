"""Answers to the questions of `outpost provision`, kept until a board has them: what fails later (a
board that does not answer, a full disk, Ctrl-C) costs nobody the answers before it.

One file a kind of board under `${XDG_STATE_HOME:-~/.local/state}/outpost`, which only its owner may
read. Passwords are not in it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from outpost_tools.common.errors import ToolError
from outpost_tools.common.interpreters import own_folder
from outpost_tools.device.settings_file import SECRET_KEYS


class Draft:
    """kind: the board's name. answers: what was answered last time, by key."""

    def __init__(self, kind: str) -> None:
        try:
            folder = own_folder("XDG_STATE_HOME", "~/.local/state")
        except ToolError:  # nowhere to keep them: they are not kept
            folder = Path(os.devnull)
        self._path = folder / f"answers-{kind}.json"
        self.answers: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self.answers = found if isinstance(found, dict) else {}

    def keep(self, answers: dict[str, Any]) -> None:
        """In place of what is there. A disk that refuses is no reason to ask no further."""
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
