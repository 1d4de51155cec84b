"""JSON for a board: settings and commands.

MicroPython's json reads the two escapes of a character above U+FFFF, an emoji in the name of a
network, as two characters that no UTF-8 has. So characters go as they are, not as escapes.
"""

from __future__ import annotations

import json
from typing import Any


def encoded(value: Any, **layout: Any) -> bytes:
    """layout: further arguments of json.dumps()."""
    # bytes of a command line that are no UTF-8 are lone surrogates: these stay escapes
    return json.dumps(value, ensure_ascii=False, **layout).encode(errors="backslashreplace")
