# cpython-only: tests a desktop tool
"""`outpost outbox` at the command line: its examples as printed, rescue, the model of wear against
the outbox.
"""

import json
import os
import random
import shlex
from types import SimpleNamespace

import pytest

import power_loss  # noqa: F401 - gives the firmware zlib's CRC
from fake_flash import flash_in_ram, image_of
from outpost.outbox import Outbox
from outpost_tools import cli
from outpost_tools.boards.outbox import arguments, wear
from outpost_tools.boards.outbox.image import read_image
from outpost_tools.log import segments
from outpost_tools.messages import message
from outpost_tools.servers.collect.log import frame_key
from station.telemetry import Pack

TOPIC = b"outpost/board-1/data"
FORMAT_PROGRAMS = 3  # the mark, the header, its copy
CLOCK = SimpleNamespace(is_set=True, day=20_000, ms=1234, up_day=0, up_ms=0)


def board_image(messages=60, freed=20):
    """What a board leaves that died with messages in its flash."""
    flash = flash_in_ram(8)
    outbox, pack = Outbox(flash), Pack(b"board-1")
    outbox.format(b"3fa9c1d2")
    for value in range(messages):
        pack.begin(outbox, CLOCK)
        pack.add(b"load", b"", value, -2)
        assert outbox.append(TOPIC, pack.buffer, pack.end(), 0x10) == 0
        if outbox.oldest_seq < freed:
            outbox.discard_through(freed - 1)
    return image_of(flash)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flash.img").write_bytes(board_image())
    os.utime(tmp_path / "flash.img", (1_700_000_000, 1_700_000_000))
    return tmp_path


def outbox(*words):
    return cli.main(["outbox", *words])


def examples():
    lines = [line.strip() for line in arguments.EXAMPLES.splitlines()]
    return [line.split("   ")[0] for line in lines if line.startswith("outpost ")]


def test_there_are_examples_of_every_job():
    jobs = {example.split()[2] for example in examples()}
    assert jobs == {"show", "check", "health", "export", "wear", "aside"} and len(examples()) == 11


@pytest.mark.parametrize("example", examples())
def test_the_examples_work_as_printed(example, here, capsys):
    assert cli.main(shlex.split(example)[1:]) == 0
    shown = capsys.readouterr()
    assert shown.out or "exported" in shown.err


@pytest.mark.parametrize("job", ["show", "check", "health", "export", "wear"])
def test_each_job_explains_itself(job, capsys):
    with pytest.raises(SystemExit) as stopped:
        outbox(job, "--help")
    assert stopped.value.code == 0 and "IMAGE" in capsys.readouterr().out


def test_show_prints_blocks_records_and_what_is_held(here, capsys):
    assert outbox("show", "flash.img", "--records") == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[-1] == "40 messages held, oldest 20, next 60, boot 1, 0 unreadable, stream 3fa9c1d2"
    )
    assert lines[0].split() == [
        "block",
        "sector_no",
        "stream",
        "first_seq",
        "oldest",
        "boot",
        "messages",
        "held",
        "free",
    ]
    assert any(
        line.startswith("       0x0020 message 0 QoS 1 freed outpost/board-1/data [{")
        for line in lines
    )
    assert sum(" held outpost/board-1/data " in line for line in lines) == 40
    assert any(line.endswith(" erased") for line in lines)


