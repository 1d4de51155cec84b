"""An MQTT broker on loopback for tests and the demo: mosquitto, or amqtt in its own process.
`brokers.open_broker()` also knows the other kinds.

A broker object that is killed and started again keeps its port and directory, so mosquitto finds
its saved sessions. `python -m outpost_tools.loopback.broker amqtt PORT` is the process behind kind
"amqtt". NATS is in nats.py, the fixes for amqtt in amqtt_broker.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import re
import socket
import sys
import time
from pathlib import Path
from typing import Self

from outpost_tools.errors import ToolError
from outpost_tools.machine import children, interpreters, needs

KINDS = ("mosquitto", "amqtt", "nats", "nats3")
KINDS_OF_5 = ("mosquitto",)  # these speak MQTT 5.0
# amqtt keeps a persistent session only for a client with a user name; any name works (see
# amqtt_broker.py).
ANY_USER = "outpost"
READY_TIMEOUT_S = 60.0  # amqtt is written in Python: on a busy machine it takes a third of that

RECOMMENDED = Path(__file__).with_name("mosquitto.conf")
_LISTENERS = """\
# Anonymous clients are only for this machine: the listener is on loopback.
listener {port} 127.0.0.1
allow_anonymous true

"""


class BrokerError(ToolError):
    """The broker did not start; str() says why and what to do."""


class Broker:
    """One broker process. `directory` holds its configuration, its saved state and `broker.log`.

    more_listeners: mosquitto's configuration of further listeners (TLS, passwords), in addition to
    the plain one on `port`.
    """

    def __init__(
        self,
        kind: str,
        directory: Path,
        *,
        port: int | None = None,
        executable: list[str] | None = None,
        more_listeners: str = "",
    ) -> None:
        if kind not in KINDS:
            raise BrokerError(f"unknown broker {kind!r}; choose one of: {', '.join(KINDS)}")
        self.kind = kind
        self.directory = directory.resolve()
        self.port = port or children.free_port()
        self.log = self.directory / "broker.log"
        self._executable = executable
        self.more_listeners = more_listeners
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts or restarts the broker and waits until it answers CONNECT. Raises BrokerError."""
        self.spawn()
        self.wait_until_ready()

    def spawn(self) -> None:
        """Starts or restarts the broker without waiting. Call wait_until_ready() later."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = children.start(
            self._command(), log=self.log, env=children.tools_environment()
        )

    def stop(self) -> None:
        """Ends the broker in order, so that mosquitto saves its state."""
        children.stop(self._process)
        self._process = None

    def kill(self) -> None:
        """SIGKILL: nothing is saved."""
        children.kill(self._process)
        self._process = None

    def strike(self) -> None:
        """Causes the disaster that this kind of broker must survive; start() repairs it."""
        self.kill()

    def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Waits until a real CONNECT is accepted. Raises BrokerError with the end of the log."""
        deadline = time.monotonic() + timeout_s
        while not _accepts_connect(self.port):
            if self._process.poll() is not None:
                raise BrokerError(
                    f"{self.kind} ended with status "
                    f"{self._process.returncode}:\n{children.tail(self.log)}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(
                    f"{self.kind} does not answer on port {self.port}:\n{children.tail(self.log)}"
                )
            time.sleep(0.05)

    def _command(self) -> list[str]:
        if self.kind == "amqtt":
            return [sys.executable, "-m", "outpost_tools.loopback.broker", "amqtt", str(self.port)]
        if self.kind != "mosquitto":
            raise BrokerError(f"{self.kind} is made by brokers.open_broker()")
        config = self.directory / "mosquitto.conf"
        listeners = self.more_listeners + _LISTENERS.format(port=self.port)
        text = configuration(listeners, self.directory)
        config.write_text(text, encoding="utf-8")
        return [*(self._executable or _find_mosquitto()), "-c", str(config)]


def configuration(listeners: str, directory: Path, user: str | None = None) -> str:
    """The recommended configuration with other listeners, another user (default: our own), and
    `directory` for mosquitto's saved state."""
    text = RECOMMENDED.read_text(encoding="utf-8")
    before, rest = text.split("# --- listeners\n", 1)
    limits = rest[rest.index("# --- limits\n") :]
    text = f"{before}{listeners}{limits}"
    for key, value in (
        ("persistence_location", f"{directory}/"),
        ("user", user or own_user()),
    ):
        text = re.sub(
            rf"^{key} .*$", lambda _, line=f"{key} {value}": line, text, flags=re.MULTILINE
        )
    return text


def own_user() -> str:
    """The user that runs this process; its number if it has no name, as in a container."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def broker_user() -> str:
    """The user that mosquitto runs as: our own, or if we are root, `mosquitto` if it exists."""
    if os.geteuid() != 0:
        return own_user()
    try:
        return pwd.getpwnam("mosquitto").pw_name
    except KeyError:
        return "root"


def _find_mosquitto() -> list[str]:
    command = interpreters.find_mosquitto()
    if command is None:
        raise BrokerError("mosquitto is not installed; run `outpost fetch mosquitto`, or use amqtt")
    return command


def _accepts_connect(port: int) -> bool:
    """Whether CONNACK 0 answers an MQTT 3.1.1 CONNECT with clean session and a user name."""
    name = ANY_USER.encode()
    client_id = b"outpost-ready-%s" % os.urandom(4).hex().encode()  # NATS delays repeated ids
    body = (
        b"\0\4MQTT\4\x82\0\x0a"
        + len(client_id).to_bytes(2, "big")
        + client_id
        + len(name).to_bytes(2, "big")
        + name
    )
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as link:
            link.sendall(bytes((0x10, len(body))) + body)
            answer = link.recv(4)
            link.sendall(b"\xe0\0")
            return answer == b"\x20\2\0\0"
    except OSError:
        return False


async def _serve_amqtt(port: int) -> None:
    try:
        from outpost_tools.loopback import amqtt_broker
    except ModuleNotFoundError:
        raise BrokerError(f"amqtt is not installed; {needs.remedy('broker')}") from None
    await amqtt_broker.serve(port)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "amqtt" or not arguments[1].isdigit():
        print("usage: python -m outpost_tools.loopback.broker amqtt PORT", file=sys.stderr)
        return 2
    logging.basicConfig(level=os.environ.get("OUTPOST_BROKER_LOG", "WARNING"))
    try:
        asyncio.run(_serve_amqtt(int(arguments[1])))
    except BrokerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
