# cpython-only: starts mosquitto with TLS and lets MicroPython talk to it
"""TLS: a server that proves who it is, or no connection and a status that says why; messages wait
in the outbox meanwhile.

Twice where it matters: TLS 1.2, which is what boards speak, and 1.3, which MicroPython on Debian's
library speaks as well.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
import uuid
from pathlib import Path

import pytest

import make_certificates
from outpost import status
from outpost_tools.loopback.broker import Broker, BrokerError
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import ARCHITECTURES, find_micropython
from paths import REPOSITORY
from real_broker import Observer, device, environment, micropython, need_mosquitto, run, wait_for
from support import tls_link

BAD = {
    "wrong-name": status.TLS_UNTRUSTED,
    "self-signed": status.TLS_UNTRUSTED,
    "unknown-ca": status.TLS_UNTRUSTED,
    "expired": status.TLS_EXPIRED,
    "not-yet": status.TLS_EXPIRED,
}
HELD = 5  # messages that wait
# a poll() may not take longer, arithmetic of the handshake included; under an emulator too
A_STEP_MS = 5000  # a busy machine's share; a client that waits takes 10 s
RECONNECTS = 20
# The 32-bit build meets both; the others one each, for the time it takes. Boards: ARM, 1.2.
WHERE = [("i386", "1.2"), ("i386", "1.3"), ("amd64", "1.3"), ("armhf", "1.2")]
everywhere = pytest.mark.parametrize(
    ("architecture", "broker"), [*WHERE, ("cpython", "1.3")], indirect=["broker"]
)
on_micropython = pytest.mark.parametrize(("architecture", "broker"), WHERE, indirect=["broker"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates.made_or_skip(tmp_path_factory.mktemp("certificates"))


def listener(port: int, folder: Path, name: str, *more: str) -> str:
    lines = [
        f"listener {port} 127.0.0.1",
        f"cafile {folder}/ca.pem",
        f"certfile {folder}/{name}.pem",
        f"keyfile {folder}/{name}.key",
    ]
    return "\n".join([*lines, *more, ""])


@contextlib.contextmanager
def openssl_configuration(folder: Path, version: str):
    """mosquitto can only be told the lowest TLS version; the highest comes from OpenSSL's own
    configuration.
    """
    path = folder / f"openssl-{version}.cnf"
    path.write_text(
        "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n"
        f"[c]\nMaxProtocol = TLSv{version}\n"
    )
    before = os.environ.get("OPENSSL_CONF")
    os.environ["OPENSSL_CONF"] = str(path)
    try:
        yield
    finally:
        os.environ.pop("OPENSSL_CONF")
        if before is not None:
            os.environ["OPENSSL_CONF"] = before


def tls_broker(folder: Path, certificates: Path) -> Broker:
    ports = {name: children.free_port() for name in (*BAD, "server", "asks")}
    listeners = "".join(listener(ports[name], certificates, name) for name in (*BAD, "server"))
    listeners += listener(ports["asks"], certificates, "server", "require_certificate true")
    one = Broker("mosquitto", folder, more_listeners=listeners)
    one.ports = ports
    return one


@pytest.fixture(scope="module")
def broker(request, certificates, tmp_path_factory):
    """A listener for each certificate; `ports` says which. "asks": it wants a certificate of the
    client, too.
    """
    need_mosquitto()
    with openssl_configuration(certificates, request.param):
        # among that many ports one may be taken before mosquitto gets it
        for tries_left in (2, 1, 0):
            one = tls_broker(tmp_path_factory.mktemp("broker"), certificates)
            one.tls_version = request.param
            try:
                one.start()
                break
            except BrokerError:
                if not tries_left:
                    raise
    yield one
    one.stop()


@pytest.fixture
def name():
    """A client id and topic of this test alone: the broker is shared."""
    return f"board-{uuid.uuid4().hex[:12]}"


def settings(port: int, certificates: Path, **more: object) -> dict:
    return {"broker_port": port, "tls": True, "ca_file": str(certificates / "ca.der"), **more}


def client_certificate(certificates: Path, name: str, architecture: str) -> dict:
    """CPython reads PEM alone."""
    kind = "" if architecture == "cpython" else ".der"
    files = {"client_cert_file": f"{name}{kind or '.pem'}", "client_key_file": f"{name}.key{kind}"}
    return {key: str(certificates / file) for key, file in files.items()}


# --- Readings arrive ---


@everywhere
def test_readings_arrive_exactly_over_tls(architecture, broker, certificates, name, tmp_path):
    """firmware/main.py itself, with the broker's name, and its address, in the certificate."""
    host = "127.0.0.1" if architecture == "i386" else "localhost"
    more = {
        "device_id": name,
        "broker_host": host,
        "mode": "broker",
        "interval_ms": 5,
        "outbox_blocks": 4,
        "sensors": ["load"],
    }
    (tmp_path / "settings.json").write_text(
        json.dumps(settings(broker.ports["server"], certificates, **more))
    )
    (tmp_path / "simulation.json").write_text(json.dumps({"stop_file": "stop"}))
    command = [*micropython(architecture), str(REPOSITORY / "firmware" / "main.py")]
    with Observer(broker.port, f"{name}-o", (f"outpost/{name}/data", 1)) as observer:
        process = children.start(command, log=tmp_path / "log", cwd=tmp_path, env=environment())
        try:
            wait_for(
                lambda: len(observer.messages) >= 30 or process.poll() is not None, "30 readings"
            )
            (tmp_path / "stop").touch()
            assert process.wait(120) == 0, (tmp_path / "log").read_text()
        finally:
            children.kill(process)
        stored = [
            line.split(" ", 2)[2]
            for line in (tmp_path / "journal.txt").read_text().splitlines()
            if line.startswith("ok")
        ]
        observer.wait(len(stored))
    assert [message.payload for message in observer.messages] == stored
    counters = json.loads((tmp_path / "counters.json").read_text())
    assert (counters["connects"], counters["redelivered"], counters["last_error"]) == (1, 0, 0)