def test_show_as_json_has_every_record(here, capsys):
    assert outbox("show", "flash.img", "--records", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    records = [record for sector in shown["sectors"] for record in sector.get("records", [])]
    assert (shown["status"], shown["stream"], shown["messages_held"], shown["blocks"]) == (
        "outbox",
        "3fa9c1d2",
        40,
        8,
    )
    assert [record["seq"] for record in records] == list(range(60))
    assert outbox("show", "flash.img", "--json") == 0
    assert "records" not in capsys.readouterr().out


def test_a_note_and_text_that_would_play_with_the_terminal_are_shown_as_hex(here, capsys):
    flash = flash_in_ram(2)
    box = Outbox(flash)
    box.format(b"3fa9c1d2")
    box.append(b"a\x1b[2J", b"\xff\x00", 2)
    box.append(b"", b"\x07note", 5, 2)
    (here / "odd.img").write_bytes(image_of(flash))
    assert outbox("show", "odd.img", "--records") == 0
    shown = capsys.readouterr().out
    assert "held hex 611b5b324a hex ff00" in shown and "note hex 076e6f7465" in shown
    assert outbox("show", "odd.img", "--records", "--json") == 0
    assert '"note_hex": "076e6f7465"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "truncated image"),
        (b"\xff" * 8192, "blank"),
        (random.Random(8).randbytes(8192), "foreign"),
        (board_image()[:-1], "truncated image"),
        (b"OB\x03" + board_image()[3:], "bad header"),
    ],
)
def test_check_and_show_name_what_is_wrong(data, word, here, capsys):
    (here / "bad.img").write_bytes(data)
    assert outbox("check", "bad.img") == 1
    assert word in capsys.readouterr().out
    assert outbox("show", "bad.img") in (0, 1)
    assert word in capsys.readouterr().out


