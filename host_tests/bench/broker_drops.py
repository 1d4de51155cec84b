#!/usr/bin/env python3
"""What brokers drop after they have acknowledged it: broker mode (plain QoS 1), real brokers.

    .venv/bin/python host_tests/bench/broker_drops.py [ROW...]

For each row a board publishes, the broker acknowledges everything, and a subscriber receives what
it receives. The rows are in tools/BROKERS.md. If the subscriber is away, its session is kept.
"""

from __future__ import annotations

import getpass
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from outpost_tools.loopback.broker import ANY_USER, Broker
from outpost_tools.loopback.brokers import open_broker
from real_broker import Observer, run
from scripted_server import encode

ARCHITECTURE = "i386"
TOPIC = "t/1"
_QUIET_S = 2.0


class Plain(Broker):
    """mosquitto with only these lines of settings: otherwise its defaults."""

    lines = ""

    def _command(self) -> list[str]:
        command = super()._command()
        text = f"listener {self.port} 127.0.0.1\nallow_anonymous true\n{self.lines}"
        text += f"user {getpass.getuser()}\n"
        (self.directory / "mosquitto.conf").write_text(text)
        return command


def plain(folder: Path, lines: str = "") -> Broker:
    broker = Plain("mosquitto", folder)
    broker.lines = lines
    return broker


def subscriber(port: int) -> Observer:
    return Observer(port, "subscriber", (TOPIC, 1), clean=False, user=ANY_USER)


def away(port: int) -> None:
    """The subscriber leaves a session behind."""
    with subscriber(port):
        time.sleep(0.2)


def publish(port: int, folder: Path, count: int) -> int:
    """A board publishes the payloads 0, 1, 2 ... Returns how many were acknowledged."""
    steps = [["connect"], ["publish", TOPIC, count, 1], ["close"]]
    settings = {"broker_port": port}
    return run(ARCHITECTURE, folder / "board", settings, steps, user=ANY_USER)[-1]["acknowledged"]


def received(port: int) -> int:
    """Returns how many messages arrive, until none has for a while."""
    with subscriber(port) as one:
        seen = -1
        while seen != len(one.messages):
            seen = len(one.messages)
            time.sleep(_QUIET_S)
        return len(set(one.numbers()))


def while_away(broker: Broker, folder: Path, count: int, then: Callable[[], None]) -> tuple:
    with broker:
        away(broker.port)
        acknowledged = publish(broker.port, folder, count)
        then()
        return acknowledged, received(broker.port)


def killed(kind: str) -> Callable[[Path], tuple]:
    def row(folder: Path) -> tuple:
        broker = open_broker(kind, folder / "broker")

        def kill() -> None:
            broker.strike()
            broker.start()

        return while_away(broker, folder, 500, kill)

    return row


def denied(folder: Path) -> tuple:
    (folder / "acl").write_text(f"topic read {TOPIC}\n")
    (folder / "acl").chmod(0o600)
    broker = plain(folder / "broker", f"acl_file {folder}/acl\n")
    return while_away(broker, folder, 20, lambda: None)


def too_large(folder: Path) -> tuple:
    """Payloads of one and of two digits: the limit is one."""
    broker = plain(folder / "broker", "message_size_limit 1\n")
    return while_away(broker, folder, 20, lambda: None)


def queue_full(folder: Path) -> tuple:
    return while_away(plain(folder / "broker"), folder, 1500, lambda: None)


def nobody(folder: Path) -> tuple:
    with plain(folder / "broker") as broker:
        acknowledged = publish(broker.port, folder, 20)
        return acknowledged, received(broker.port)


def not_again(folder: Path) -> tuple:
    """The subscriber's connection ends before its PUBACK; then it returns."""
    with open_broker("amqtt", folder / "broker") as broker:
        away(broker.port)
        acknowledged = _take_without_puback(broker.port, lambda: publish(broker.port, folder, 20))
        return acknowledged, received(broker.port)


def _take_without_puback(port: int, then: Callable[[], int]) -> int:
    """Returns what `then` returns; reads what it makes the broker send, without acknowledging
    it."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(encode("CONNECT", client_id=b"subscriber", user=ANY_USER.encode()))
        acknowledged = then()
        link.settimeout(1)
        try:
            while link.recv(4096):
                pass
        except TimeoutError:
            return acknowledged
    raise OSError("the broker closed the connection")


ROWS: dict[str, tuple[str, Callable[[Path], tuple]]] = {
    "nobody": ("any broker: nobody has subscribed", nobody),
    "denied": ("mosquitto: the ACL denies the topic", denied),
    "too-large": ("mosquitto: `message_size_limit`", too_large),
    "queue-full": ("mosquitto: its default `max_queued_messages` 1000", queue_full),
    "mosquitto": ("mosquitto, recommended settings, SIGKILL", killed("mosquitto")),
    "amqtt": ("amqtt, SIGKILL", killed("amqtt")),
    "not-again": ("amqtt: the subscriber's connection ended before its PUBACK", not_again),
    "nats": ("NATS, one node, SIGKILL", killed("nats")),
    "nats3": ("NATS, one of three nodes, SIGKILL", killed("nats3")),
}


def measure(name: str) -> tuple[int, int]:
    """Returns (acknowledged to the board, received by the subscriber)."""
    with tempfile.TemporaryDirectory(prefix="broker-drops-") as folder:
        return ROWS[name][1](Path(folder))


def main() -> int:
    names = sys.argv[1:] or list(ROWS)
    print("| what happened | acknowledged | received |\n|---|---|---|")
    for name in names:
        acknowledged, got = measure(name)
        print(f"| {ROWS[name][0]} | {acknowledged} | {got} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
