#!/usr/bin/env python3
"""Bad days of a collector, each tried with a real mosquitto; `make bad-days` runs this.

    .venv/bin/python host_tests/fuzz/hunt_collector_days.py [NAME ...]

Each day ends in a line: what happened, how many messages were sent and stored, the exit status of
the collector. A missing message, or an outcome other than the one in bench/TOOLS.md, gives exit
status 1. Full and read-only disks need root (for a separate small tmpfs); without root these days
are skipped, and named.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import collector_load as load
from collector_process import Process, wait_until
from outpost_tools.loopback.broker import Broker

COUNT = 3000
DEVICE = "device-00000"
# Python lines that precede the collector's own: a disk whose fsync takes a second, a clock that
# jumps.
SLOW = """
import os, time
real = os.fsync
def fsync(handle):
    time.sleep(1.0)
    real(handle)
os.fsync = fsync
"""
CLOCK = """
import os, time
real_ns, real = time.time_ns, time.time
def jump():
    try:
        return float(open(os.environ["GATE"]).read() or 0)
    except FileNotFoundError:
        return 0.0
time.time_ns = lambda: real_ns() + int(jump() * 1e9)
time.time = lambda: real() + jump()
"""
RUN = "\nimport sys\nfrom outpost_tools.cli import main\nsys.exit(main())\n"
DAY_S = 86_400


def messages(first: int, count: int) -> list[tuple[bytes, bytes]]:
    sent = load.fleet(50, first + count, duplicates=0)
    return [(load.topic_of(name), data) for name, _, data in sent][first:]


class Day:
    """One collector and its broker; in the end the log must hold `sent`."""

    def __init__(self, folder: Path, broker: Broker, lines: str | None = None) -> None:
        self.broker, self.sent = broker, []
        program = None if lines is None else lines + RUN
        options = ["--segment-seconds", "0.5"]
        self.collector = Process(folder, broker.port, program=program, options=options)
        self.publisher = load.Publisher(broker.port)

    def begin(self) -> None:
        self.collector.start()
        wait_until(lambda: "subscribed to" in self.text())

    def text(self) -> str:
        return self.collector.text() if self.collector.output.exists() else ""

    def send(self, packets: list[tuple[bytes, bytes]]) -> None:
        self.publisher.publish(packets)
        self.sent += [data for _, data in packets]

    def missing(self) -> int:
        return len(set(self.sent) - set(self.collector.payloads()))

    def end(self) -> int:
        """Wait until everything is stored. Returns the exit status."""
        wait_until(lambda: self.missing() == 0)
        return self.collector.terminate()


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs in place of the collector's directory."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def full_disk(day: Day) -> str:
    with small_disk(day.collector.log, "1m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(700_000))
        day.begin()
        day.send(messages(0, COUNT))
        wait_until(lambda: "No space left" in day.text())
        missing = day.missing()
        assert missing, "the disk was not full"
        # what no reader needs any more is deleted, as `outpost pipeline prune` would do
        assert day.collector.alive and "acknowledging nothing" in day.text()
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        status = day.end()
        assert "writing again" in day.text() and status == 0
        times = day.text().count("No space left")
        assert times < 10, "told too often"
        return f"{missing} waited, told {times} time(s), status {status}"


def full_disk_at_the_end(day: Day) -> str:
    with small_disk(day.collector.log, "600k") as disk:
        (disk / "ballast").write_bytes(bytes(300_000))
        day.begin()
        day.send(messages(0, COUNT))
        wait_until(lambda: "No space left" in day.text())
        status = day.collector.terminate()
        assert (
            status == 1 and "neither stored nor acknowledged; the broker keeps them" in day.text()
        )
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        day.begin()
        assert day.end() == 0
    return f"status {status}, and nothing missing after the next start"


def read_only_disk(day: Day) -> str:
    with small_disk(day.collector.log, "16m") as disk:
        day.begin()
        day.send(messages(0, COUNT))
        wait_until(lambda: day.missing() == 0)
        time.sleep(1.0)  # the segment is sealed, the next one is a new file
        # mounted on itself, because the lock, open for writing, keeps the disk below from being
        # read-only
        subprocess.run(["mount", "--bind", str(disk), str(disk)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(disk)], check=True)
        day.send(messages(COUNT, COUNT))
        wait_until(lambda: "Read-only file system" in day.text())
        missing = day.missing()
        assert missing == COUNT and day.collector.alive
        subprocess.run(["umount", str(disk)], check=True)
        return f"{missing} waited, status {day.end()}"


def read_only_at_the_start(day: Day) -> str:
    with small_disk(day.collector.log, "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        day.collector.start()
        wait_until(lambda: not day.collector.alive)
        assert day.collector.status == 2 and "Read-only" in day.text()
        assert "Traceback" not in day.text()
        return f"refused, status {day.collector.status}"


def slow_disk(day: Day) -> str:
    day.begin()
    began = time.monotonic()
    day.send(messages(0, 20_000))
    status = day.end()
    return f"20000 in {time.monotonic() - began:.0f} s at a second for each fsync, status {status}"


def clock(day: Day) -> str:
    day.begin()
    for number, jump in enumerate((0, DAY_S, -DAY_S, 0)):
        day.collector.gate.write_text(str(jump))
        day.send(messages(number * COUNT, COUNT))
        wait_until(lambda: day.missing() == 0)
    status = day.end()
    times = [frame.received_ms / 1000 - time.time() for frame in day.collector.frames()]
    assert max(times) > DAY_S - 600 and min(times) < -DAY_S + 600
    assert not list(day.collector.directory.glob("*.open"))
    return f"arrivals from {min(times):+.0f} to {max(times):+.0f} s, status {status}"


def large_payloads(day: Day) -> str:
    """Beyond the limit of a stored payload: truncated, marked, acknowledged, never confirmed."""
    day.begin()
    # the broker's own limit is 1 MiB for a packet
    large = [(load.topic_of(DEVICE), bytes([65 + n]) * 1_048_000) for n in range(20)]
    day.publisher.publish(large)
    day.send(messages(0, COUNT))
    status = day.end()
    cut = [frame for frame in day.collector.frames() if frame.truncated]
    assert {frame.original_length for frame in cut} == {1_048_000}
    assert len({frame.payload for frame in cut}) == len(large)
    return f"{len(large)} of 1 MB cut to {len(cut[0].payload)} bytes and marked, status {status}"


def many_topics(day: Day) -> str:
    day.begin()
    sent = load.fleet(100_000, 100_000, duplicates=0)
    day.send([(load.topic_of(name), data) for name, _, data in sent])
    wait_until(lambda: day.missing() == 0, 300)
    kib = _peak_kib(day.collector.pid)
    status = day.end()
    names = len({frame.topic for frame in day.collector.frames()})
    assert names == 100_000
    return f"{names} topics, peak {kib // 1024} MiB, status {status}"


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


DAYS = {
    "full disk": full_disk,
    "full disk at the end": full_disk_at_the_end,
    "read-only disk": read_only_disk,
    "read-only at the start": read_only_at_the_start,
    "slow disk": slow_disk,
    "a clock that jumps": clock,
    "1 MB payloads": large_payloads,
    "100,000 topics": many_topics,
}
NEED_ROOT = ("full disk", "full disk at the end", "read-only disk", "read-only at the start")
LINES = {"slow disk": SLOW, "a clock that jumps": CLOCK}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="*", help=", ".join(DAYS))
    chosen = parser.parse_args().name or list(DAYS)
    failed = 0
    for name in chosen:
        if name in NEED_ROOT and os.geteuid() != 0:
            print(f"{name}: skipped, needs root to mount a small disk")
            continue
        failed += not lived_through(name)
    return 1 if failed else 0


def lived_through(name: str) -> bool:
    with (
        tempfile.TemporaryDirectory(prefix="bad-day-") as folder,
        Broker("mosquitto", Path(folder) / "broker") as broker,
    ):
        day = Day(Path(folder), broker, LINES.get(name))
        try:
            told = DAYS[name](day)
        except AssertionError as error:
            print(f"{name}: FAILED {error}\n{day.text()[-2000:]}", flush=True)
            return False
        finally:
            with contextlib.suppress(ProcessLookupError, AttributeError):
                day.collector.kill()
        print(f"{name}: {len(day.sent)} sent, none missing; {told}", flush=True)
        return True


if __name__ == "__main__":
    sys.exit(main())
