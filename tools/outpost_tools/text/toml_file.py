"""A TOML file that a person wrote, read with errors that the person understands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError


def load(path: Path, example: str) -> dict[str, Any]:
    """example: the command that prints a file to start from. Raises ToolError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Windows' editors add a mark
    except OSError as error:
        raise ToolError(
            f"{path}: cannot be read: {error.strerror}; `{example}` prints an example to start from"
        ) from None
    # RecursionError: thousands of brackets; ValueError: a number with thousands of digits, no UTF-8
    except (ValueError, RecursionError) as error:
        place = re.search(r"\((at .*)\)", str(error))
        raise ToolError(
            f'{path}: not valid TOML {place[1] if place else ""}; a text needs "quotes", and a key '
            "may occur only once"
        ) from None
