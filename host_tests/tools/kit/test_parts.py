# cpython-only: tests a desktop tool
"""The parts for users' own tests: the page's test as printed, and each part's contract."""

import subprocess
import sys

import pytest

from outpost_tools.kit.parts import FakeStream, NorFlash, ScriptedServer, encode
from paths import BENCH_BOARD

PAGE = (BENCH_BOARD / "README.md").read_text("utf-8")
TEST = PAGE.split("<!-- test_parts.py -->\n```python\n")[1].split("```")[0]


def test_the_page_s_test_passes_as_printed_with_nothing_on_the_path(tmp_path):
    (tmp_path / "test_parts.py").write_text(TEST)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def client_of(server, kind=None, **options):
    from outpost.client import Client
    from outpost.ram_outbox import RamOutbox
    from outpost.session import Session

    outbox = RamOutbox(slots=4, record_bytes=128)
    return Client(server.link, (kind or Session)(outbox, b"kitchen", **options))


def polled(client, until=2000, start=0):
    for ms in range(start, until):
        client.poll(ms)
    return client


def test_a_server_answers_as_the_standard_says():
    from outpost.subscribing import SubscribingSession

    server = ScriptedServer()
    client = client_of(server, SubscribingSession)
    got = []
    client.session.on_message = lambda session: got.append(session.is_on(b"home/set"))
    client.session.subscribe(b"home/+", 1)
    client.publish(b"home/kitchen", b"21.5", 1, True)
    polled(client)
    server.send(b"home/set", b"on")
    polled(client, 60_000, 2000)
    assert client.is_drained() and got == [True]
    assert server.came == [(b"home/kitchen", b"21.5", 1, True, False)]
    kinds = [kind for kind, _ in server.packets]
    assert {"CONNECT", "SUBSCRIBE", "PUBLISH", "PINGREQ"} <= {*kinds}
    client.close()
    assert server.packets[-1][0] == "DISCONNECT"


def test_a_server_speaks_mqtt_5_to_a_client_that_does():
    from outpost.level5 import over
    from outpost.session import Session

    server = ScriptedServer()
    client = client_of(server, over(Session))
    client.publish(b"home/kitchen", b"21.5")
    assert polled(client).is_drained() and server.packets[0][1]["level"] == 5


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({"CONNECT": encode("CONNACK", code=5)}, -21),
        ({"CONNECT": None}, -22),
        ({"CONNECT": "close"}, -23),
        ({"CONNECT": lambda fields: encode("PUBACK", packet_id=1)}, -20),
    ],
)
def test_a_server_answers_as_told(answers, error):
    client = polled(client_of(ScriptedServer(answers), response_ms=500), 700)
    assert client.last_error == error


def test_a_server_that_is_away_refuses():
    server = ScriptedServer()
    server.is_away = True
    assert polled(client_of(server), 5).last_error == 111


def test_a_stream_takes_what_there_is_room_for():
    stream = FakeStream()
    stream.room = 3
    assert (stream.write(b"abcdef", 1, 5), stream.write(b"abcdef", 4, 2)) == (3, None)
    assert stream.sent == b"bcd"
    stream.room = None
    assert stream.write(bytearray(b"xyz"), 0, 2) == 2


def test_a_stream_gives_ends_and_breaks():
    stream, buf = FakeStream(), bytearray(3)
    assert stream.readinto(buf) is None
    stream.give(b"abcd")
    stream.end()
    assert (stream.readinto(buf), bytes(buf)) == (3, b"abc")
    assert (stream.readinto(buf), stream.readinto(buf)) == (1, 0)
    stream = FakeStream()
    stream.break_()
    with pytest.raises(OSError, match="104"):
        stream.write(b"a", 0, 1)


def test_a_flash_clears_bits_and_breaks_no_rule():
    flash = NorFlash(2)
    flash.writeblocks(0, b"\x0f", 5)
    buf = bytearray(1)
    flash.readblocks(0, buf, 5)
    assert buf == b"\x0f"
    flash.ioctl(6, 0)
    flash.readblocks(0, buf, 5)
    assert buf == b"\xff"
