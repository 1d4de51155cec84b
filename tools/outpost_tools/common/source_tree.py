"""Where this repository is: boards are simulated and flashed from its `firmware/` and `boards/`."""

from __future__ import annotations

from pathlib import Path

from outpost_tools.common.errors import ToolError


def repository() -> Path:
    """The top of the source tree. Raises ToolError when this package stands alone."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "firmware" / "main.py").is_file():
        raise ToolError(
            f"{root}: no firmware/main.py; run this from Outpost's source tree (pip install -e .)"
        )
    return root