def test_check_compares_the_alignment_when_told_to(here, capsys):
    assert outbox("check", "flash.img", "--align", "4") == 0
    assert outbox("check", "flash.img", "--align", "256") == 1
    assert "other alignment: 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("show", "no.img"),
        ("check", "."),
        ("export", "flash.img", "--segments", "log"),
        ("export", "flash.img", "--segments", "log", "--id", "../log"),
        ("export", "flash.img", "--json-lines", "-", "--id", "rescue-1"),
        ("wear",),
        ("wear", "--blocks", "8"),
        ("wear", "--blocks", "8", "--rate", "1", "--interval", "1"),
        ("wear", "--blocks", "8", "--rate", "1", "--payload-bytes", "4048"),
        ("wear", "blank.img"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_status_2(words, here, capsys):
    (here / "blank.img").write_bytes(b"\xff" * 8192)
    assert outbox(*words) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("outpost: ") and shown.err.count("\n") == 1


def test_export_gives_what_is_held_and_with_all_what_is_there(here, capsys):
    assert outbox("export", "flash.img", "--json-lines", "held.jsonl") == 0
    lines = [json.loads(line) for line in (here / "held.jsonl").read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(20, 60))
    assert json.loads(lines[0]["payload"])[0]["seq"] == 20
    capsys.readouterr()
    assert outbox("export", "flash.img", "--json-lines", "-", "--all") == 0
    assert [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()] == [
        "freed"
    ] * 20 + ["held"] * 40
    assert outbox("export", "flash.img", "--json-lines", "-", "--prefix", "outpos") == 0
    assert capsys.readouterr().out == ""
    assert outbox("export", "flash.img", "--json-lines", "held.jsonl") == 2


def test_rescued_segments_are_what_the_pipeline_reads(here):
    assert (
        outbox(
            "export", "flash.img", "--segments", "log", "--id", "rescue-1", "--prefix", "outpost"
        )
        == 0
    )
    (path,) = segments.sealed_segments(here / "log/rescue-1")
    assert os.listdir(here / "log/rescue-1") == ["segment-000000000000.seg"]
    frames = list(segments.read_segment(path))
    packs = [message.decode(f.topic.decode(), f.payload, retained=f.retained) for f in frames]
    assert [(pack.device, pack.stream, pack.seq) for pack in packs] == [
        ("board-1", "3fa9c1d2", seq) for seq in range(20, 60)
    ]
    assert [pack.readings[0].value for pack in packs] == [seq / 100 for seq in range(20, 60)]
    assert {frame.received_ms for frame in frames} == {1_700_000_000_000}
    assert all(frame_key(frame) is not None for frame in frames)


def test_a_rescue_is_done_once_and_never_into_something_else(here, capsys):
    rescue = ("export", "flash.img", "--segments", "log", "--id", "rescue-1")
    assert outbox(*rescue) == 0
    before = (here / "log/rescue-1/segment-000000000000.seg").read_bytes()
    os.utime(here / "flash.img")  # a copy of the image is the same image
    assert outbox(*rescue) == 0 and "already" in capsys.readouterr().err
    assert outbox(*rescue, "--all") == 2 and "another --id" in capsys.readouterr().err
    (here / "log/collector-1").mkdir()
    (here / "log/collector-1/.lock").touch()
    assert outbox(*rescue[:-1], "collector-1") == 2
    assert (here / "log/rescue-1/segment-000000000000.seg").read_bytes() == before
    assert os.listdir(here / "log/collector-1") == [".lock"]


def test_a_damaged_image_is_exported_as_far_as_it_goes_with_status_1(here, capsys):
    data = bytearray((here / "flash.img").read_bytes())
    offset = read_image(bytes(data)).held[5].record.offset
    block = read_image(bytes(data)).held[5].block
    data[block * 4096 + offset + 20] ^= 1
    (here / "flash.img").write_bytes(data)
    assert outbox("export", "flash.img", "--json-lines", "-") == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 39 and "bad record" in shown.err


def run_for_wear(load, messages):
    """A real outbox under the load, everything acknowledged at once; returns the flash."""
    flash = flash_in_ram(load.blocks)
    box = Outbox(flash, align=load.align, page_bytes=max(load.align, 32))
    box.format(b"3fa9c1d2")
    topic, payload = b"t" * load.topic_bytes, bytes(load.payload_bytes)
    owed = 0
    for _ in range(messages):
        box.append(topic, payload, len(payload))
        box.discard_through(box.next_seq - 1)
        owed += load.saves
        if owed >= 1:
            owed -= 1
            assert box.save_state() == 0
    return flash


@pytest.mark.parametrize(
    "load",
    [
        wear.Load(4, 1.0, 24, 64),
        wear.Load(3, 1.0, 24, 64, saves=1),
        wear.Load(2, 1.0, 20, 200, saves=0.5),
        wear.Load(5, 1.0, 7, 30, align=32, saves=1),
        wear.Load(4, 1.0, 24, 64, align=256),
    ],
)
def test_the_model_of_wear_is_what_the_outbox_does(load):
    messages = 2500
    flash = run_for_wear(load, messages)
    for erases in flash.block_erases:
        assert abs(erases - messages * load.erases_per_message / load.blocks) <= 1
    assert wear.erases_so_far(read_image(image_of(flash))) == (
        min(flash.block_erases),
        max(flash.block_erases),
    )
    assert flash.programs == FORMAT_PROGRAMS + messages + int(messages * load.saves)


def test_the_figures_of_the_rp2_geometry():
    load = wear.Load(64, 10.0, 24, 64)
    assert (load.messages_per_block, load.record_bytes) == (39, 104)
    assert load.erases_per_message <= 0.026
    assert load.erases_a_year == pytest.approx(365.25 * 8640 / 39 / 64)
    assert load.years(100_000) == pytest.approx(100_000 / load.erases_a_year)


def test_wear_of_rate_and_interval_is_the_same_and_rare_messages_cost_a_save(capsys):
    assert (
        outbox("wear", "--blocks", "64", "--rate", "0.1")
        == outbox("wear", "--blocks", "64", "--interval", "10")
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == lines[5:]
    assert outbox("wear", "--blocks", "64", "--interval", "900") == 0
    assert "2 program calls a message" in capsys.readouterr().out


def test_the_quiet_time_is_the_sessions():
    from outpost import session

    assert session._SAVE_MS == wear.QUIET_S * 1000


def test_the_table_is_markdown(capsys):
    assert outbox("wear", "--table", "--endurance", "10000") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.count("|") for line in lines} == {8} and len(lines) == 2 + len(
        wear.TABLE_BLOCKS
    ) * len(wear.TABLE_LOADS)


def health(image, capsys, *words):
    path = image if isinstance(image, str) else "other.img"
    if not isinstance(image, str):
        with open(path, "wb") as file:
            file.write(image)
    capsys.readouterr()
    status = outbox("health", path, "--json", *words)
    return status, json.loads(capsys.readouterr().out)


def test_health_of_a_sound_outbox(here, capsys):
    status, found = health("flash.img", capsys)
    assert (status, found["sound"], found["troubles"]) == (0, True, [])
    assert (found["held"], found["next_seq"], found["used_blocks"]) == (40, 60, 3)
    assert found["room_messages"] > 100
    assert outbox("health", "flash.img") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "flash.img: sound" and any(line.startswith("room ") for line in lines)


def test_health_says_what_is_wrong_and_what_to_do(here, capsys):
    image = bytearray(board_image())
    image[200] ^= 4  # a record of the first sector
    image[4096 + 5] ^= 1  # the second one's header
    status, found = health(bytes(image), capsys)
    assert status == 1 and found["mended"] == 1 and len(found["faults"]) == 1
    assert any("outpost outbox check" in line for line in found["troubles"])
    status, found = health(board_image(), capsys, "--endurance", "1")
    assert status == 1 and "replace the board" in found["troubles"][0]
    status, found = health(b"\xff" * 8192, capsys)
    assert status == 1 and "blank" in found["troubles"][0]


def test_health_of_the_room_agrees_with_what_the_outbox_takes(here, capsys):
    flash = flash_in_ram(8)
    box = Outbox(flash)
    box.format(b"3fa9c1d2")
    for _ in range(70):
        assert box.append(TOPIC, bytes(100), 100) == 0
    _, found = health(image_of(flash), capsys)
    taken = 0
    while box.append(TOPIC, bytes(100), 100) == 0:
        taken += 1
    assert abs(found["room_messages"] - taken) <= 31  # of one block


class Worn:
    """A chip of which one block takes neither erase nor program."""

    def __init__(self, flash, block):
        self.flash, self.block = flash, block

    def readblocks(self, block, buf, offset=0):
        return self.flash.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=0):
        return None if block == self.block else self.flash.writeblocks(block, buf, offset)

    def ioctl(self, operation, argument):
        if operation == 6 and argument == self.block:
            return 0
        return self.flash.ioctl(operation, argument)


