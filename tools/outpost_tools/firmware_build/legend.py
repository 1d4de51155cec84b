"""names.txt: what the short names of a compact build stand for; and a traceback read back with it.

file       client      abs     client.py
global     session     all     elapsed_ms
attribute  Client      any     _receive          the families (by their first class) that have it
function   client      any     Client._receive   every function, for tracebacks
"""

from __future__ import annotations

import re
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.firmware_build.compact import Entry

FILE_NAME = "names.txt"
_HEAD = "# What the names of this build stand for: kind, where, short, long. For tracebacks: outpost build --explain names.txt\n"
_FRAME = re.compile(r'File "([^"]+)", line \d+, in (\S+)')
_MISSING = re.compile(r"(object has no attribute|can't set attribute|name) '([^']+)'")


def text(entries: list[Entry]) -> str:
    return _HEAD + "".join(f"{e.kind}\t{e.place}\t{e.short}\t{e.long}\n" for e in entries)


def load(path: Path) -> list[Entry]:
    """Raises ToolError."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        return [Entry(*line.split("\t")) for line in lines]
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}; `outpost build` writes it beside the .mpy files") from None
    except TypeError:
        raise ToolError(f"{path}: is not a names.txt of `outpost build`") from None


def explain(line: str, entries: list[Entry]) -> str:
    """A line of a traceback with the long names; whatever else as it is. Two candidates are given as `one|other`."""

    def frame(match: re.Match) -> str:
        module = next((e.place for e in entries if e.kind == "file" and e.short == match[1]), None)
        if module is None:
            return match[0]
        names = [e.long for e in entries if e.kind == "function" and e.place == module and e.short == match[2]]
        return f'File "{module}.py", in {"|".join(names) or match[2]}'

    def missing(match: re.Match) -> str:
        kind = "global" if match[1] == "name" else "attribute"
        names = sorted({e.long for e in entries if e.kind == kind and e.short == match[2]})
        return f"{match[1]} '{'|'.join(names) or match[2]}'"

    return _MISSING.sub(missing, _FRAME.sub(frame, line))
