#!/usr/bin/env python3
"""Messages per second through `outpost collect`, with one fsync per group before its PUBACKs; `make
bench-collector` runs this.

    .venv/bin/python host_tests/bench/collector_rate.py [--messages 150000] [--devices 1000]
        [--share 2] [--no-confirmation] [--put-ms 100]

With --put-ms: a second time, into a bucket of an S3 server on this machine, each PUT that many ms
later than it answers, and the ratio of the two rates.

mosquitto holds the messages for the absent collectors before the clock starts, so that no generator
uses the CPU being measured: only mosquitto and the collector run. Messages are SenML of 120 to 350
bytes, 5 % of them twice. The rate is taken from the receive times in the segments, first to last;
CPU from the kernel's accounting of the processes, minus an idle run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import collector_load as load
import object_store
from outpost_tools.log import segments
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.store import at
from outpost_tools.store.base import Store

LIMIT_S = 300.0
# The collector without its confirmations to the boards, for comparison.
_SILENT = """
import sys
from outpost_tools.servers.collect import loop
loop.Collector._confirm = lambda self, **_: None
from outpost_tools.cli import main
sys.exit(main())
"""

# The collector, with PUTs that take longer than those of a server on the same machine.
_LATE = """
import sys, time
from outpost_tools.store import objects
real = objects.ObjectStore.create
def create(store, name, data):
    time.sleep({late_s})
    return real(store, name, data)
objects.ObjectStore.create = create
from outpost_tools.cli import main
sys.exit(main())
"""


def main() -> int:
    args = arguments()
    with (
        tempfile.TemporaryDirectory(prefix="collector-rate-") as folder,
        Broker("mosquitto", Path(folder) / "broker") as broker,
    ):
        rows = [through(Path(folder), broker, fleet(args), args)]
        if args.put_ms is not None:
            rows.append(_through_bucket(Path(folder), args))
    for row in rows:
        print(json.dumps(row) if args.json else _line(row))
    if len(rows) > 1:
        print(f"bucket / disk: {rows[1]['rate'] / rows[0]['rate']:.2f}")
    return 0 if all(row["stored"] == row["sent"] for row in rows) else 1


def _through_bucket(folder: Path, args: argparse.Namespace) -> dict:
    """The load of a disk's run again, with a broker and a folder of its own."""
    place = folder / "bucket"
    place.mkdir()
    with (
        object_store.ObjectServer(place / "server") as server,
        Broker("mosquitto", place / "broker") as broker,
    ):
        os.environ.update(server.environment)
        return through(place, broker, fleet(args), args, f"{server.bucket()}/log")


def through(
    folder: Path,
    broker: Broker,
    packets: Iterable[tuple[bytes, bytes]],
    args: argparse.Namespace,
    log: str | None = None,
) -> dict:
    """Runs the collectors on these (topic, payload), which the broker holds before they start;
    their logs are in `log`, or folder/log. args: as arguments() returns them."""
    names = [f"c{n + 1}" for n in range(args.share)]
    for name in names:
        _make_session(broker.port, name, _filter(args))
    count = _preload(broker.port, packets)
    return _measure(folder, broker, names, count, args, at.at(log or folder / "log"))


def fleet(args: argparse.Namespace) -> Iterator[tuple[bytes, bytes]]:
    for device, _, data in load.fleet(args.devices, args.messages):
        yield load.topic_of(device), data


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=150_000)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument(
        "--share", type=int, default=1, help="collectors on one shared subscription"
    )
    parser.add_argument("--no-confirmation", action="store_true")
    parser.add_argument("--put-ms", type=int, help="of a second run, into a bucket")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def _filter(args: argparse.Namespace) -> bytes:
    return b"$share/bench/outpost/+/data" if args.share > 1 else b"outpost/+/data"


