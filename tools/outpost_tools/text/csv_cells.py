"""Cells of CSV files that a spreadsheet would run as a formula.

Law: a text that begins with = + - @ tab or CR, and is not a number, gets an apostrophe before it.
So does a text that begins with apostrophes followed by such a character. original() removes one
apostrophe and so restores the text. Pure.
"""

from __future__ import annotations

import re

# regular expressions for both Python and Arrow (RE2)
RUNS = r"\A'*[=+\-@\t\r]"
NUMBER = r"\A[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"
GUARDED = r"\A'+[=+\-@\t\r]"
_RUNS, _GUARDED = re.compile(RUNS), re.compile(GUARDED)
_NUMBER = re.compile(NUMBER.replace(r"\z", r"\Z"))


def guarded(text: str) -> str:
    return f"'{text}" if _RUNS.match(text) and not _NUMBER.match(text) else text


def original(text: str) -> str:
    return text[1:] if _GUARDED.match(text) else text
