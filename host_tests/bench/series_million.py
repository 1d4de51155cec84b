#!/usr/bin/env python3
"""A million samples of three values as series, through the real collector over mosquitto and the
pipeline into silver; beside the same readings as separate messages. `make bench-series` runs this.

    .venv/bin/python host_tests/bench/series_million.py [--samples 1000000] [--singles 100000]
        [--engine local]

Each way: mosquitto holds the messages before the collector starts (collector_rate.py). Then the
segments that it sealed are decoded to Arrow, by one process and by two (pipeline_rates.py). Then
`outpost pipeline run` runs on two threads. Silver is read back: its rows are counted, and the
integers of each column summed; anything other than what was sent ends the program with status 1.

A reading is a value. If the machine has other work, compare what a CPU second achieves.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import pyarrow.compute as pc

import collector_rate
import outpost_command
import pipeline_rates
import process_tree
import series_writer
from outpost_tools.loopback.broker import Broker
from outpost_tools.readings.pipeline import tables

PER_MESSAGE = 60
BOARDS = 100
PERIOD_MS = 10_000
AGO_MS = 20 * series_writer.DAY_MS
COLUMNS = series_writer.CLIMATE
_SPREADS = (1, 6, 2)  # of a BME280's values from sample to sample
_STREAM = "3fa9c1d2"
_LIMIT_S, _MEMORY_BYTES = 1800, 12 << 30  # of the pipeline


@dataclass
class Sent:
    """What was sent: messages, readings, and the sum of each column's integers."""

    messages: int = 0
    readings: int = 0
    sums: Counter = field(default_factory=Counter)

    def add(self, rows: list[series_writer.Row]) -> None:
        self.messages += 1
        self.readings += len(rows) * len(COLUMNS)
        for place, (name, _, _) in enumerate(COLUMNS):
            self.sums[name] += sum(values[place] for _, values in rows)


class Climate:
    """Rows of each board, in order."""

    def __init__(self) -> None:
        self._dice = random.Random(1)
        self._values = [[2150, 4500, 101_325] for _ in range(BOARDS)]

    def rows(self, board: int, count: int) -> list[series_writer.Row]:
        values, found = self._values[board], []
        for place in range(count):
            for column, spread in enumerate(_SPREADS):
                values[column] += self._dice.randint(-spread, spread)
            found.append((place * PERIOD_MS, list(values)))
        return found


