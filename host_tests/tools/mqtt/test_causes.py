# cpython-only: tests the desktop tools
"""The first line of each command at a wrong port, with a wrong protocol, or refused: the cause in
words. `-s` prints the table.
"""

import errno
import json
import socket
import ssl
import time
from contextlib import contextmanager

import pytest

from make_certificates import made_or_skip
from outpost_tools import cli
from outpost_tools.boards.selftest import selftest
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.mqtt import causes, refusals
from outpost_tools.mqtt.client import Client
from outpost_tools.mqtt.connection import Limits
from outpost_tools.mqtt.message_connection import MessageConnection
from outpost_tools.terminal import ending
from raw_server import raw
from real_broker import need_mosquitto

HOST = "127.0.0.1"
COMMANDS = ("collect", "monitor", "republish", "send", "flash")
HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


# --- What listens at the address ---


def connack(code, code_5=None):
    """A broker that refuses: 3.1.1 with `code`, 5.0 with `code_5` (None: it closes)."""

    def answer(data):
        if b"MQTT\5" in data:
            return b"" if code_5 is None else bytes((0x20, 3, 0, code_5, 0))
        return bytes((0x20, 2, 0, code)) if b"MQ" in data else b""

    return answer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return made_or_skip(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory, certificates):
    """With more ports: TLS; TLS that asks for a certificate; WebSockets."""
    need_mosquitto()
    ports = [children.free_port() for _ in range(3)]
    tls = (
        f"allow_anonymous true\ncafile {certificates}/ca.pem\ncertfile {certificates}/server.pem\n"
        f"keyfile {certificates}/server.key\n"
    )
    lines = (
        f"listener {ports[0]} {HOST}\n{tls}listener {ports[1]} {HOST}\n{tls}"
        f"require_certificate true\nlistener {ports[2]} {HOST}\nprotocol websockets\n"
        "allow_anonymous true\n"
    )
    folder = tmp_path_factory.mktemp("broker")
    with Broker("mosquitto", folder, more_listeners=lines) as broker:
        broker.tls, broker.strict, broker.websockets = ports
        yield broker


# --- The first line of each command ---


class Board:
    """What the script of the link's test prints on a board that ends with `error`."""

    port = "port"

    def __init__(self, error, port, tls, code):
        self._lines = [f"E {error}", f"A {HOST} {port} {int(tls)} 4", f"L 0 {error} {code}"]

    def renew(self):
        pass

    def run(self, _script, take):
        for line in self._lines:
            take(line)
        return self._lines


def flash(port, tls, error, code):
    found = selftest.status_numbers()
    number = getattr(found, error, None)
    number = getattr(errno, error) if number is None else number
    return selftest.link(Board(number, port, tls, code), 1.0)[1]


@contextmanager
def ended_when(said, monkeypatch):
    """The commands that try for ever end when said() is true."""
    until = time.monotonic() + 60
    monkeypatch.setattr(ending.Ending, "is_set", lambda _self: said() or time.monotonic() > until)
    yield
    monkeypatch.undo()


def line_of(command, port, tls, folder, capsys, monkeypatch, certificates):
    """What it says that is no greeting."""
    options = ["--broker", f"{HOST}:{port}"]
    options += ["--ca-file", str(certificates / "ca.pem")] if tls else []
    words = {
        "collect": ["collect", *options, "--log", str(folder / "log"), "--id", "c1"],
        "republish": ["republish", *options],
        "send": ["send", *options, "board-1", "report", "--timeout", "20"],
        "monitor": ["monitor", "--settings", str(settings(folder, port, tls, certificates)),
                    "--seconds", "35"],
    }[command]  # fmt: skip
    seen = []

    def said():
        seen.append(capsys.readouterr().err)
        return bool(found())

    def found():
        return [
            line
            for line in "".join(seen).splitlines()
            if (f"{HOST}:{port}" in line and "connecting to" not in line) or "refuses" in line
        ]

    with ended_when(said, monkeypatch):
        status = cli.main(words)
    said()
    assert status == 2 or command in ("collect", "republish")
    return found()[0]


def settings(folder, port, tls, certificates):
    path = folder / "kitchen.toml"
    values = {"device_id": "kitchen", "broker_host": HOST, "broker_port": port}
    if tls:
        values |= {"tls": True, "ca_file": str(certificates / "ca.pem")}
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return path


# name: what listens; with TLS?; the firmware's error and CONNACK's code; what each line contains
CASES = {
    "TLS port, without TLS": ("tls", False, "LINK_LOST", 0, "it speaks TLS, and we do not"),
    "plain port, with TLS": ("port", True, "LINK_LOST", 0, "it speaks MQTT without TLS"),
    "WebSocket port": ("websockets", False, "LINK_LOST", 0, "it is the broker's WebSocket port"),
    "WebSocket port, with TLS": ("websockets", True, "LINK_LOST", 0, "broker's WebSocket port"),
    "a certificate is wanted": ("strict", True, "LINK_LOST", 0, "certificate"),
    "HTTP server": (HTTP, False, "PROTOCOL_ERROR", 0, "an HTTP server answers there"),
    "HTTP server, with TLS": (HTTP, True, "LINK_LOST", 0, "an HTTP server answers there"),
    "HTTPS server": ("https", True, "PROTOCOL_ERROR", 0, "an HTTP server answers there"),
    "SSH server": (b"SSH-2.0-x\r\n", False, "PROTOCOL_ERROR", 0, "an SSH server answers there"),
    "NATS' own port": (b"INFO {}\r\n", False, "PROTOCOL_ERROR", 0, "NATS's own clients"),
    "nobody there": (None, False, "ECONNREFUSED", 0, "nothing listens there"),
    "closes": (b"", False, "LINK_LOST", 0, "ended without an answer"),
    "version": (connack(1), False, "REFUSED", 1, "Unsupported protocol version"),
    "identifier": (connack(2), False, "REFUSED", 2, "Client identifier not valid"),
    "unavailable": (connack(3), False, "REFUSED", 3, "Server unavailable"),
    "login": (connack(4), False, "REFUSED", 4, "Bad user name or password"),
    "not authorized": (connack(5), False, "REFUSED", 5, "Not authorized"),
}  # fmt: skip


