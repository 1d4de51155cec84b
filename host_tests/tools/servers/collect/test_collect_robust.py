# cpython-only: runs a desktop tool as a process, against real mosquitto
"""`outpost collect` where things are short, hostile or watched: a full disk, TLS, names and rights,
metrics, SIGTERM, retire.
"""

import errno
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import time
import urllib.request

import paho.mqtt.client as mqtt
import pytest

from collector_load import Publisher, fleet, topic_of
from collector_process import (
    LIMIT_S,
    TOPIC,
    Process,
    disconnect,
    mosquitto,
    payload,
    wait_until,
)
from made_broker import ACL
from make_certificates import make_all, openssl
from outpost_tools import cli
from outpost_tools.log.segments import encode_frame
from outpost_tools.loopback.broker import configuration
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.servers.collect.disk_log import DiskLog as Log
from outpost_tools.servers.collect.state import Saved
from real_broker import password_line
from virtual.packets import encode

_ = mosquitto  # a fixture
SOON_S = 30  # two or three on an idle machine, and without a bound it would be for ever


def load_of(messages):
    return [(topic_of(device), data) for device, _, data in fleet(50, messages)]


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def fill_and_free(collector, mosquitto, free):
    """Messages onto a disk with little room: it stops, says so, stays small; free() makes room, and
    all is there.
    """
    packets = load_of(12_000)
    publisher = Publisher(mosquitto.port)
    publisher.publish(packets[:2000])
    wait_until(lambda: "acknowledging nothing" in collector.text())
    before = rss_mib(collector.pid)
    publisher.publish(packets[2000:])
    time.sleep(2.5)
    # what comes meanwhile stays in the socket and at the broker
    assert rss_mib(collector.pid) < before + 8
    said = collector.text()  # once each time: a file that is sealed meanwhile makes room for some
    assert collector.alive
    assert said.count("acknowledging nothing") <= 1 + said.count("writing again")
    free()
    wait_until(lambda: "writing again" in collector.text())
    wait_until(lambda: len(set(collector.payloads())) == len({data for _, data in packets}))
    assert collector.terminate() == 0
    assert set(collector.payloads()) == {data for _, data in packets}
    publisher.close()


def test_a_kernel_that_refuses_to_write_more(tmp_path, mosquitto):
    """A limit on file sizes: real refusals of write() in the middle of a frame, without root."""
    with Process(tmp_path, mosquitto.port) as collector:
        collector.wait_subscribed()
        _, hard = resource.prlimit(collector.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (100_000, hard))
        fill_and_free(
            collector,
            mosquitto,
            lambda: resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (hard, hard)),
        )
        assert "File too large" in collector.text()


def test_a_full_disk(tmp_path, mosquitto):
    """A small tmpfs, for those who may mount one; the test above is for everybody."""
    disk = tmp_path / "log"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("optional: a tmpfs can be mounted by root only")
    try:
        with Process(tmp_path, mosquitto.port, options=["--segment-bytes", "100000"]) as collector:
            collector.wait_subscribed()
            fill_and_free(
                collector, mosquitto, lambda: _run("mount", "-o", "remount,size=64m", str(disk))
            )
            assert "No space left" in collector.text()
    finally:
        _run("umount", "-l", str(disk))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_disk_that_is_full_at_the_start_is_tried_again_by_the_service_manager(
    is_known, tmp_path, monkeypatch, capsys
):
    """Not 2, after which systemd would leave the collector ended for good."""
    log = Log(tmp_path, "c1", segment_bytes=1 << 20)
    log.store([encode_frame(1, b"outpost/a/data", b"x")])  # what a kill leaves open
    os.close(log._lock)

    def full(*_):
        raise OSError(errno.ENOSPC if is_known else errno.EROFS, "no room")

    monkeypatch.setattr(Saved, "save", full)
    status = cli.main(["collect", "--broker", "127.0.0.1:1", "--log", str(tmp_path), "--id", "c1"])
    assert status == (1 if is_known else 2)
    assert "no room" in capsys.readouterr().err


def _run(*command):
    subprocess.run(command, check=True, capture_output=True)


def test_segments_are_sealed_by_size_and_by_time(tmp_path, mosquitto):
    with Process(
        tmp_path, mosquitto.port, options=["--segment-bytes", "50000", "--segment-seconds", "1"]
    ) as collector:
        collector.wait_subscribed()
        publisher = Publisher(mosquitto.port)
        while len(sealed(collector)) < 3:  # what arrives together is stored together
            publisher.publish(load_of(300))
        assert all(path.stat().st_size < 50_000 + (2 << 20) for path in sealed(collector))
        count = len(sealed(collector))
        time.sleep(1.5)
        publisher.publish([(TOPIC.encode(), payload(0))])
        wait_until(
            lambda: len(sealed(collector)) > count and not list(collector.directory.glob("*.open"))
        )
        publisher.close()


def sealed(collector):
    return list(collector.directory.glob("*.seg"))


