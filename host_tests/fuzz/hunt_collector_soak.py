#!/usr/bin/env python3
"""A collector under full load for any length of time: is its memory flat, and is everything stored?

    .venv/bin/python host_tests/fuzz/hunt_collector_soak.py [--minutes 60] [--devices 1000]

A publisher sends as fast as mosquitto accepts, but never more than the collector has stored plus a
window, so that the broker's queue cannot hide a leak of ours. Sealed segments are counted and
deleted, as `outpost pipeline prune` would do. It prints memory by tenths of the run, and fails when
a message is missing or memory grew by more than a tenth after the first fifth.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import collector_load as load
import outpost_command
from outpost_tools.log import segments
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children

PART = 5000
WINDOW = 50_000
GROWTH = 1.1
DRAIN_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--growth", type=float, default=GROWTH, help="that is flat: %(default)s")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="collector-soak-") as folder,
        Broker("mosquitto", Path(folder) / "broker") as broker,
    ):
        row = run(Path(folder), broker.port, args)
    print(json.dumps(row))
    return 0 if row["stored"] == row["sent"] and row["is_flat"] else 1


def run(folder: Path, port: int, args: argparse.Namespace) -> dict:
    command = outpost_command.line("collect", "--id", "c1", "--broker")
    command += [f"127.0.0.1:{port}", "--log", str(folder / "log")]
    output = folder / "collector.txt"
    process = children.start(command, log=output, env=children.tools_environment())
    try:
        while "subscribed to" not in output.read_text():
            time.sleep(0.05)
        began = time.monotonic()
        sent, stored, memory = _load(folder, port, process.pid, args)
        seconds, until = time.monotonic() - began, time.monotonic() + DRAIN_S
        while stored + _count(folder / "log" / "c1") < sent and time.monotonic() < until:
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
        stored += _count(folder / "log" / "c1")
        settled = memory[len(memory) // 5 :]
        return {
            "minutes": round(seconds / 60, 1), "sent": sent, "stored": stored, "status": status,
            "rate": round(sent / seconds), "peak_mib": round(max(memory), 1),
            "mib_by_tenths": [round(part) for part in _tenths(memory)],
            "is_flat": max(settled) <= args.growth * settled[0],
        }  # fmt: skip
    finally:
        children.kill(process)


def _load(folder: Path, port: int, pid: int, args: argparse.Namespace) -> tuple[int, int, list]:
    """Returns (sent, stored and deleted, MiB of the collector at each step)."""
    publisher, directory = load.Publisher(port), folder / "log" / "c1"
    until, memory, stored = time.monotonic() + args.minutes * 60, [], 0
    messages = _messages(args.devices)
    while time.monotonic() < until:
        publisher.publish(list(itertools.islice(messages, PART)))
        memory.append(_resident_mib(pid))
        while publisher.sent - stored > WINDOW:
            stored += _count(directory, delete=True)
            time.sleep(0.02)
    publisher.close()
    return publisher.sent, stored, memory


def _messages(devices: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields (topic, payload), the devices in turn, cheap to make."""
    rng, parts = random.Random(1), []
    for name in (f"device-{number:05d}" for number in range(devices)):
        head, mark, tail = load.payload(name, 0, rng).partition(b'"seq":')
        parts.append((load.topic_of(name), head + mark, tail[1:]))
    for seq in itertools.count():
        for topic, head, tail in parts:
            yield topic, b"%b%d%b" % (head, seq, tail)


def _count(directory: Path, *, delete: bool = False) -> int:
    """Returns the number of messages in the sealed segments."""
    count = 0
    for path in segments.sealed_segments(directory):
        count += sum(len(ends) for _, ends in segments.contents(path).runs())
        if delete:
            path.unlink()
    return count


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def _tenths(memory: list[float]) -> list[float]:
    edges = [len(memory) * n // 10 for n in range(11)]
    return [max(memory[a:b]) for a, b in itertools.pairwise(edges) if b > a]


if __name__ == "__main__":
    sys.exit(main())
