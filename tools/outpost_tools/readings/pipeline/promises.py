"""The column `guarantee`: which rows are of other people's messages, and the word for boards'. In
tables without it, their streams show it: a source cannot have the name of a board's stream.

Boards' rows have nothing there until they are written, so the word costs nothing on the way; nor
have rows that versions before the column wrote.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.messages.labels import GUARANTEE, STREAM


def are_foreign(rows: pa.Table) -> np.ndarray:
    """Which are of other people's messages."""
    if rows["guarantee"].null_count == rows.num_rows:
        return np.zeros(rows.num_rows, dtype=bool)
    return pc.fill_null(pc.not_equal(rows["guarantee"], GUARANTEE), False).to_numpy()


def of_boards(streams: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of these are boards' streams."""
    return pc.match_substring_regex(streams, f"^{STREAM}$")


def written(readings: pa.Table) -> pa.Table:
    """With the word for boards' rows."""
    at = readings.schema.get_field_index("guarantee")
    said = pc.fill_null(readings["guarantee"], GUARANTEE)
    return readings.set_column(at, readings.schema.field(at), said)
