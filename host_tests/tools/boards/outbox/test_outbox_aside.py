# cpython-only: tests a desktop tool
"""Messages set aside: the tools' own reader of the shelf beside the firmware's, and what is done
with them: list, export, send to a real broker, give up; in an image and on a board.
"""

import contextlib
import json
import random
import socket
import threading
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

import power_loss  # noqa: F401 - gives the firmware zlib's CRC
from fake_flash import PowerCut, flash_in_ram, image_of
from flash_rig import SETTINGS, Rig
from nor_flash import CUT_MODES
from outpost.outbox import Outbox
from outpost_tools import cli
from outpost_tools.boards.outbox import publishing
from outpost_tools.boards.outbox.image import read_image
from outpost_tools.boards.outbox.shelf import Aside, read_shelf
from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.loopback.broker import Broker
from real_broker import need_mosquitto, wait_for

TOPIC = b"outpost/board-1/data"
STREAM = "3fa9c1d2"


def mounted(flash, align=4, page_bytes=256):
    outbox = Outbox(flash, align=align, page_bytes=page_bytes)
    if outbox.mount():
        outbox.format(STREAM.encode())
    return outbox


def firmware_finds(data, align=4, page_bytes=256):
    """[(QoS, topic, payload)] of the messages set aside, as the firmware tells them."""
    outbox = mounted(flash_in_ram(len(data) // 4096, page_bytes, data), align, page_bytes)
    found = []
    for index in range(outbox.aside):
        if outbox.shelf().load(index):
            continue
        at, middle = outbox.topic_at, outbox.topic_at + outbox.topic_length
        end = middle + outbox.payload_length
        text = bytes(outbox.buffer[at:middle]), bytes(outbox.buffer[middle:end])
        found.append((outbox.flags >> 4 & 3, *text))
    return found


def shelf_of(data):
    return read_shelf(data, STREAM, read_image(data).age)


def tool_finds(data):
    return [(one.qos, one.topic, one.payload) for one in shelf_of(data).messages]


def image_with(count=3, blocks=6, size=40):
    """Messages 0 to 19, of which `count` are set aside and acknowledged."""
    flash = flash_in_ram(blocks, 256)
    outbox = mounted(flash)
    for number in range(20):
        payload = b"message %d " % number + bytes(size)
        assert outbox.append(TOPIC, payload, len(payload)) == 0
    for seq in range(4, 4 + count):
        assert outbox.shelf().put(seq) == 0
        outbox.discard(seq)
    outbox.save_state()
    return image_of(flash)


def step(outbox, rng):
    dice = rng.random()
    if dice < 0.5:
        size = rng.randrange(4, 300)
        if outbox.append(TOPIC, rng.randbytes(size), size):
            outbox.discard_through(outbox.next_seq - 1)
    elif dice < 0.75 and outbox.next_seq > outbox.oldest_seq:
        outbox.shelf().put(rng.randrange(outbox.oldest_seq, outbox.next_seq))
    elif dice < 0.95:
        outbox.shelf().release(rng.randrange(max(1, outbox.aside)))
    else:
        outbox.save_state()


@pytest.mark.parametrize("geometry", [(4, 256), (4, 4), (32, 32), (256, 256)])
def test_two_readers_agree_after_any_history_and_any_cut(geometry):
    align, page_bytes = geometry
    rng = random.Random(align * 1000 + page_bytes)
    flash = flash_in_ram(6, page_bytes)
    outbox = mounted(flash, align, page_bytes)
    asides = 0
    for _ in range(20):
        flash.cut_at = flash.operations + rng.randrange(1, 40)
        flash.cut_mode = rng.choice(CUT_MODES)
        try:
            while True:
                step(outbox, rng)
        except PowerCut:
            flash.cut_at = 0
        data = image_of(flash)
        expected = firmware_finds(data, align, page_bytes)
        assert tool_finds(data) == expected
        asides += len(expected)
        outbox = mounted(flash, align, page_bytes)
    assert asides > 12


def test_numbers_and_streams_are_told():
    found = read_shelf(image_with(), STREAM)
    assert [(one.seq, one.stream, one.qos) for one in found.messages] == [
        (4, STREAM, 1),
        (5, STREAM, 1),
        (6, STREAM, 1),
    ]
    assert len(found.blocks) == 1 and found.damaged == 0


def test_one_that_the_broker_took_and_did_not_pass_on_is_told_as_such(tmp_path, capsys):
    flash = flash_in_ram(6, 256)
    outbox = mounted(flash)
    for seq in range(2):
        assert outbox.append(TOPIC, b"message", 7) == 0
        assert outbox.shelf().put(seq, seq) == 0
    found = read_shelf(image_of(flash), STREAM).messages
    assert [(one.seq, one.stream, one.marked) for one in found] == [
        (0, STREAM, False),
        (1, STREAM, True),
    ]
    path = tmp_path / "flash.img"
    path.write_bytes(image_of(flash))
    lines = aside(capsys, "list", path)[1].splitlines()
    told = ["the broker took it and did not pass it on" in line for line in lines]
    assert told == [False, False, True, False]
    out = aside(capsys, "export", path, "--json-lines", "-")[1]
    assert [json.loads(line)["reason"] for line in out.splitlines()] == ["refused", "not passed on"]


def test_a_flipped_bit_costs_one_message_at_most():
    image = image_with()
    whole, at = tool_finds(image), read_shelf(image).blocks[0] * 4096
    for bit in range(0, 8 * 420, 7):
        data = bytearray(image)
        data[at + bit // 8] ^= 1 << bit % 8
        found = tool_finds(bytes(data))
        assert len(found) >= 2 and set(found) <= set(whole), bit


def test_any_bytes_are_no_shelf_and_no_crash():
    rng = random.Random(1)
    for _ in range(200):
        assert read_shelf(rng.randbytes(8192)).messages == []
    assert read_shelf(b"").messages == read_shelf(b"OS").messages == []


# --- The command ---


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flash.img").write_bytes(image_with())
    return tmp_path


def aside(capsys, *words):
    capsys.readouterr()
    status = cli.main(["outbox", "aside", *map(str, words)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def held(path="flash.img"):
    return [payload[:9] for _, _, payload in firmware_finds(Path(path).read_bytes())]


def test_list_shows_them_and_status_1_says_that_there_are_some(here, capsys):
    status, out, _ = aside(capsys, "list", "flash.img")
    assert status == 1 and out.count(" outpost/board-1/data ") == 3
    assert out.splitlines()[-1] == "flash.img: 3 messages set aside"
    (here / "none.img").write_bytes(image_with(count=0))
    assert aside(capsys, "list", "none.img")[:2] == (0, "none.img: 0 messages set aside\n")


def test_export_leaves_them(here, capsys):
    before = (here / "flash.img").read_bytes()
    status, out, err = aside(capsys, "export", "flash.img", "--json-lines", "-")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and [row["seq"] for row in rows] == [4, 5, 6]
    assert {row["state"] for row in rows} == {"aside"} and "3 messages exported" in err
    assert aside(capsys, "export", "flash.img", "--segments", "log", "--id", "r-1")[0] == 0
    sealed = segments.sealed_segments(here / "log" / "r-1")
    assert len(list(segments.read_segment(sealed[0]))) == 3
    assert (here / "flash.img").read_bytes() == before


def test_give_up_wants_a_number_and_yes(here, capsys):
    before = (here / "flash.img").read_bytes()
    for words, expected in (
        (["--number", 5], "confirm with --yes"),
        (["--yes"], "--number N or --all"),
        (["--number", 99, "--yes"], "there are 4, 5, 6"),
    ):
        status, out, err = aside(capsys, "give-up", "flash.img", *words)
        assert (status, out) == (2, "") and expected in err
    assert (here / "flash.img").read_bytes() == before
    status, out, _ = aside(capsys, "give-up", "flash.img", "--number", 5, "--yes")
    assert (status, out) == (0, "flash.img: given up: 5; 2 left\n")
    assert held() == [b"message 4", b"message 6"]
    assert aside(capsys, "give-up", "flash.img", "--all", "--yes")[0] == 0
    assert held() == [] and aside(capsys, "list", "flash.img")[0] == 0
    assert aside(capsys, "give-up", "flash.img", "--all", "--yes")[0] == 2


def test_an_image_alone_cannot_send(here, capsys):
    status, _, err = aside(capsys, "send", "flash.img", "--all")
    assert status == 2 and "--settings" in err


@pytest.mark.timeout(120)
def test_send_publishes_to_the_boards_broker_and_lets_go(here, capsys):
    need_mosquitto()
    settings = here / "kitchen.toml"
    with Broker("mosquitto", here / "broker") as broker:
        settings.write_text(
            f'device_id = "board-1"\nmode = "broker"\nbroker_host = "127.0.0.1"\n'
            f"broker_port = {broker.port}\n"
        )
        words = ["send", "flash.img", "--settings", settings]
        status, out, err = aside(capsys, *words, "--number", 5)
        assert (status, out) == (0, "flash.img: 1 messages acknowledged by the broker; 2 left\n"), (
            err
        )
        assert held() == [b"message 4", b"message 6"]
        assert aside(capsys, *words, "--all")[0] == 0
    assert held() == []
    status, _, err = aside(capsys, *words, "--all")
    assert status == 2 and "no message is set aside" in err


def test_a_broker_that_still_will_not_take_it_keeps_it_set_aside(here, capsys):
    """It closes the connection at the PUBLISH, as one does over its size limit."""
    settings = here / "kitchen.toml"
    with closing_broker() as port:
        settings.write_text(
            f'device_id = "board-1"\nmode = "broker"\nbroker_host = "127.0.0.1"\n'
            f"broker_port = {port}\n"
        )
        status, out, err = aside(capsys, "send", "flash.img", "--settings", settings, "--number", 5)
    assert (status, out) == (2, "")
    assert "closed the connection at message 5" in err and "stays set aside" in err
    assert held() == [b"message 4", b"message 5", b"message 6"]


def settings_of(here, port, level, mode="broker"):
    settings = here / "kitchen.toml"
    settings.write_text(
        f'device_id = "board-1"\nbroker_host = "127.0.0.1"\nbroker_port = {port}\nlevel = {level}\n'
        f'mode = "{mode}"\n'
    )
    return settings


@pytest.mark.parametrize("level", [3, 4, 5])
def test_send_speaks_the_version_that_the_settings_say(here, capsys, level):
    with acknowledging_broker(level) as port:
        settings = settings_of(here, port, level)
        status, _, err = aside(capsys, "send", "flash.img", "--settings", settings, "--number", 5)
    assert (status, held()) == (0, [b"message 4", b"message 6"]), err


@pytest.mark.parametrize("level", [4, 5])
def test_in_collector_mode_it_speaks_mqtt_5_to_hear_whether_the_broker_denies_it(
    here, capsys, level
):
    """In 3.1.1 PUBACK says nothing, and the message would be gone."""
    words = ["send", "flash.img", "--number", 5, "--settings"]
    for reason, said in ((0x87, "Not authorized"), (0x10, "No matching subscribers")):
        with acknowledging_broker(5, reason=reason) as port:
            status, _, err = aside(capsys, *words, settings_of(here, port, level, "collector"))
        assert (status, len(held())) == (2, 3) and f"refuses message 5: {said}" in err
    with acknowledging_broker(5) as port:
        assert aside(capsys, *words, settings_of(here, port, level, "collector"))[0] == 0
    assert held() == [b"message 4", b"message 6"]


def test_in_collector_mode_a_broker_without_mqtt_5_gets_none_and_the_way_out_is_named(here, capsys):
    words = ["send", "flash.img", "--number", 5, "--settings"]
    for answer in (b"\x20\x02\x00\x01", b""):
        with refusing_broker(answer) as port:
            status, _, err = aside(capsys, *words, settings_of(here, port, 4, "collector"))
        assert (status, len(held())) == (2, 3) and "aside export --segments" in err


def test_a_message_that_a_broker_of_mqtt_5_refuses_stays_set_aside(here, capsys):
    with acknowledging_broker(5, reason=0x97) as port:
        settings = settings_of(here, port, 5)
        status, _, err = aside(capsys, "send", "flash.img", "--settings", settings, "--number", 5)
    assert status == 2 and "refuses message 5: Quota exceeded; it stays set aside" in err
    assert held() == [b"message 4", b"message 5", b"message 6"]


def test_a_connection_that_was_lost_between_two_messages_is_told():
    """paho's publish() notices it, and is_published() raises then."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "x")
    broker = publishing.Broker(client, "here:1883")
    client.on_disconnect()
    with pytest.raises(ToolError, match="closed the connection at message 7"):
        broker.send(Aside(7, STREAM, 1, False, TOPIC, b"x", 0, 0))


@contextlib.contextmanager
def listening(serve):
    """The port at which serve(peer) has the first connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        peer, _ = listener.accept()
        with peer:
            serve(peer)

    server = threading.Thread(target=run)
    server.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.join(10)
        listener.close()


def acknowledging_broker(level, reason=0):
    """Lets only that version in, and answers one PUBLISH of QoS 1."""

    def serve(peer):
        connect = peer.recv(1000)
        name = connect[4 : 4 + connect[3]]
        if connect[4 + len(name)] != level:
            peer.sendall(b"\x20\x02\x00\x01")
            return
        peer.sendall(b"\x20\x03\x00\x00\x00" if level == 5 else b"\x20\x02\x00\x00")
        publish = peer.recv(1000)
        at = 4 + publish[3]
        code = bytes([reason]) if reason else b""
        peer.sendall(bytes([0x40, 2 + len(code)]) + publish[at : at + 2] + code)
        peer.recv(1000)

    return listening(serve)


def refusing_broker(answer):
    """Answers CONNECT with these bytes, or closes."""

    def serve(peer):
        peer.recv(1000)
        peer.sendall(answer)

    return listening(serve)


def closing_broker():
    """Lets the client in, and closes at the next packet."""

    def serve(peer):
        peer.recv(1000)
        peer.sendall(b"\x20\x02\x00\x00")
        peer.recv(1000)

    return listening(serve)


# --- On a board ---

SET_ASIDE = """
import json
from board import Board
from outpost.outbox import Outbox
from station.settings import load

board = Board().open(load("settings.json"))
outbox = Outbox(board.device, align=256, page_bytes=256)
outbox.mount()
for number in range(3):
    payload = b"stubborn %d" % number
    print(outbox.append(b"outpost/rig-1/data", payload, len(payload)))
    print(outbox.shelf().put(outbox.next_seq - 1))
print("aside", outbox.aside)
"""


@pytest.fixture
def rig(tmp_path, tree):
    with Rig(tmp_path / "rig", tree) as found:
        path = found.folder / "settings.toml"
        lines = {**SETTINGS, "outbox_blocks": 8, "interval_ms": 3_600_000}
        path.write_text("".join(f"{key} = {json.dumps(one)}\n" for key, one in lines.items()))
        assert found.outpost("flash", "--settings", path, "--no-link") == 0, found.err
        wait_for(lambda: found.is_running_its_program, "its program")
        assert "aside 3" in found.mpremote("exec", SET_ASIDE)
        yield found


@pytest.mark.long
@pytest.mark.timeout(300)
def test_on_a_board_they_are_listed_sent_again_by_it_and_given_up(rig, capsys):
    live = ["--live", rig.port]
    status, out, _ = aside(capsys, "list", *live)
    numbers = [line.split()[0] for line in out.splitlines() if "stubborn" in line]
    assert status == 1 and len(numbers) == 3
    assert cli.main(["monitor", "--port", rig.port, "--look"]) == 0
    assert "3 messages set aside" in capsys.readouterr().out
    status, out, err = aside(capsys, "give-up", *live, "--number", numbers[1], "--yes")
    assert status == 0 and "2 left" in out, err
    status, out, err = aside(capsys, "send", *live, "--number", numbers[2])
    assert status == 0 and "the board sends them; 1 left" in out, err
    status, out, _ = aside(capsys, "list", *live)
    assert status == 1 and "stubborn 0" in out and out.count("stubborn") == 1
