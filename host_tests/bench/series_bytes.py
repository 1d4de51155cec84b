#!/usr/bin/env python3
"""Bytes of flash and on air, erases and programs a sample: series beside a message a sample, SenML
in JSON and in CBOR. Rows of three values; the firmware's own encoders and outbox, over a counting
chip of 16 blocks; each message is acknowledged when the next one is stored.

    .venv/bin/python host_tests/bench/series_bytes.py

On air: PUBLISH with QoS 1 in one TCP segment (40 bytes of IPv4 and TCP) and one TLS 1.2 record (29
bytes, AES-GCM), PUBACK likewise, and the 40 bytes of a segment that acknowledges the PUBACK. A
series' message has 60 samples.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import cbor2

import series_loss  # noqa: F401 - its fast stand-ins for portable.py
import series_writer
from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from series_samples import TOPIC, Clock
from station.telemetry import Pack

SAMPLES = 4000
PER_MESSAGE = 60
PERIOD_MS = 10_000
STEP_MS = 100
SEGMENT, TLS = 40, 29
COLUMNS = tuple((n.encode(), u.encode(), e) for n, u, e in series_writer.CLIMATE)


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


SERIES = {
    "climate (BME280's noise)": [tuple(v) for _, v in series_writer.climate(SAMPLES)],
    "slow sensors (steps of 0.3)": three(lambda seed: walk(0.3, seed)),
    "moving sensors (steps of 4)": three(lambda seed: walk(4, seed)),
    "noise of 20 units": three(lambda seed: noise(20, seed)),
    "noise of 300 units": three(lambda seed: noise(300, seed)),
    "constants": [(2150, 4500, 101_325)] * SAMPLES,
    "constants with spikes": [(2150 + 3000 * (i % 37 == 0), 4500, 101_325) for i in range(SAMPLES)],
}


def on_air(payload: int) -> int:
    body = 2 + len(TOPIC) + 2 + payload
    publish = 1 + (1 if body < 128 else 2) + body
    return SEGMENT + TLS + publish + SEGMENT + TLS + 4 + SEGMENT


class Run:
    """What storing and releasing came to."""

    def __init__(self, kind: type, record_bytes: int = 512) -> None:
        self.flash = flash_in_ram(16, 256)
        self.outbox = kind(self.flash, record_bytes=record_bytes)
        self.outbox.format(b"3fa9c1d2")
        self.clock = Clock(20_413, 0)
        self.air, self.start = 0, self.used()

    def used(self) -> int:
        """Bytes of flash, from sector to sector; 4,096 of them are one erase."""
        return self.outbox._sector_no * 4096 + self.outbox._offset

    def release(self) -> None:
        while self.outbox.load(self.outbox.oldest_seq) == 0:
            self.air += on_air(self.outbox.payload_length)
            self.outbox.discard(self.outbox.loaded_seq)

    def line(self, name: str) -> str:
        flash = (self.used() - self.start) / SAMPLES
        air, programs = self.air / SAMPLES, self.flash.programs / SAMPLES
        figures = f"{flash:.2f} | {air:.1f} | {air / 3:.2f} | {flash / 4096:.5f} | {programs:.2f}"
        return f"| {name} | {figures} |"


def series(rows: list[tuple[int, ...]], per_message: int, record_bytes: int = 512) -> Run:
    run = Run(over(Outbox), record_bytes)
    one = Series(run.outbox, TOPIC, b"board-1", COLUMNS, step_ms=STEP_MS, max_age_s=86_400)
    jitter = random.Random(5)
    for i, row in enumerate(rows):
        late = jitter.randrange(16)  # of a loop; where it crosses a step, the code says so
        run.clock.pass_ms(PERIOD_MS + late)
        assert one.add(run.clock, row) == 0
        run.clock.pass_ms(-late)
        if per_message and i % per_message == per_message - 1:
            one.close()
        run.release()
    one.close()
    run.release()
    return run


def messages(rows: list[tuple[int, ...]], is_cbor: bool) -> Run:
    run = Run(Outbox)
    pack = Pack(b"board-1")
    for row in rows:
        run.clock.pass_ms(PERIOD_MS)
        pack.begin(run.outbox, run.clock)
        for (name, unit, exponent), value in zip(COLUMNS, row, strict=True):
            pack.add(name, unit, value, exponent)
        payload = bytes(pack.buffer[: pack.end()])
        if is_cbor:
            payload = cbor(run, row)
        assert run.outbox.append(TOPIC, payload, len(payload)) == 0
        run.release()
    return run


def cbor(run: Run, row: tuple[int, ...]) -> bytes:
    outbox = run.outbox
    time = Decimal(run.clock.time_ms()).scaleb(-3)
    head = {-2: "board-1/", "ver": 1, "sid": "3fa9c1d2", "seq": outbox.next_seq}
    records = [head | {"held": outbox.oldest_seq, "boot": outbox.boot, -3: time}, {}, {}]
    for record, (name, unit, exponent), value in zip(records, COLUMNS, row, strict=True):
        record |= {0: name.decode(), 1: unit.decode(), 2: Decimal(value).scaleb(exponent)}
    return cbor2.dumps(records)


def main() -> int:
    print("| samples of three values | flash, B | air, B | air, B a value | erases | programs |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, rows in SERIES.items():
        print(series(rows, 0).line(f"series, {name}, full records of 512 bytes"), flush=True)
        print(series(rows, 0, 1016).line(f"series, {name}, full records of 1,016 bytes"))
        print(series(rows, PER_MESSAGE).line(f"series, {name}, 60 a message"), flush=True)
    rows = SERIES["climate (BME280's noise)"]
    print(messages(rows, False).line("a message each, SenML JSON, climate"))
    print(messages(rows, True).line("a message each, SenML CBOR, climate"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
