"""The devices of foreign_devices.py on real connections, QoS 1: what each sent, how often, and what
the broker acknowledged.

A device sends a message again, with DUP, until it has a PUBACK: after its connection broke because
the broker died, and, one time in twenty, because it closed the connection itself before the PUBACK
could arrive. The broker then has the message twice.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections import Counter

from foreign_devices import DEVICES, Said
from virtual import packets

_LOST_PUBACKS = 0.05
_ANSWER_S = 5.0  # then the connection is given up
_WAIT_S = 120.0  # for the broker, on a busy machine
Key = tuple[str, bytes]  # topic and payload


class Device:
    """One connection at a time; publish() raises OSError when it breaks."""

    def __init__(self, port: int, name: str) -> None:
        self._address, self._name = ("127.0.0.1", port), name.encode()
        self._link: socket.socket | None = None
        self._packet_id = 0

    def publish(self, said: Said, *, is_new: bool, waits: bool = True) -> None:
        """Returns with the PUBACK. waits: otherwise it ends the connection and does not wait."""
        link = self._connected()
        if is_new:
            self._packet_id = self._packet_id % 65535 + 1
        packet = packets.encode(
            "PUBLISH", topic=said.topic.encode(), payload=said.payload, qos=1,
            packet_id=self._packet_id, dup=not is_new, retain=said.retain,
        )  # fmt: skip
        link.sendall(packet)
        if not waits:
            self.close()
        elif link.recv(4) != b"\x40\x02" + self._packet_id.to_bytes(2, "big"):
            raise ConnectionError("no PUBACK")

    def _connected(self) -> socket.socket:
        if self._link is None:
            self._link = socket.create_connection(self._address, timeout=_ANSWER_S)
            self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._link.sendall(packets.encode("CONNECT", client_id=self._name, clean=True))
            if self._link.recv(4) != b"\x20\x02\0\0":
                raise ConnectionError("no CONNACK")
        return self._link

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


class Senders:
    """All devices in one thread, in a new order each round. attempts: how often each message was
    sent; acked: when the broker acknowledged it, each time; said: what it means."""

    def __init__(self, port: int, seed: int, round_s: float = 1.0) -> None:
        self.attempts: Counter[Key] = Counter()
        self.acked: dict[Key, list[float]] = {}
        self.said: dict[Key, Said] = {}
        self.failure: BaseException | None = None
        self.repeated = 0
        self._chance, self._round_s = random.Random(seed), round_s
        self._devices = {name: Device(port, name) for name in DEVICES}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Senders:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when all that was sent is acknowledged."""
        self._is_over.set()
        self._thread.join(2 * _WAIT_S)
        assert not self._thread.is_alive() and self.failure is None, self.failure

    def say_last(self) -> bytes:
        """After stop(): one more message. Returns its payload, which no other has."""
        said = Said("gauge-0/sensor/level/state", b"123456", "gauge-0", "esphome-sensor",
                    (("level", None, 123456.0),))  # fmt: skip
        self.deliver(self._devices["gauge-0"], said)
        return said.payload

    def _run(self) -> None:
        number = 0
        try:
            while not self._is_over.is_set():
                number += 1
                began = time.monotonic()
                for name in self._chance.sample([*DEVICES], len(DEVICES)):
                    for said in DEVICES[name](name, number, time.time(), self._chance):
                        self.deliver(self._devices[name], said)
                self._is_over.wait(max(0.0, began + self._round_s - time.monotonic()))
            for one in self._devices.values():
                one.close()
        except BaseException as error:
            self.failure = error
            raise

    def deliver(self, device: Device, said: Said) -> None:
        """Until the broker has acknowledged it."""
        key = said.topic, said.payload
        self.said[key] = said
        is_new, until = True, time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            waits = not is_new or self._chance.random() > _LOST_PUBACKS
            self.repeated += not is_new
            with contextlib.suppress(OSError):
                self.attempts[key] += 1
                device.publish(said, is_new=is_new, waits=waits)
                if waits:
                    self.acked.setdefault(key, []).append(time.time())
                    return
                is_new = False
                continue
            is_new = False
            device.close()
            time.sleep(0.05)
        raise TimeoutError(f"the broker does not take {key}")