@pytest.mark.long
def test_sigterm_under_load_ends_within_seconds_and_leaves_nothing_half_done(tmp_path, mosquitto):
    packets = load_of(30_000)
    with Process(tmp_path, mosquitto.port) as collector:
        collector.wait_subscribed()
        collector.kill()
        publisher = Publisher(mosquitto.port)
        publisher.publish(packets)
        collector.start()
        wait_until(lambda: list(collector.directory.glob("*.open")))
        began = time.monotonic()
        assert collector.terminate() == 0
        assert time.monotonic() - began < SOON_S
        assert not list(collector.directory.glob("*.open"))
        first = collector.payloads()
        assert len(first) < len(packets)  # else the test shows nothing
        collector.start()
        wait_until(lambda: len(set(collector.payloads())) == len({data for _, data in packets}))
        assert collector.terminate() == 0
        # All that was stored was acknowledged too: the broker sent none of it again.
        assert sorted(collector.payloads()) == sorted(data for _, data in packets)
        publisher.close()


def test_sigterm_with_a_broker_that_does_not_read(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port) as collector:
        collector.wait_subscribed()
        os.kill(mosquitto.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert collector.terminate() == 0
            assert time.monotonic() - began < SOON_S
        finally:
            os.kill(mosquitto.pid, signal.SIGCONT)


def test_metrics_in_prometheus_text_format_on_loopback(tmp_path, mosquitto):
    port, seen = children.free_port(), {}
    with Process(tmp_path, mosquitto.port, options=["--metrics-port", str(port)]) as collector:
        collector.wait_subscribed()
        publisher = Publisher(mosquitto.port)
        publisher.publish(load_of(500))
        publisher.close()

        def metrics():
            address = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(address, timeout=LIMIT_S) as page:
                lines = page.read().decode().splitlines()
            pairs = (line.split(" ") for line in lines if not line.startswith("#"))
            seen.update({pair[0]: float(pair[1]) for pair in pairs})
            return seen

        count = len(load_of(500))
        wait_until(lambda: metrics()["outpost_collector_messages_total"] == count)
        # the gauges are set each 5 s, and the next time the rate is none again
        wait_until(
            lambda: (
                metrics()["outpost_collector_streams"] == 50
                and seen["outpost_collector_messages_per_second"] > 0
            )
        )
        assert seen["outpost_collector_fsync_seconds_count"] >= 1
        assert seen["outpost_collector_fsync_seconds_sum"] > 0
        assert seen["outpost_collector_confirmations_total"] >= 50
        assert seen["outpost_collector_connected"] == 1
        assert seen["outpost_collector_backlog_messages"] == 0
        assert seen['outpost_collector_errors_total{kind="write"}'] == 0
        with open("/proc/net/tcp") as table:
            listening = [
                line.split()[1]
                for line in table
                if line.split()[1].endswith(f":{port:04X}") and " 0A " in line
            ]
        assert listening == [f"0100007F:{port:04X}"]


def test_a_board_with_a_new_stream_a_message_is_told_once(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port) as collector:
        collector.wait_subscribed()
        publisher = Publisher(mosquitto.port)
        flood = [payload(0).replace(b"0badcafe", b"%08x" % n) for n in range(100)]
        publisher.publish([(TOPIC.encode(), data) for data in flood])
        wait_until(lambda: len(collector.payloads()) == len(flood))
        publisher.close()
        assert collector.terminate() == 0
        assert collector.text().count("b1 has sent on more than 16 streams") == 1
        state = json.loads((collector.directory / "state.json").read_text())
        assert len(state["streams"]["b1"]) == 16 and set(collector.payloads()) == set(flood)


def test_a_metrics_port_that_is_taken_is_named(tmp_path, mosquitto):
    with Process(
        tmp_path, mosquitto.port, options=["--metrics-port", str(mosquitto.port)]
    ) as collector:
        wait_until(lambda: not collector.alive)
        assert (
            f"--metrics-port {mosquitto.port}" in collector.text()
            and "Traceback" not in collector.text()
        )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    if openssl() is None:
        pytest.skip("missing: openssl; install it with: apt-get install openssl")
    folder = tmp_path_factory.mktemp("certificates")
    make_all(folder)
    return folder


@pytest.fixture
def secured(tmp_path, certificates):
    """mosquitto with an ACL file, as many have it. Returns its port. What `outpost broker` makes:
    tools/broker/test_broker_rights.py."""
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    folder, port = tmp_path / "secured", children.free_port()
    folder.mkdir()
    (folder / "passwd").write_text("".join(password_line(*who) for who in USERS.items()))
    (folder / "acl").write_text(ACL)
    for name in ("passwd", "acl"):
        (folder / name).chmod(0o600)
    listeners = LISTENER.format(port=port, certificates=certificates, folder=folder)
    (folder / "mosquitto.conf").write_text(configuration(listeners, folder))
    broker = children.start(
        [*find_mosquitto(), "-c", str(folder / "mosquitto.conf")], log=folder / "log.txt"
    )
    wait_until(lambda: can_connect(port, certificates, "collector"))
    yield port
    children.kill(broker)


USERS = {"collector": "secret", "board-1": "one", "board-2": "two"}


LISTENER = """\
listener {port} 127.0.0.1
certfile {certificates}/server.pem
keyfile {certificates}/server.key
tls_version tlsv1.2
allow_anonymous false
password_file {folder}/passwd
acl_file {folder}/acl

"""


def client_of(port, certificates, user):
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"client-{user}")
    client.username_pw_set(user, USERS[user])
    client.tls_set(certificates / "ca.pem")
    client.connect("localhost", port)
    client.loop_start()
    return client


