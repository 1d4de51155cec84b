"""Idle connections on every HTTP port of the tools, while messages come: what is stored and
confirmed, and how long a page takes, without and with them in turn.

    python host_tests/fuzz/hunt_idle_connections.py [--idle 2000] [--rate 5000] [--seconds 10]
        [--turns 2]

One run of mosquitto, `outpost collect`, `republish`, `live` and `setup`. A connection that a server
closes is opened again once a second, half of them with half a request.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import selectors
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import collector_load as load
import outpost_command
from collector_process import Process
from live_server import Server
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from setup_server import SetupServer

PART_S = 0.1


class Idle:
    """count connections to each port, kept up in a thread."""

    def __init__(self, ports: list[int], count: int) -> None:
        self._wanted = [port for port in ports for _ in range(count)]
        self._open = selectors.DefaultSelector()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        for key in [*self._open.get_map().values()]:
            key.fileobj.close()

    def _keep(self) -> None:
        due = list(self._wanted)
        while not self._ending.is_set():
            for number, port in enumerate(due):
                one = socket.socket()
                one.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    one.connect(("127.0.0.1", port))
                events = selectors.EVENT_READ | selectors.EVENT_WRITE * (number % 2)
                self._open.register(one, events, port)
            due = []
            until = time.monotonic() + 1
            while time.monotonic() < until and not self._ending.is_set():
                for key, ready in self._open.select(0.1):
                    if ready & selectors.EVENT_WRITE and self._has_begun(key.fileobj):
                        self._open.modify(key.fileobj, selectors.EVENT_READ, key.data)
                        continue
                    self._open.unregister(key.fileobj)
                    key.fileobj.close()
                    due.append(key.data)

    @staticmethod
    def _has_begun(one: socket.socket) -> bool:
        """Sends half a request; False when the connection is closed."""
        try:
            return one.send(b"GET / HTTP/1.1\r\nHost: ") > 0
        except OSError:
            return False


def get(port: int, path: str) -> tuple[float, str]:
    """Seconds, and the page."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:  # setup wants its token: an answer all the same
        text = error.read().decode()
    return time.monotonic() - began, text


def counter(port: int, name: str) -> int:
    found = re.search(rf"^outpost_collector_{name}_total (\S+)$", get(port, "/metrics")[1], re.M)
    return int(float(found[1])) if found else 0


def publish(port: int, rate: int, seconds: float, packets) -> int:
    """Returns the number of messages, which the broker has acknowledged."""
    publisher, began = load.Publisher(port), time.monotonic()
    for part in range(round(seconds / PART_S)):
        time.sleep(max(0.0, began + part * PART_S - time.monotonic()))
        publisher.publish([next(packets) for _ in range(round(rate * PART_S))])
    publisher.close()
    return publisher.sent


class Pages(threading.Thread):
    """Asks each server for its page, in turn, and keeps the longest time of each, in seconds."""

    def __init__(self, ports: dict[str, int]) -> None:
        super().__init__()
        self._ports, self._ended = ports, threading.Event()
        self.slowest_s = dict.fromkeys(ports, 0.0)

    def run(self) -> None:
        while not self._ended.wait(0.2):
            for name, port in self._ports.items():
                self.slowest_s[name] = max(self.slowest_s[name], get(port, "/")[0])

    def stop(self) -> str:
        self._ended.set()
        self.join()
        return ", ".join(f"{name} {1000 * all_s:.0f}" for name, all_s in self.slowest_s.items())


def turn(broker_port: int, ports: dict[str, int], idle: int, args, packets) -> str:
    """Sends, and waits until all of it is stored."""
    watched, pages = ports["collect"], Pages(ports)
    with Idle([*ports.values()], idle):
        time.sleep(3)
        before, confirmed = (counter(watched, name) for name in ("messages", "confirmations"))
        began = time.monotonic()
        pages.start()
        sent = publish(broker_port, args.rate, args.seconds, packets)
        sent_s = time.monotonic() - began
        while counter(watched, "messages") < before + sent:
            assert time.monotonic() < began + 60, "not all is stored"
        stored_s = time.monotonic() - began
        confirmed = counter(watched, "confirmations") - confirmed
        slowest = pages.stop()
    return (
        f"{idle:5} idle on each port: sent {sent / sent_s:.0f}/s, stored {sent / stored_s:.0f}/s, "
        f"the last {1000 * (stored_s - sent_s):.0f} ms after it was sent; confirmations "
        f"{confirmed / stored_s:.0f}/s; slowest page in ms: {slowest}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--turns", type=int, default=2)
    args = parser.parse_args()
    packets = ((load.topic_of(name), data) for name, _, data in load.fleet(200, 10**9))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idle-")))
        broker = stack.enter_context(Broker("mosquitto", folder / "broker"))
        ports = {"collect": children.free_port(), "republish": children.free_port()}
        options = ("--metrics-port", str(ports["collect"]))
        collector = stack.enter_context(Process(folder, broker.port, options=options))
        words = ["--broker", f"127.0.0.1:{broker.port}", "--metrics-port", ports["republish"]]
        command = outpost_command.line("republish", *words)
        other = children.start(
            command, log=folder / "republish.txt", env=children.tools_environment()
        )
        stack.callback(children.stop, other)
        ports["live"] = stack.enter_context(Server(collector.log, folder)).port
        ports["setup"] = stack.enter_context(SetupServer(folder)).port
        for _ in range(args.turns):
            for idle in (0, args.idle):
                print(turn(broker.port, ports, idle, args, packets), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
