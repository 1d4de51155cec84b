# cpython-only: tests a desktop tool
"""The connection that collector and bridge share: what paho's private names must do, limits,
back-pressure, an orderly end.
"""

import contextlib
import socket
import ssl
import threading
import time
from contextlib import contextmanager

import paho.mqtt.client as mqtt
import pytest

from collector_load import encode_publish
from outpost_tools.boards.broker import certificates
from outpost_tools.errors import ToolError
from outpost_tools.mqtt import tls
from outpost_tools.mqtt.client import Client
from outpost_tools.mqtt.connection import Limits
from outpost_tools.mqtt.credentials import Credentials
from outpost_tools.mqtt.message_connection import MessageConnection

LIMITS = Limits(messages=10, seconds=1.0, bytes=5000)


class Plain(MessageConnection[bytes]):
    """Takes payloads; its packet ids are remembered in `ids`."""

    def __init__(self, port, limits=LIMITS):
        super().__init__(("127.0.0.1", port), "plain", limits)
        self.ids = []

    def _subscribe(self, client):
        client.subscribe("a", qos=1)

    def _on_subscribe(self, *_):
        pass

    def _on_message(self, _client, _userdata, message):
        self.ids.append(message.mid)
        self._taken_bytes += len(message.payload)
        self._taken.append(message.payload)

    def ack(self):
        self._client.ack_all([packet_id.to_bytes(2, "big") for packet_id in self.ids])
        self.ids = []


class Server:
    """One connection at a time; CONNECT and SUBSCRIBE are answered when they come whole."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(60)
        self.port = self._server.getsockname()[1]
        self.link = None

    def accept(self, connection):
        self.close_link()
        connecting = threading.Thread(target=lambda: connection.take(1))
        connecting.start()
        self.link, _ = self._server.accept()
        self.link.settimeout(60)
        connecting.join()
        assert self.link.recv(100)[0] == 0x10
        self.link.sendall(b"\x20\2\0\0")
        take_until(connection, lambda: connection.connected)
        connection.take(0)  # SUBSCRIBE was asked for in a callback, where paho does not write
        subscribe = self.link.recv(100)
        self.link.sendall(b"\x90\3" + subscribe[2:4] + b"\1")
        connection.take(0.2)

    def close_link(self):
        if self.link is not None:
            self.link.close()

    def close(self):
        self.close_link()
        self._server.close()


def take_until(connection, condition):
    taken, until = [], time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        taken += connection.take(0.1)
    return taken


@contextmanager
def linked(limits=LIMITS):
    server = Server()
    connection = Plain(server.port, limits)
    server.accept(connection)
    try:
        yield server, connection
    finally:
        server.close_link()
        connection.close()
        server.close()


def packets(count, first=1, size=8):
    return [encode_publish(b"a", n, b"%0*d" % (size, n)) for n in range(first, first + count)]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
def test_packets_arrive_in_order_however_they_are_cut(cut):
    with linked() as (server, connection):
        data = b"".join(packets(25))
        taken = []
        for at in range(0, len(data), cut):
            server.link.sendall(data[at : at + cut])
            taken += connection.take(0.01)
        while len(taken) < 25:
            taken += connection.take(0.5)
        assert taken == [b"%08d" % n for n in range(1, 26)]


def test_a_group_is_bounded_in_messages_and_the_rest_needs_no_new_bytes():
    with linked() as (server, connection):
        server.link.sendall(b"".join(packets(25)))
        time.sleep(0.1)
        began = time.monotonic()
        assert [len(connection.take(5)) for _ in range(3)] == [10, 10, 5]
        assert time.monotonic() - began < 4  # what was read ahead is not waited for


def test_a_group_is_bounded_in_bytes():
    with linked() as (server, connection):
        server.link.sendall(b"".join(packets(8, size=2000)))
        time.sleep(0.1)
        assert len(connection.take(5)) == 3


def test_pubacks_go_in_one_write_for_what_was_given():
    with linked() as (server, connection):
        server.link.sendall(b"".join(packets(5, first=65531)))
        time.sleep(0.1)
        connection.take(1)
        connection.ack()
        assert server.link.recv(1000) == b"".join(
            b"\x40\2" + n.to_bytes(2, "big") for n in range(65531, 65536)
        )


def test_what_was_read_ahead_dies_with_its_connection():
    with linked() as (server, connection):
        server.link.sendall(b"".join(packets(15)) + packets(1)[0][:5])  # the last one in part
        time.sleep(0.1)
        assert len(connection.take(1)) == 10
        # as after a keep alive that was missed while the disk was full: five are still read ahead
        connection._drop()
        server.accept(connection)
        server.link.sendall(packets(1, first=77)[0])
        take_until(connection, lambda: connection.ids[-1:] == [77])
        # the broker sends the five again, under this connection's ids
        assert connection.ids == [*range(1, 11), 77]


def test_who_does_not_take_reads_nothing():
    """Back-pressure: the kernel's buffers fill, and the sender stands still."""
    with linked() as (server, connection):
        server.link.settimeout(0.3)
        data = b"".join(packets(2000, size=5000))
        with pytest.raises(TimeoutError):
            while True:
                server.link.sendall(data)
                connection.idle()
        assert connection._client.has_read_ahead is False


