#!/usr/bin/env python3
"""Hours of a board at a real mosquitto that does not take some of its messages: `make refusals`.

    .venv/bin/python host_tests/fuzz/hunt_refusals.py [--hours 1] [--speed 60] [--only NAME]

Each board publishes a good message every ten seconds and a bad one a minute; its clock runs `speed`
times as fast as the broker's, so deadlines and pauses keep their proportions. All boards run at
once, each with a broker of its own, at levels 4 and 5. Status 1: a good message was not
acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from fake_flash import flash_in_ram
from outpost.client import Client
from outpost.exactly_once import ExactlyOnceSession
from outpost.level5 import over
from outpost.state_note import NotedOutbox
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_mosquitto
from socket_link import open_link

GOOD_MS, BAD_MS = 10_000, 60_000
DRAIN_S = 1800  # of the board's time, at the end
MORE = 8  # good messages at the end, so that what is silent can be judged


@dataclass(frozen=True)
class Refusal:
    """lines: of mosquitto's configuration, {folder} is its own. bad: what the board publishes once
    a minute, as arguments of publish(). filters: what it subscribes to."""

    name: str
    lines: str = ""
    bad: tuple = (b"good/bad", b"bad", 1, False)
    filters: tuple[bytes, ...] = ()
    levels: tuple[int, ...] = (4, 5)


LEVELS_201 = b"/".join([b"a"] * 201)
REFUSALS = (
    Refusal("max_packet_size 200", "max_packet_size 200\n", (b"good/1", bytes(240), 1, False)),
    Refusal("ACL", "acl_file {folder}/acl\n", (b"denied/1", b"bad", 1, False)),
    Refusal("max_qos 1", "max_qos 1\n", (b"good/1", b"bad", 2, False)),
    Refusal("retain_available false", "retain_available false\n", (b"good/1", b"bad", 1, True)),
    Refusal("control characters", "", (b"good/\x01", b"bad", 1, False)),
    Refusal("201 levels", "", (LEVELS_201[:250], b"bad", 1, False)),
    Refusal("filter of 201 levels", filters=(LEVELS_201, b"other/1"), bad=()),
    Refusal("filter with a control character", filters=(b"a/\x01", b"other/1"), bad=()),
)


@dataclass
class Board:
    refusal: Refusal
    level: int
    speed: int
    port: int
    good: int = 0
    acknowledged: int = 0
    refused: int = 0  # by publish()
    _goods: set[int] = field(default_factory=set)
    _next_good_ms: int = 0
    _next_bad_ms: int = 5000

    def __post_init__(self) -> None:
        self.outbox = NotedOutbox(flash_in_ram(64, 256))
        self.outbox.format(b"01234567")
        kind, options = ExactlyOnceSession, {"level": 4} if self.level == 4 else {}
        kind = kind if self.level == 4 else over(kind)
        link = open_link({"broker_host": "127.0.0.1", "broker_port": self.port})
        # two boards of one name would end each other's connections
        self.session = kind(self.outbox, b"board-%d" % self.level, **options)
        self.session.on_acknowledged = self._on_acknowledged
        self.client = Client(link, self.session, lambda: 0x8000)
        for name in self.refusal.filters:
            self.session.subscribe(name, 1)
        self._begin = time.monotonic()

    @property
    def now_ms(self) -> int:
        return int((time.monotonic() - self._begin) * 1000 * self.speed)

    def _on_acknowledged(self, seq: int) -> None:
        self.acknowledged += seq in self._goods
        self._goods.discard(seq)

    def publish_good(self) -> None:
        if not self.client.publish(b"good/1", b"%d" % self.good):
            self._goods.add(self.outbox.next_seq - 1)
            self.good += 1

    def step(self, publishes: bool) -> None:
        now_ms = self.now_ms
        if publishes and now_ms >= self._next_good_ms:
            self._next_good_ms += GOOD_MS
            self.publish_good()
        if publishes and self.refusal.bad and now_ms >= self._next_bad_ms:
            self._next_bad_ms += BAD_MS
            topic, payload, qos, retain = self.refusal.bad
            self.refused += self.client.publish(topic, payload, qos, retain) != 0
        for _ in range(20):
            if not self.client.poll(self.now_ms & 0x3FFFFFFF):
                break


def row(board: Board) -> str:
    codes = ",".join(str(entry[2]) for entry in board.session.filters)
    return (
        f"{board.level:5} {board.good:6} {board.acknowledged:8} {board.outbox.aside:6} "
        f"{board.refused:7} {board.session.connects:9}  {board.refusal.name}"
        + (f": {codes}" if codes else "")
    )


HEAD = f"{'level':>5} {'good':>6} {'arrived':>8} {'aside':>6} {'refused':>7} {'connects':>9}  what"


def is_well(board: Board) -> bool:
    """Every good message was acknowledged, and the good filter was granted."""
    is_granted = not board.session.filters or board.session.filters[-1][2] == 1
    return board.acknowledged == board.good > 0 and is_granted


def hunt(refusals: tuple[Refusal, ...], hours: float, speed: int, folder: Path) -> list[Board]:
    with contextlib.ExitStack() as stack:
        boards = []
        for number, refusal in enumerate(refusals):
            here = folder / str(number)
            here.mkdir(parents=True)
            (here / "acl").write_text("topic readwrite good/#\ntopic read other/#\n")
            lines = refusal.lines.format(folder=here)
            broker = stack.enter_context(Broker("mosquitto", here, more_listeners=lines))
            for level in refusal.levels:
                boards.append(Board(refusal, level, speed, broker.port))
        run(boards, lambda: boards[0].now_ms > hours * 3_600_000, True)
        for board in boards:
            for _ in range(MORE):
                board.publish_good()
        end_ms = boards[0].now_ms + DRAIN_S * 1000
        run(boards, lambda: all(map(is_well, boards)) or boards[0].now_ms > end_ms, False)
        return boards


def run(boards: list[Board], is_over: Callable[[], bool], publishes: bool) -> None:
    while not is_over():
        for board in boards:
            board.step(publishes)
        time.sleep(0.001)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=1, help="of the boards' time")
    parser.add_argument("--speed", type=int, default=60, help="of their clocks")
    parser.add_argument("--only", default="", help="refusals with this in their name")
    options = parser.parse_args(words)
    if find_mosquitto() is None:
        sys.exit("refusals: no mosquitto: run `make setup`")
    chosen = tuple(one for one in REFUSALS if options.only in one.name)
    with tempfile.TemporaryDirectory() as folder:
        boards = hunt(chosen, options.hours, options.speed, Path(folder))
    print(HEAD, *map(row, boards), sep="\n")
    return 0 if boards and all(map(is_well, boards)) else 1


if __name__ == "__main__":
    sys.exit(main())