def test_health_names_a_block_that_failed_and_messages_set_aside(here, capsys):
    flash = flash_in_ram(8)
    box = Outbox(flash)
    box.format(b"3fa9c1d2")
    box = None
    for lap in range(2):  # the block fails in the second lap, with old messages in it
        box = Outbox(Worn(flash, 3 if lap else -1))
        box.mount()
        for _ in range(300):
            assert box.append(TOPIC, bytes(100), 100) == 0
            box.discard_through(box.next_seq - 6)
    assert box.left_out == 1 and box.shelf().put(box.oldest_seq) == 0
    box.save_state()
    status, found = health(image_of(flash), capsys)
    assert status == 1 and (found["left_out"], found["aside"]) == ([3], 1)
    assert found["ring_blocks"] == 6 and found["faults"] == []
    assert ["1 block failed" in found["troubles"][0], "aside" in found["troubles"][1]] == [True] * 2
    assert "takes these messages and does not pass them on: check the" in found["troubles"][1]
    assert found["aside_topics"] == [TOPIC.decode()]


@pytest.mark.parametrize("words", [["show"], ["aside", "list"], ["export", "--json-lines", "x"]])
def test_a_device_that_never_ends_is_not_read(here, capsys, words):
    """As a serial port, given as the image by mistake."""
    assert outbox(*words, "/dev/zero") == 2
    assert "/dev/zero is a device, not an image; of a board: --live" in capsys.readouterr().err