def can_connect(port, certificates, user):
    try:
        client = client_of(port, certificates, user)
    except OSError:
        return False
    try:
        wait_until(client.is_connected, 10)
    except AssertionError:
        return False
    finally:  # or it connects later, and again and again
        disconnect(client)
    return True


def secure(tmp_path, port, certificates, *, password="secret", ca="ca", host="localhost", more=()):
    (tmp_path / "password").write_text(password + "\n")
    options = [
        "--ca-file",
        str(certificates / f"{ca}.pem"),
        "--user",
        "collector",
        "--password-file",
        str(tmp_path / "password"),
    ]
    return Process(tmp_path, port, host=host, options=[*options, *more])


def forge(port, certificates, topic, data):
    """As board-2. mosquitto acknowledges what it denies."""
    two = client_of(port, certificates, "board-2")
    wait_until(two.is_connected)
    two.publish(topic, data, qos=1, retain=True).wait_for_publish(LIMIT_S)
    disconnect(two)


def test_tls_password_and_rights_by_an_acl_file(tmp_path, secured, certificates):
    with secure(tmp_path, secured, certificates, more=["--share", "fleet"]) as collector:
        collector.wait_subscribed()
        one = client_of(secured, certificates, "board-1")
        words = []
        one.on_message = lambda _c, _u, message: words.append((message.topic, message.payload))
        one.subscribe("outpost/#")
        sent = one.publish("outpost/board-1/data", payload(0, device="board-1"), qos=1)
        sent.wait_for_publish(LIMIT_S)
        for topic, data in (
            ("board-1/data", payload(1, device="board-1")),
            ("board-1/durable", b"0badcafe 99"),
            ("collectors/fleet/x", b"{}"),
        ):
            forge(secured, certificates, f"outpost/{topic}", data)
        wait_until(lambda: words)
        assert collector.terminate() == 0
        # not the forged one, and nobody else's
        assert words == [("outpost/board-1/durable", b"0badcafe 0")]
        assert collector.payloads() == [payload(0, device="board-1")]
        disconnect(one)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"ca": "other-ca"}, "its certificate does not verify"),
        ({"host": "127.0.0.2"}, "mismatch"),
        ({"password": "x"}, "refused"),
    ],
)
def test_what_does_not_verify_is_no_connection(tmp_path, secured, certificates, wrong, complaint):
    port = secured
    with secure(tmp_path, port, certificates, **wrong) as collector:
        if "host" in wrong:  # the certificate is for localhost and 127.0.0.1
            wait_until(lambda: collector.output.exists() and "trying again" in collector.text())
            assert "connected" not in collector.text()
            return
        wait_until(lambda: complaint in (collector.text() if collector.output.exists() else ""))
        assert ": connected" not in collector.text() and "Traceback" not in collector.text()


def session_is_present(port, client_id):
    """Does the broker know this client? (Asking makes a session.)"""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as link:
        link.sendall(encode("CONNECT", client_id=client_id))
        return link.recv(4)[2] == 1


def test_a_retired_collector_leaves_nothing_behind(tmp_path, mosquitto):
    """What the broker held for it is stored; after that the others get everything."""
    options = ["--share", "fleet"]
    c1, c2 = (
        Process(tmp_path, mosquitto.port, options=options, name=name) for name in ("c1", "c2")
    )
    with c1, c2:
        c1.wait_subscribed()
        c2.wait_subscribed()
        c2.kill()
        publisher = Publisher(mosquitto.port)
        packets = load_of(3000)
        publisher.publish(packets[:2000])
        retiring = Process(tmp_path, mosquitto.port, options=[*options, "--retire"], name="c2")
        with retiring:
            for at in itertools.count(2000, 5):  # the boards go on meanwhile
                if not retiring.alive:
                    break
                assert at < 2000 + 5 * 10 * LIMIT_S, "it does not end"
                publisher.publish(packets[at : at + 5])  # on a busy machine there are none left
                time.sleep(0.1)
        assert retiring.status == 0
        assert not session_is_present(mosquitto.port, b"c2")
        publisher.publish(packets[2000:])
        publisher.close()
        wait_until(lambda: {data for _, data in packets[2000:]} <= set(c1.payloads()))
        wait_until(lambda: {*c1.payloads(), *c2.payloads()} == {data for _, data in packets})
        assert len(c2.payloads()) > 500
