"""Cells of CSV files that a spreadsheet would run as a formula.

Law: a text that begins with = + - @ tab or CR, and is no number, gets an apostrophe before it; so
does one that begins with apostrophes before such a character. original() takes one away: what was
written comes back. Pure.
"""

from __future__ import annotations

import re

# for Python and for Arrow (RE2), at the beginning of a text
RUNS = r"\A'*[=+\-@\t\r]"
NUMBER = r"\A[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"
GUARDED = r"\A'+[=+\-@\t\r]"
_RUNS, _GUARDED = re.compile(RUNS), re.compile(GUARDED)
_NUMBER = re.compile(NUMBER.replace(r"\z", r"\Z"))


def guarded(text: str) -> str:
    return f"'{text}" if _RUNS.match(text) and not _NUMBER.match(text) else text


def original(text: str) -> str:
    return text[1:] if _GUARDED.match(text) else text