def series(samples: int, start_ms: int, sent: Sent) -> Iterator[tuple[bytes, bytes]]:
    climate = Climate()
    for number in range(-(-samples // PER_MESSAGE)):
        board, seq = number % BOARDS, number // BOARDS
        rows = climate.rows(board, min(PER_MESSAGE, samples - number * PER_MESSAGE))
        sent.add(rows)
        data = series_writer.payload(
            rows, device=f"board-{board}", stream=_STREAM, seq=seq, held=seq, step_ms=100,
            start_ms=start_ms + seq * PER_MESSAGE * PERIOD_MS,
        )  # fmt: skip
        yield f"outpost/board-{board}/data".encode(), data


def singles(samples: int, start_ms: int, sent: Sent) -> Iterator[tuple[bytes, bytes]]:
    """Yields messages as station.telemetry.Pack writes them."""
    climate = Climate()
    for number in range(samples):
        board, seq = number % BOARDS, number // BOARDS
        rows = climate.rows(board, 1)
        sent.add(rows)
        seconds, ms = divmod(start_ms + seq * PERIOD_MS, 1000)
        head = f'"bn":"board-{board}/","ver":1,"sid":"{_STREAM}","seq":{seq},"held":{seq},"boot":3'
        texts = [
            f'"n":"{name}","u":"{unit}","v":{_decimal(value, exponent)}'
            for (name, unit, exponent), value in zip(COLUMNS, rows[0][1], strict=True)
        ]
        text = "[{" + head + f',"bt":{seconds}.{ms:03d},' + "},{".join(texts) + "}]"
        yield f"outpost/board-{board}/data".encode(), text.encode()


def _decimal(value: int, exponent: int) -> str:
    return f"{value // 100}.{value % 100:02d}" if exponent == -2 else str(value)


def collected(folder: Path, make, samples: int) -> tuple[Sent, dict]:
    """Afterwards folder/log has the collector's segments."""
    sent, start_ms = Sent(), int(time.time() * 1000) - AGO_MS
    with Broker("mosquitto", folder / "broker") as broker:
        args = collector_rate.arguments(["--devices", str(BOARDS)])
        row = collector_rate.through(folder, broker, make(samples, start_ms, sent), args)
    if row["stored"] != sent.messages:
        sys.exit(f"series_million: {sent.messages} messages sent, {row['stored']} stored")
    return sent, row


def decoded(log: Path, readings: int) -> dict[int, tuple[float, float]]:
    """Returns, by processes: readings/s by the clock, and per CPU second; each process takes
    segments."""
    segments = [str(path) for path in sorted(log.glob("*/*.seg"))]
    rows = sum(map(pipeline_rates.fast, segments))
    if rows != readings:
        sys.exit(f"series_million: {readings} readings in the segments, {rows} decoded")
    # Each segment is read several times, so that two processes have work for some seconds.
    times = max(2, 6_000_000 // readings)
    found = {}
    for processes in (1, 2):
        paths_ = segments * (times * processes)
        found[processes] = pipeline_rates.rate(pipeline_rates.fast, paths_, processes)
    return found


def through_pipeline(folder: Path, engine: str) -> tuple[float, float]:
    """Returns (seconds, CPU seconds of all its processes) of `outpost pipeline run` on folder/log
    into folder/tables."""
    command = outpost_command.line("pipeline", "run", "--engine", engine)
    command += ["--master", "local[2]"] if engine == "spark" else []
    command += ["--log", str(folder / "log"), "--tables", str(folder / "tables")]
    said = folder / "pipeline.txt"
    done = process_tree.run(command, said, limit_s=_LIMIT_S, memory_limit=_MEMORY_BYTES)
    if done.status != "ok":
        sys.exit(f"series_million: the pipeline: {done.status}\n{said.read_text()[-2000:]}")
    return done.wall_s, done.cpu_s


def check(place: Path, sent: Sent) -> None:
    """Check that silver has what was sent: the number of rows, and the sum of each column's
    integers."""
    rows = tables.read_table(place, "readings", ["name", "value"])
    if rows.num_rows != sent.readings:
        sys.exit(f"series_million: {sent.readings} readings sent, {rows.num_rows} in silver")
    for name, _, exponent in COLUMNS:
        values = rows["value"].filter(pc.equal(rows["name"], name))
        integers = pc.round(pc.multiply(values, 10.0**-exponent)).cast("int64")
        if (found := pc.sum(integers).as_py()) != sent.sums[name]:
            sys.exit(f"series_million: {name}: sum {sent.sums[name]} sent, {found} in silver")
    if tables.exists(place, "quarantine") and tables.read_table(place, "quarantine").num_rows:
        sys.exit("series_million: messages went to quarantine")


def measure(name: str, make, samples: int, engine: str) -> dict:
    with tempfile.TemporaryDirectory(prefix="series-million-") as place:
        folder = Path(place)
        sent, collector = collected(folder, make, samples)
        size = sum(path.stat().st_size for path in (folder / "log").glob("*/*"))
        rates = decoded(folder / "log", sent.readings)
        seconds, cpu_s = through_pipeline(folder, engine)
        check(folder / "tables", sent)
    per_message = sent.readings / sent.messages
    return {
        "way": name, "samples": samples, "messages": sent.messages, "readings": sent.readings,
        "log_bytes_a_reading": round(size / sent.readings, 2),
        "collector_readings_s": round(collector["rate"] * per_message),
        "collector_readings_cpu_s": round(collector["rate_per_cpu_s"] * per_message),
        "decoded_s": {count: round(one[0]) for count, one in rates.items()},
        "decoded_cpu_s": {count: round(one[1]) for count, one in rates.items()},
        "pipeline_s": round(seconds, 1), "pipeline_cpu_s": round(cpu_s, 1),
        "exact": True,
    }  # fmt: skip


def show(row: dict) -> None:
    messages = f"{row['messages']:,} messages, {row['readings']:,} readings"
    size = f"{row['log_bytes_a_reading']} bytes of log a reading"
    print(f"{row['way']}: {row['samples']:,} samples of three, {messages}, {size}")
    lines = {"collector": (row["collector_readings_s"], row["collector_readings_cpu_s"])}
    for count, rate in row["decoded_s"].items():
        lines[f"to Arrow, {count} process(es)"] = rate, row["decoded_cpu_s"][count]
    for what, (rate, of_cpu) in lines.items():
        print(f"  {what:<24}{rate:>12,} readings/s, {of_cpu:>10,} in a CPU second")
    spent = f"{row['pipeline_s']} s, {row['pipeline_cpu_s']} CPU s with its start"
    print(f"  to silver and gold: {spent}; exact: rows, and sums of the integers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000_000, help="as series: %(default)s")
    parser.add_argument(
        "--singles", type=int, default=100_000, help="as messages of their own: %(default)s"
    )
    parser.add_argument(
        "--json", type=Path, default=paths.REPOSITORY / "build" / "series_million.json"
    )
    parser.add_argument(
        "--engine", choices=("spark", "local"), default="spark", help="%(default)s, on two threads"
    )
    args = parser.parse_args()
    print(f"processors {os.cpu_count()}, load {os.getloadavg()[0]:.1f}")
    rows = []
    for name, make, samples in (
        ("series of 60", series, args.samples), ("a message each", singles, args.singles)
    ):  # fmt: skip
        if samples:
            rows.append(measure(name, make, samples, args.engine))
            show(rows[-1])
    args.json.parent.mkdir(exist_ok=True)
    args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
