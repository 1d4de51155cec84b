#!/usr/bin/env python3
"""The first program with a mistake in it, in Outpost, umqtt.simple, MiniMQTT and mqtt_as: what the
user sees, and whether the message came.

    .venv/bin/python host_tests/bench/mistakes.py [--mqtt-as FOLDER] [--write]

Outpost and MiniMQTT run under CPython, the others under 32-bit MicroPython; a real mosquitto with a
plain port, a port with a user and rights, and one with TLS. A program that still runs after LIMIT_S
is ended. mqtt_as is no package that could be fetched: FOLDER is what its repository has, with the
folder mqtt_as in it; its Wi-Fi is a stand-in that is always there. --write: the table of
host_tests/bench/README.md.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import paho.mqtt.client as mqtt

import fetch_peers
import marked_table
import outpost_command
from made_broker import MadeBroker
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children, interpreters
from raw_server import HOST, raw
from real_broker import password_line

LIMIT_S, END = 15, "end"
MQTT_AS_S = 30  # it looks at its Wi-Fi for 6 s first, and waits 10 s for each answer
PAGE = Path(__file__).resolve().parent / "README.md"
PROGRAMS = {
    "Outpost": """\
from board import Board
from station.own_program import Program

program = Program(Board(), {topic})
program.publish({topic}, {payload}{more})
program.deliver()
program.close()
""",
    "umqtt.simple": """\
from umqtt.simple import MQTTClient

client = MQTTClient(b"kitchen", "{host}", {port}, {user}, {password}, 60)
client.connect()
client.publish({topic}, {payload}{more})
client.disconnect()
""",
    "MiniMQTT": """\
import socket
import ssl
import adafruit_minimqtt.adafruit_minimqtt as MQTT

client = MQTT.MQTT(broker="{host}", port={port}, username={user}, password={password},
                   client_id="kitchen", socket_pool=socket,
                   ssl_context=ssl.create_default_context())
client.connect()
client.publish({topic}, {payload}{more})
client.disconnect()
""",
    "mqtt_as": """\
import asyncio
from mqtt_as import MQTTClient, config

config["ssid"] = "Home"
config["wifi_pw"] = "correct horse"
config["server"] = "{host}"
config["port"] = {port}
config["user"] = {user} or ""
config["password"] = {password} or ""

async def main():
    client = MQTTClient(config)
    await client.connect()
    await client.publish({topic}, {payload}{more})
    await client.disconnect()

asyncio.run(main())
""",
}
RIGHT = {
    "Outpost": ("b", ""), "umqtt.simple": ("b", ", qos=1"), "MiniMQTT": ("", ", qos=1"),
    "mqtt_as": ("b", ", qos=1"),
}  # fmt: skip
# What mqtt_as asks of a board, and a desktop's MicroPython lacks.
_WIFI = """\
STA_IF = 0

class WLAN:
    def __init__(self, *_):
        pass

    def active(self, *_):
        return True

    connect = disconnect = config = isconnected = active
