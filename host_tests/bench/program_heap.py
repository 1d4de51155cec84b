#!/usr/bin/env python3
"""The heap of the whole program on a Pico W: main.py, running and connected, after a collection.

    .venv/bin/python host_tests/bench/program_heap.py [-k NAME] [--short] [--parts] [--write]

The emulated RP2040 runs the files that `outpost flash` installs, with the port's own lwIP and
mbedTLS (image `pico-ppp`), at a real mosquitto and a real collector. What a Pico W does not have is
held before main.py starts (on_chip/heap_probe.py), so the program sees its 205,184 bytes. Not
there: the driver of the Wi-Fi chip, whose buffers are outside this heap. "frozen": the modules are
in the image (`pico-ppp-outpost`) instead.

Each configuration: bytes in use, without places for names that are not there yet (which have their
own column), largest free piece, and how many connections the board opened until its first message
was there (1: at the first try). RECONNECTED are measured once more after their connection was cut
ten times. A figure beyond LEAST_FREE or the baseline
(host_tests/baselines/program_heap.csv) by more than TOLERANCE fails. GOALS are those of the design;
where one is missed, --parts says who has the bytes. --short: only SHORT, half a
minute; `make size` runs it. --parts: who has it, by module and kind (rp2040/heap.py). --write
makes the figures the baseline.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import collector_process
import make_certificates
from outpost_tools.boards.files import payload
from outpost_tools.boards.port import kinds
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker
from rp2040 import core, heap, image
from rp2040.board import ON_CHIP, Board, flash_image
from rp2040.compiled import compile_one
from rp2040.ppp_line import PppLine
from rp2040.uart_link import Network
from tls_servers import tls_servers

BASELINE = paths.HOST_TESTS / "baselines" / "program_heap.csv"
TLS_PORT = 8883
_MADE = 50  # turns of the loop: the outbox is made, and has a message
_ACKNOWLEDGED_S = 0.5
FIRST_START_S, CONNECT_S, RECONNECT_S, ANSWER_S = 300, 60, 300, 5
_ASK, _CHOICE = 7, 6  # scratch registers, as in heap_probe.py
_PIN, _PINNED = 255, 2  # a choice; what pin_now.py says
_ANSWER = re.compile(r"the heap used (\d+)\r?\n.*?max free sz: (\d+)", re.S)
TOLERANCE = 1.02  # of the baseline: two runs of the same differ by up to 2 KB
LEAST_FREE = 20_000  # a second connection over TLS needs 17 KB in one piece
STAND_INS = ("heap_probe", "ppp_wlan")
_INTERPRETER = ("(of the interpreter)", "other")
_UNIT = 16  # bytes: the allocation unit of the heap

COMMON = {
    "broker_host": "localhost",  # the name in the certificate
    "wifi_ssid": "Home",
    "wifi_password": "correct horse",
    "interval_ms": 1000,
    "mode": "broker",
}
_TLS = {"tls": True, "broker_port": TLS_PORT, "ca_file": "/tls/ca.der"}
_COLLECTOR = {"mode": "collector", "say_state": True}
_COMMANDS = {"commands": True}
_UPDATE = {**_COMMANDS, "update_key": "5a" * 32}
_SERIES = {"series": True, "series_age_s": 1}
SETTINGS = {
    "broker": {},
    "level 5": {"level": 5},
    "commands": _COMMANDS,
    "commands, update": _UPDATE,
    "series": _SERIES,
    "collector, state": _COLLECTOR,
    "collector, state, update": {**_COLLECTOR, **_UPDATE},
    "collector, state, series": {**_COLLECTOR, **_SERIES},
    "deep sleep": {"deep_sleep": True, "wake_limit_ms": 60_000},
    "everything": {**_COLLECTOR, **_UPDATE, **_SERIES, "level": 5, "encoding": "cbor"},
}
CONFIGURATIONS = SETTINGS | {f"{name}, TLS": more | _TLS for name, more in SETTINGS.items()}
FROZEN = ", frozen"
IN_THE_IMAGE = {
    name + FROZEN: CONFIGURATIONS[name]
    for name in ("broker", "broker, TLS", "everything", "everything, TLS")
}
SHORT = ("broker", "everything, TLS")
CUTS = 10
RECONNECTED = (
    "broker, TLS",
    "collector, state, update, TLS",
    "collector, state, series, TLS",
    "everything, TLS, frozen",
)
COLUMNS = ("used", "spare", "largest", "connects")
# Bytes in use: (configuration, less those of this one if any, at most)
GOALS = (
    ("broker", "", 80_000),
    ("level 5", "broker", 10_000),
    ("commands, update", "broker", 14_000),
)
LINE_BYTES = 2 * 2064  # both buffers of the stand-in's UART, which no module owns


@dataclass(frozen=True)
class Heap:
    """spare: bytes in use for names that are not there yet: the pool of names doubles when it is
    full, so one name more or less can cost 2 KB. connects: until the first message was there; 1: at
    the first try; 0: none came."""

    used: int
    spare: int
    largest: int
    connects: int

    @property
    def is_connected(self) -> bool:
        return self.connects > 0

    @property
    def net(self) -> int:
        return self.used - self.spare


class NotConnected(ToolError):
    """A board whose messages do not come."""


class Servers:
    """A broker, with TLS too, and a collector. heard(): whether a board's message has arrived."""

    def __init__(self, ports: dict[int, int], broker: Broker, ca: bytes) -> None:
        self.ports, self.ca = ports, ca
        self._heard: set[str] = set()
        self._client = collector_process.connect(broker, "ear", self._hear)
        self._client.subscribe("outpost/+/data", qos=1)

    def _hear(self, _client, _user, message) -> None:
        self._heard.add(message.topic.split("/")[1])

    def heard(self, device: str) -> bool:
        return device in self._heard

    def forget(self, device: str) -> None:
        self._heard.discard(device)

    def close(self) -> None:
        collector_process.disconnect(self._client)


