"""Which copy of each of other people's messages counts: silver's rule
(readings/pipeline/foreign_marks.py),
in the two passes over the log. Of the copies with one identity it is the one received first.

Memory in the first pass: 40 bytes for each message that has an identity; then 16 for each copy that
does not count.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from outpost_tools.readings.export.copies import OFFSET_BITS
from outpost_tools.readings.pipeline import contents, foreign_rows, schemas

_ORDER = ("key", "received", "collector", "segment", "offset")
_COPY = np.dtype([(name, "u8" if name == "key" else "i8") for name in _ORDER])
_HEAD = [*schemas.KEY, "seq", "guarantee", *schemas.PLACE]


class ForeignCopies:
    """Call note() with all rows, settle(), then keep(). Rows are those of whole messages of one
    collector."""

    def __init__(self, collectors: list[str]) -> None:
        self._collectors = collectors
        self._noted: list[np.ndarray] = []
        self._lost: dict[str, np.ndarray] = {}  # places of each collector, sorted
        self.messages = self.repeats = 0

    def note(self, rows: pa.Table) -> None:
        heads = rows.filter(pa.array(rows["record"].to_numpy() == 0)).select(_HEAD)
        self.messages += heads.num_rows
        heads = heads.filter(pa.array(foreign_rows.identified(heads)))
        if not heads.num_rows:
            return
        copies = np.zeros(heads.num_rows, _COPY)
        copies["key"] = contents.keys(heads)[1]
        copies["received"] = heads["received"].cast(pa.int64()).to_numpy()
        copies["collector"] = self._collectors.index(heads["collector"][0].as_py())
        copies["segment"], copies["offset"] = heads["segment"], heads["offset"]
        self._noted.append(copies)

    def settle(self) -> None:
        copies = np.concatenate([np.zeros(0, _COPY), *self._noted])
        self._noted = []
        copies = copies[np.lexsort([copies[name] for name in reversed(_ORDER)])]
        lost = copies[1:][copies["key"][1:] == copies["key"][:-1]]
        self.repeats = len(lost)
        for code, name in enumerate(self._collectors):
            mine = lost[lost["collector"] == code]
            self._lost[name] = np.sort((mine["segment"] << OFFSET_BITS) + mine["offset"])

    def keep(self, rows: pa.Table) -> np.ndarray:
        """Which rows count."""
        if not rows.num_rows:
            return np.zeros(0, dtype=bool)
        places = (rows["segment"].to_numpy() << OFFSET_BITS) + rows["offset"].to_numpy()
        return ~np.isin(places, self._lost[rows["collector"][0].as_py()])
