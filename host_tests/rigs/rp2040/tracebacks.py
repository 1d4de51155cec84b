"""Compares a traceback from a board with the sources: file, line and function."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Frame:
    """file: of the source, from the folder that holds its package."""

    file: str
    line: int
    function: str


def source_path(shown: str) -> str:
    """The path of what a traceback shows: `outpost.client` of a module, `main.py` as it is."""
    return shown if shown.endswith(".py") else shown.replace(".", "/") + ".py"


def frames(text: str) -> list[Frame]:
    """Returns the frames of the last traceback in the text, outermost first."""
    last = text.replace("\r", "").rpartition("Traceback (most recent call last):")[2]
    return [
        Frame(source_path(shown), int(line), function)
        for shown, line, function in _FRAME.findall(last)
    ]


def misplaced(frame: Frame, roots: list[Path]) -> str:
    """Returns what is wrong; "" if a folder has that file and the line is in that function."""
    paths = [root / frame.file for root in roots if (root / frame.file).is_file()]
    if not paths:
        return f"{frame}: no such file"
    tree = ast.parse(paths[0].read_text(encoding="utf-8"))
    if frame.function == "<module>":
        return (
            ""
            if frame.line <= len(paths[0].read_text(encoding="utf-8").splitlines())
            else f"{frame}: no such line"
        )
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name == frame.function
            and node.lineno <= frame.line <= node.end_lineno
        ):
            return ""
    return f"{frame}: {paths[0]} has no such function there"
