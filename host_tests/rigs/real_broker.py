"""For tests against a real broker: MicroPython as a client (broker_client.py), paho as the other
end, and a link that can be cut.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from outpost_tools.machine import children
from outpost_tools.machine.interpreters import (
    ARCHITECTURES,
    REQUIRED_ARCHITECTURES,
    find_micropython,
    find_mosquitto,
)
from outpost_tools.trying.simulate.proxy import Proxy
from paths import PRODUCT, RIGS, STUBS, joined

TIMEOUT_S = 120.0

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


def micropython(architecture: str) -> list[str]:
    """Returns the command, or skips the test. ARM is optional, so its absence is no fault under CI.
    CPython is always available.
    """
    if architecture == "cpython":
        return [sys.executable]
    command = find_micropython(architecture)
    if command is None and architecture in REQUIRED_ARCHITECTURES:
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    if command is None:
        pytest.skip(f"optional: MicroPython for {architecture}; run `python3 tools/setup.py --arm`")
    return command


def need_mosquitto() -> None:
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")


def password_line(user: str, password: str) -> str:
    """Returns a line of mosquitto's password file: PBKDF2 with SHA-512."""
    salt, rounds = os.urandom(12), 101
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds)
    return (
        f"{user}:$7${rounds}${base64.b64encode(salt).decode()}"
        f"${base64.b64encode(digest).decode()}\n"
    )


def wait_for(is_done: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_done():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        time.sleep(0.01)


def environment() -> dict[str, str]:
    return {**os.environ, "MICROPYPATH": joined(*PRODUCT), "PYTHONPATH": joined(*PRODUCT, STUBS)}


class Device:
    """broker_client.py as a process in a separate folder, and the lines that it prints."""

    def __init__(
        self, architecture: str, folder: Path, settings: dict, steps: list, **client: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "device_id": folder.name[-32:],
            "broker_host": "127.0.0.1",
            "outbox_blocks": 32,
            **settings,
        }
        (folder / "orders.json").write_text(
            json.dumps({"settings": settings, "steps": steps, "client": client})
        )
        self._log = folder / "device.log"
        self._log.unlink(missing_ok=True)
        command = [*micropython(architecture), str(RIGS / "broker_client.py"), "orders.json"]
        self.process = children.start(command, log=self._log, cwd=folder, env=environment())

    def lines(self) -> list[dict]:
        """Returns what it printed so far; a traceback fails the test."""
        text = self._log.read_text()
        assert "Traceback" not in text, text
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def wait_line(self, key: str, timeout_s: float = TIMEOUT_S) -> dict:
        """Returns the first line that has the key."""
        wait_for(
            lambda: any(key in line for line in self.lines()),
            f"{key} in {self._log.read_text()}",
            timeout_s,
        )
        return next(line for line in self.lines() if key in line)

    def finish(self, timeout_s: float = TIMEOUT_S) -> list[dict]:
        """Returns all lines, once it has ended by itself."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"still running after {timeout_s} s: {self._log.read_text()}"
            ) from None
        lines = self.lines()
        assert status == 0, self._log.read_text()
        return lines

    def kill(self) -> None:
        children.kill(self.process)


@contextmanager
def device(*arguments: object, **client: object) -> Iterator[Device]:
    one = Device(*arguments, **client)
    try:
        yield one
    finally:
        one.kill()


def run(*arguments: object, **client: object) -> list[dict]:
    """Run all steps. Returns what was printed."""
    with device(*arguments, **client) as one:
        return one.finish()


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    payload: str
    qos: int
    retain: bool


class Observer:
    """paho as the other end: subscribes, also after a reconnect, and keeps the messages."""

    def __init__(
        self,
        port: int,
        client_id: str,
        *filters: tuple[str, int],
        clean: bool = True,
        user: str | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self._filters = list(filters)
        self._ready = threading.Event()
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean
        )
        self._client.username_pw_set(user)
        self._client.reconnect_delay_set(0.1, 0.1)
        self._client.max_inflight_messages_set(0)
        self._client.on_connect = self._connected
        self._client.on_disconnect = lambda *_: self._ready.clear()
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = self._keep
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def __enter__(self) -> Observer:
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, *_: object) -> None:
        if self._filters:
            self._client.subscribe(self._filters)
        else:
            self._ready.set()

    def _keep(self, _client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        self.messages.append(
            Message(message.topic, message.payload.decode(), message.qos, message.retain)
        )

    def forget_ready(self) -> None:
        """Call before its connection is lost: wait_ready() then waits for the next one, even if it
        notices the end of this one late."""
        self._ready.clear()

    def wait_ready(self) -> None:
        assert self._ready.wait(TIMEOUT_S), "the observer is not connected"

    def wait(self, count: int, timeout_s: float = TIMEOUT_S) -> None:
        wait_for(
            lambda: len(self.messages) >= count,
            f"{len(self.messages)} of {count} messages",
            timeout_s,
        )

    def wait_numbers(self, count: int, timeout_s: float = TIMEOUT_S) -> None:
        """As wait(), where some may come twice."""
        wait_for(
            lambda: len(set(self.numbers())) >= count,
            f"{len(set(self.numbers()))} of {count} numbers",
            timeout_s,
        )

    def numbers(self) -> list[int]:
        return [int(message.payload) for message in self.messages]

    def publish(self, topic: str, payloads: list[str], qos: int, retain: bool = False) -> None:
        """Returns when the broker has acknowledged all of them."""
        sent = [self._client.publish(topic, payload, qos, retain) for payload in payloads]
        for one in sent:
            one.wait_for_publish(TIMEOUT_S)


class Link:
    """The simulator's proxy in a thread: the path to the broker, which can be cut."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._proxy = Proxy("127.0.0.1", port)
        asyncio.run_coroutine_threadsafe(self._proxy.start(), self._loop).result(TIMEOUT_S)
        self.port = self._proxy.port

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.close(), self._loop).result(TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def cut(self) -> None:
        """Reset the connections, and refuse new ones."""
        self._call(lambda: self._proxy.cut("reset"))

    def restore(self) -> None:
        self._call(self._proxy.restore)

    def _call(self, action: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (action(), done.set()))
        assert done.wait(TIMEOUT_S)
