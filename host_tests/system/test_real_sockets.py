# cpython-only: threads, sockets and processes
"""The client on real sockets against the scripted server, on each interpreter: cut, half-closed,
reset, silent, never reading, in single bytes and in lumps. What test_scripted_server.py shows with
a fake stream, the socket layers are in between here.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outpost import status
from outpost_tools.machine.interpreters import REQUIRED_ARCHITECTURES, find_micropython
from paths import PRODUCT, STUBS, joined
from scripted_server import Connection, ScriptedServer, answer, encode

# a busy machine's share; a client that waits for an answer takes response_ms (10 s) or for ever
LONGEST_POLL_MS = 5000


@pytest.fixture(params=["cpython", *REQUIRED_ARCHITECTURES])
def run_client(request, tmp_path):
    """Calls the client's program on one interpreter; returns its report."""
    folders = [*PRODUCT]
    if request.param == "cpython":
        command, name = [sys.executable], "PYTHONPATH"
        folders.append(STUBS)
    else:
        command, name = find_micropython(request.param), "MICROPYPATH"
        if command is None:
            pytest.skip(f"missing: MicroPython for {request.param}; run `make setup`")

    def run(server: ScriptedServer, **orders: object) -> dict:
        program = Path(__file__).with_name("client_over_socket.py")
        done = subprocess.run(
            [*command, program, json.dumps({"port": server.port, **orders})],
            cwd=tmp_path,
            env={**os.environ, name: joined(*folders)},
            check=False,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert not server.faults
        assert report["reached"], report
        assert report["longest_poll_ms"] < LONGEST_POLL_MS, report
        return report

    return run


def serve(connection: Connection) -> None:
    connection.serve()


def silent(connection: Connection) -> None:
    """CONNACK, and never another word."""
    connection.accept()
    connection.wait_for_end()


def end(connection: Connection, by_reset: bool) -> None:
    if by_reset:
        connection.reset()


def test_half_closed_the_client_closes_and_sends_again_with_dup(run_client):
    def half_close(connection):
        connection.accept()
        connection.expect("PUBLISH")
        connection.say_no_more()
        connection.wait_for_end()

    with ScriptedServer(half_close, serve) as server:
        report = run_client(server, publish=1, until={"is_drained": 1})
    assert (report["errors"], report["connects"]) == ([status.LINK_LOST], 2)
    assert server.published(0) == [(1, False, b"message 0")]
    assert server.published(1) == [(1, True, b"message 0")]


def cut_after(data: bytes, count: int, by_reset: bool, received: tuple[str, ...]):
    """A script: take these packets, send the first bytes of data, then end."""

    def script(connection):
        if received != ("CONNECT",):
            connection.accept(session_present=1)
        for kind in received:
            while connection.receive()[0] != kind:
                pass
        connection.send(data[:count])
        time.sleep(0.02)  # let the bytes arrive before the reset, which would discard them
        end(connection, by_reset)

    return script


CUTS = [(count, by_reset) for count in range(4) for by_reset in (False, True)]


def test_connack_cut_at_every_byte(run_client):
    data = encode("CONNACK")
    scripts = [cut_after(data, *cut, ("CONNECT",)) for cut in CUTS]
    with ScriptedServer(*scripts, serve) as server:
        report = run_client(server, publish=1, until={"is_drained": 1})
    assert (len(report["errors"]), report["connects"], report["redelivered"]) == (len(CUTS), 1, 0)
    assert server.published(len(CUTS)) == [(1, False, b"message 0")]


def test_puback_cut_at_every_byte(run_client):
    scripts = [cut_after(encode("PUBACK", packet_id=1), *cut, ("PUBLISH",)) for cut in CUTS]
    with ScriptedServer(*scripts, serve) as server:
        report = run_client(server, publish=3, until={"is_drained": 1})
    assert (len(report["errors"]), report["acknowledged"], report["ignored"]) == (len(CUTS), 3, 0)
    last = [packet_id for packet_id, _, _ in server.published(len(CUTS))]
    assert last == [1, 2, 3]
    assert server.published(len(CUTS))[0] == (1, True, b"message 0")


def test_suback_cut_at_every_byte(run_client):
    """Twice: on the fourth in a row a filter is given up."""
    data = encode("SUBACK", packet_id=32768, codes=[1, 0])
    for count in range(len(data)):
        cuts = [cut_after(data, count, by_reset, ("SUBSCRIBE",)) for by_reset in (False, True)]
        with ScriptedServer(*cuts, serve) as server:
            report = run_client(
                server, subscribe=2, publish=1, until={"connects": 3, "is_drained": 1}
            )
        assert len(report["errors"]) == len(cuts)
        for number in range(len(cuts) + 1):
            assert "SUBSCRIBE" in server.kinds(number), (count, number)


def test_qos_2_cut_in_each_phase_reaches_the_server_once(run_client):
    pubrec, pubcomp = encode("PUBREC", packet_id=1), encode("PUBCOMP", packet_id=1)

    def released(count):
        """The server has PUBREC'd before; it answers PUBREL with a part of PUBCOMP."""
        return cut_after(pubcomp, count, False, ("PUBREL",))

    def take_and_release(connection):
        connection.accept(session_present=1)
        connection.expect("PUBLISH")
        connection.send(pubrec)
        connection.expect("PUBREL")

    scripts = [cut_after(pubrec, count, False, ("PUBLISH",)) for count in range(4)]
    with ScriptedServer(
        *scripts, take_and_release, *[released(count) for count in range(4)], serve
    ) as server:
        report = run_client(server, publish=1, qos=2, until={"is_drained": 1})
    assert (report["acknowledged"], report["ignored"]) == (1, 0)
    for number in range(5, 10):  # after the PUBREC never the message again
        assert "PUBLISH" not in server.kinds(number)
        assert "PUBREL" in server.kinds(number)


def test_a_server_that_never_reads_is_given_up_after_response_ms(run_client):
    def never_reads(connection):
        connection.accept()
        server.wait_for_next()  # the client has given this connection up

    with ScriptedServer(never_reads, serve, receive_bytes=4096) as server:
        report = run_client(
            server,
            flood=True,
            response_ms=700,
            keep_alive_s=0,
            until={"connects": 2},
            limit_ms=60_000,
        )
    assert report["errors"][0] == status.TIMED_OUT


def test_silence_after_pingreq_ends_the_connection(run_client):
    with ScriptedServer(silent, serve) as server:
        report = run_client(server, keep_alive_s=1, response_ms=400, until={"connects": 2})
    assert report["errors"] == [status.TIMED_OUT]
    assert 1100 <= report["took_ms"] < 10_000  # not the usual response_ms


def test_silence_after_connect_ends_the_connection(run_client):
    with ScriptedServer(lambda connection: connection.wait_for_end(), serve) as server:
        report = run_client(server, response_ms=400, until={"connects": 1})
    assert report["errors"] == [status.TIMED_OUT]


def inbound(length: int, packet_id: int) -> bytes:
    return encode("PUBLISH", topic=b"c/0/x", payload=bytes(length), qos=1, packet_id=packet_id)


def big_then_small(connection: Connection) -> None:
    """64 KiB at once, then a message that fits; both must be acknowledged, in their order."""
    connection.accept()
    connection.send(inbound(65_536, 7) + inbound(5, 8))
    assert [connection.expect("PUBACK")["packet_id"] for _ in range(2)] == [7, 8]
    connection.serve()


def test_64_kib_into_a_256_byte_buffer_is_skipped_and_the_connection_stays(run_client):
    with ScriptedServer(big_then_small) as server:
        report = run_client(server, until={"skipped": 1, "received": 1})
    assert (report["lengths"], report["connects"], report["errors"]) == ([5], 1, [])


def test_64_kib_through_a_256_byte_buffer_in_pieces(run_client):
    with ScriptedServer(big_then_small) as server:
        report = run_client(server, streaming=True, until={"received": 2})
    assert (sum(report["lengths"]), report["skipped"], report["errors"]) == (65_536 + 5, 0, [])
    assert len(report["lengths"]) > 256


def test_one_byte_per_segment(run_client):
    def drip(connection):
        connection.expect("CONNECT")
        connection.send_byte_by_byte(encode("CONNACK"))
        for _ in range(4):
            connection.send_byte_by_byte(answer(*connection.receive()))
        for packet_id in (1, 2):
            connection.send_byte_by_byte(inbound(40, packet_id))
            assert connection.expect("PUBACK")["packet_id"] == packet_id
        connection.serve()

    with ScriptedServer(drip) as server:
        report = run_client(server, publish=3, subscribe=1, until={"is_drained": 1, "received": 2})
    assert (report["codes"], report["acknowledged"], report["lengths"], report["errors"]) == (
        [1],
        3,
        [40, 40],
        [],
    )


def test_glued_packets(run_client):
    def lump(connection):
        connection.expect("CONNECT")
        connection.send(
            encode("CONNACK")
            + b"".join([inbound(n, n) for n in range(1, 101)])
            + encode("PINGRESP")
        )
        acknowledged = [
            fields["packet_id"] for kind, fields in (connection.receive() for _ in range(100))
        ]
        assert acknowledged == list(range(1, 101))
        connection.serve()

    with ScriptedServer(lump) as server:
        report = run_client(server, until={"received": 100})
    assert (report["lengths"], report["errors"]) == (list(range(1, 101)), [])


def test_reset_in_the_middle_of_anything(run_client):
    """RST after n received packets, unread data and all: each message arrives, none unsent is
    marked DUP.
    """

    def reset_after(count):
        def script(connection):
            connection.accept(session_present=1)
            for _ in range(count):
                connection.receive()
            connection.reset()

        return script

    with ScriptedServer(*[reset_after(count) for count in (1, 2, 5, 10, 16)], serve) as server:
        report = run_client(server, publish=40, until={"is_drained": 1})
    assert report["acknowledged"] == 40
    heard = {}
    for packet_id, dup, payload in [
        found for number in range(6) for found in server.published(number)
    ]:
        assert dup or packet_id not in heard  # what the server has seen before says so
        assert heard.setdefault(packet_id, payload) == payload
    assert sorted(heard) == list(range(1, 41))
    assert [packet_id for packet_id, _, _ in server.published(5)] == list(range(1, 41))


def test_garbage_closes_and_the_next_connection_works(run_client):
    def garbage(data):
        def script(connection):
            connection.accept()
            connection.send(data)
            connection.wait_for_end()

        return script

    faults = (
        b"\xf0\x00",
        b"\x30\xff\xff\xff\xff\x01",
        b"\x36" + inbound(3, 1)[1:],
        b"\x20\x02\x00\x00",
        b"\x41\x02\x00\x01",
    )
    with ScriptedServer(*[garbage(data) for data in faults], serve) as server:
        report = run_client(server, publish=1, until={"is_drained": 1, "connects": len(faults) + 1})
    assert report["errors"] == [status.PROTOCOL_ERROR] * len(faults)


def test_refused_1_to_5(run_client):
    def refuse(code):
        def script(connection):
            connection.expect("CONNECT")
            connection.send(encode("CONNACK", code=code))

        return script

    with ScriptedServer(*[refuse(code) for code in range(1, 6)], serve) as server:
        report = run_client(server, publish=1, until={"is_drained": 1})
    assert (report["errors"], report["connects"]) == ([status.REFUSED] * 5, 1)


def test_a_fault_of_a_script_reaches_the_test_and_a_client_that_leaves_is_none():
    def faulty(connection):
        connection.expect("PUBLISH")

    with ScriptedServer(faulty) as server:
        for data in (encode("PINGREQ"), b""):
            with socket.create_connection(("127.0.0.1", server.port)) as sock:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(1) == b""
    assert server.faults == ["AssertionError('expected PUBLISH, got PINGREQ {}')"]
