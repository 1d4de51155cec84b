"""What a test sees of a run, or of the run after a cut: the truth about messages, and what came.

All of it is data (virtual/report.py), the same from CPython and MicroPython.
"""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """Accepted from the program. number: in the outbox, -1: none. stream: the outbox's."""

    ms: int
    topic: bytes
    payload: bytes
    qos: int
    number: int
    stream: bytes


class Arrival(NamedTuple):
    """At the broker. stream: of the outbox that the program then had."""

    ms: int
    topic: bytes
    payload: bytes
    qos: int
    packet_id: int
    dup: bool
    stream: bytes


class Broker:
    """came: each PUBLISH in the order of arrival. retained: {topic: payload}. connects: ms."""

    def __init__(self, report: dict) -> None:
        self.came = [_arrival(one) for one in report["came"]]
        self.retained = {
            bytes.fromhex(topic): bytes.fromhex(payload)
            for topic, payload in report["retained"].items()
        }
        self.connects: list[int] = report["connects"]
        self.violations: list[str] = report["violations"]


class World:
    """why: how the run ended: "ended", "time", "done", "error", "stuck", "watchdog". seconds: of
    virtual time. driven: (ms, name, level) of each output that the program set. files: {name:
    content}. fault: what the kit itself finds wrong, in words; "": nothing."""

    def __init__(self, report: dict) -> None:
        self.why: str = report["why"]
        self.fault: str = report["fault"]
        self.seconds: float = report["ms"] / 1000
        self.boots: int = report["boots"]
        self.effects: int = report["effects"]
        self.broker = Broker(report)
        self.accepted = [_message(one) for one in report["accepted"]]
        self.refused = [(_message(one[:6]), one[6]) for one in report["refused"]]
        self.samples: int = report["samples"]  # of series, stored
        self.driven = [tuple(one) for one in report["driven"]]
        self.output: list[str] = report["output"]
        self.files = {name: bytes.fromhex(data) for name, data in report["files"].items()}
        self.longest_poll_us: int = report["longest_poll_us"]
        self.longest_turn_us: int = report["longest_turn_us"]  # from one poll() to the next
        self.open_sockets: int = report["open_sockets"]  # when it ended
        self._report = report

    def lost(self) -> list[Message]:
        """Accepted, did not come, and is no longer in the outbox."""
        return [_message(one) for one in self._report["lost"]]

    def pending(self) -> list[Message]:
        """Accepted, and did not come yet."""
        return [_message(one) for one in self._report["pending"]]

    def duplicates(self) -> list[Arrival]:
        return [_arrival(one) for one in self._report["duplicates"]]

    def invented(self) -> list[Arrival]:
        """Came, and was never published."""
        return [_arrival(one) for one in self._report["invented"]]

    def out_of_order(self) -> list[Arrival]:
        return [_arrival(one) for one in self._report["out_of_order"]]


def _message(entry: list) -> Message:
    ms, topic, payload, qos, number, stream = entry
    return Message(
        ms, bytes.fromhex(topic), bytes.fromhex(payload), qos, number, bytes.fromhex(stream)
    )


def _arrival(entry: list) -> Arrival:
    ms, topic, payload, qos, packet_id, dup, stream = entry
    topic, payload, stream = map(bytes.fromhex, (topic, payload, stream))
    return Arrival(ms, topic, payload, qos, packet_id, bool(dup), stream)
