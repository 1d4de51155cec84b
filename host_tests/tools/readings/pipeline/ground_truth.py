"""Messages whose right tables are known: what a board sent, what the collectors logged, what silver
must hold.

The truth is kept apart from the pipeline's decoder: it is written from the same fields that the
payload is made of.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from outpost_tools.log import segments
from outpost_tools.store.at import Place

SEED = int(os.environ.get("SEED", "20251121"))
START_MS = 1_763_694_000_000  # 2025-11-21T03:00:00Z
WEEK_MS = 7 * 24 * 3600 * 1000


def payload(
    device: str, stream: str, seq: int, *, held: int = 0, boot: int = 1, time_ms: int | None = None
) -> bytes:
    head = {"bn": f"{device}/", "sid": stream, "seq": seq, "boot": boot, "held": held, "ver": 1}
    head |= {"up": seq / 20} if time_ms is None else {"bt": time_ms / 1000}
    head |= {"n": "load", "v": seq % 50 / 4}
    return json.dumps(
        [head, {"n": "memory", "u": "KiB", "v": 1000 + seq}], separators=(",", ":")
    ).encode()


@dataclass
class Board:
    """One stream of one device. `clock_ms` None: its clock is never set."""

    device: str
    stream: str
    clock_ms: int | None = START_MS
    boot: int = 1

    def send(self, seq: int, held: int = 0) -> bytes:
        time_ms = None if self.clock_ms is None else self.clock_ms + 50 * seq
        return payload(self.device, self.stream, seq, held=held, boot=self.boot, time_ms=time_ms)

    def rows(self, seq: int) -> list[tuple]:
        """(device, stream, seq, record, boot, name, unit, value, time in ms or None, uptime in s or
        None).
        """
        time_ms = None if self.clock_ms is None else self.clock_ms + 50 * seq
        uptime_s = seq / 20 if self.clock_ms is None else None
        head = (self.device, self.stream, seq)
        first = (*head, 0, self.boot, "load", None, seq % 50 / 4, time_ms, uptime_s)
        return [first, (*head, 1, self.boot, "memory", "KiB", 1000.0 + seq, time_ms, uptime_s)]


@dataclass
class Log:
    """Collectors' logs being written, and the truth about them."""

    directory: Path
    seed: int
    rows: set[tuple] = field(default_factory=set)
    copies: int = 0
    refused: list[tuple[str, bytes]] = field(default_factory=list)
    random: random.Random = field(init=False)
    _now_ms: int = START_MS + WEEK_MS
    _waiting: list[tuple[str, bytes, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def message(self, board: Board, seq: int, held: int = 0) -> None:
        self._waiting.append((board.device, board.send(seq, held), False))
        self.rows.update(board.rows(seq))
        self.copies += 1

    def refuse(self, device: str, content: bytes, reason: str, *, retain: bool = False) -> None:
        """A frame that has to end in quarantine with `reason`."""
        self._waiting.append((device, content, retain))
        self.refused.append((reason, content[: segments.MAX_PAYLOAD_BYTES]))

    def repeat_some(self, part: float) -> None:
        """Duplicates of good messages, anywhere after their first copy."""
        good = [item for item in self._waiting if b'"ver":1' in item[1] and not item[2]]
        again = self.random.sample(good, int(len(good) * part))
        self._waiting += again
        self.copies += len(again)

    def disorder(self, reach: int) -> None:
        """Move every waiting frame by up to `reach` places."""
        keys = [index + self.random.uniform(0, reach) for index in range(len(self._waiting))]
        self._waiting = [
            item
            for _, item in sorted(zip(keys, self._waiting, strict=True), key=lambda pair: pair[0])
        ]

    def seal(self, collectors: list[str], per_segment: int) -> None:
        """Write what waits: each frame to one collector, `per_segment` frames to a segment."""
        writers = {name: segments.SegmentWriter(self.directory / name) for name in collectors}
        counts = dict.fromkeys(collectors, 0)
        for device, content, retain in self._waiting:
            name = self.random.choice(collectors)
            self._now_ms += 1
            topic = f"outpost/{device}/data".encode()
            writers[name].append(segments.encode_frame(self._now_ms, topic, content, retain=retain))
            counts[name] += 1
            if counts[name] % per_segment == 0:
                writers[name].seal()
        for writer in writers.values():
            writer.seal()
        self._waiting = []


def silver(tables_dir: Place) -> list[tuple]:
    """The rows of `readings` in the form of the truth."""
    # late: a test must be able to skip where there is no pyarrow
    from outpost_tools.readings.pipeline import tables

    columns = [
        "device",
        "stream",
        "seq",
        "record",
        "boot",
        "name",
        "unit",
        "value",
        "time",
        "uptime_s",
    ]
    rows = [
        list(row.values()) for row in tables.read_table(tables_dir, "readings", columns).to_pylist()
    ]
    for row in rows:
        row[8] = row[8] and round(row[8].timestamp() * 1000)
    return [tuple(row) for row in rows]


def assert_exact(log: Log, tables_dir: Place) -> None:
    rows = silver(tables_dir)
    assert len(rows) == len(set(rows)), f"duplicates; SEED={log.seed}"
    assert set(rows) == log.rows, f"SEED={log.seed}"
