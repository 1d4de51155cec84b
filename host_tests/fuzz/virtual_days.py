#!/usr/bin/env python3
"""Virtual days of a client with faulty servers and paths: `make virtual-days` runs this.

    .venv/bin/python host_tests/fuzz/virtual_days.py [--hours 24] [--only NAME] [--markdown]

Runs every day (the keys of DAYS) for QoS 0, 1 and 2, with and without a bound on the bytes in
flight, with a keep alive of 60 s and with none. Reports for each: attempts in the worst hour,
messages delivered of those accepted, the longest time from the fault to the end of the connection.
Each has a bound; a day that exceeds one ends the run with status 1. The real Client runs over
virtual_peer.py. 24 hours of each, bounds in parentheses:

    day                                  attempts in the   detected after  delivered,  last_error
                                         worst hour                        QoS 1, 2
    refuses                                   60 (65)                         0 %   111
    sends no CONNACK                          52 (65)      10 s (10)          0 %   TIMED_OUT
    closes after CONNACK                      60 (65)                         0 %   LINK_LOST,
                                                                                    TAKEN_OVER
    another client has our id                 51 (65)                        99 %   LINK_LOST,
                                                                                    TAKEN_OVER
    swallows everything                        6 (65)      130 s, keep      100 %   TIMED_OUT
                                                           alive 0 (490;
                                                           90 with 60)
    answers pings, never sends PUBACK         32 (65)      60 s (106)        12 %   NO_ANSWER
    never sends SUBACK                        60 (65)      60 s (106)       100 %   NO_ANSWER
    30 bytes/s, 450 bytes a minute to send     1 (65)                       100 %
    half a packet 1 s after CONNACK          303 (330)     10 s (10)        100 %   TIMED_OUT
    a byte of a packet every 9 s             300 (330)     10 s (20)        100 %   TIMED_OUT
    floods and answers                         1 (65)                       100 %
    floods and does not answer                10 (65)      363 s (394)       12 %   TIMED_OUT

"Delivered" is the share of the messages that the outbox took in that hour, for the worst client.
Where a server never acknowledges, the window of 16 goes out and the rest stays held. On the days
with half a packet and single bytes, each connection delivers a message first, so the next attempt
comes at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import virtual_peer as peers
from fake_flash import flash_in_ram
from outpost.exactly_once import ExactlyOnceSession
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.state_note import NotedOutbox
from outpost.subscribing import SubscribingSession
from virtual_peer import Server, World

BOUND = 3000  # in_flight_bytes, as on RP2
HEALTHY_S = 600  # before a fault begins, if it begins later
MOST_IN_AN_HOUR = 65
MOST_WITH_PROGRESS = 330  # each connection delivers a message, and ends after 11 s
NEVER = 1 << 30


@dataclass(frozen=True)
class Client:
    qos: int = 1
    in_flight_bytes: int = 0
    keep_alive_s: int = 60

    def __str__(self) -> str:
        bound = "bounded" if self.in_flight_bytes else "unbounded"
        return f"QoS {self.qos}, {bound}, keep alive {self.keep_alive_s}"


@dataclass
class Day:
    """server: constructs one. interval_ms, size: of the messages. Bounds: attempts in an hour,
    seconds to notice (by client; NEVER: nothing to notice), and the share of the messages that
    arrives."""

    server: Callable[[], Server]
    attempts: int = MOST_IN_AN_HOUR
    notice_s: Callable[[Client], float] = lambda client: NEVER
    delivered: Callable[[Client], float] = lambda client: 0
    interval_ms: int = 30_000
    size: int = 60
    errors: tuple[int, ...] = ()
    receives: bool = False
    begins_s: int = 0  # when the fault begins in each connection


def half_open_s(client: Client) -> float:
    """1.5 keep alives. Without keep alive: the deadline of an unacknowledged message, and of the
    PINGREQ that follows; for QoS 0, the bound on the bytes in flight; or nothing."""
    if client.keep_alive_s:
        return 1.5 * client.keep_alive_s
    if client.qos:
        return 30 + 60 + 10
    return 16 * 30 + 10 if client.in_flight_bytes else NEVER


def no_answer_s(client: Client) -> float:
    """6 times response_ms from the first message on, then the answer to the next PINGREQ."""
    return 60 + 46 if client.qos else NEVER


def half_packet_s(client: Client) -> float:
    return 10


def trickle_s(client: Client) -> float:
    """Below 16 bytes/s: the first response_ms, and the one in which no more arrives."""
    return 2 * 10


def flood_s(client: Client) -> float:
    return 30 + 60 + 300 + 64 * 0.06 if client.qos else NEVER


def of_acknowledged(client: Client) -> float:
    """QoS 0 is sent or not: nothing is kept for the next connection."""
    return 0.99 if client.qos else 0.0


class HalfOpen(Server):
    """From HEALTHY_S on, the path accepts everything and delivers nothing; a new connection works
    for as long."""

    def on_time(self, stream):
        if stream.world.now_ms - stream.opened_ms >= HEALTHY_S * 1000:
            stream.is_dead = True


DAYS = {
    "refuses": Day(peers.Refuses),
    "silent: no CONNACK": Day(peers.Silent, notice_s=lambda client: 10.2),
    "closes after CONNACK": Day(peers.ClosesAfterConnack),
    "another client with our id": Day(lambda: peers.OtherClient(400), delivered=lambda client: 0),
    "swallows everything": Day(
        HalfOpen, notice_s=half_open_s, delivered=of_acknowledged, begins_s=HEALTHY_S
    ),
    "answers pings only": Day(lambda: peers.Answers("CONNECT", "PINGREQ"), notice_s=no_answer_s),
    "never PUBACKs": Day(lambda: peers.Withholds("PUBLISH"), notice_s=no_answer_s),
    "never SUBACKs": Day(
        lambda: peers.Withholds("SUBSCRIBE"),  # after four ends the filter is given up
        delivered=of_acknowledged,
        receives=True,
    ),
    "30 bytes/s, 450 a minute": Day(
        lambda: peers.Slow(30), delivered=lambda client: 0.98, interval_ms=60_000, size=450
    ),
    "half a packet": Day(peers.HalfPacket, MOST_WITH_PROGRESS, half_packet_s, begins_s=1),
    "a byte of a packet in 9 s": Day(
        lambda: peers.Trickles(9000, 1000), MOST_WITH_PROGRESS, trickle_s, begins_s=1
    ),
    "floods and answers": Day(
        peers.Floods, delivered=lambda client: 0.98, receives=True, interval_ms=10_000
    ),
    "floods and does not answer": Day(
        lambda: peers.Floods("PUBLISH", "PINGREQ"), notice_s=flood_s, receives=True
    ),
}
CLIENTS = [Client(*each) for each in product((0, 1, 2), (0, BOUND), (60, 0))]


@dataclass
class Found:
    day: str
    client: Client
    attempts: int
    taken: int
    delivered: int
    notice_s: float
    ended_by: list[int]
    faults: list[str]


def world_of(day: Day, client: Client) -> World:
    options: dict = {"in_flight_bytes": client.in_flight_bytes}
    options["keep_alive_s"] = client.keep_alive_s
    kind: type = SubscribingSession if day.receives else Session
    outbox: object = RamOutbox(16, 1300)
    if client.qos == 2:
        kind, outbox = ExactlyOnceSession, NotedOutbox(flash_in_ram(16, 256))
        outbox.format(b"01234567")
    elif client.qos == 1 and not day.receives:
        outbox = Outbox(flash_in_ram(16, 256))
        outbox.format(b"01234567")
    world = World(
        day.server(), kind, outbox, random=lambda: 0x8000, qos=client.qos, size=day.size,
        interval_ms=day.interval_ms, **options,
    )  # fmt: skip
    if day.receives:
        world.session.subscribe(b"flood", 0)
    return world


def run(name: str, client: Client, hours: float) -> Found:
    day = DAYS[name]
    world = world_of(day, client)
    if name == "another client with our id":
        world.server.after_ms = NEVER
        world.run(HEALTHY_S)
        world.server.after_ms = 400
    world.run(hours * 3600)
    attempts = max(world.in_hour(hour) for hour in range(max(1, int(hours))))
    found = Found(
        name, client, attempts, world.taken, len(world.server.delivered), longest(world, day),
        sorted({error for _, error in world.failures}), [],
    )  # fmt: skip
    found.faults = list(faults(day, found))
    return found


def longest(world: World, day: Day) -> float:
    """Returns the seconds from the fault to the end of the connection, at the longest; for an open
    connection, so far."""
    ends = [at for at, _ in world.failures]
    spans = [0.0]
    for start_ms in world.server.connects:
        end_ms = next((at for at in ends if at >= start_ms), world.now_ms)
        spans.append((end_ms - start_ms) / 1000 - day.begins_s)
    return max(spans)


def faults(day: Day, found: Found) -> Iterator[str]:
    if found.attempts > day.attempts:
        yield f"{found.attempts} attempts in an hour, at most {day.attempts}"
    bound_s = day.notice_s(found.client)
    if found.notice_s > bound_s + 0.5:
        yield f"noticed after {found.notice_s:.1f} s, at most {bound_s:.0f}"
    share = found.delivered / max(1, found.taken - 16)
    if share < day.delivered(found.client):
        yield f"{found.delivered} of {found.taken} messages came"


def by_day(results: list[Found]) -> Iterator[list[str]]:
    for name, day in DAYS.items():
        some = [found for found in results if found.day == name]
        if not some:
            continue
        noticed = [found.notice_s for found in some if day.notice_s(found.client) < NEVER]
        shares = [found.delivered / max(1, found.taken) for found in some if found.client.qos]
        errors = sorted({error for found in some for error in found.ended_by})
        yield [
            name,
            f"{max(found.attempts for found in some)}",
            f"{max(noticed):.0f} s" if noticed else "",
            f"{100 * min(shares):.0f} %" if shares else "",
            ", ".join(named(error) for error in errors),
        ]


def named(error: int) -> str:
    from outpost import status

    names = [name for name in dir(status) if name.isupper() and getattr(status, name) == error]
    return names[0] if error < 0 and names else str(error)


HEADS = ["day", "attempts in the worst hour", "noticed after", "delivered, QoS 1 and 2", "status"]


def table(results: list[Found], markdown: bool) -> str:
    rows = [HEADS, *by_day(results)]
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "|---" * len(HEADS) + "|", *lines[1:]])
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=24, help="of each (default: %(default)s)")
    parser.add_argument("--only", default="", help="days with this in their name")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args(words)
    names = [name for name in DAYS if args.only in name]
    results = []
    for name in names:
        for client in CLIENTS:
            results.append(found := run(name, client, args.hours))
            for fault in found.faults:
                print(f"virtual-days: {name}; {client}: {fault}", file=sys.stderr)
    print(table(results, args.markdown))
    return 1 if any(found.faults for found in results) or not results else 0


if __name__ == "__main__":
    sys.exit(main())
