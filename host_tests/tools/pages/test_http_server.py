# cpython-only: it tests the server of the tools' HTTP ports
"""Connections that only wait take no port away, and no file; only its own names are answered."""

import contextlib
import os
import resource
import socket
import time
import urllib.error
import urllib.request

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from outpost_tools.machine import children
from outpost_tools.pages import http_server
from outpost_tools.servers.collect.health import Health
from outpost_tools.servers.collect.metrics import Metrics
from outpost_tools.servers.republish import metrics as republish_metrics
from outpost_tools.servers.republish.newest import Newest

MANY = 600
LARGE = bytes(16_000_000)  # more than the socket takes
SOON_S = 10.0


@pytest.fixture(autouse=True)
def files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))


def served(app):
    port = children.free_port()
    http_server.serve_in_thread(app, port, "--metrics-port")
    return port


@pytest.fixture
def port():
    return hello_port()


def hello_port():
    async def hello(_request):
        return PlainTextResponse("hello")

    async def large(_request):
        return Response(LARGE)

    return served(Starlette(routes=[Route("/", hello), Route("/large", large)]))


def get(port, path="/", host=None):
    wanted = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if host:
        wanted.add_header("Host", host)
    with urllib.request.urlopen(wanted, timeout=SOON_S) as answer:
        return answer.read()


@contextlib.contextmanager
def connections(port, count, first=b""):
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), SOON_S))
            with contextlib.suppress(OSError):  # it may be closed already
                one.sendall(first)
            made.append(one)
        yield made


def is_closed(one):
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("first", [b"", b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_page_answers_while_many_connections_wait(port, first):
    before = len(os.listdir("/proc/self/fd"))
    with connections(port, MANY, first) as waiting:
        began = time.monotonic()
        assert get(port) == b"hello"
        assert time.monotonic() - began < 5
        until = time.monotonic() + SOON_S
        while len(os.listdir("/proc/self/fd")) - before - len(waiting) > http_server.MOST + 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert sum(map(is_closed, waiting)) >= MANY - http_server.MOST


def test_those_who_do_not_read_their_answers_take_no_place(monkeypatch):
    monkeypatch.setattr(http_server, "MOST", 8)
    port = hello_port()
    asked = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connections(port, 16, asked):
        assert get(port) == b"hello"


def test_who_sends_no_whole_request_in_time_is_closed(port, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_S", 0.5)
    with connections(port, 1, b"GET / HT") as [one]:
        one.settimeout(SOON_S)
        assert one.recv(100) == b""


def test_a_port_that_is_taken_is_told(port):
    with pytest.raises(http_server.ToolError, match=f"--metrics-port {port}: Address already in"):
        http_server.serve_in_thread(Starlette(), port, "--metrics-port")


# --- Who may ask ---


def of_a_collector(names):
    port = children.free_port()
    Metrics("c1").serve(port, Health(), names)
    return port


def of_the_republisher(names):
    port = children.free_port()
    republish_metrics.serve(Newest(), port, names)
    return port


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz"])
@pytest.mark.parametrize("serve", [of_a_collector, of_the_republisher])
def test_another_host_name_is_refused_unless_it_is_allowed(serve, path):
    """A page of somebody else's name that points to 127.0.0.1 (DNS rebinding) reads nothing."""
    port = serve(["scraper.home"])
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", ":1"):
        assert code(port, path, host or " ") == 421, host
    for host in ("localhost", f"127.0.0.1:{port}", "scraper.home:80"):
        assert code(port, path, host) != 421, host


def code(port, path, host):
    try:
        get(port, path, host)
    except urllib.error.HTTPError as error:
        return error.code
    return 200