@contextmanager
def servers() -> Iterator[Servers]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = folder / "certificates"
        make_certificates.make_all(made)
        with tls_servers(folder, made) as (broker, port, _):
            ports = {1883: broker.port, TLS_PORT: port}
            found = Servers(ports, broker, (made / "ca.der").read_bytes())
            yield found
            found.close()


class Bench:
    """One flash with every configuration's settings, its blocks pinned; a fresh chip for each.
    is_frozen: the modules are in the image."""

    def __init__(self, among: Servers, is_frozen: bool) -> None:
        self._servers = among
        self._names = [*CONFIGURATIONS, *IN_THE_IMAGE]
        files = {"/tls/ca.der": among.ca, "/boot.py": b"import heap_probe\n"}
        if not is_frozen:
            kind = kinds.load(paths.REPOSITORY, "RPI_PICO_W")
            files |= payload.build(paths.REPOSITORY, kind, "armv6m")
        files["/settings"] = b"".join(
            json.dumps(COMMON | more | {"device_id": device(number)}).encode() + b"\n"
            for number, more in enumerate((CONFIGURATIONS | IN_THE_IMAGE).values())
        )
        stand_in = {
            f"/lib/{name}.mpy": compile_one(ON_CHIP / f"{name}.py", f"{name}.py")
            for name in ("ppp_wlan", "heap_probe", "pin_now")
        }
        self._image = _interpreter("pico-ppp-outpost" if is_frozen else "pico-ppp")
        fresh = flash_image(image.load(self._image), files, {}, stand_in)
        board = self._started(fresh, _PIN)
        scratch = board.chip.mcu.watchdog.scratch_data
        if not board.run_for(FIRST_START_S, lambda: scratch[_ASK] == _PINNED):
            raise ToolError("the blocks cannot be pinned")
        board.close()
        self._flash = board.image

    def _started(self, flash: bytes, number: int) -> Board:
        board = Board(flash, Network(ports=self._servers.ports), link=PppLine)
        board.chip.mcu.watchdog.scratch_data[_CHOICE] = number
        return board

    def _until_heard(self, board: Board, number: int, seconds: float = CONNECT_S) -> None:
        self._servers.forget(device(number))
        if not board.run_for(seconds, lambda: self._servers.heard(device(number))):
            raise NotConnected(
                f"{self._names[number]}: nothing arrived in {seconds} s:\n{board.text[-2000:]}"
            )

    def measure(self, name: str, cuts: int) -> Iterator[tuple[Heap, dict[tuple[str, str], int]]]:
        """Yields the figures, and the bytes by module and kind; and again after that many cuts of
        the connection, if there are any. Raises ToolError; NotConnected if a message does not
        come."""
        number = self._names.index(name)
        first = self._started(self._flash, number)
        first.run_for(CONNECT_S, lambda: first.feeds > _MADE)
        first.close()
        board = self._started(first.image, number)
        try:
            self._until_heard(board, number)
            connects = board.link.connects
            yield self._figures(board, name, connects)
            for _ in range(cuts):
                board.run_for(_ACKNOWLEDGED_S)  # or the same message would be suspected soon
                board.network.broker = False
                board.run_for(0.5)
                board.network.broker = True
                self._until_heard(board, number, RECONNECT_S)
            if cuts:
                yield self._figures(board, name, connects)
        finally:
            board.close()

    def _figures(
        self, board: Board, name: str, connects: int
    ) -> tuple[Heap, dict[tuple[str, str], int]]:
        if "deep sleep" not in name:  # which sleeps by then
            board.run_for(1)  # a command's subscription, the state
        used, largest = self._asked(board)
        memory = board.chip.mcu
        read = heap.Heap(memory.sram, memory.flash, self._image)
        return Heap(used, read.spare, largest, connects), read.parts()

    def _asked(self, board: Board) -> tuple[int, int]:
        board.text = ""
        board.chip.mcu.watchdog.scratch_data[_ASK] = 1
        board.run_for(ANSWER_S, lambda: _ANSWER.search(board.text))
        answer = _ANSWER.search(board.text)
        if not answer:
            raise ToolError(f"the board does not answer:\n{board.text[-2000:]}")
        return int(answer[1]), int(answer[2]) * _UNIT


