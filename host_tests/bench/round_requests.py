#!/usr/bin/env python3
"""What the pipeline asks a bucket for, round by round: a real S3 server behind a proxy that counts.

    python host_tests/bench/round_requests.py [--boards 1000] [--write]

    idle         a call of `pipeline run` that finds nothing new
    call         a call of it with one new segment
    continuous   a round inside `--continuous`, with one new segment
    waiting      a round inside `--continuous` that finds nothing new
    file         what each more segment costs, by calls with 1 and with 21

Requests by kind and by what they are for: the log of the collectors, the logs of the tables, their
data. A checkpoint, of one commit in ten, is not in these rounds: what it costs is `checkpoint`, of
one table. `build/store_requests.json` has it all, for store_costs.py; --write puts the table into
host_tests/bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import faulty_store
import marked_table
import object_store
import outpost_command
import pipeline_rounds
from outpost_tools.log import segments
from outpost_tools.machine import children
from outpost_tools.store import at

REQUESTS = paths.REPOSITORY / "build" / "store_requests.json"
PAGE = Path(__file__).with_name("README.md")
KINDS = ("LIST", "PUT", "GET", "HEAD", "DELETE")
FIRST, MORE = 4, 21  # calls before those that are measured: each table has a few commits
Requests = list[tuple[str, str]]


class Rounds:
    """Calls of the pipeline on a log and tables in a new bucket."""

    def __init__(self, server: object_store.ObjectServer, proxy: faulty_store.FaultyStore,
                 folder: Path, boards: int) -> None:  # fmt: skip
        os.environ.update(proxy.environment)
        self._proxy, self._url, self._log = proxy, server.bucket(), folder / "log"
        self._writer = segments.SegmentWriter(self._log / "collector-1")
        self._boards, self._turn = boards, 0

    def send(self, count: int = 1) -> None:
        """Segments, each with a message of each board."""
        store = at.at(self._url) / "log" / "collector-1"
        for _ in range(count):
            time_s = pipeline_rounds.BEGIN_S + self._turn * pipeline_rounds.SLEEP_S
            for board in range(self._boards):
                name = f"board-{board}"
                data = pipeline_rounds.payload(name, f"{board:08x}", self._turn, time_s)
                topic = f"outpost/{name}/data".encode()
                self._writer.append(segments.encode_frame(time_s * 1000 + 1000, topic, data))
            path = self._writer.seal()
            store.put(path.name, path.read_bytes())
            self._turn += 1

    def call(self) -> Requests:
        """In a process of its own, as it is called."""
        self._proxy.forget()
        subprocess.run(self._line(), check=True, env=children.tools_environment(),
                       capture_output=True)  # fmt: skip
        return list(self._proxy.seen)

    def _line(self) -> list[str]:
        line = outpost_command.line("pipeline", "run", "--engine", "local")
        return [*line, "--log", f"{self._url}/log", "--tables", f"{self._url}/tables"]

    @contextlib.contextmanager
    def continuous(self) -> Iterator[Continuous]:
        with Continuous([*self._line()[3:], "--continuous"], self._proxy) as process:
            yield process

    def checkpoint(self) -> Requests:
        """Of the table of streams."""
        from outpost_tools.readings.pipeline import delta, delta_log

        table = delta.open_table(at.at(self._url) / "tables" / "streams")
        self._proxy.forget()
        delta_log._sum_up(table, is_cleaned=False)
        return list(self._proxy.seen)


class Continuous:
    """A run that waits, in place of its pauses, until it is told to go on."""

    def __init__(self, arguments: list[str], proxy: faulty_store.FaultyStore) -> None:
        self._proxy, self._arguments = proxy, arguments

    def __enter__(self) -> Self:
        line = [sys.executable, __file__, "--in-steps", *self._arguments]
        self._process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=children.tools_environment(), text=True,
        )  # fmt: skip
        self._wait()
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.stdin.close()
        assert self._process.wait(60) == 0

    def round(self) -> Requests:
        self._proxy.forget()
        self._process.stdin.write("on\n")
        self._process.stdin.flush()
        self._wait()
        return list(self._proxy.seen)

    def _wait(self) -> None:
        assert self._process.stdout.readline() == "waits\n"


def in_steps(arguments: list[str]) -> int:
    """The run of Continuous."""
    from outpost_tools import cli
    from outpost_tools.terminal.ending import Ending

    def wait(self: Ending, seconds: float) -> bool:
        print("waits", flush=True)
        return not sys.stdin.readline()

    Ending.wait = wait
    return cli.main(arguments)


def measure(server: object_store.ObjectServer, proxy: faulty_store.FaultyStore, folder: Path,
            boards: int) -> dict[str, Requests]:  # fmt: skip
    rounds, found = Rounds(server, proxy, folder, boards), {}
    for _ in range(FIRST):
        rounds.send()
        rounds.call()
    rounds.send()
    found["call"] = rounds.call()
    found["idle"] = rounds.call()
    with rounds.continuous() as process:
        rounds.send()
        found["continuous"] = process.round()
        found["waiting"] = process.round()
    rounds.send(MORE)
    found["more"] = rounds.call()
    found["checkpoint"] = rounds.checkpoint()
    return found


def by_kind(seen: Requests) -> Counter[str]:
    return Counter(kind for kind, _ in seen)


def purpose(path: str) -> str:
    """Of /BUCKET/tables/readings/_delta_log/0.json: `log of readings`."""
    parts = path.split("/")[2:]
    if parts[:1] == ["log"]:
        return "the collectors' log"
    if "_delta_log" in parts:
        return f"log of {parts[1]}"
    return f"files of {parts[1]}" if len(parts) > 2 else "the tables' folder"


def detail(seen: Requests) -> str:
    counts = Counter((purpose(path), kind) for kind, path in seen)
    places = sorted({place for place, _ in counts})
    said = (
        f"{place}: " + ", ".join(f"{counts[place, k]} {k}" for k in KINDS if counts[place, k])
        for place in places
    )
    return "\n".join(f"    {line}" for line in said)


def table(found: dict[str, Requests]) -> str:
    names = {
        "waiting": "round of `--continuous`, nothing new",
        "continuous": "round of `--continuous`",
        "idle": "call, nothing new",
        "call": "call",
        "checkpoint": "a table's checkpoint, each 10th commit",
    }
    lines = [f"| | {' | '.join(KINDS)} |", f"|---|{'---:|' * len(KINDS)}"]
    for name, said in names.items():
        counts = by_kind(found[name])
        lines.append(f"| {said} | {' | '.join(str(counts[kind]) for kind in KINDS)} |")
    return "\n".join(lines)


def summary(found: dict[str, Requests]) -> dict:
    """For store_costs.py."""
    more = {"GET": (by_kind(found["more"])["GET"] - by_kind(found["call"])["GET"]) / (MORE - 1)}
    fixed = by_kind(found["continuous"])
    tables = sum("_delta_log" in path for kind, path in found["continuous"] if kind == "PUT")
    for kind, count in by_kind(found["checkpoint"]).items():
        fixed[kind] += count * tables / 10
    fixed["GET"] -= more["GET"]
    return {"round": fixed, "file": more, "counts": {n: by_kind(s) for n, s in found.items()}}


def main() -> int:
    if sys.argv[1:2] == ["--in-steps"]:
        return in_steps(sys.argv[2:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", type=int, default=1000, help="%(default)s")
    parser.add_argument("--write", action="store_true", help="the table into README.md")
    parser.add_argument("--json", type=Path, default=REQUESTS, help="%(default)s")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="outpost-requests-") as name,
        object_store.ObjectServer(Path(name) / "server") as server,
        faulty_store.FaultyStore(server.port) as proxy,
    ):
        found = measure(server, proxy, Path(name), args.boards)
    for kind, seen in found.items():
        print(f"{kind}: {dict(by_kind(seen))}\n{detail(seen)}\n")
    print(table(found))
    if args.write:
        marked_table.write(PAGE, "requests", table(found))
    args.json.parent.mkdir(exist_ok=True)
    args.json.write_text(json.dumps(summary(found), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