@contextmanager
def listening(what, mosquitto, certificates):
    if what is None:
        yield children.free_port()
    elif what == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        with raw(HTTP, context=context) as port:
            yield port
    elif isinstance(what, str):
        yield getattr(mosquitto, what)
    else:
        greets = isinstance(what, bytes) and what.startswith((b"SSH", b"INFO"))
        with raw(what, waits=not greets) as port:
            yield port


@pytest.mark.parametrize("name", CASES)
def test_each_command_says_the_cause_at_first(
    name, mosquitto, certificates, tmp_path, capsys, monkeypatch
):
    what, tls, error, code, says = CASES[name]
    rows = []
    with listening(what, mosquitto, certificates) as port:
        for command in COMMANDS:
            if command == "flash":
                line = flash(port, tls, error, code)
            else:
                line = line_of(command, port, tls, tmp_path, capsys, monkeypatch, certificates)
            rows.append((command, line.replace(str(port), "PORT")))
    table = "\n".join(f"| {name} | {command} | {line} |" for command, line in rows)
    print(table)
    for command, line in rows:
        assert FLASH.get(name, says) in line if command == "flash" else says in line, table


# What a board tells of itself names it less; and looking from here finds nothing.
_CLOSED = "closed the connection; does it want TLS"
FLASH = {"closes": _CLOSED, "a certificate is wanted": _CLOSED}


def test_the_board_of_a_broker_that_wants_a_certificate_is_told_what_may_be(mosquitto):
    said = flash(mosquitto.strict, True, "TLS_REFUSED", 0)
    assert "the broker may want 'client_cert_file'" in said


def test_a_peer_that_has_closed_before_connect_was_written_is_told(
    mosquitto, certificates, tmp_path, capsys, monkeypatch
):
    """The alert is lost then: found while three commands of four took it for a read."""
    monkeypatch.setattr(Client, "_sock_send", lambda *_: (_ for _ in ()).throw(BrokenPipeError()))
    line = line_of("send", mosquitto.strict, True, tmp_path, capsys, monkeypatch, certificates)
    assert "certificate required" in line and "nothing was sent" in line


# --- What only 5.0 can say ---


@pytest.mark.parametrize(
    ("code", "says"),
    [(0x97, "Quota exceeded"), (0x9F, "how often clients connect"), (0x99, "payload of our will")],
)
def test_a_broker_that_closes_on_3_1_1_is_asked_in_5_0(
    code, says, tmp_path, capsys, monkeypatch, mosquitto, certificates
):
    def closing(data):
        return connack(0, code)(data) if b"MQTT\5" in data else b""

    with raw(closing) as port:
        for command in ("collect", "monitor", "republish", "send"):
            line = line_of(command, port, False, tmp_path, capsys, monkeypatch, certificates)
            assert says in line


class Asking(MessageConnection[None]):
    def _subscribe(self, client):
        """It is in."""


def test_a_broker_without_5_0_is_asked_once_and_spoken_to_in_3_1_1_again(capsys):
    """It answers the question as 3.1.1 wants it: return code 1."""
    versions = []

    def answer(data):
        if b"asking" in data:
            versions.append(5 if b"MQTT\5" in data else 4)
            if versions[-1] == 5:
                return bytes((0x20, 2, 0, 1))
            return bytes((0x20, 2, 0, 0)) if versions.count(4) > 1 else b""
        return b""

    until = time.monotonic() + 60
    with raw(answer) as port:
        asking = Asking((HOST, port), "asking", Limits(1, 1.0, 1))
        while not asking.connected and time.monotonic() < until:
            asking.take(0.2)
        asking.close()
    assert versions == [4, 5, 4]
    assert "does not speak MQTT 5.0" in capsys.readouterr().err


def test_each_code_of_both_versions_has_words():
    assert "Not authorized" in refusals.why_code(5, 4)
    for code in (*range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F):
        text = refusals.why_code(code, 5)
        assert ";" in text, hex(code)
    assert "0x7f" in refusals.why_code(0x7F, 5)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), " -p 1)"),
        (socket.gaierror(-2, "Name or service not known"), "the name is not known"),
        (TimeoutError("timed out"), "is that machine on"),
        (ssl.SSLCertVerificationError("bad"), "--ca-file"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "No route to host"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_comes_with_what_to_do(error, says):
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = "self-signed certificate"
    assert says in causes.of_error(error, causes.Place(HOST, 1))


def test_how_to_start_a_broker_is_a_command_that_is_there(monkeypatch):
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "x")
    monkeypatch.setattr(causes.interpreters, "find_mosquitto", lambda: None)
    assert "outpost fetch mosquitto" in causes.of_error(refused, causes.Place(HOST, 1883))
    context = causes.unverified()
    assert "`outpost run HOME`" in causes.of_error(refused, causes.Place(HOST, 8883, context))
    assert "on that machine" in causes.of_error(refused, causes.Place("192.0.2.1", 1883))
