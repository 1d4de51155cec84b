#!/usr/bin/env python3
"""Bytes of flash and on air, erases, time offline and wear per sample: series beside a message per
sample (SenML in JSON and in CBOR), a file per sample, and a line appended and flushed. The section
`series` of run_bench.py; alone:

    .venv/bin/python host_tests/bench/series_bytes.py [--write]

The firmware's own encoders and outbox, over a counting chip of 16 blocks; each message is
acknowledged when the next one is stored. Full records are counted up to the last whole one: the
unused room of a series' last record is not a cost of its samples. Real series are those of
real_series.py, the others are generated here. series_stores.py measures the two stores on littlefs
under 32-bit MicroPython.

On air: PUBLISH with QoS 1 in one TCP segment (40 bytes of IPv4 and TCP) and one TLS 1.2 record (29
bytes, AES-GCM), PUBACK likewise, and the 40 bytes of a segment that acknowledges the PUBACK. The
contents of littlefs are sent as SenML JSON, a message per sample.

Offline: until the region is full, with a sample every 10 s. Years: until a block of 64 has been
erased 100,000 times, with a sample every second and even wear.

A sample of three values with the noise of a BME280 at its finest resolution takes 4.89 bytes of
flash in records of 1,016 bytes and 4.63 in records of 2,032 (0.0012 and 0.0011 erases). At 60
samples a message, a value takes 2.30 bytes on air.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import cbor2

import marked_table
import series_loss  # noqa: F401 - its fast stand-ins for portable.py
import series_writer
import size_report
from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from real_series import RealSeries, fetched, recorded
from series_samples import TOPIC, Clock
from station.telemetry import Pack

PAGE = Path(__file__).with_name("README.md")
SAMPLES = 2000
PER_MESSAGE = 60
FULL = 1016, 2032  # bytes of a record: four and two per sector
PERIOD_MS = 10_000
STEP_MS = 100
SEGMENT, TLS = 40, 29
BLOCK = 4096
ENDURANCE, SECONDS_A_YEAR = 100_000, 365.25 * 86_400
_REGIONS = (64, 256)  # blocks: 256 KiB, 1 MiB


def walk(spread: float, seed: int) -> list[int]:
    dice, value, found = random.Random(seed), 2000.0, []
    for _ in range(SAMPLES):
        value += dice.gauss(0, spread)
        found.append(round(value))
    return found


def noise(spread: float, seed: int) -> list[int]:
    dice = random.Random(seed)
    return [round(dice.gauss(2000, spread)) for _ in range(SAMPLES)]


def three(make: Callable[[int], list[int]]) -> list[tuple[int, ...]]:
    return list(zip(make(1), make(2), make(3), strict=True))


def made() -> list[RealSeries]:
    """Returns generated series, measured nowhere."""
    rows: dict[str, list] = {
        "made: climate with a BME280's noise": [
            tuple(values) for _, values in series_writer.climate(SAMPLES)
        ],
        "made: random walks, steps of 4": three(lambda seed: walk(4, seed)),
        "made: noise of 20 units": three(lambda seed: noise(20, seed)),
        "made: noise of 300 units": three(lambda seed: noise(300, seed)),
        "made: constants": [(2150, 4500, 101_325)] * SAMPLES,
        "made: constants with spikes": [
            (2150 + 3000 * (i % 37 == 0), 4500, 101_325) for i in range(SAMPLES)
        ],
    }
    return [RealSeries(name, series_writer.CLIMATE, found) for name, found in rows.items()]


def on_air(payload: int) -> int:
    body = 2 + len(TOPIC) + 2 + payload
    publish = 1 + (1 if body < 128 else 2) + body
    return SEGMENT + TLS + publish + SEGMENT + TLS + 4 + SEGMENT


@dataclass(frozen=True)
class Row:
    """One line of the table, per sample. air_per_value: of values that were present."""

    series: str
    way: str
    flash: float
    air: float
    air_per_value: float
    erases: float
    programs: float | None = None

    def offline_h(self, blocks: int) -> float:
        """Returns the hours until the blocks are full; the outbox keeps one of them free."""
        return (blocks - 1) * BLOCK / self.flash * PERIOD_MS / 3_600_000

    @property
    def years(self) -> float:
        return ENDURANCE * _REGIONS[0] / self.erases / SECONDS_A_YEAR

    def line(self) -> str:
        programs = "" if self.programs is None else f"{self.programs:.2f}"
        hours = " | ".join(_span(self.offline_h(blocks)) for blocks in _REGIONS)
        return (
            f"| {self.series} | {self.way} | {self.flash:.2f} | {self.air:.1f} | "
            f"{self.air_per_value:.2f} | {self.erases:.5f} | {programs} | {hours} | "
            f"{self.years:,.1f} |"
        )

    def as_json(self) -> dict:
        offline = {f"offline_h_{blocks}": round(self.offline_h(blocks), 2) for blocks in _REGIONS}
        return asdict(self) | offline | {"years": round(self.years, 2)}


HEAD = (
    "| series | way | flash B | air B | air B a value | erases | programs | offline, 256 KiB | "
    "1 MiB | years |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def _span(hours: float) -> str:
    return f"{hours / 24:.1f} d" if hours >= 48 else f"{hours:.1f} h"


class Run:
    """The totals of storing and releasing."""

    def __init__(self, kind: type, record_bytes: int = 512) -> None:
        self.flash = flash_in_ram(16, 256)
        self.outbox = kind(self.flash, record_bytes=record_bytes)
        self.outbox.format(b"3fa9c1d2")
        self.clock = Clock(20_413, 0)
        self.air, self.start = 0, self.used()
        self.whole = 0, self.start  # samples, and the flash used, when the last record began

    def used(self) -> int:
        """Returns the bytes of flash used, across sectors; 4,096 of them are one erase."""
        return self.outbox._sector_no * BLOCK + self.outbox._offset

    def release(self) -> None:
        while self.outbox.load(self.outbox.oldest_seq) == 0:
            self.air += on_air(self.outbox.payload_length)
            self.outbox.discard(self.outbox.loaded_seq)

    def row(self, one: RealSeries, way: str) -> Row:
        count = len(one.rows)
        values = sum(value is not None for row in one.rows for value in row)
        stored, end = self.whole if self.whole[0] else (count, self.used())
        flash = (end - self.start) / stored
        programs = self.flash.programs / count
        return Row(
            one.name, way, flash, self.air / count, self.air / values, flash / BLOCK, programs
        )


def series(one: RealSeries, per_message: int, record_bytes: int = 512) -> Run:
    run = Run(over(Outbox), record_bytes)
    columns = tuple((name.encode(), unit.encode(), e) for name, unit, e in one.columns)
    stored = Series(run.outbox, TOPIC, b"board-1", columns, step_ms=STEP_MS, max_age_s=86_400)
    jitter = random.Random(5)
    for i, row in enumerate(one.rows):
        late = jitter.randrange(16)  # of a loop; where it crosses a step, the code contains it
        run.clock.pass_ms(PERIOD_MS + late)
        seq, used = run.outbox.next_seq, run.used()
        assert stored.add(run.clock, row) == 0
        if not per_message and run.outbox.next_seq != seq:
            run.whole = i, used
        run.clock.pass_ms(-late)
        if per_message and i % per_message == per_message - 1:
            stored.close()
        run.release()
    stored.close()
    run.release()
    return run


def messages(one: RealSeries, is_cbor: bool) -> Run:
    run = Run(Outbox)
    pack = Pack(b"board-1")
    for row in one.rows:
        run.clock.pass_ms(PERIOD_MS)
        payload = _cbor(run, one, row) if is_cbor else _json(run, pack, one, row)
        assert run.outbox.append(TOPIC, payload, len(payload)) == 0
        run.release()
    return run


def _there(one: RealSeries, row: tuple) -> list[tuple[str, str, int, int]]:
    both = zip(one.columns, row, strict=True)
    return [(*column, value) for column, value in both if value is not None]


def _json(run: Run, pack: Pack, one: RealSeries, row: tuple) -> bytes:
    pack.begin(run.outbox, run.clock)
    for name, unit, exponent, value in _there(one, row):
        pack.add(name.encode(), unit.encode(), value, exponent)
    return bytes(pack.buffer[: pack.end()])


def _cbor(run: Run, one: RealSeries, row: tuple) -> bytes:
    outbox = run.outbox
    time = Decimal(run.clock.time_ms()).scaleb(-3)
    head = {-2: "board-1/", "ver": 1, "sid": "3fa9c1d2", "seq": outbox.next_seq}
    head |= {"held": outbox.oldest_seq, "boot": outbox.boot, -3: time}
    records = []
    for name, unit, exponent, value in _there(one, row):
        records.append(head | {0: name, 1: unit, 2: Decimal(value).scaleb(exponent)})
        head = {}
    return cbor2.dumps(records)


def of_series(one: RealSeries) -> list[Row]:
    ways = [
        series(one, PER_MESSAGE, FULL[0]).row(one, f"series, {PER_MESSAGE} samples a message"),
        *(series(one, 0, size).row(one, f"series, full records of {size:,} B") for size in FULL),
    ]
    if not one.name.startswith("made") or "climate" in one.name:
        ways += [
            messages(one, False).row(one, "a message each, SenML JSON"),
            messages(one, True).row(one, "a message each, SenML CBOR"),
        ]
    return ways


def on_littlefs(beside: Row) -> list[Row]:
    """beside: the messages in SenML JSON that would be sent for them. Raises ToolError."""
    return [
        Row(
            "any, a line of 32 B each", f"{one['store']}, littlefs",
            one["blocks"] * BLOCK / one["samples"], beside.air, beside.air_per_value,
            one["erases"],
        )
        for one in size_report.rows_of("series_stores")
    ]  # fmt: skip


def measured() -> list[Row]:
    """Prints the table, and returns its rows. Raises ToolError."""
    real = fetched()
    print(f"\nA sample of three values:\n\n{HEAD}")
    rows: list[Row] = []
    for one in [*real, recorded(), *made()]:
        found = of_series(one)
        rows += found
        print("\n".join(row.line() for row in found), flush=True)
    found = on_littlefs(next(row for row in rows if row.way.endswith("JSON")))
    print("\n".join(row.line() for row in found), flush=True)
    return rows + found


def section() -> list[dict]:
    return [row.as_json() for row in measured()]


def page_table(rows: list[Row]) -> str:
    """Of real series that are the same on every machine, and of the stores on littlefs; messages of
    a sample each, of the first series alone."""
    first = rows[0].series
    kept = [
        row
        for row in rows
        if not row.series.startswith(("made", "this machine"))
        and (row.series == first or "a message each" not in row.way)
    ]
    return "\n".join([HEAD, *(row.line() for row in kept)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="the table into README.md")
    args = parser.parse_args()
    rows = measured()
    if args.write:
        marked_table.write(PAGE, "series", page_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