def test_close_says_disconnect_behind_the_last_pubacks_and_reads_the_rest_away():
    with linked() as (server, connection):
        server.link.sendall(b"".join(packets(10)))
        time.sleep(0.1)
        connection.take(1)
        # unread: closing now would reset the connection
        server.link.sendall(b"".join(packets(1000, size=100)))
        connection.ack()
        closing = threading.Thread(target=connection.close)
        closing.start()
        data = b""
        while not data.endswith(b"\xe0\0"):
            part = server.link.recv(1000)
            assert part, "closed without DISCONNECT"
            data += part
        assert len(data) == 42
        server.close_link()
        closing.join(60)
        assert not closing.is_alive()


def test_a_server_that_is_silent_after_connect_is_left(capsys):
    server = Server()
    connection = Plain(server.port)
    accepted = []
    accepting = threading.Thread(target=lambda: accepted.append(server._server.accept()[0]))
    accepting.start()
    connection.take(1)
    accepting.join()
    connection._connack_by = time.monotonic() - 1
    connection.take(0.1)
    assert "no CONNACK" in capsys.readouterr().err and connection._client.socket() is None
    accepted[0].close()
    server.close()


class Refused(Plain):
    """version, and hints of its own."""

    def __init__(self, port, version):
        MessageConnection.__init__(self, ("127.0.0.1", port), "plain", LIMITS, version=version)
        self.level_hint = "another level"


def keep_alive_of(connect):
    """In CONNECT: after `MQTT`, the level and the flags."""
    return int.from_bytes(connect[connect.index(b"MQTT") + 6 :][:2], "big")


def refused(connection, listener, answer):
    """Answer one CONNECT. Returns it."""
    connection._retry_at = 0.0
    connecting = threading.Thread(target=lambda: connection.take(1))
    connecting.start()
    with listener.accept()[0] as link:
        connect = link.recv(1000)
        link.sendall(answer)
        connecting.join()
        connection.take(1)
    return connect


