# cpython-only: the desktop's tools
"""A week of 20 healthy boards, in virtual time: nobody is told of a fault, on the live page, by an
alert or in Home Assistant. And each kind of true fault is told.

The boards send what the firmware sends (firmware/station/about.py): series, deep sleep with and
without pauses between connections, fast ones. People use tools on them, the broker restarts, and
once the machine with the collector is off for a night.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

import pytest

from live_server import payload
from outpost_tools.log.segment_frames import Frame
from outpost_tools.messages import message
from outpost_tools.servers.alerts import conditions, rules
from outpost_tools.servers.alerts.ledger import Ledger
from outpost_tools.servers.alerts.settings import Settings
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.republish.newest import Newest

BEGIN_S = 1_795_000_000
HOUR_S, DAY_S = 3600, 86_400
POWER, ON_PURPOSE, WATCHDOG, SLEEP = 1, 5, 3, 4
ATTENTION = Settings((), (), (), rules.Attention(("*",), (), 300.0), 20)


@dataclass
class Kind:
    """report_s: as the board announces it. wakes: in deep sleep, how many to a connection."""

    name: str
    message_s: int
    report_s: int
    wakes: int = 0


KINDS = [
    *[Kind(f"series-{n}", 600, 600) for n in range(9)],
    *[Kind(f"mains-{n}", 120, 120) for n in range(3)],
    *[Kind(f"hourly-{n}", 900, 3600, wakes=4) for n in range(6)],
    *[Kind(f"daily-{n}", 600, 86_400, wakes=144) for n in range(2)],
]


class Board:
    """Messages as (arrival, payload), once the board has reached the broker."""

    def __init__(self, kind: Kind, rng: random.Random) -> None:
        self.kind, self._rng = kind, rng
        self.seq, self.boot, self.at_s = 0, 1, BEGIN_S + rng.randrange(kind.message_s)
        self.restarts = [(self.at_s, POWER)]  # to come
        self._cause, self._told_report = POWER, False
        self._held: list[bytes] = []
        self.held_from = 0

    def next(self, is_up) -> list[bytes]:
        """One measurement at `at_s`; what arrives then."""
        while self.restarts and self.restarts[0][0] <= self.at_s:
            self._cause = self.restarts.pop(0)[1]
            self.boot, self._told_report = self.boot + 1, False
        if self.kind.wakes:
            self.boot += 1
        records = [("temperature", "Cel", 20 + self._rng.random()), *self._of_itself()]
        self._held.append(
            payload(self.kind.name, self.seq, records, time_s=self.at_s, held=self.held_from,
                    boot=self.boot)
        )  # fmt: skip
        is_due = not self.kind.wakes or self.seq % self.kind.wakes == 0
        self.seq += 1
        self.at_s += self.kind.message_s + self._rng.randrange(-1, 2)
        if not (is_due and is_up):
            return []
        sent, self._held, self.held_from = self._held, [], self.seq
        return sent

    def _of_itself(self):
        place = self.seq & 63
        if not place:
            return [("erases", "", self.seq // 50), ("outbox_blocks", "", 64)]
        if self._cause and place >= 3:
            cause, self._cause = self._cause, 0
            return [("reset_cause", "", cause)]
        if place == 1:
            return [("firmware", "", 100)]
        if place == 2 or not self._told_report:
            self._told_report = True
            return [("report_s", "s", self.kind.report_s)]
        if place == 3:
            return [("reset_cause", "", SLEEP if self.kind.wakes else POWER)]
        return [("signal", "dBm", -60)] if place % 16 == 5 else []

    def tools(self, at_s: int, restarts: int, away_s: int) -> None:
        """Somebody works on it."""
        self.at_s = max(self.at_s, at_s + away_s)
        self.restarts = [(at_s, ON_PURPOSE)] * restarts


class House:
    """The log, and what looks at it."""

    def __init__(self) -> None:
        self.now_s, self.frames = float(BEGIN_S), []
        self.newest, self.told = Newest(), []
        self.ledger = Ledger()
        self.starts()

    def starts(self) -> None:
        self.since_s = self.now_s
        self.fleet = Fleet(clock=lambda: int(self.now_s * 1000))
        self.fleet.take(self.frames)
        self.fleet.history_read(None, is_complete=True)

    def arrives(self, device: str, data: bytes) -> None:
        topic = f"outpost/{device}/data"
        frame = Frame(int(self.now_s * 1000), 0, len(data), topic.encode(), data)
        self.frames.append(frame)
        self.fleet.take([frame])
        self.newest.take(message.decode(topic, data), self.now_s)

    def looks(self) -> None:
        self.fleet.look(at_once=True)
        self.newest.tick(self.now_s)
        for board in self.fleet.boards.values():
            self.told += [
                (self.now_s - BEGIN_S, board.name, one.text)
                for one in board.findings
                if one.kind.needs_attention
            ]
        view = conditions.View(self.fleet, int(self.now_s * 1000), int(self.since_s * 1000))
        self.told += list(conditions.look(view, ATTENTION, self.ledger).conditions)

    def unavailable(self) -> list[str]:
        """In Home Assistant."""
        return [one.name for one in self.newest.boards.values() if not one.is_current]


def is_broker_up(at_s: float) -> bool:
    """It restarts each day, for 3 minutes."""
    return not 5 * HOUR_S <= (at_s - BEGIN_S) % DAY_S < 5 * HOUR_S + 180


def is_machine_up(at_s: float) -> bool:
    """It is off in the fourth night."""
    return not 3 * DAY_S <= at_s - BEGIN_S < 3 * DAY_S + 8 * HOUR_S


def work_of_a_day(boards: list[Board], at_s: int, rng: random.Random) -> None:
    """A flash, an update, a few looks at the prompt, commands: of any board."""
    for restarts, away_s in ((2, 240), (3, 180), (1, 20), (1, 20), (1, 5), (4, 60)):
        rng.choice(boards).tools(at_s, restarts, away_s)
    for _ in range(12):  # somebody writes a program
        boards[0].tools(at_s, 12, 10)


def week(house: House) -> None:
    rng = random.Random(7)
    boards = [Board(kind, rng) for kind in KINDS]
    due = [(board.at_s, n) for n, board in enumerate(boards)]
    heapq.heapify(due)
    look_s, work_s, was_up = BEGIN_S + 300, BEGIN_S + 9 * HOUR_S, True
    while due[0][0] < BEGIN_S + 7 * DAY_S:
        at_s, n = heapq.heappop(due)
        while look_s < at_s:
            house.now_s, is_up = look_s, is_machine_up(look_s)
            if is_up and not was_up:
                house.starts()
            if is_up:
                house.looks()
            was_up, look_s = is_up, look_s + 300
        if at_s > work_s:
            work_of_a_day(boards, work_s, rng)
            work_s += DAY_S
        house.now_s, board = max(house.now_s, at_s), boards[n]
        if board.at_s <= at_s:
            for data in board.next(is_broker_up(at_s) and is_machine_up(at_s)):
                house.arrives(board.kind.name, data)
        heapq.heappush(due, (max(board.at_s, at_s + 1), n))


def test_a_week_of_20_healthy_boards_has_no_false_alarm():
    house = House()
    week(house)
    assert len(house.fleet.boards) == 20 and len(house.frames) > 20_000
    assert house.told == []
    assert house.unavailable() == []


# --- True faults ---


def healthy(house: House, device: str, *, count: int = 20, step_s: int = 600) -> None:
    for seq in range(count):
        house.now_s += step_s
        own = {1: ("report_s", "s", step_s), 2: ("reset_cause", "", POWER)}.get(seq)
        records = [("temperature", "Cel", 20), *([own] if own else [])]
        data = payload(device, seq, records, time_s=house.now_s, held=seq)
        house.arrives(device, data)


def sends(house: House, *records, seq: int = 20, boot: int = 1, held: int | None = None, at_s=0.0):
    data = payload(
        "b", seq, records or [("temperature", "Cel", 20)], time_s=house.now_s + at_s, boot=boot,
        held=seq if held is None else held,
    )  # fmt: skip
    house.arrives("b", data)


def restarts(house: House, cause: int) -> None:
    for n in range(6):
        house.now_s += 600
        sends(house, ("x", "", 1), ("reset_cause", "", cause), seq=20 + n, boot=2 + n)


def is_silent(house: House) -> None:
    house.now_s += 3 * 600 + 61


FAULTS = {
    "silent": is_silent,
    "restarts": lambda house: restarts(house, WATCHDOG),
    "restarts ": lambda house: restarts(house, POWER),
    "lost": lambda house: sends(house, seq=25),
    "open": lambda house: sends(house, seq=25, held=20),
    "behind": lambda house: sends(house, seq=200, held=20),
    "clock": lambda house: sends(house, at_s=30.0),
    "sensor": lambda house: sends(house, ("soil.fault", "", 1)),
    "refused": lambda house: sends(house, ("x", "", 1), ("not_published", "", 3)),
    "cut": lambda house: sends(house, ("x", "", 1), ("cut_short", "", 3)),
    "unheard": lambda house: sends(house, ("x", "", 1), ("unheard", "h", 3)),
    "aside": lambda house: sends(house, ("x", "", 1), ("aside", "", 3)),
    "notpassed": lambda house: sends(house, ("x", "", 1), ("not_passed", "", 1), ("aside", "", 3)),
    "worn": lambda house: sends(house, ("x", "", 1), ("left_out", "", 3)),
    "pins": lambda house: sends(house, ("x", "", 1), ("pins_lost", "", 3)),
    "takeover": lambda house: sends(house, ("x", "", 1), ("takeovers", "", 3)),
    "restored": lambda house: sends(house, ("x", "", 1), ("ahead", "", 3)),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_each_true_fault_is_told(kind):
    house = House()
    healthy(house, "b")
    house.looks()
    assert house.told == []
    FAULTS[kind](house)
    house.looks()
    assert kind.strip() in [one.key for one in house.fleet.boards["b"].findings]
    assert f"attention/b/{kind.strip()}/" in "".join(map(str, house.told))