# --- No connection, and a status ---


def refused_then_mended(architecture, broker, folder, bad: dict, good: dict) -> dict:
    """What a failed connect said; then, with the fault mended, the messages that waited arrive."""
    steps = [["publish", folder.name, HELD, 1, False, False], ["fail"]]
    with Observer(broker.port, f"{folder.name}-o", (folder.name, 1)) as observer:
        said = run(architecture, folder, bad, steps)[1]
        assert (said["held"], said["connects"], observer.messages) == (HELD, 0, [])
        assert said["longest_poll_ms"] < A_STEP_MS
        # "New client connected from ... as ..."
        assert f" as {folder.name} " not in broker.log.read_text()
        run(architecture, folder, good, [["connect"], ["publish", folder.name, 0, 1], ["close"]])
        observer.wait(HELD)
    assert observer.numbers() == list(range(HELD))
    return said


@pytest.mark.parametrize("fault", BAD)
@everywhere
def test_a_bad_certificate_ends_in_its_status_and_messages_wait(
    architecture, broker, certificates, name, tmp_path, fault
):
    bad, good = (
        settings(broker.ports[key], certificates, broker_host="localhost")
        for key in (fault, "server")
    )
    said = refused_then_mended(architecture, broker, tmp_path / name, bad, good)
    assert said["last_error"] == BAD[fault]


@pytest.mark.parametrize("given", [None, "other-client"])
@everywhere
def test_a_client_certificate_that_the_server_asks_for(
    architecture, broker, certificates, name, tmp_path, given
):
    """With TLS 1.3 the server may say no when for the client the handshake is over: then it looks
    like any lost link.
    """
    asks = settings(broker.ports["asks"], certificates)
    bad = {**asks, **(client_certificate(certificates, given, architecture) if given else {})}
    good = {**asks, **client_certificate(certificates, "client", architecture)}
    said = refused_then_mended(architecture, broker, tmp_path / name, bad, good)
    assert said["last_error"] in (
        (status.TLS_REFUSED,)
        if broker.tls_version == "1.2"
        else (status.TLS_REFUSED, status.LINK_LOST)
    )


