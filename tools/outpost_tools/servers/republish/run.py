"""The republisher's loop: take what arrived, note what is current, publish what changed.

It keeps nothing on disk. What must survive it (which sensors a board ever had, whether its values
were current) is in the broker's retained messages, and is read back at each connection. If the
broker stops reading, nothing piles up: when it reads again, it gets the values that are current
then.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from outpost_tools.errors import ToolError
from outpost_tools.machine.machine_clock import SET_S, MachineClock, steady
from outpost_tools.messages import message, name_rules
from outpost_tools.readings.sources.idents import escaped, is_ident, shown
from outpost_tools.servers.republish import discovery
from outpost_tools.servers.republish.link import Arrived, Link
from outpost_tools.servers.republish.newest import FRESH_S, Board, Newest
from outpost_tools.servers.republish.topics import OFFLINE, ONLINE, Topics
from outpost_tools.terminal.ending import Ending

if TYPE_CHECKING:
    from outpost_tools.servers.republish.others import Others

INTERVAL_S = 1.0  # between two publications of a board
_WAIT_S = 0.2
_AT_ONCE = 200  # boards to publish before the socket is served again
_BYE_S = 2.0

_TELL_S = 60.0  # between two lines about messages that were left out
_BOARDS_TOLD = 5
_AGREE_S = 30.0  # the newest readings of boards that agree on the time differ by no more

Out = tuple[str, bytes]


class Republisher:
    """Runs until `ending` is set. ha_prefix: the prefix of Home Assistant's discovery; None: no
    discovery. now: returns seconds since 1970. steady: a monotonic clock, which shows when the
    other one is set, as on a Raspberry Pi after each start."""

    def __init__(
        self,
        link: Link,
        topics: Topics,
        ha_prefix: str | None,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady,
        others: Others | None = None,
    ) -> None:
        """others: reads other people's messages; None: only boards' are published."""
        self._link, self._topics, self._ha_prefix, self._now = link, topics, ha_prefix, now
        self._steady, self._ahead_s = steady, now() - steady()
        self.clock = MachineClock(FRESH_S, _AGREE_S, now=now, steady=steady)
        self._tell_at = steady() + _TELL_S
        self.newest = Newest()
        self._others = others
        for one in others.filters if others is not None else ():
            link.want(one)
        self.ending = Ending()
        self._told: dict[str, bool] = {}  # the availability that was published for each board
        self._published_at: dict[str, float] = {}

    @property
    def is_ready(self) -> bool:
        """True if it receives messages, and has learned what the broker remembers."""
        return self._link.has_learned and not self._link.is_fresh

    def run(self) -> int:
        while not self.ending.is_set():
            self.step(_WAIT_S)
        if self._link.connected:
            self._link.publish([(self._topics.ours, OFFLINE)])
            until = time.monotonic() + _BYE_S
            while not self._link.can_write and self._link.connected and time.monotonic() < until:
                self._link.take(_WAIT_S)
        self._link.close()
        return 0

    def step(self, wait_s: float) -> None:
        arrived = self._link.take(wait_s)
        now = self._time()
        for one in arrived:
            self._hear(one, now)
            now = self._time()
        self.newest.tick(now)
        self._tell_left_out()
        if not self._link.can_write:
            return
        if self._link.is_fresh:
            self._link.is_fresh = False
            self._say_again()
        for out in self._due(time.monotonic()):
            self._link.publish(out)
            if not self._link.can_write:
                return

    def _time(self) -> float:
        """The time of our clock, or a later one if boards agree on it. Tells Newest when this time
        jumps."""
        now = self._now() + self.clock.behind_s
        by_s = now - self._steady() - self._ahead_s
        if abs(by_s) >= SET_S:
            self._ahead_s += by_s
            self.newest.clock_set(by_s, now)
        return now

    def _tell_left_out(self) -> None:
        if self._steady() < self._tell_at:
            return
        left_out = self.newest.left_out
        unread = self._others.said() if self._others is not None else ""
        if unread:
            print(f"outpost republish: {unread}", file=sys.stderr, flush=True)
        if left_out or unread:
            self._tell_at = self._steady() + _TELL_S
        if not left_out:
            return
        first = sorted(left_out.items(), key=lambda one: -one[1][0])[:_BOARDS_TOLD]
        said = ", ".join(_left_out(shown(name), *one) for name, one in first)
        more = (
            f" and {len(left_out) - len(first)} more boards" if len(left_out) > len(first) else ""
        )
        why = self.clock.reason or "a backlog, or a wrong clock of the board or of this machine"
        text = f"left out as not current: messages of {said}{more}: {why}"
        print(f"outpost republish: {text}", file=sys.stderr, flush=True)
        left_out.clear()

    # --- What arrives ---

    def _hear(self, arrived: Arrived, now: float) -> None:
        topic, payload, is_retained = arrived
        if self._ha_prefix is not None and topic.startswith(self._ha_prefix + "/device/"):
            if is_retained:
                self._remember(topic, payload)
            return
        if self._others is not None and self._others.has(topic, payload):
            self._others.hear(self.newest, topic, payload, now, is_retained=is_retained)
            return
        found = self._topics.split(topic)
        if found is None or not (name_rules.is_device(found[0]) or is_ident(found[0])):
            return
        device, what = found
        if what == "data" and not is_retained:
            self._hear_message(topic, payload, now)
        elif what == "state":
            self.newest.heard_state(device, payload.decode("utf-8", "replace")[:16])
        elif what == "available":
            self._hear_available(device, payload, now, is_retained)

    def _hear_message(self, topic: str, payload: bytes, now: float) -> None:
        try:
            # The arrival is not passed: Newest compares the times itself, and counts what it leaves
            # out.
            found = message.decode(topic, payload)
            times = [one.time_s for one in found.readings if one.time_s is not None]
            if times:
                self.clock.look()
                self.clock.take(found.device, max(times))
            self.newest.take(found, now)
        except message.Malformed:
            pass  # the collector stores it, and quarantine shows why

    def _hear_available(self, device: str, payload: bytes, now: float, is_retained: bool) -> None:
        """Handles our own message: a retained one comes from an earlier run, an empty one from
        `--retire`, which removed the board."""
        if not payload and not is_retained:
            self.newest.forget(device)
            self._told.pop(device, None)
        elif is_retained and payload in (ONLINE, OFFLINE):
            self._told.setdefault(device, payload == ONLINE)
            self.newest.know(device, now, is_current=payload == ONLINE)

    def _remember(self, topic: str, payload: bytes) -> None:
        found = discovery.remembered(payload, self._topics)
        if found is None:
            return
        device, components, expire_s = found
        board = self.newest.board(device)
        if board is not None:
            board.components = components | board.components
            board.expire_s = expire_s or board.expire_s
            if topic != discovery.config_topic(self._ha_prefix or "", device):
                # from an earlier version: clear it before the new one is published, or each entity
                # would exist twice
                self._link.publish([(topic, b"")])
                board.is_description_new = True

    # --- What is published ---

    def _say_again(self) -> None:
        """Publishes everything again, because a broker may have lost what it remembered."""
        self._link.publish([(self._topics.ours, ONLINE)])
        self._told.clear()
        for board in self.newest.boards.values():
            board.changed |= set(board.values)
            board.is_description_new = bool(board.sensors)

    def _due(self, clock: float) -> list[list[Out]]:
        found: list[list[Out]] = []
        for board in self.newest.boards.values():
            if len(found) >= _AT_ONCE:
                break
            if clock - self._published_at.get(board.name, -INTERVAL_S) < INTERVAL_S:
                continue
            out = self._description(board) + self._values(board) + self._availability(board)
            if out:
                self._published_at[board.name] = clock
                found.append(out)
        return found

    def _description(self, board: Board) -> list[Out]:
        if self._ha_prefix is None or not board.is_description_new or not self._link.has_learned:
            return []
        board.is_description_new = False
        topic = discovery.config_topic(self._ha_prefix, board.name)
        return [(topic, discovery.payload(board, self._topics, self.newest.boards))]

    def _values(self, board: Board) -> list[Out]:
        """The values come before the availability, so that no old value is shown as new."""
        if not board.changed:
            return []
        out = [
            (self._topics.value(board.name, name), f"{board.values[name].value:.10g}".encode())
            for name in sorted(board.changed)
        ]
        board.changed.clear()
        return [*out, (self._topics.latest(board.name), _pack(board))]

    def _availability(self, board: Board) -> list[Out]:
        if self._told.get(board.name) is board.is_current or (
            board.name not in self._told and not board.values
        ):
            return []
        self._told[board.name] = board.is_current
        word = ONLINE if board.is_current else OFFLINE
        return [(self._topics.available(board.name), word)]


def _left_out(name: str, count: int, old_s: float) -> str:
    return f"{name} ({count}, the newest {abs(old_s):.0f} s {'old' if old_s > 0 else 'ahead'})"


def _pack(board: Board) -> bytes:
    """A resolved SenML pack (RFC 8428, section 4.6): whole names, times since 1970."""
    name_of = escaped if is_ident(board.name) else str
    records = [
        {"n": f"{board.name}/{name_of(name)}", **({"u": one.unit} if one.unit else {}),
         "v": one.value, "t": round(one.time_s, 3)}
        for name, one in sorted(board.values.items())
    ]  # fmt: skip
    return json.dumps(records, ensure_ascii=False).encode()


def retire(link: Link, topics: Topics, ha_prefix: str | None, device: str, limit_s: float) -> int:
    """Replaces all retained messages about a board by empty ones. Returns the number of its
    sensors.

    Raises ToolError if the broker does not answer within `limit_s`.
    """
    link.want(f"{topics.latest(device)}/+")
    names: set[str] = set()
    until = time.monotonic() + limit_s
    while not link.has_learned:
        if time.monotonic() > until:
            raise ToolError("the broker does not answer; nothing was changed")
        names |= {topic for topic, payload, _ in link.take(_WAIT_S)
                  if payload and topic.startswith(topics.latest(device) + "/")}  # fmt: skip
    out = [*sorted(names), topics.latest(device), topics.state(device), topics.available(device)]
    if ha_prefix is not None:
        out.insert(0, discovery.config_topic(ha_prefix, device))
    link.publish([(topic, b"") for topic in out])
    while not link.can_write and time.monotonic() < until:
        link.take(_WAIT_S)
    link.close()
    return len(names)
