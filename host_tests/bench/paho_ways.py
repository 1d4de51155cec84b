#!/usr/bin/env python3
"""What reading below paho's public interface is worth: CPU of a collector's connection for each
message received and acknowledged, in one run.

    paho       its public interface: loop_read(), on_message, manual acknowledgement
    one        outpost_tools.mqtt.client, one message at a time, as mq, send and update read
    many       the same, all messages of one read, one write of PUBACKs, as the collector reads

    .venv/bin/python host_tests/bench/paho_ways.py [--messages 40000] [--rounds 5]

A server in a process of its own sends QoS 1 messages of 200 bytes as fast as they are taken.
"""

from __future__ import annotations

import argparse
import select
import socket
import statistics
import subprocess
import sys
import time

import paho.mqtt.client as mqtt

from outpost_tools.mqtt.client import Client

_SERVER = """
import socket, sys, threading
count = int(sys.argv[1])
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
for _ in range(int(sys.argv[2])):
    peer, _ = server.accept()
    peer.recv(4096)
    peer.sendall(b"\\x20\\x02\\0\\0")
    def read(peer=peer):
        while peer.recv(65536): pass
    threading.Thread(target=read, daemon=True).start()
    for k in range(count):
        one = b"\\0\\x14outpost/kitchen/data" + (k % 65535 + 1).to_bytes(2, "big") + b"x" * 200
        size = len(one)
        peer.sendall(bytes((0x32, size % 128 + 128, size // 128)) + one)
"""


class Reader:
    """Counts what arrives, and acknowledges it."""

    def __init__(self, way: str, port: int) -> None:
        kind = mqtt.Client if way == "paho" else Client
        self.client = kind(mqtt.CallbackAPIVersion.VERSION2, client_id="bench", manual_ack=True)
        self.client.on_message = self._take
        self.got, self._way = 0, way
        self.client.connect("127.0.0.1", port)

    def _take(self, client: mqtt.Client, _userdata, message: mqtt.MQTTMessage) -> None:
        client.ack(message.mid, message.qos)
        self.got += 1

    def read(self) -> None:
        if self._way != "many":
            self.client.loop_read()
        else:
            found = self.client.read_publishes() or []
            self.client.ack_all([packet_id for _, _, packet_id, _ in found])
            self.got += len(found)
        if self.client.want_write():
            self.client.loop_write()


def cpu_us(way: str, port: int, messages: int) -> float:
    """Microseconds of CPU for a message."""
    reader = Reader(way, port)
    sock = reader.client.socket()
    assert isinstance(sock, socket.socket)
    begin = time.process_time()
    while reader.got < messages:
        has_more = getattr(reader.client, "has_read_ahead", False)
        if not has_more and not select.select([sock], [], [], 60)[0]:
            raise TimeoutError(f"{way}: {reader.got} of {messages} messages came")
        reader.read()
    spent = time.process_time() - begin
    sock.close()
    return spent / messages * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    ways = ("paho", "one", "many")
    words = [str(arguments.messages), str(arguments.rounds * len(ways))]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, *words], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        port = int(server.stdout.readline())
        spent = [
            [cpu_us(way, port, arguments.messages) for way in ways] for _ in range(arguments.rounds)
        ]
        server.kill()
    medians = [statistics.median(column) for column in zip(*spent, strict=True)]
    for way, median in zip(ways, medians, strict=True):
        print(f"{way:5} {median:6.1f} µs of CPU a message, {medians[0] / median:5.1f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