@pytest.mark.parametrize("server_name", ["broker.example", "broker.example.", "BROKER.Example"])
@everywhere
def test_the_name_may_be_given_apart_from_the_host(
    architecture, broker, certificates, name, tmp_path, server_name
):
    """Also with the final dot that a host's name may have, and in capital letters."""
    given = settings(broker.ports["wrong-name"], certificates, server_name=server_name)
    assert run(architecture, tmp_path / name, given, [["connect"], ["close"]])[0]["connected"]


@everywhere
def test_without_the_time_it_says_so_and_connects_once_the_clock_is_set(
    architecture, broker, certificates, name, tmp_path
):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "simulation.json").write_text(json.dumps({"clock_file": "clock-is-set"}))
    steps = [
        ["publish", name, HELD, 1, False, False],
        ["fail", 1],
        ["connect"],
        ["publish", name, 0, 1],
        ["close"],
    ]
    with (
        Observer(broker.port, f"{name}-o", (name, 1)) as observer,
        device(architecture, folder, settings(broker.ports["server"], certificates), steps) as one,
    ):
        said = one.wait_line("last_error")
        assert (said["last_error"], said["held"]) == (status.NO_TIME, HELD)
        (folder / "clock-is-set").touch()
        one.finish()
        observer.wait(HELD)


@everywhere
def test_a_stream_that_takes_nothing_is_resumed_with_the_same_bytes(
    architecture, broker, certificates, name, tmp_path
):
    """micropython-lib#363: a record sent in part must go on as it is, or the server finds it forged
    and closes.
    """
    given = settings(broker.ports["server"], certificates)
    steps = [["connect"], ["flood", f"{name}/flood"], ["publish", name, HELD, 1], ["idle", 1]]
    with (
        device(architecture, tmp_path / name, given, steps) as one,
        Observer(broker.port, f"{name}-o", (name, 1)) as observer,
    ):
        one.wait_line("connected")
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            assert one.wait_line("full")["full"]
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        lines = one.finish()
        observer.wait(HELD)
    assert lines[3] == {"connected": True, "connects": 1, "failures": 0}


# --- A server that does not finish the handshake ---


def server(drips: bytes) -> tuple[socket.socket, threading.Event]:
    """Accepts, and sends a byte of `drips` every 0.2 s."""
    listening, ended = socket.create_server(("127.0.0.1", 0)), threading.Event()
    listening.settimeout(0.1)

    def serve() -> None:
        connections = []
        while not ended.wait(0.2):
            with contextlib.suppress(OSError):
                connections.append([listening.accept()[0], 0])
            for one in connections:
                with contextlib.suppress(OSError):
                    one[1] += one[0].send(drips[one[1] : one[1] + 1])
        for connection, _ in connections:
            connection.close()
        listening.close()

    threading.Thread(target=serve, daemon=True).start()
    return listening, ended


def test_a_handshake_without_end_meets_the_deadline_and_nothing_blocks(certificates, tmp_path):
    """A silent server, and one that begins a long record and sends it byte by byte. All at once:
    each takes 10 s.
    """
    silent, dripping = server(b""), server(b"\x16\x03\x03\x40\x00" + bytes(1000))
    found = [name for name in ARCHITECTURES if find_micropython(name)] + ["cpython"]
    with contextlib.ExitStack() as stack:
        devices = []
        for number, (listening, ended) in enumerate((silent, dripping)):
            stack.callback(ended.set)
            given = settings(listening.getsockname()[1], certificates)
            steps = [["publish", "a", HELD, 1, False, False], ["fail", 1]]
            devices += [
                stack.enter_context(device(name, tmp_path / f"{name}-{number}", given, steps))
                for name in found
            ]
        for one in devices:
            said = one.finish()[1]
            assert (said["last_error"], said["held"]) == (status.TIMED_OUT, HELD)
            assert 10_000 <= said["took_ms"] < 30_000
            assert said["longest_poll_ms"] < A_STEP_MS