"""


@dataclass(frozen=True)
class Mistake:
    """What differs from the right program. where: the name of a port. topic, payload, more: of
    publish(), as source; b: the letter before a literal of bytes in this client."""

    title: str
    where: str = "plain"
    host: str = HOST
    user: str | None = None
    password: str | None = None
    topic: str = '{b}"home/kitchen"'
    payload: str = '{b}"21.5"'
    more: str | None = None
    edit: Callable[[str], str] = field(default=lambda text: text)


def _without(*words: str) -> Callable[[str], str]:
    """Leaves out the lines with these words."""
    return lambda text: "".join(
        line for line in text.splitlines(True) if not any(word in line for word in words)
    )


_OWN = '{b}"outpost/kitchen/data"'  # a topic on which the user may publish
MISTAKES = (
    Mistake("none: the right program"),
    Mistake("nothing listens at the port", "dead"),
    Mistake("the name of the broker has no address", host="broker.invalid"),
    Mistake("the broker's port for TLS, without TLS", "tls"),
    Mistake("a web server's port", "web"),
    Mistake("something that accepts, and is silent", "silent"),
    Mistake("no user, where one is wanted", "rights"),
    Mistake("a wrong password", "rights", user="kitchen", password="wrong", topic=_OWN),
    Mistake(
        "a topic on which this user may not publish", "rights", user="kitchen", password="word"
    ),
    Mistake("topic: str", topic='"home/kitchen"'),
    Mistake("payload: str", payload='"21.5"'),
    Mistake("payload: a number", payload="21.5"),
    Mistake("the third argument is True", more=", True"),
    Mistake("qos=2", more=", qos=2"),
    Mistake("qos=3", more=", qos=3"),
    Mistake("a wildcard in the topic", topic='{b}"home/#"'),
    Mistake("an empty topic", topic='{b}""'),
    Mistake("payload longer than the broker takes", payload='{b}"x" * 700'),
    Mistake("payload of 10,000 bytes", payload='{b}"x" * 10_000'),
    Mistake(
        "forgot to connect, or to run until it is delivered", edit=_without("connect()", "deliver")
    ),
    Mistake("forgot to close", edit=_without("disconnect()", "close()")),
)


@dataclass(frozen=True)
class Seen:
    """status: None: it still ran. said: its last line."""

    status: int | None
    said: str
    came: int
    held: bool = False


# --- What listens ---


@contextlib.contextmanager
def ports(folder: Path) -> Iterator[dict[str, int]]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "users").write_text(password_line("kitchen", "word"))
    (folder / "rights").write_text("user kitchen\ntopic write outpost/kitchen/#\n")
    (folder / "users").chmod(0o600)
    (folder / "rights").chmod(0o600)
    rights = children.free_port()
    lines = (
        f"per_listener_settings true\nmax_packet_size 600\nlistener {rights} {HOST}\n"
        f"allow_anonymous false\npassword_file {folder}/users\nacl_file {folder}/rights\n"
    )
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Broker("mosquitto", folder / "b", more_listeners=lines))
        yield {
            "plain": broker.port,
            "rights": rights,
            "tls": stack.enter_context(MadeBroker(folder / "made", "kitchen")).port,
            "web": stack.enter_context(raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
            "silent": stack.enter_context(raw(None)),
            "dead": children.free_port(),
        }


class Listener:
    """How many messages came to the plain port since the last question."""

    def __init__(self, port: int) -> None:
        self._count, self._asked, ready = 0, threading.Event(), threading.Event()
        self._client = client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.on_message = lambda _client, _data, got: self._take(got.topic)
        client.on_subscribe = lambda *_: ready.set()
        client.connect(HOST, port)
        client.subscribe("#", 1)
        client.loop_start()
        assert ready.wait(60)

    def _take(self, topic: str) -> None:
        if topic == END:
            self._asked.set()
        else:
            self._count += 1

    def came(self) -> int:
        self._asked.clear()
        self._client.publish(END, b"", 1)
        assert self._asked.wait(60)
        count, self._count = self._count, 0
        return count

    def close(self) -> None:
        self._client.loop_stop()
        self._client.disconnect()


# --- The programs ---


def source(client: str, mistake: Mistake, port: int) -> str:
    letter, more = RIGHT[client]
    topic, payload = mistake.topic.format(b=letter), mistake.payload.format(b=letter)
    text = mistake.edit(PROGRAMS[client])
    return text.format(
        host=mistake.host, port=port, user=repr(mistake.user), password=repr(mistake.password),
        topic=topic, payload=payload, more=more if mistake.more is None else mistake.more,
    )  # fmt: skip


def statements(client: str) -> int:
    """Of the right program, imports with it."""
    tree = ast.parse(source(client, MISTAKES[0], 1883))
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree))


def command(client: str, program: Path) -> tuple[list[str], dict[str, str]]:
    """mqtt_as: its folder is in the environment."""
    if client == "Outpost":
        return outpost_command.line("try", program), {}
    if client == "mqtt_as":
        (program.parent / "network.py").write_text(_WIFI)
        (program.parent / "machine.py").write_text('unique_id = lambda: b"kitchen"\n')
        places = [os.environ["MQTT_AS"], program.parent, ".frozen"]
        micropython = interpreters.find_micropython("i386")
        return [*micropython, str(program)], {"MICROPYPATH": os.pathsep.join(map(str, places))}
    found = fetch_peers.fetch_all(("micropython-umqtt.simple", *fetch_peers.MINIMQTT))
    if client == "umqtt.simple":
        micropython = interpreters.find_micropython("i386")
        places = [found["simple"].folder, _renamed(program.parent), ".frozen"]
        return [*micropython, str(program)], {"MICROPYPATH": os.pathsep.join(map(str, places))}
    places = [found[name].folder for name in ("minimqtt", "connectionmanager", "ticks", "typing")]
    # it imports CircuitPython's `micropython`, as Outpost does MicroPython's
    return [sys.executable, str(program)], {
        "PYTHONPATH": os.pathsep.join(map(str, [*places, paths.STUBS]))
    }


def _renamed(folder: Path) -> Path:
    """umqtt.simple imports modules by names that newer MicroPythons do not have."""
    for name in ("socket", "struct", "binascii"):
        (folder / f"u{name}.py").write_text(f"from {name} import *\n")
    return folder


def run(client: str, mistake: Mistake, at: dict[str, int], listener: Listener) -> Seen:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = at[mistake.where]
        program = folder / "program.py"
        program.write_text(source(client, mistake, port))
        _write_settings(folder / "settings.json", mistake, port)
        words, environment = command(client, program)
        limit_s = MQTT_AS_S if client == "mqtt_as" else LIMIT_S
        status, said = _ended(words, folder, environment, limit_s)
        held = client == "Outpost" and _holds(folder)
        return Seen(status, said, listener.came(), held)


def _write_settings(path: Path, mistake: Mistake, port: int) -> None:
    """Outpost's program has host, port and user in it."""
    known = {"device_id": "kitchen", "broker_host": mistake.host, "broker_port": port}
    if mistake.user:
        known |= {"user": mistake.user, "password": mistake.password}
    path.write_text(json.dumps(known))


