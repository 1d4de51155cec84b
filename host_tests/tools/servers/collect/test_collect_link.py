# cpython-only: tests a desktop tool
"""Batches of the collector's connection: however the bytes are cut, bounded, and gone with their
connection.
"""

import socket
import threading
import time
from contextlib import closing

import pytest

from collector_load import encode_publish
from outpost_tools.log import segments
from outpost_tools.messages.message import key_of
from outpost_tools.servers.collect import link as link_module
from outpost_tools.servers.collect.link import Link

TOPIC = b"outpost/b1/data"


def payload(seq):
    return b'[{"bn":"b1/","ver":1,"sid":"0badcafe","seq":%d,"held":0,"n":"x","v":1}]' % seq


def packets(count, first=0):
    return [encode_publish(TOPIC, n + 1, payload(n)) for n in range(first, first + count)]


@pytest.fixture
def ends():
    """(a link that believes to be connected, the server's end)."""
    ours, theirs = socket.socketpair()
    link = Link("127.0.0.1", 1, "c1", "outpost")
    connect(link, ours)
    theirs.settimeout(10)
    with closing(theirs):
        yield link, theirs
    link._drop()


def connect(link, ours):
    ours.setblocking(False)
    link._client._begin_with(b"", 0)
    link._client._sock, link.connected = ours, True
    link._connection += 1


def stored(batches):
    data = segments.sealed_bytes([frame for batch in batches for frame in batch.frames])
    return [frame.payload for frame in segments.scan(data)]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
def test_messages_arrive_in_order_however_they_are_cut(ends, cut):
    link, server = ends
    data, batches = b"".join(packets(25)), []
    for at in range(0, len(data), cut):
        server.sendall(data[at : at + cut])
        batches.append(link.take(1))
    assert stored(batches) == [payload(n) for n in range(25)]
    assert [key for batch in batches for key in batch.keys] == [
        key_of(TOPIC, payload(n)) for n in range(25)
    ]
    for batch in batches:
        link.ack(batch)
    assert server.recv(1000) == b"".join(b"\x40\2" + (n + 1).to_bytes(2, "big") for n in range(25))


def test_a_batch_ends_with_the_read_that_reaches_its_limit(ends, monkeypatch):
    link, server = ends
    monkeypatch.setattr(
        link_module, "BATCH", link_module.Limits(messages=10, seconds=60, bytes=1 << 20)
    )
    for half in (packets(11), packets(11, first=11)):
        server.sendall(b"".join(half))
        assert len(link.take(5).frames) == 11
    assert not link.take(0)


def test_others_topics_are_acknowledged_and_not_stored(ends):
    link, server = ends
    for n, topic in enumerate((b"outpost/b1/durable", b"data", b"other/b1/data"), start=1):
        server.sendall(encode_publish(topic, n, b"x"))
    batch = link.take(1)
    assert batch and not batch.frames and len(batch.packet_ids) == 3


def test_retained_oversize_and_nameless_messages_are_stored_without_a_key(ends):
    link, server = ends
    server.sendall(b"\x33" + encode_publish(TOPIC, 1, payload(0))[1:])
    server.sendall(encode_publish(b"outpost/no name/data", 2, payload(0)))
    server.sendall(encode_publish(TOPIC, 3, b"no message"))
    batch = link.take(1)
    assert len(batch.frames) == len(batch.packet_ids) == 3 and batch.keys == []
    assert [f.retained for f in segments.scan(segments.sealed_bytes(batch.frames))] == [
        True, False, False,
    ]  # fmt: skip


def test_a_batch_of_an_old_connection_is_not_acknowledged(ends):
    link, server = ends
    server.sendall(b"".join(packets(3)) + packets(1)[0][:9])  # the last one in part
    batch = link.take(1)
    link._drop()
    ours, theirs = socket.socketpair()
    connect(link, ours)
    with closing(theirs):
        link.ack(batch)
        theirs.sendall(packets(1, first=7)[0])
        later = link.take(5)
        assert stored([later]) == [payload(7)]  # the part was forgotten
        link.ack(later)
        assert theirs.recv(100) == b"\x40\2\0\x08"


@pytest.mark.parametrize("last", [b"\x32\xff\xff\xff\xff\1", b"\x32\4\0\x09ab"])
def test_what_is_no_mqtt_ends_the_connection(ends, last, capsys):
    link, server = ends
    server.sendall(last)
    assert not link.take(1) and not link.connected
    assert "connection lost" in capsys.readouterr().err


def test_a_server_that_is_gone_is_noticed_and_what_it_sent_is_kept(ends, capsys):
    link, server = ends
    server.sendall(b"".join(packets(3)))
    server.shutdown(socket.SHUT_WR)
    assert stored([link.take(1)]) == [payload(n) for n in range(3)]
    until = time.monotonic() + 60
    while link.connected and time.monotonic() < until:
        link.take(0.1)
    assert "connection lost" in capsys.readouterr().err


def test_the_memory_of_topics_is_bounded(ends, monkeypatch):
    link, server = ends
    monkeypatch.setattr(link_module, "_NAMES_REMEMBERED", 3)
    for n in range(10):
        server.sendall(encode_publish(b"outpost/b%d/data" % n, n + 1, payload(n)))
    assert [key.device for key in link.take(1).keys] == [f"b{n}" for n in range(10)]
    assert len(link._devices) <= 3


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\x20\x02\x00\x00", ""),
        (b"\x20\x02\x00\x05", "refused: Not authorized"),
        (b"", "no answer"),
        (None, "the connection was lost"),
    ],
)
def test_a_session_that_is_not_given_up_is_told_and_waited_for_a_while_only(
    answer, said, monkeypatch, capsys
):
    """A broker that died in between: a traceback, or a wait that heard of no signal."""
    monkeypatch.setattr(link_module, "CONNACK_TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with listener.accept()[0] as one:
                one.recv(1000)
                if answer is not None:
                    one.sendall(answer)
                    one.recv(1000)

        serving = threading.Thread(target=serve)
        serving.start()
        link = Link(*listener.getsockname(), "c1", "outpost")
        assert link.give_up_session() is not bool(said)
        serving.join()
    assert said in capsys.readouterr().err
    assert not link.give_up_session()
    assert "nothing listens there" in capsys.readouterr().err
