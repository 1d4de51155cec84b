"""JSON for a board: settings and commands.

MicroPython's json reads the two escapes of a character above U+FFFF (an emoji in a network's name)
as two characters that cannot be encoded in UTF-8. So characters are written directly, not escaped.
"""

from __future__ import annotations

import json
from typing import Any


def encoded(value: Any, **layout: Any) -> bytes:
    """layout: further arguments of json.dumps()."""
    # bytes of a command line that are not UTF-8 are lone surrogates: these stay escapes
    return json.dumps(value, ensure_ascii=False, **layout).encode(errors="backslashreplace")
