"""Load for the collector: variable-length SenML of many devices, and a raw-socket publisher of
pre-encoded QoS 1 packets.

paho as a generator would use the CPU that is being measured. Here a PUBLISH is encoded beforehand,
and many are sent at a time.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.append(str(paths.BENCH_BOARD))  # it is a program, too: the load's own process

from virtual.packets import encode, frame, text, u16

_READINGS = (
    ("load", None, 2),
    ("memory", "KiB", 0),
    ("temperature", "Cel", 2),
    ("humidity", "%RH", 1),
    ("uptime", "s", 0),
    ("battery_voltage", "V", 3),
)
START_S = 1_763_694_000  # 2025-11-21T03:00:00Z
WINDOW = 2000
_SEND_BYTES = 64 * 1024


def stream_of(device: str) -> str:
    return f"{random.Random(device).getrandbits(32):08x}"


def payload(
    device: str, seq: int, rng: random.Random, *, held: int = 0, stream: str | None = None,
    start_s: int = START_S,
) -> bytes:  # fmt: skip
    """Returns what `station.telemetry.Pack` writes, 120 to about 350 bytes; test_collect_load.py
    checks it with message.decode().
    """
    head = f'{{"bn":"{device}/","ver":1,"sid":"{stream or stream_of(device)}"'
    head += f',"seq":{seq},"held":{held},"boot":{1 + seq // 5000}'
    head += f',"bt":{start_s + seq}.{rng.randrange(1000):03d}'
    records = []
    for name, unit, decimals in rng.sample(_READINGS, rng.randint(1, 5)):
        text = f'"n":"{name}"' + (f',"u":"{unit}"' if unit else "")
        records.append(f'{text},"v":{rng.randrange(10**7) / 10**decimals:.{decimals}f}')
    return ("[" + head + "," + "},{".join(records) + "}]").encode()


def fleet(
    devices: int, messages: int, *, seed: int = 1, duplicates: float = 0.05
) -> Iterator[tuple[str, int, bytes]]:
    """Yields (device, seq, payload): devices in turn, each in order, and a share of recent messages
    once more.
    """
    rng = random.Random(seed)
    recent: list[tuple[str, int, bytes]] = []
    names = [f"device-{n:05d}" for n in range(devices)]
    for number in range(messages):
        device, seq = names[number % devices], number // devices
        message = (device, seq, payload(device, seq, rng))
        yield message
        recent.append(message)
        if len(recent) > 5000:
            recent = recent[2500:]
        if rng.random() < duplicates:
            yield rng.choice(recent)


def encode_publish(topic: bytes, packet_id: int, data: bytes) -> bytes:
    return frame(0x32, text(topic) + u16(packet_id) + data)


class Publisher:
    """One MQTT 3.1.1 connection: clean session, QoS 1, up to WINDOW unacknowledged messages.
    `acked` counts PUBACKs, in order.
    """

    def __init__(self, port: int, client_id: str = "load") -> None:
        self._link = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._link.sendall(encode("CONNECT", client_id=client_id.encode(), clean=True))
        if self._link.recv(4) != b"\x20\x02\0\0":  # a broker killed just now sends none
            raise ConnectionError("no CONNACK")
        self.sent = self.acked = 0
        self._rest = b""

    def publish(self, packets: list[tuple[bytes, bytes]]) -> None:
        """packets: (topic, payload) of each. Returns when the broker has acknowledged them all.
        Raises OSError.
        """
        encoded, length = [], 0
        for topic, data in packets:
            encoded.append(encode_publish(topic, 1 + self.sent % 65535, data))
            length += len(encoded[-1])
            self.sent += 1
            if length >= _SEND_BYTES:
                self._link.sendall(b"".join(encoded))
                encoded, length = [], 0
                while self.sent - self.acked > WINDOW:
                    self.read()
        self._link.sendall(b"".join(encoded))
        while self.acked < self.sent:
            self.read()

    def read(self) -> None:
        """Read PUBACKs: four bytes each, in the order of the publishes."""
        data = self._link.recv(65536)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._rest += data
        self.acked += len(self._rest) // 4
        self._rest = self._rest[len(self._rest) // 4 * 4 :]

    def close(self) -> None:
        self._link.close()


def topic_of(device: str, prefix: str = "outpost") -> bytes:
    return f"{prefix}/{device}/data".encode()


def main() -> int:
    """Run as a separate process: publish a file of JSON lines [device, seq, payload], and print
    "acked N" after each part.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--part", type=int, default=500)
    args = parser.parse_args()
    publisher, part = Publisher(args.port), []
    with args.file.open() as lines:
        for line in lines:
            device, _, data = json.loads(line)
            part.append((topic_of(device), data.encode()))
            if len(part) == args.part:
                publisher.publish(part)
                print(f"acked {publisher.acked}", flush=True)
                part = []
    publisher.publish(part)
    print(f"acked {publisher.acked}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
