#!/usr/bin/env python3
"""Bytes on air of a stored message: MQTT 3.1.1, 5.0, and 5.0 with a topic alias or constant
properties, over a real mosquitto.

    .venv/bin/python host_tests/bench/level5_bytes.py [--messages N]

The firmware's client and session on CPython, over TCP on loopback. Counts what goes through the
socket after CONNACK, without TCP, TLS and lower layers. Topic 24 bytes, payload 64, QoS 1. Exact: a
second run has the same figures.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from outpost.client import Client
from outpost.level5 import over
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost_tools.loopback.broker import ANY_USER, Broker, BrokerError

TOPIC = b"outpost/rate/0123456/dat"
PAYLOAD = bytes(64)
LIMIT_S = 60.0
SITE = ((0x03, b"application/senml+json"), (0x26, (b"site", b"north")))
ROWS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "MQTT 3.1.1": (Session, {}),
    "MQTT 5.0": (over(Session), {}),
    "MQTT 5.0, topic alias": (over(Session), {"aliases": (TOPIC,)}),
    "MQTT 5.0, message expiry": (over(Session), {"expiry_s": 3600}),
    "MQTT 5.0, alias, content type, user property": (
        over(Session),
        {"aliases": (TOPIC,), "publish_properties": SITE},
    ),
}


class Counted:
    """A socket in the form that the client needs, which counts the bytes both ways."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self.up = self.down = 0

    def write(self, data: bytes, at: int = 0, length: int | None = None) -> int | None:
        end = len(data) if length is None else at + length
        try:
            count = self._socket.send(memoryview(data)[at:end])
        except BlockingIOError:
            return None
        self.up += count
        return count

    def readinto(self, buffer: bytearray) -> int | None:
        try:
            count = self._socket.recv_into(buffer)
        except BlockingIOError:
            return None
        self.down += count
        return count

    def close(self) -> None:
        self._socket.close()


def measured(port: int, kind: Callable[..., Any], options: dict, messages: int) -> tuple:
    """Returns bytes up and down per message, from the second on, and of the first with CONNECT."""
    links: list[Counted] = []

    def link() -> Counted:
        links.append(Counted(port))
        return links[-1]

    session = kind(RamOutbox(16, 128), b"bytes", clean=True, user=ANY_USER.encode(), **options)
    client = Client(link, session)
    until = time.monotonic() + LIMIT_S

    def poll(is_done: Callable[[], bool]) -> None:
        while not is_done():
            if time.monotonic() > until or client.failures:
                raise BrokerError("the broker does not take the messages")
            client.poll(int(time.monotonic() * 1000) & 0x3FFFFFFF)

    def publish(count: int) -> None:
        for _ in range(count):
            assert client.publish(TOPIC, PAYLOAD) == 0
            poll(client.is_drained)

    poll(client.is_connected)
    publish(1)
    first = links[0].up, links[0].down
    publish(messages)
    found = (links[0].up - first[0]) / messages, (links[0].down - first[1]) / messages
    client.close()
    return (*found, *first)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Broker("mosquitto", Path(folder)) as broker:
        print(f"{'bytes of a message':<46}{'up':>8}{'down':>8}{'first up':>10}{'first down':>12}")
        for name, (kind, more) in ROWS.items():
            up, down, first_up, first_down = measured(broker.port, kind, more, options.messages)
            print(f"{name:<46}{up:>8.1f}{down:>8.1f}{first_up:>10}{first_down:>12}")
    print("first: CONNECT and the first message, which has the topic beside its alias")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"level5_bytes: {error}")
