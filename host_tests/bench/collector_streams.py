#!/usr/bin/env python3
"""What many streams cost a collector: memory, seconds per seal, seconds of a start.

    .venv/bin/python host_tests/bench/collector_streams.py [--streams 1000000] [--changed 10000]

In a separate process, the keys of one message of each board go through the collector's own log
(servers/collect/log.py) and are confirmed; then seals follow, between which `--changed` boards
send. Earlier versions wrote the whole snapshot at a seal: the line `whole` is what that takes.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from outpost_tools.log import segments
from outpost_tools.messages.message import Key
from outpost_tools.servers.collect.disk_log import DiskLog as Log

SEALS = 5
_BATCH = 4000
FRAME = segments.encode_frame(1_763_694_000_000, b"outpost/b/data", b"x" * 200)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1_000_000, help="a board each")
    parser.add_argument(
        "--changed", type=int, default=10_000, help="boards that send between seals"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="collector-streams-") as folder:
        print(json.dumps(measure(Path(folder), args.streams, args.changed)))
    return 0


def measure(folder: Path, streams: int, changed: int) -> dict:
    log = open_log(folder)
    before_mib = resident_mib()
    for first in range(0, streams, _BATCH):
        send(log, 0, range(first, min(first + _BATCH, streams)))
    held_mib = resident_mib() - before_mib
    whole_s = seconds(lambda: log._saved.save_all(log.durable, log.sealed_through))
    whole_bytes = (log.directory / "state.json").stat().st_size
    seals = []
    for seq in range(1, SEALS + 1):
        send(log, seq, range(changed))
        seals.append(seconds(lambda: log.seal_when_older(0)))
    result = {
        "streams": log.durable.stream_count(), "mib": round(held_mib),
        "bytes_per_stream": round(held_mib * 2**20 / streams),
        "changed": changed, "seal_s": [round(one, 3) for one in sorted(seals)],
        "whole_s": round(whole_s, 2), "whole_mb": round(whole_bytes / 1e6, 1),
    }  # fmt: skip
    log.close()
    return result | {"start_s": round(seconds(lambda: open_log(folder)), 2), "peak_mib": peak_mib()}


def open_log(folder: Path) -> Log:
    return Log(folder, "c1", segment_bytes=16 << 20)


def send(log: Log, seq: int, boards: range) -> None:
    """Store and confirm a message of each board."""
    names = [f"device-{number:07d}" for number in boards]
    log.store([FRAME])
    log.durable.add_all(
        [Key(name, f"{number:08x}", seq, 0) for number, name in zip(boards, names, strict=True)]
    )
    for name in names:
        log.durable.confirmation(name)


def seconds(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main())