def _interpreter(name: str) -> Path:
    found = image.find(name)
    if found is None:
        raise ToolError(f"no image {name} in the cache; {image.HINT}")
    return found


def device(number: int) -> str:
    return f"heap-{number}"


def measured(names: list[str]) -> Iterator[tuple[str, Heap, dict[tuple[str, str], int]]]:
    """Yields each row as soon as it is there, with its parts. Raises ToolError."""
    with servers() as among:
        make = functools.cache(lambda is_frozen: Bench(among, is_frozen))
        for name in names:
            cuts = CUTS if name in RECONNECTED else 0
            titles = iter((name, f"{name}, {CUTS} reconnects"))
            try:
                for figures in make(name in IN_THE_IMAGE).measure(name, cuts):
                    yield next(titles), *figures
            except NotConnected as error:
                print(f"program_heap: {error}".strip(), file=sys.stderr)
                yield next(titles), Heap(0, 0, 0, 0), {}


def table_of(parts: dict[tuple[str, str], int]) -> list[str]:
    """Returns bytes by module and kind, largest first; without what the measurement itself
    holds."""
    parts = {key: size for key, size in parts.items() if key[0] not in STAND_INS}
    parts[_INTERPRETER] = parts.get(_INTERPRETER, LINE_BYTES) - LINE_BYTES
    sums: Counter[str] = Counter()
    for (module, _), size in parts.items():
        sums[module] += size
    kinds = [kind for kind in heap.KINDS if any(key[1] == kind for key in parts)]
    rows = [("module", "together", *kinds)]
    every = [sum(size for key, size in parts.items() if key[1] == kind) for kind in kinds]
    rows.append(("**together**", f"{sums.total():,}", *(f"{size:,}" for size in every)))
    for module, size in sums.most_common():
        each = (parts.get((module, kind), 0) for kind in kinds)
        rows.append((module, f"{size:,}", *(f"{one:,}" if one else "" for one in each)))
    return [f"  {row[0]:<34}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in rows]


def goals(rows: dict[str, Heap]) -> list[str]:
    """Returns a line for each goal whose configurations were measured."""
    lines = []
    for name, without, most in GOALS:
        if name in rows and (not without or without in rows):
            used = rows[name].net - (rows[without].net if without else 0)
            more = f", more than {without}" if without else ""
            verdict = "reached" if used <= most else f"missed by {used - most:,}"
            lines.append(f"goal: {name}{more}: {used:,} bytes, at most {most:,}: {verdict}")
    for name in (f"everything, TLS{also}" for also in ("", FROZEN)):
        if name in rows:
            row = rows.get(f"{name}, {CUTS} reconnects", rows[name])
            is_reached = row.connects == 1 and row.largest >= LEAST_FREE
            verdict = "reached" if is_reached else "missed"
            lines.append(
                f"goal: {name}: connects at the first try, then {LEAST_FREE:,} bytes are free in "
                f"one piece: {row.largest:,}: {verdict}"
            )
    return lines


def faults(rows: dict[str, Heap], known: dict[str, Heap]) -> list[str]:
    """Returns what is worse than in the baseline, and what the baseline does not have."""
    found = []
    for name, row in rows.items():
        old = known.get(name)
        if old is None:
            found.append(f"{name}: not in the baseline; take it with --write")
        elif not row.is_connected and old.is_connected:
            found.append(f"{name}: does not connect any more")
        elif old.is_connected and row.net > old.net * TOLERANCE:
            found.append(f"{name}: {row.net:,} bytes in use, the budget is {old.net:,}")
        elif row.connects > 1 >= old.connects:
            found.append(f"{name}: connects at try {row.connects}")
        elif row.largest < LEAST_FREE <= old.largest:
            found.append(f"{name}: {row.largest:,} bytes free in one piece, not {LEAST_FREE:,}")
    return found


def read_baseline() -> dict[str, Heap]:
    if not BASELINE.exists():
        return {}
    with BASELINE.open(encoding="utf-8") as file:
        return {
            line["name"]: Heap(*(int(line[column]) for column in COLUMNS))
            for line in csv.DictReader(file)
        }


def write_baseline(rows: dict[str, Heap]) -> None:
    with BASELINE.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["name", *COLUMNS])
        table.writerows(
            [name, *(getattr(row, column) for column in COLUMNS)] for name, row in rows.items()
        )


