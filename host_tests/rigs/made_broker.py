"""A real mosquitto with the files of `outpost broker init`, and clients of any kind: legitimate
ones, and rogues with valid credentials of a board.
"""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path
from typing import Self

import paho.mqtt.client as mqtt

from outpost_tools import cli
from outpost_tools.loopback.broker import BrokerError
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.mqtt import credentials
from outpost_tools.mqtt.credentials import Credentials
from real_broker import need_mosquitto, password_line, wait_for

HOST = "127.0.0.1"


class MadeBroker:
    """folder: of `outpost broker init`, which this calls. start() and stop() may be called
    repeatedly."""

    def __init__(self, directory: Path, *members: str) -> None:
        need_mosquitto()
        self.folder = directory / "fleet"
        self.port = children.free_port()
        self.log = directory / "broker.log"
        self.outpost("init", "--host", HOST, "--port", self.port, "--listen", HOST,
                     "--user", getpass.getuser())  # fmt: skip
        for name in members:
            self.outpost("add", name)
        self._process = None

    def outpost(self, command: str, *words: object) -> int:
        return cli.main(["broker", command, str(self.folder), *map(str, words)])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        configuration = self.folder / "server" / "mosquitto.conf"
        self._process = children.start(
            [*find_mosquitto(), "-c", str(configuration)],
            log=self.log,
            env=children.tools_environment(),
        )
        wait_for(lambda: listens(self._process, self.port, self.log), "mosquitto listens")

    def stop(self) -> None:
        children.stop(self._process)

    def credentials(self, name: str, role: str = "board") -> Credentials:
        return credentials.find(self.folder, role, name)

    def peer(self, name: str, role: str = "board", **how: object) -> Peer:
        return Peer(self.credentials(name, role), **how)


class Peer:
    """A client unlike any of ours: any client_id, filter, topic and will.

    connack: its code; is_connected; connections: how often; received: (topic, payload).
    """

    def __init__(
        self,
        found: Credentials,
        *,
        client_id: str | None = None,
        will: tuple[str, bytes] | None = None,
        clean: bool = True,
        version: int = mqtt.MQTTv311,
    ) -> None:
        session = {} if version == mqtt.MQTTv5 else {"clean_session": clean}
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=found.client_id if client_id is None else client_id,
            protocol=version,
            **session,
        )
        self.client.username_pw_set(*found.login)
        if found.ca:
            self.client.tls_set_context(found.tls())
        if will:
            self.client.will_set(will[0], will[1], qos=1)
        self.received: list[tuple[str, bytes]] = []
        self._answers: dict[int, list[int]] = {}
        self.connack: int | None = None
        self.session_present = self.is_connected = False
        self.connections = 0
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_subscribe = lambda _c, _u, mid, codes, _p: self._keep(mid, codes)
        self.client.on_publish = lambda _c, _u, mid, code, _p: self._keep(mid, [code])
        self.client.on_message = lambda _c, _u, one: self.received.append((one.topic, one.payload))
        self.client.connect(found.host, found.port)
        self.until(lambda: self.connack is not None, "CONNACK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()

    def subscribe(self, name: str) -> int:
        """Returns the return code of SUBACK."""
        return self._answer(self.client.subscribe(name, qos=1)[1], f"SUBACK of {name}")

    def publish(self, topic: str, payload: bytes = b"x", *, retain: bool = False) -> int:
        """Returns the reason code of PUBACK; always 0 in MQTT 3.1.1."""
        sent = self.client.publish(topic, payload, qos=1, retain=retain)
        return self._answer(sent.mid, f"PUBACK of {topic}")

    def vanish(self) -> None:
        """Close without DISCONNECT, so that the broker publishes the will."""
        os.close(self.client.socket().detach())

    def until(self, is_done, what: str) -> None:
        def turn() -> bool:
            self.client.loop(0.01)
            return is_done()

        wait_for(turn, what)

    def _answer(self, packet_id: int, what: str) -> int:
        self.until(lambda: packet_id in self._answers, what)
        return self._answers[packet_id][0]

    def _keep(self, packet_id: int, codes) -> None:
        self._answers[packet_id] = [code.value for code in codes]

    def _on_connect(self, _client, _userdata, flags, reason, _properties) -> None:
        self.connack, self.session_present = reason.value, flags.session_present
        self.connections += 1
        self.is_connected = not reason.is_failure

    def _on_disconnect(self, *_: object) -> None:
        self.is_connected = False


# The rights of collector and boards, in the form of an ACL file.
ACL = """\
pattern write outpost/%u/data
pattern read outpost/%u/durable
user collector
topic read outpost/+/data
topic readwrite outpost/+/durable
topic readwrite outpost/collectors/#
"""


class AclBroker:
    """mosquitto with a password file and an ACL file, as is common, on loopback without TLS. Each
    user's password is the user name; rights: lines of the ACL file."""

    def __init__(self, directory: Path, users: tuple[str, ...], rights: str) -> None:
        need_mosquitto()
        self.port, self.log = children.free_port(), directory / "broker.log"
        lines = [line.strip() for line in rights.strip().splitlines()]
        files = {
            "passwd": "".join(password_line(user, user) for user in users),
            "acl": "\n".join([*lines, ""]),
            "mosquitto.conf": f"listener {self.port} {HOST}\nallow_anonymous false\n"
            f"password_file {directory}/passwd\nacl_file {directory}/acl\n"
            f"user {getpass.getuser()}\nlog_dest stderr\n",
        }
        for name, text in files.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o600)
        self._command = [*find_mosquitto(), "-c", str(directory / "mosquitto.conf")]

    def __enter__(self) -> Self:
        environment = children.tools_environment()
        self._process = children.start(self._command, log=self.log, env=environment)
        wait_for(lambda: listens(self._process, self.port, self.log), "mosquitto listens")
        return self

    def __exit__(self, *_: object) -> None:
        children.stop(self._process)

    def peer(self, name: str) -> Peer:
        return Peer(Credentials("board", HOST, self.port, "", name, name, name))


def listens(process, port: int, log: Path) -> bool:
    if process.poll() is not None:
        raise BrokerError(f"mosquitto ended: {children.tail(log)}")
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True