def _ended(
    words: list[str], folder: Path, environment: dict[str, str], limit_s: float
) -> tuple[int | None, str]:
    """The status, and the last line that it wrote."""
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            words, cwd=folder, env=os.environ | environment, stdout=out, stderr=out
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            children.kill(process)
            status = None
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return status, lines[-1] if lines else ""


def _holds(folder: Path) -> bool:
    """Whether the outbox still has a message."""
    from outpost.file_flash import FileFlash
    from outpost.outbox import Outbox

    if not (folder / "flash.img").exists():
        return False
    outbox = Outbox(FileFlash(str(folder / "flash.img")), page_bytes=256)
    return (outbox.mount() == 0 and outbox.next_seq > outbox.oldest_seq) or bool(outbox.aside)


def verdict(seen: Seen) -> str:
    """In words: whether the user was told, and what became of the message."""
    fate = "came" if seen.came else "held" if seen.held else "lost"
    if seen.status is None:
        return f"runs on, {fate}: {seen.said or 'silent'}"
    if seen.status == 0:
        return "came" if seen.came else f"status 0, {fate}: {seen.said or 'silent'}"
    return f"status {seen.status}, {fate}: {seen.said}"


def table(clients: list[str], rows: list[tuple[str, list[str]]]) -> str:
    head = "| mistake | " + " | ".join(clients) + " |\n|---|" + "---|" * len(clients) + "\n"
    count = [f"{statements(client)} statements" for client in clients]
    lines = [("the right program", count), *rows]
    return head + "".join(
        f"| {title} | {' | '.join(_short(one.replace('|', '/')) for one in cells)} |\n"
        for title, cells in lines
    )


def _short(cell: str) -> str:
    return textwrap.shorten(cell, 160, placeholder=" ...")


def measured(clients: list[str]) -> list[tuple[str, list[str]]]:
    rows = []
    with tempfile.TemporaryDirectory() as name, ports(Path(name)) as at:
        listener = Listener(at["plain"])
        try:
            for mistake in MISTAKES:
                cells = [verdict(run(client, mistake, at, listener)) for client in clients]
                hidden = [_stable(cell, at) for cell in cells]
                rows.append((mistake.title, hidden))
                print(mistake.title, *hidden, sep="\n    ", flush=True)
        finally:
            listener.close()
    return rows


def _stable(cell: str, at: dict[str, int]) -> str:
    """Without what differs from run to run."""
    for port in at.values():
        cell = cell.replace(str(port), "PORT")
    return cell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the page's table")
    parser.add_argument("--mqtt-as", metavar="FOLDER", help="with the folder mqtt_as in it")
    arguments = parser.parse_args()
    if arguments.write and not arguments.mqtt_as:
        parser.error("the page has a column for mqtt_as: give --mqtt-as")
    os.environ["MQTT_AS"] = arguments.mqtt_as or ""
    clients = [one for one in PROGRAMS if one != "mqtt_as" or arguments.mqtt_as]
    text = table(clients, measured(clients))
    if arguments.write:
        marked_table.write(PAGE, "mistakes", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
