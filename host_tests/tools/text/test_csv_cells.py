# cpython-only: reads the desktop tools
"""Cells of CSV files run nothing in a spreadsheet, and the original comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.boards.outbox import readings
from outpost_tools.text import csv_cells

RUNS = tuple("=+-@\t\r")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"), ("+a", "'+a"), ("-x", "'-x"), ("@SUM(A1)", "'@SUM(A1)"), ("\tx", "'\tx"),
        ("\rx", "'\rx"), ("-5", "-5"), ("+1.5e-3", "+1.5e-3"), ("-5\n", "'-5\n"), ("-5+1", "'-5+1"),
        ("'=1", "''=1"), ("'x", "'x"), ("temperature", "temperature"), ("", ""),
    ],
)  # fmt: skip
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(text, written):
    assert csv_cells.guarded(text) == written
    assert csv_cells.original(written) == text


@given(st.text("'=+-@\t\r\n1.ea", max_size=6))
def test_every_text_comes_back(text):
    written = csv_cells.guarded(text)
    assert csv_cells.original(written) == text
    assert not written.startswith(RUNS) or (written == text and float(text) is not None)


def test_the_readings_of_an_image_run_nothing():
    row = ("", "-x", "=1+1", -21.5, "", "0123abcd", 7, 0, 1, "")
    (line,) = readings.csv_text([row]).splitlines()[1:]
    assert line == ",'-x,'=1+1,-21.5,,0123abcd,7,0,1,"
