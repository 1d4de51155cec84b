"""Memory of `outpost pipeline run --continuous` over time, while messages keep coming.

    python host_tests/bench/pipeline_memory.py [--minutes 15] [--rate 500] [--interval 10]

A log grows by `--rate` messages per second, of three readings each from 200 boards, 1 % of them
twice. The pipeline takes them in, deletes consumed segments, and is compacted every five minutes,
as a timer would do. Prints a line per minute: resident MiB of the driver, its JVM and the Python
workers. At the end SIGTERM stops it, the messages are counted, and the slope of the second half is
printed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

import numpy as np  # noqa: E402
import psutil  # noqa: E402

import pipeline_load  # noqa: E402
from outpost_tools.common import children  # noqa: E402
from outpost_tools.log import segments  # noqa: E402
from outpost_tools.pipeline import tables, upkeep  # noqa: E402

_DEVICES, _TWICE = 200, 0.01
_SEAL_S, _SAMPLE_S, _COMPACT_S = 5, 5, 300
_COUNT = 1 << 40  # of messages that traffic() makes: practically endless


class Sender:
    """Appends what is due, and seals every few seconds."""

    def __init__(self, log: Path, rate: int) -> None:
        self._writer = segments.SegmentWriter(log / "collector-1")
        self._traffic = pipeline_load.traffic(_COUNT, devices=_DEVICES, duplicates=_TWICE)
        self._rate, self._begin, self._sealed = rate, time.monotonic(), time.monotonic()
        self.sent = self.distinct = 0

    def step(self) -> None:
        due = int((time.monotonic() - self._begin) * self._rate)
        while self.sent < due:
            _, device, seq, again = next(self._traffic)
            name = f"board-{device}"
            data = pipeline_load.payload(name, f"{device:08x}", seq, held=max(0, seq - 50))
            frame = segments.encode_frame(
                pipeline_load.START_S * 1000 + self.sent, f"outpost/{name}/data".encode(), data
            )
            self._writer.append(frame)
            self.sent += 1
            self.distinct += not again
        self._writer.commit()
        if time.monotonic() - self._sealed > _SEAL_S:
            self.seal()

    def seal(self) -> None:
        self._writer.seal()
        self._sealed = time.monotonic()


def start(log: Path, tables_dir: Path, interval_s: float, said: Path) -> subprocess.Popen:
    line = [sys.executable, "-m", "outpost_tools.cli", "pipeline", "run", "--continuous"]
    line += ["--log", str(log), "--tables", str(tables_dir), "--master", "local[2]"]
    line += ["--interval", str(interval_s), "--delete-consumed"]
    with said.open("wb") as file:
        return subprocess.Popen(line, stderr=file, env=children.tools_environment())


def resident_mib(process: subprocess.Popen) -> tuple[int, int, int]:
    """Returns (driver, JVM, all Python workers)."""
    driver, jvm, workers = psutil.Process(process.pid), 0, 0
    for child in driver.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "java":
                jvm += child.memory_info().rss
            else:
                workers += child.memory_info().rss
    return tuple(size >> 20 for size in (driver.memory_info().rss, jvm, workers))  # pyright: ignore


def measure(args: argparse.Namespace, folder: Path) -> list[tuple]:
    log, tables_dir, said = folder / "log", folder / "tables", folder / "said"
    sender, samples = Sender(log, args.rate), []
    while sender.sent < args.rate * 2:
        sender.step()
    sender.seal()
    process, begin = start(log, tables_dir, args.interval, said), time.monotonic()
    compacted = sampled = begin
    try:
        while time.monotonic() - begin < 60 * args.minutes:
            time.sleep(0.2)
            sender.step()
            now = time.monotonic()
            assert process.poll() is None, said.read_text()
            if now - sampled >= _SAMPLE_S:
                sampled = now
                samples.append((now - begin, *resident_mib(process)))
                _print_minute(samples, tables_dir, sender)
            if now - compacted >= _COMPACT_S:
                compacted = now
                upkeep.compact(tables_dir)
        sender.seal()
        _finish(process, tables_dir, sender, args.interval)
    finally:
        if process.poll() is None:
            process.kill()
    return samples


def _print_minute(samples: list[tuple], tables_dir: Path, sender: Sender) -> None:
    minute = int(samples[-1][0] // 60)
    if len(samples) > 1 and int(samples[-2][0] // 60) < minute:
        driver, jvm, workers = (
            max(sample[place] for sample in samples if sample[0] >= 60 * (minute - 1))
            for place in (1, 2, 3)
        )
        print(
            f"minute {minute:3}: driver {driver:5} MiB, JVM {jvm:5} MiB, workers {workers:5} MiB; "
            f"{sender.sent:,} messages sent, {taken_in(tables_dir):,} taken in",
            flush=True,
        )


def taken_in(tables_dir: Path) -> int:
    if not tables.exists(tables_dir, "streams"):
        return 0
    return sum(tables.read_table(tables_dir, "streams", ["copies"])["copies"].to_pylist())


def _finish(process: subprocess.Popen, tables_dir: Path, sender: Sender, interval_s: float) -> None:
    deadline = time.monotonic() + 600
    while taken_in(tables_dir) < sender.sent and time.monotonic() < deadline:
        time.sleep(interval_s)
    process.send_signal(signal.SIGTERM)
    assert process.wait(600) == 0
    rows = tables.read_table(tables_dir, "readings", ["record"]).num_rows
    assert rows == 3 * sender.distinct, (rows, sender.distinct)
    print(f"{sender.sent:,} messages, {rows:,} readings: exact")


def report(samples: list[tuple]) -> None:
    """Print the least-squares slope over the second half, which shows what grows with time."""
    half = np.array(samples[len(samples) // 2 :])
    for place, name in ((1, "driver"), (2, "JVM"), (3, "workers")):
        slope = np.polyfit(half[:, 0] / 3600, half[:, place], 1)[0]
        print(f"{name}: {half[:, place].max():.0f} MiB at most, {slope:+.0f} MiB an hour")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--rate", type=int, default=500, help="messages a second (%(default)s)")
    parser.add_argument("--interval", type=float, default=10, help="between rounds (%(default)s s)")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        report(measure(args, Path(folder)))


if __name__ == "__main__":
    main()
