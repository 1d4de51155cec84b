# cpython-only: asks the kernel for ports, from more than one process
"""A port that free_port() gave is a server's of ours, and nobody else's: fleets, brokers and test
runs look for ports side by side.
"""

import os
import socket
import subprocess
import sys

import pytest

from outpost_tools.machine import children

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="not on this system: see _may_be_served")
NEXT = "from outpost_tools.machine import children; children._hold(int(__import__('sys').argv[1]))"


def served_once(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as there:
            there.sendall(b"x")
            assert client.recv(1) == b"x"


def test_a_server_has_it_again_and_again():
    port = children.free_port()
    for _ in range(3):
        served_once(port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


@LINUX
def test_the_same_number_drawn_again_is_not_given_again(monkeypatch):
    drawn = [number for _ in range(40) for number in [os.urandom(2)] * 2]
    monkeypatch.setattr(os, "urandom", lambda count: drawn.pop())
    ports = [children.free_port() for _ in range(20)]
    assert len(set(ports)) == len(ports)


@LINUX
def test_nor_is_it_by_another_process():
    command = [sys.executable, "-c", NEXT, str(children.free_port())]
    done = subprocess.run(
        command, env=children.tools_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Address already in use" in done.stderr


@LINUX
def test_none_to_be_had_is_said(monkeypatch):
    held = children.free_port() - 10000
    monkeypatch.setattr(os, "urandom", lambda count: held.to_bytes(count, "little"))
    with pytest.raises(OSError, match="all in use"):
        children.free_port()
