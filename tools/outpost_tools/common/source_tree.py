"""Where firmware, boards and pages are: in a checkout of the repository, or inside the installed
package, which holds them in the same folders."""

from __future__ import annotations

from pathlib import Path

from outpost_tools.common.errors import ToolError

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]
_INSTALLED = _PACKAGE / "tree"


def is_checkout() -> bool:
    return (_CHECKOUT / "firmware" / "main.py").is_file()


def repository() -> Path:
    """The folder with firmware/, boards/ and tools/. Raises ToolError where it is nowhere."""
    root = _CHECKOUT if is_checkout() else _INSTALLED
    if not (root / "firmware" / "main.py").is_file():
        raise ToolError(
            f"{root}: no firmware/main.py; this installation is broken: install it anew"
        )
    return root