@pytest.mark.parametrize("session_present", [0, 1])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "refused: Unsupported protocol version; another level"),
        (2, "refused: Client identifier not valid; it does not take this client identifier, or"),
        (3, "refused: Server unavailable; the broker runs, but takes no clients now"),
        (4, "refused: Bad user name or password; check --user and --password-file"),
        (5, "refused: Not authorized; check --user and --password-file"),
        (77, "refused: Unspecified error; the broker's log may say why"),
    ],
)
def test_each_code_of_a_refusal_is_named_also_with_session_present(
    code, said, session_present, capsys
):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = Refused(listener.getsockname()[1], mqtt.MQTTv311)
        refused(one, listener, bytes((0x20, 2, session_present, code)))
        if code == 1:  # paho has tried MQTT 3.1 at once
            with listener.accept()[0] as link:
                link.recv(1000)
                link.sendall(bytes((0x20, 2, session_present, code)))
                one.take(1)
        assert said in capsys.readouterr().err and not one.connected
        one._drop()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0x84, "another level"), (0x85, "max_keepalive"), (0x86, "check --user"),
        (0x87, "check --user"), (0x88, "takes no clients now"), (0x8A, "bans this client"),
        (0x95, "Packet too large; our CONNECT or will is longer"), (0x9A, "allow RETAIN"),
        (0x9F, "how often clients connect"), (0x80, "log may say why"),
    ],
)  # fmt: skip
def test_each_code_of_mqtt_5_is_named(code, said, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = Refused(listener.getsockname()[1], mqtt.MQTTv5)
        connect = refused(one, listener, bytes((0x20, 3, 1, code, 0)))
        assert said in capsys.readouterr().err
        assert keep_alive_of(connect) == keep_alive_of(refused(one, listener, b"")) == 30
        one._drop()


def test_a_keep_alive_that_may_be_too_long_is_tried_shorter_and_then_as_before(capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = Refused(listener.getsockname()[1], mqtt.MQTTv311)
        connects = [refused(one, listener, b"\x20\x02\x01\x02") for _ in range(3)]
        assert list(map(keep_alive_of, connects)) == [30, 10, 30]
        connects = [refused(one, listener, b"\x20\x02\x00\x05") for _ in range(2)]
        assert list(map(keep_alive_of, connects)) == [10, 10]
        one._drop()
    assert "next with a keep alive of 10 s; trying again" in capsys.readouterr().err


def test_publish_all_is_qos_0_with_any_length_and_retained_unless_told():
    sent = []
    client = Client(mqtt.CallbackAPIVersion.VERSION2)
    client._packet_queue = lambda _kind, data, *_: sent.append(bytes(data))
    client.publish_all([(b"t", b"x" * 10), (b"t", b"y" * 20_000)])
    assert sent == [b"\x31\x0d\0\1t" + b"x" * 10 + b"\x31\xa3\x9c\x01\0\1t" + b"y" * 20_000]
    client.publish_all([(b"t", b"z")], retain=False)
    assert sent[1:] == [b"\x30\x04\0\1tz"]


@pytest.mark.parametrize(
    ("host", "is_let_in"),
    [("broker.home", True), ("broker.home.", True), ("BROKER.home.", True), ("other.home.", False)],
)
@pytest.mark.parametrize("kind", ["--ca-file", "credentials"])
def test_a_final_dot_is_not_part_of_the_name_in_a_certificate(tmp_path, host, is_let_in, kind):
    """It is legal in a host's name, and legal nowhere in SNI: RFC 6066, section 3."""
    pair = certificates.authority()
    own = certificates.server(pair, ["broker.home"])
    for name, text in (("ca.pem", pair.certificate), ("own.pem", own.certificate + own.key)):
        (tmp_path / name).write_text(text)
    here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(tmp_path / "own.pem")
    heard = []
    here.sni_callback = lambda _link, name, _context: heard.append(name)
    there = tls.of_options(tmp_path / "ca.pem")
    if kind == "credentials":
        there = Credentials("board", host, 1, pair.certificate, "a", "a", "a").tls()
    ours, theirs = socket.socketpair()

    def serve():
        with contextlib.suppress(OSError), here.wrap_socket(theirs, server_side=True) as link:
            link.recv(1)

    server = threading.Thread(target=serve)
    server.start()
    try:  # as paho does
        with there.wrap_socket(ours, server_hostname=host, do_handshake_on_connect=False) as link:
            link.do_handshake()
            found = True
    except ssl.SSLCertVerificationError:
        found = False
    ours.close()
    server.join(120)
    assert found is is_let_in and heard == [host.removesuffix(".")]


def test_bad_certificates_are_named(tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    with pytest.raises(ToolError, match="--ca-file .*bad.pem"):
        tls.of_options(bad)
    with pytest.raises(ToolError, match="--ca-file .*none.pem"):
        tls.of_options(tmp_path / "none.pem")
    with pytest.raises(ToolError, match="--cert .*bad.pem"):
        tls.of_options(None, bad, bad)