def _shown(name: str, row: Heap, old: Heap | None) -> str:
    if not row.is_connected:
        return f"{name:<36}{'does not connect':>20}"
    change = row.net - old.net if old and old.is_connected else 0
    cells = f"{row.net:>10,}{f'{change:+,}' if change else '':>10}{row.spare:>8,}"
    return f"{name:<36}{cells}{row.largest:>14,}{row.connects:>10}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-k", dest="pattern", default="", help="configurations with this in it")
    parser.add_argument("--short", action="store_true", help=f"only {' and '.join(SHORT)}")
    parser.add_argument("--parts", action="store_true", help="by module and kind, too")
    parser.add_argument("--write", action="store_true", help="take the figures as the baseline")
    args = parser.parse_args()
    names = [
        name
        for name in CONFIGURATIONS | IN_THE_IMAGE
        if args.pattern in name and (name in SHORT or not args.short)
    ]
    rows, known = {}, read_baseline()
    print(f"{'heap of a Pico W, 205,184 bytes':<36}{'used':>10}{'':>10}{'spare':>8}", end="")
    print(f"{'largest free':>14}{'connects':>10}")
    try:
        for name, row, parts in measured(names):
            rows[name] = row
            print(_shown(name, row, known.get(name)), flush=True)
            if args.parts and parts:
                print("\n".join(table_of(parts)), flush=True)
    except (ToolError, core.NoCompiler) as error:
        print(f"program_heap: not measured: {error}", file=sys.stderr)
        return 2
    print(*goals(rows), sep="\n")
    if args.write:
        write_baseline(known | rows)
        known = read_baseline()
    found = faults(rows, known)
    print(*[f"program_heap: {fault}" for fault in found], sep="\n", file=sys.stderr, end="")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
