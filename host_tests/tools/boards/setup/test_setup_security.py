# cpython-only: tests a desktop tool
"""Who is refused by `outpost setup`, over real HTTP."""

import json
import re
import socket
from pathlib import Path

import pytest

from outpost_tools.boards.setup.guard import MOST_BYTES
from setup_server import SetupServer

SECRET = "tr0ub4dor-and-3"
CHECK = b'{"board": "RPI_PICO_W", "form": {}}'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with SetupServer(tmp_path_factory.mktemp("setup")) as server:
        server.enter()
        yield server


def test_the_address_that_was_printed_is_changed_for_a_cookie_of_our_own_path(server):
    path = server.url.partition(f":{server.port}")[2]
    status, headers, text = server.ask("GET", path, Cookie=None)
    cookie = headers["Set-Cookie"]
    assert status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert f"Path={server.path};" in cookie, "not sent to another port of this machine"
    assert path.partition("=")[2] not in text + cookie, "the token stays out of it"


@pytest.mark.parametrize("path", ["", "state", "static/setup.js", "jobs/1", "nothing"])
def test_without_the_cookie_nothing_is_read(server, path):
    for cookie in (None, "outpost_setup=x", "outpost_setup=", "other=1"):
        status, headers, text = server.ask("GET", server.path + path, Cookie=cookie)
        assert (status, text) == (403, "open the address that `outpost setup` printed\n")
        assert "Set-Cookie" not in headers


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=x", "/state", "/other/state", "//state"]
)
def test_a_wrong_token_and_another_path_are_refused(server, path):
    assert server.ask("GET", path)[0] == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:{port}",
     "127.0.0.1:{port}.evil.example", ""],
)  # fmt: skip
def test_another_name_that_leads_here_reads_nothing(server, host):
    entrance = server.url.partition(f":{server.port}")[2]
    for path in (entrance, server.path, f"{server.path}state"):
        assert server.ask("GET", path, Host=host.format(port=server.port))[0] == 421
    assert server.ask("GET", server.path, Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "origin",
    [None, "null", "", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8180",
     "https://127.0.0.1:{port}", "http://localhost:{port}", "http://127.0.0.1:{port}.evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["check", "jobs", "load", "save"])
def test_another_page_changes_nothing(server, path, origin):
    origin = origin and origin.format(port=server.port)
    assert server.ask("POST", server.path + path, CHECK, Origin=origin)[0] == 403


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (415, {"Content-Type": "text/plain"}),
        (415, {"Content-Type": "application/x-www-form-urlencoded"}),
        (415, {"Content-Type": None}),
        (411, {"Content-Length": None, "Transfer-Encoding": "chunked"}),
        (413, {"Content-Length": str(MOST_BYTES + 1)}),
        (413, {"Content-Length": "9" * 12}),
        (403, {"Cookie": None}),
    ],
)
def test_what_no_page_sends_is_refused_unread(server, status, headers):
    names = {name.replace("-", "_"): value for name, value in headers.items()}
    assert server.ask("POST", f"{server.path}check", CHECK, **names)[0] == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_do_nothing(server, method):
    status, headers, _ = server.ask(method, f"{server.path}check")
    assert status in (403, 405) and not [
        name for name in headers if "access-control" in name.lower()
    ]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b'"x"', b"[" * 60_000, b"\xff", b"{}", b'{"form": []}',
     b'{"board": "\\ud800", "form": {}}', b'{"board": {}, "form": {}}'],
)  # fmt: skip
@pytest.mark.parametrize("path", ["check", "jobs", "load", "save"])
def test_whatever_is_sent_is_answered_in_one_line(server, path, body):
    status, _, text = server.ask("POST", server.path + path, body)
    assert status in (200, 400) and set(json.loads(text)) <= {"error", "faults"}
    assert server.process.poll() is None and "Traceback" not in server.text()


def test_every_answer_forbids_scripts_of_others_framing_and_keeping(server):
    for path in ("", "state", "static/setup.css", "static/page.css", "nothing"):
        _, headers, _ = server.ask("GET", server.path + path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "script-src 'self';" in policy and "unsafe" not in policy
        assert (
            headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
        )
        assert not [name for name in headers if "access-control" in name.lower()]


def test_the_page_has_no_script_style_or_address_of_its_own_inside(server):
    text = server.ask("GET", server.path)[2]
    assert not re.search(r"<script>|<style|style=| on\w+=|javascript:", text)
    links = set(re.findall(r'(?:src|href)="([^"#]+)"', text))
    assert {one for one in links if "//" in one} <= {"http://127.0.0.1:8180/"}


def test_it_listens_on_this_machine_alone(server):
    rows = [line.split() for name in ("tcp", "tcp6") if Path(f"/proc/net/{name}").exists()
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]  # fmt: skip
    listening = [
        row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{server.port:04X}")
    ]
    assert listening == [f"0100007F:{server.port:04X}"]


def test_who_sends_slowly_holds_nobody_up(server):
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"POST /")
        assert server.get("state")["ports"] is not None


def test_a_secret_is_in_no_answer_and_in_no_line_of_the_terminal(server):
    values = {"device_id": "two words", "broker_host": "b", "password": SECRET, "mode": "x"}
    networks = [{"ssid": "Home", "password": SECRET * 5}]
    body = {"board": "RPI_PICO_W", "form": {"values": values, "networks": networks}}
    for path in ("check", "save", "jobs"):
        answer = server.post(path, body | {"task": "flash", "port": "/dev/null"})
        assert "device_id" in answer["faults"] and SECRET not in json.dumps(answer)
    assert SECRET not in server.text() and server.text().count("\n") == 1
