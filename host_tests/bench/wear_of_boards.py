#!/usr/bin/env python3
"""What a message, and a sample of a series, cost the flash of each board: counted on a chip with
the board's own geometry.

    .venv/bin/python host_tests/bench/wear_of_boards.py

Messages of 24 + 64 bytes, or samples of three values in records of 1,016 bytes, acknowledged one by
one. Programs: calls to the driver; bytes: what it is given, which is whole pages with FF around the
record. Samples are counted up to the last whole record. Years and time offline: a message a second,
64 blocks, 100,000 erases of each. The table of firmware/WEAR.md is from here (`bench_readme.py`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import series_loss  # noqa: F401 - its fast stand-ins for portable.py
import series_writer
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from outpost_tools.boards.outbox import wear
from series_samples import TOPIC, Clock
from support import esp32_board, partition, rp2_board
from virtual.chip import Chip

BLOCKS, MESSAGES, SAMPLES = 8, 2_000, 4_000
LOAD = 24, 64  # bytes of topic and payload
RECORD_BYTES = 1016
PERIOD_MS = 10_000
YEARS_BLOCKS = 64


@dataclass(frozen=True)
class Geometry:
    """has_series: its flash takes several programs in the space of `align`."""

    boards: str
    align: int
    page_bytes: int
    has_series: bool = True


GEOMETRIES = (
    Geometry("Pico W, Pico 2 W", rp2_board._ALIGN, rp2_board._PAGE_BYTES),
    Geometry("Pico W, Pico 2 W: made before, a page a message", 256, 256),
    Geometry("ESP32, S3, C3: pinned blocks", esp32_board._PIN_ALIGN, esp32_board._PAGE_BYTES),
    Geometry("ESP32, S3, C3: partition", partition._PLAIN_ALIGN, partition._ENCRYPTED_ALIGN),
    Geometry(
        "ESP32, S3, C3: encrypted partition",
        partition._ENCRYPTED_ALIGN,
        partition._ENCRYPTED_ALIGN,
        has_series=False,
    ),
)


@dataclass(frozen=True)
class Cost:
    """For each message or sample."""

    erases: float
    programs: float
    sent_bytes: float


def _of(chip: Chip, before: tuple[int, int, int], count: int) -> Cost:
    after = chip.erases, chip.programs, chip.bytes_programmed
    return Cost(*[(now - then) / count for now, then in zip(after, before, strict=True)])


def messages(geometry: Geometry, topic_bytes: int = LOAD[0], payload_bytes: int = LOAD[1]) -> Cost:
    chip = Chip(BLOCKS, geometry.page_bytes)
    outbox = Outbox(chip, 512, geometry.align, geometry.page_bytes)
    assert outbox.format(b"01234567") == 0
    before = chip.erases, chip.programs, chip.bytes_programmed
    for _ in range(MESSAGES):
        assert outbox.append(bytes(topic_bytes), bytes(payload_bytes), payload_bytes) == 0
        outbox.discard(outbox.next_seq - 1)
    return _of(chip, before, MESSAGES)


def samples(geometry: Geometry) -> Cost:
    chip = Chip(BLOCKS, geometry.page_bytes)
    outbox = over(Outbox, reprograms=True)(chip, RECORD_BYTES, geometry.align, geometry.page_bytes)
    assert outbox.format(b"01234567") == 0
    clock = Clock(20_413, 0)
    columns = tuple((name.encode(), unit.encode(), e) for name, unit, e in series_writer.CLIMATE)
    stored = Series(outbox, TOPIC, b"board-1", columns, step_ms=100, max_age_s=86_400)
    before = chip.erases, chip.programs, chip.bytes_programmed
    whole = Cost(0, 0, 0)
    for count, (_, values) in enumerate(series_writer.climate(SAMPLES)):
        seq, head = outbox.next_seq, outbox._sector_no
        so_far = _of(chip, before, count) if count else whole
        clock.pass_ms(PERIOD_MS)
        assert stored.add(clock, values) == 0
        while outbox.load(outbox.oldest_seq) == 0:
            outbox.discard(outbox.loaded_seq)
        if outbox._sector_no != head and seq:  # a sector was opened: those before it are full
            whole = so_far
    return whole


def table() -> str:
    lines = [
        "| board | align, page | message: erases | programs | bytes | sample: erases | programs | "
        "bytes | years | held offline |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in GEOMETRIES:
        message = messages(one)
        sample = samples(one) if one.has_series else None
        load = wear.Load(YEARS_BLOCKS, 1.0, *LOAD, one.align)
        years = YEARS_BLOCKS * wear.ENDURANCE / message.erases / wear.SECONDS_A_YEAR
        cells = [
            f"{one.align}, {one.page_bytes}",
            f"{message.erases:.4f}", f"{message.programs:.2f}", f"{message.sent_bytes:.0f}",
            f"{sample.erases:.5f}" if sample else "–",
            f"{sample.programs:.2f}" if sample else "–",
            f"{sample.sent_bytes:.0f}" if sample else "–",
            wear.rounded(years), wear.span(load.messages_held),
        ]  # fmt: skip
        lines.append(f"| {one.boards} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