# --- Settings ---


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"ca_file": ""}, "'ca_file' is missing"),
        ({"ca_file": "no-such.der"}, "key 'ca_file' names 'no-such.der', which cannot be read"),
        (
            {"ca_file": "settings.json"},
            "key 'ca_file' names 'settings.json', which is not a certificate",
        ),
        ({"client_cert_file": "x.der"}, "'client_key_file' belong together"),
        (
            {"client_cert_file": "x.der", "client_key_file": "y.der"},
            "key 'client_cert_file' names 'x.der', which cannot be read",
        ),
        (
            {"client_cert_file": "CA", "client_key_file": "settings.json"},
            "'settings.json', which is not a key",
        ),
        (
            {"client_cert_file": "settings.json", "client_key_file": "KEY"},
            "'settings.json', which is not a certificate",
        ),
        ({"tls": False}, "key 'ca_file' needs 'tls': true"),
        ({"tls": "yes"}, "key 'tls' must be true or false"),
    ],
)
def test_a_fault_in_the_settings_gives_one_line_that_names_the_key(
    tmp_path, certificates, change, named
):
    files = {"CA": "ca.der", "KEY": "client.key.der"}
    change = {
        key: str(certificates / files[value]) if value in files else value
        for key, value in change.items()
    }
    given = {
        **settings(1, certificates),
        "device_id": "a",
        "broker_host": "localhost",
        "outbox_blocks": 4,
        **change,
    }
    (tmp_path / "settings.json").write_text(json.dumps(given))
    command = [*micropython("i386"), str(REPOSITORY / "firmware" / "main.py")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert named in done.stderr


def test_the_private_copies_of_status_numbers_agree():
    lines = Path(tls_link.__file__).read_text().splitlines()
    copies = dict(
        line[1:].split(" = const(")
        for line in lines
        if line.startswith("_") and " = const(-" in line
    )
    ours = {name: int(value.rstrip(")")) for name, value in copies.items() if hasattr(status, name)}
    assert len(ours) >= 6
    assert ours == {name: getattr(status, name) for name in ours}


def test_what_mbedtls_says_becomes_a_status():
    expired, future = (
        "The certificate validity has expired",
        "The certificate validity starts in the future",
    )
    for fault, expected in (
        (ValueError(f"\n{expired}\n"), status.TLS_EXPIRED),
        (ValueError(f"\n{expired}\n{future}\n"), status.TLS_EXPIRED),
        (
            ValueError(f"\n{expired}\nThe certificate is not correctly signed by the trusted CA\n"),
            status.TLS_UNTRUSTED,
        ),
        (OSError(-0x2700, "X509 - ..."), status.TLS_UNTRUSTED),
        (OSError(-0x7780), status.TLS_REFUSED),
        (OSError(-0x7280), status.TLS_REFUSED),
        (OSError(104), status.TLS_REFUSED),
        (OSError(32), status.TLS_REFUSED),
        (OSError(12), 12),
        (OSError(), status.LINK_LOST),
    ):
        assert tls_link.status_of(fault) == expected


# --- Heap ---


@on_micropython
def test_publishing_over_tls_takes_no_heap(architecture, broker, certificates, name, tmp_path):
    steps = [["connect"], ["heap", 300], ["close"]]
    lines = run(
        architecture, tmp_path / name, settings(broker.ports["server"], certificates), steps
    )
    assert lines[1] == {"net": 0, "gross": 0}


@on_micropython
def test_reconnecting_over_tls_does_not_grow_the_heap(
    architecture, broker, certificates, name, tmp_path
):
    """The figures of boards/PORTING.md: run with -s."""
    steps = [["reconnect", RECONNECTS if (architecture, broker.tls_version) == WHERE[0] else 4]]
    started = time.monotonic()
    said = run(
        architecture, tmp_path / name, settings(broker.ports["server"], certificates), steps
    )[0]
    idle, first = said["held"][:2]
    print(
        f"\n{architecture}, TLS {broker.tls_version}: link with context {said['link']} B, "
        f"a connection {first - idle} B held, {max(said['asked'])} B asked for; "
        f"after {len(said['asked'])} connects {said['held'][-1] - first:+} B, "
        f"{time.monotonic() - started:.1f} s"
    )
    assert said["held"][-1] <= said["held"][2]
