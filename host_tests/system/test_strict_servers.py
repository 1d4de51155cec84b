# cpython-only: boards under MicroPython and the collector as a process, over servers with limits
"""Collector mode over servers with the limits of Azure Event Grid and AWS IoT Core: nothing that
they close the connection for, and exact over connections that break, also where the server loses
its sessions.
"""

import contextlib
import socket

import pytest

from exact_fleet import Run, assert_exact
from real_broker import micropython
from scripted_server import encode
from strict_server import AWS, EVENT_GRID, StrictServer


def restart_collector(run):
    run.collectors[0].kill()
    run.collectors[0].start()


@pytest.mark.parametrize(
    ("limits", "confirmation", "collectors"),
    [(EVENT_GRID, "queued", 1), (AWS, "queued", 2), (AWS, "retained", 1)],
    ids=["event grid", "aws, two collectors", "aws, retained"],
)
def test_collector_mode_is_exact_within_the_limits(tmp_path, limits, confirmation, collectors):
    micropython("i386")
    with StrictServer(limits) as server:
        share = ("--share", "fleet") if collectors > 1 else ()
        run = Run(
            tmp_path,
            server.port,
            settings={"confirmation": confirmation},
            options=("--confirmation", confirmation, *share),
            collectors=("c1", "c2")[:collectors],
        )
        account = run.play(
            (0.8, lambda _: server.cut()),
            (1.6, restart_collector),
            (2.4, lambda _: server.lose_sessions()),
            (3.2, lambda _: server.cut()),
        )
    assert server.violations == []
    assert_exact(account)


REFUSED = [
    (EVENT_GRID, encode("PUBLISH", topic=b"a", retain=True), "RETAIN"),
    (EVENT_GRID, encode("SUBSCRIBE", packet_id=1, filters=[(b"$share/g/a", 1)]), "SUBSCRIBE"),
    (AWS, encode("PUBLISH", topic=b"a", qos=2, packet_id=1), "QoS 2"),
    (AWS, encode("PUBLISH", topic=b"a", payload=bytes(131_073)), "131073 bytes"),
    (AWS, encode("PUBLISH", topic=b"/".join([b"a"] * 9)), "8 slashes"),
    (AWS, encode("SUBSCRIBE", packet_id=1, filters=[(b"%d" % n, 0) for n in range(9)]),
     "9 filters"),
    (AWS, b"".join([encode("PUBLISH", topic=b"a", qos=1, packet_id=1 + n) for n in range(101)]),
     "101 unacknowledged"),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "packet", "reason"), REFUSED, ids=[one[2] for one in REFUSED])
def test_the_servers_close_on_what_the_services_refuse(limits, packet, reason):
    """Or the test above could not fail."""
    with StrictServer(limits) as server:
        with socket.create_connection(("127.0.0.1", server.port), 60) as link:
            link.sendall(encode("CONNECT", client_id=b"c", keep_alive=60) + packet)
            with contextlib.suppress(ConnectionResetError):
                while link.recv(4096):
                    pass
        assert [one.startswith(f"c: {reason}") for one in server.violations] == [True]


def test_a_keep_alive_that_is_too_long_is_refused():
    with StrictServer(EVENT_GRID) as server:
        with socket.create_connection(("127.0.0.1", server.port), 60) as link:
            link.sendall(encode("CONNECT", client_id=b"c", keep_alive=1161))
            with contextlib.suppress(ConnectionResetError):
                assert link.recv(4096) == b""
        assert server.violations == ["c: keep alive 1161"]