def _make_session(port: int, name: str, topic_filter: bytes) -> None:
    """Make a persistent session with its subscription, as an earlier run of the collector would
    have left it.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        body = b"\0\4MQTT\4\0\0\0" + len(name).to_bytes(2, "big") + name.encode()
        link.sendall(bytes((0x10, len(body))) + body)
        assert link.recv(4)[:1] == b"\x20"
        body = b"\0\1" + len(topic_filter).to_bytes(2, "big") + topic_filter + b"\1"
        link.sendall(bytes((0x82, len(body))) + body)
        assert link.recv(5) == b"\x90\3\0\1\1"
        link.sendall(b"\xe0\0")


def _preload(port: int, packets: Iterable[tuple[bytes, bytes]]) -> int:
    publisher = load.Publisher(port)
    part, count = [], 0
    for packet in packets:
        part.append(packet)
        count += 1
        if len(part) == 5000:
            publisher.publish(part)
            part = []
            if sys.stderr.isatty():
                print(f"\rpreloaded {count}", end="", file=sys.stderr)
    publisher.publish(part)
    publisher.close()
    return count


def _measure(
    folder: Path, broker: Broker, names: list[str], count: int, args: argparse.Namespace, log: Store
) -> dict:
    idle_s = _idle_cpu_s(folder, args)
    before_s, began_s = _children_cpu_s(), _process_cpu_s(broker.pid)
    running = [_collector(folder, name, broker.port, args, log) for name in names]
    until = time.monotonic() + LIMIT_S
    while (stored := _bytes(log, names)) == 0 or not _is_quiet(log, names, stored):
        assert time.monotonic() < until, "not done in time"
    peak_kib = [_peak_kib(process.pid) for process in running]
    broker_s = _process_cpu_s(broker.pid) - began_s
    for process in running:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in running] == [0] * len(running)
    cpu_s = _children_cpu_s() - before_s - idle_s * len(running)
    times = [frame.received_ms for name in names for frame in _frames(log / name)]
    seconds = max(max(times) - min(times), 1) / 1000
    return {
        "collectors": len(names), "devices": args.devices, "sent": count, "stored": len(times),
        "confirmation": not args.no_confirmation,
        "seconds": seconds, "rate": round(len(times) / seconds),
        "cpu_s_per_1000": cpu_s * 1000 / len(times), "rate_per_cpu_s": round(len(times) / cpu_s),
        "broker_cpu_s_per_1000": broker_s * 1000 / len(times),
        "peak_mib": [round(kib / 1024, 1) for kib in peak_kib],
        "commits": _commits(folder),
    }  # fmt: skip


def _collector(
    folder: Path, name: str, port: int, args: argparse.Namespace, log: Store
) -> subprocess.Popen:
    program = ["-c", _SILENT] if args.no_confirmation else ["-m", "outpost_tools.cli"]
    if not log.is_local:
        program = ["-c", _LATE.format(late_s=args.put_ms / 1000)]
    where = ["--broker", f"127.0.0.1:{port}", "--log", str(log), "--id", name]
    command = [sys.executable, *program, "collect", *where]
    if args.share > 1:
        command += ["--share", "bench"]
    return children.start(command, log=folder / "collector.txt", env=children.tools_environment())


def _idle_cpu_s(folder: Path, args: argparse.Namespace) -> float:
    """Returns the CPU of a collector that starts, connects and ends, which is subtracted."""
    began = _children_cpu_s()
    with Broker("mosquitto", folder / "idle-broker") as idle:
        port = idle.port
        (folder / "idle").mkdir()
        process = _collector(folder / "idle", "c1", port, args, at.at(folder / "idle" / "log"))
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        spent = _children_cpu_s() - began
    return spent


def _is_quiet(log: Store, names: list[str], stored: int) -> bool:
    time.sleep(1.0 if log.is_local else 2.5)
    return _bytes(log, names) == stored


def _bytes(log: Store, names: list[str]) -> int:
    entries = [entry for name in names for entry in (log / name).entries()]
    return sum(entry.size for entry in entries if entry.name.startswith("segment-"))


def _frames(directory: Store):
    return (
        frame
        for path in segments.sealed_segments(directory)
        for frame in segments.read_segment(path)
    )


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _process_cpu_s(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0


def _commits(folder: Path) -> str:
    """Returns the collector's last line about its fsyncs."""
    lines = [
        line for line in (folder / "collector.txt").read_text().splitlines() if "commits" in line
    ]
    return lines[-1].split(", ")[2] if lines else ""


def _line(row: dict) -> str:
    with_ = "with" if row["confirmation"] else "without"
    cpu_ms, broker_ms = row["cpu_s_per_1000"] * 1000, row["broker_cpu_s_per_1000"] * 1000
    return (
        f"{row['collectors']} collector(s), {row['devices']} devices, {with_} confirmation: "
        f"{row['stored']} of {row['sent']} stored, {row['rate']} messages/s; "
        f"{cpu_ms:.1f} ms CPU per 1,000 ({row['rate_per_cpu_s']}/CPU s), "
        f"broker {broker_ms:.1f} ms; "
        f"peak {row['peak_mib']} MiB; {row['commits']}"
    )


if __name__ == "__main__":
    sys.exit(main())
