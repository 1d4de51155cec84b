# cpython-only: tests a desktop tool
"""`outpost outbox` finds in an image what the firmware finds, after damage more, and never what
was not written.

Two implementations of `firmware/OUTBOX_FORMAT.md` check each other.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# Gives the firmware zlib's CRC: the plain one takes most of the time here.
import power_loss  # noqa: F401
from fake_flash import PowerCut, flash_in_ram, image_of
from nor_flash import CUT_MODES
from outpost import status
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from outpost.state_note import NotedOutbox
from outpost_tools.boards.outbox import layout
from outpost_tools.boards.outbox.export import write_segment
from outpost_tools.boards.outbox.faults import examine
from outpost_tools.boards.outbox.image import Kind, State, Status, board_view, read_image
from outpost_tools.log import segments

TOPIC = b"outpost/board-1/data"
GEOMETRIES = ((2, 4, 4), (2, 4, 256), (3, 32, 32), (4, 4, 256), (5, 8, 64), (3, 256, 256))


def mounted(flash, align, page_bytes, outbox_class):
    outbox = outbox_class(flash, align=align, page_bytes=page_bytes)
    assert outbox.mount() == status.OK
    return outbox


def step(outbox, rng):
    """A few messages in, a few out, some by the way of erase_ahead and save_state."""
    dice = rng.random()
    if dice < 0.6:
        payload = b"%d:" % outbox.next_seq + rng.randbytes(rng.randrange(400))
        outbox.append(
            TOPIC[: rng.randrange(21)], payload, len(payload), rng.choice((0x00, 0x10, 0x50, 0x20))
        )
    elif dice < 0.9:
        outbox.discard(outbox.oldest_seq + rng.randrange(17))
    elif dice < 0.93:
        outbox.save_state()
    elif dice < 0.95 and isinstance(outbox, NotedOutbox):
        outbox.set_note(rng.randbytes(40), rng.randrange(41))
    else:
        outbox.erase_ahead()


def worn_images(rng, geometry, cuts, outbox_class=Outbox):
    """Images of a board whose power is cut repeatedly, each in the middle of an operation."""
    blocks, align, page_bytes = geometry
    flash = flash_in_ram(blocks, page_bytes)
    outbox = outbox_class(flash, align=align, page_bytes=page_bytes)
    assert outbox.format(b"0badcafe") == status.OK
    for _ in range(cuts):
        flash.cut_at, flash.cut_mode = (
            flash.operations + rng.randrange(1, 30),
            rng.choice(CUT_MODES),
        )
        try:
            while True:
                step(outbox, rng)
        except PowerCut:
            flash.cut_at = 0
        yield image_of(flash)
        outbox = mounted(flash, align, page_bytes, outbox_class)


class Looking(Outbox):
    """Reads only."""

    def _settle(self):
        self._shown_end = 0x3FFFFFFF
        return 0


def firmware_finds(data, align, page_bytes):
    """(status, facts, held messages, oldest) as the firmware's mount() and load() tell them; oldest
    -1: it gave some up.
    """
    outbox = Looking(
        flash_in_ram(len(data) // 4096, image=data), align=align, page_bytes=page_bytes
    )
    found = outbox.mount()
    # A jump depends on record_bytes. No sector has room for as many messages.
    passed_over = 254 if outbox.next_seq - outbox._first_seq >= 254 else 0
    facts = (
        outbox.stream.decode(),
        outbox.next_seq - passed_over,
        (outbox.boot - 1) & 0xFFFF,
        outbox.sealed_torn,
    )
    oldest = -1 if outbox.unreadable else outbox.oldest_seq
    held, seq = [], 0
    while found == status.OK and outbox.load(seq) == status.OK:
        at, end = outbox.topic_at, outbox.topic_at + outbox.topic_length
        # below 0 after a jump over a lost message to one that was acked
        distance = outbox.loaded_seq - outbox.oldest_seq
        if distance >= 0 and not (outbox.acked << 1) >> distance & 1:
            payload = bytes(outbox.buffer[end : end + outbox.payload_length])
            held.append((outbox.loaded_seq, outbox.flags, bytes(outbox.buffer[at:end]), payload))
        seq = outbox.loaded_seq + 1
    return found, facts, held, -1 if outbox.unreadable else oldest


def texts_of(messages):
    return [
        (m.seq, m.record.qos << 4 | m.record.retain << 6, m.record.topic, m.record.payload)
        for m in messages
    ]


def tool_finds(image):
    facts = (
        (image.stream, image.next_seq, image.boot, int(not image.head.rest_is_erased))
        if image.chain
        else None
    )
    return facts, texts_of(image.held)


def without_last(good):
    """The last record of block 0 is damaged, and a block follows the ring."""
    at = read_image(good).chain[0].walk.records[-1].offset
    return good[: at + 4] + bytes(8) + good[at + 12 :] + b"\xff" * 4096


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("outbox_class", [Outbox, NotedOutbox, DropOldest])
def test_after_power_cuts_both_implementations_find_the_same(geometry, outbox_class):
    faults = []
    for data in worn_images(random.Random(repr(geometry)), geometry, 60, outbox_class):
        found, facts, held, oldest = firmware_finds(data, *geometry[1:])
        assert found == status.OK
        assert tool_finds(board_view(data)) == (facts, held)
        image = read_image(data)
        assert tool_finds(image) == (facts, held)
        assert oldest in (-1, image.oldest)
        faults += examine(data, image, geometry[1]).faults
    # A half-erased block that lacks one record, freed but not yet said to be, cannot be told from a
    # damaged one.
    assert len(faults) < 3 and all("are unreadable" in text for text in faults)


def test_the_examples_of_power_cuts_have_torn_records_and_torn_headers():
    """Else the test above would show little."""
    torn = headerless = 0
    for data in worn_images(random.Random(1), (3, 4, 256), cuts=200):
        image = read_image(data)
        torn += not image.head.rest_is_erased
        headerless += any(block.kind in (Kind.DAMAGED, Kind.FOREIGN) for block in image.blocks)
    assert torn > 5 and headerless > 1


def small_image():
    """Two blocks, a few records each: states, acknowledgements in and out of order, all flags."""
    flash = flash_in_ram(2)
    outbox = Outbox(flash, page_bytes=4)
    outbox.format(b"3fa9c1d2")
    rng = random.Random(3)
    for flags in (0x10, 0x50, 0x00, 0x20, 0x10):
        outbox.append(b"a/b", rng.randbytes(40), 10 + flags // 4, flags)
        if outbox.next_seq == 4:
            outbox.discard(0)
            outbox.discard(2)
            outbox.save_state()
    outbox._offset = 4096  # as after a torn record: the next one opens a sector
    for _ in range(4):
        outbox.append(b"a/b", b"last words", 10)
    return image_of(flash)


def text_of(message):
    return message.stream, message.seq, message.record.topic, message.record.payload


def flipped(data, at, bit):
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.long
def test_no_flipped_bit_goes_unnoticed_or_invents_a_message_or_hides_another():
    data = small_image()
    sound = read_image(data)
    assert examine(data, sound).faults == examine(data, sound).notes == []
    written = {text_of(message) for message in sound.messages}
    for at, bit in bits_to_flip(sound, random.Random(4)):
        damaged = flipped(data, at, bit)
        image = read_image(damaged)
        findings = examine(damaged, image)
        assert findings.faults or findings.notes, (at, bit)
        assert {text_of(message) for message in image.messages} <= written, (at, bit)
        hit = {m.seq for m in sound.held if (m.block, m.record.offset) == hit_record(sound, at)}
        assert {m.seq for m in sound.held} - {m.seq for m in image.held} <= hit, (at, bit)


def bits_to_flip(image, rng):
    """Every bit of headers and records, and one of every eleventh erased byte."""
    for at in range(len(image.blocks) * 4096):
        if at % 4096 < image.blocks[at // 4096].walk.end:
            yield from ((at, bit) for bit in range(8))
        elif at % 11 == 0:
            yield at, rng.randrange(8)


def hit_record(image, at):
    for record in image.blocks[at // 4096].walk.records:
        if record.offset <= at % 4096 < record.offset + record.size_bytes:
            return at // 4096, record.offset
    return None


def test_of_a_damaged_image_the_tool_reads_all_that_the_firmware_reads():
    data, rng = small_image(), random.Random(5)
    for _ in range(250):
        block, at = rng.randrange(2), rng.choice((rng.randrange(32), rng.randrange(4096)))
        damaged = flipped(data, block * 4096 + at, rng.randrange(8))
        found, _, held, _ = firmware_finds(damaged, 4, 4)
        assert (board_view(damaged).status is Status.OUTBOX) == (found == status.OK)
        assert set(held) <= set(texts_of(read_image(damaged).messages))


def test_noise_over_an_image_invents_nothing():
    data, rng = small_image(), random.Random(6)
    written = {text_of(message) for message in read_image(data).messages}
    for _ in range(150):
        damaged = bytearray(data)
        at = rng.randrange(len(data))
        noise = rng.randbytes(rng.randrange(1, 600))[: len(data) - at]
        damaged[at : at + len(noise)] = noise
        image = read_image(bytes(damaged))
        examine(bytes(damaged), image)
        assert {text_of(message) for message in image.messages} <= written


def test_what_stands_behind_a_damaged_record_is_read():
    data = small_image()
    at = read_image(data).blocks[0].walk.records[2].offset
    damaged = data[:at] + bytes(10) + data[at + 10 :]
    image = read_image(damaged)
    assert [m.seq for m in image.messages] == [
        m.seq for m in read_image(data).messages if m.seq != 2
    ]
    findings = examine(damaged, image)
    assert any(f"block 0: bad record at 0x{at:04x}: skipped" in text for text in findings.faults)


def test_a_sector_whose_header_has_a_wrong_bit_is_read():
    data = small_image()
    for at in (0, 2, 3, 5, 12, 17, 29):
        image = read_image(flipped(data, 4096 + at, 4))
        assert image.blocks[1].kind is Kind.REPAIRED
        assert [text_of(m) for m in image.held] == [text_of(m) for m in read_image(data).held]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 9000), st.integers(0, 255))
def test_any_bytes_give_a_status_and_no_message(text, length, filler):
    data = text + bytes([filler]) * length
    image = read_image(data)
    assert image.messages == [] and image.status in (Status.BLANK, Status.FOREIGN)
    assert examine(data, image).faults


def test_random_bytes_that_begin_like_an_outbox_invent_nothing():
    rng = random.Random(7)
    for _ in range(60):
        data = b"".join(b"OB\x01\x02" + rng.randbytes(4092) for _ in range(2))
        image = read_image(data)
        assert image.messages == [] and image.status is Status.FOREIGN
        assert any("bad header" in text for text in examine(data, image).faults)


def with_header(data, block, **changes):
    """The image with fields of one header changed and its CRC made to fit; records after it are
    then not valid.
    """
    header = bytearray(data[block * 4096 : block * 4096 + 28])
    for name, value in changes.items():
        at, length = {
            "version": (2, 1),
            "sector_no": (4, 4),
            "stream": (8, 8),
            "first_seq": (16, 4),
        }[name]
        header[at : at + length] = (
            value if isinstance(value, bytes) else value.to_bytes(length, "little")
        )
    crc = layout.crc30(bytes(header), 0).to_bytes(4, "little")
    return data[: block * 4096] + bytes(header) + crc + data[block * 4096 + 32 :]


def test_the_numbers_around_the_wrap_of_the_sector_count_are_in_order():
    data = small_image()[:4096] * 3
    flag = 1 << 30  # the geometry is there
    for block, sector_no in enumerate((0, layout.NUMBERS - 2, layout.NUMBERS - 1)):
        data = with_header(data, block, sector_no=flag | sector_no, first_seq=block)
    assert firmware_finds(data, 4, 4)[0] == status.OK
    assert read_image(data).head.number == board_view(data).head.number == 0


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("newer version", lambda good: with_header(good, 0, version=3)),
        ("newer version", lambda good: with_header(with_header(good, 0, version=3), 1, version=9)),
        ("other stream", lambda good: with_header(good, 0, stream=b"01234567")),
        ("out of place", lambda good: good[4096:] + good[4096:]),
        ("left out", lambda good: good + good[:4096]),
        ("foreign block", lambda good: good + b"\xff" * 4096 + bytes(4096)),
        ("bad header", lambda good: good + b"\xff" * 4096 + b"OB" + bytes(4094) + b"\xff" * 4096),
        ("truncated image", lambda good: good[:-100]),
        ("truncated image", lambda good: good[:4096]),
        ("truncated image", lambda good: b""),
        ("are unreadable", without_last),
        ("blank", lambda good: b"\xff" * 8192),
        ("blank", lambda good: bytes(32) + b"\xff" * 8128 + layout.MARK),
        ("foreign", lambda good: b"SQLite format 3\0" * 512),
    ],
)
def test_each_fault_has_its_name(name, make):
    data = make(small_image())
    assert any(name in text for text in examine(data, read_image(data)).faults)


def test_of_an_image_cut_off_the_rest_is_read():
    data = small_image()
    image = read_image(data[: 4096 + 300])
    assert [m.seq for m in image.held] == [
        m.seq for m in read_image(data).held if m.block == 0 or m.record.offset < 200
    ]


def test_beside_a_newer_sector_the_others_are_read_and_the_board_reads_nothing():
    data = with_header(small_image(), 0, version=3)
    assert [m.block for m in read_image(data).held] == [1, 1, 1, 1]
    assert board_view(data).status is Status.NEWER
    assert firmware_finds(data, 4, 4)[0] == status.NEWER


def test_a_record_given_up_after_a_failed_program_is_not_a_message(tmp_path):
    """The flash took it after all, and the number was used again."""
    flash = flash_in_ram(2)
    outbox = Outbox(flash, page_bytes=4)
    outbox.format(b"3fa9c1d2")
    outbox.append(b"t", b"first", 5)
    write = outbox._write_record

    def given_up(first, size):
        """It takes, but does not read back."""
        outbox._write_record = write
        write(first, size)
        outbox._offset = 4096
        return False

    outbox._write_record = given_up
    assert outbox.append(b"t", b"second", 6) == status.OK
    data = image_of(flash)
    image = read_image(data)
    assert tool_finds(image)[1] == firmware_finds(data, 4, 4)[2]
    assert [m.state for m in image.messages] == [State.HELD, State.SUPERSEDED, State.HELD]
    assert examine(data, image).faults == [] and "given up" in examine(data, image).notes[0]
    assert write_segment(image.messages, tmp_path, 0)
    (path,) = segments.sealed_segments(tmp_path)
    assert [frame.payload for frame in segments.read_segment(path)] == [b"first", b"second"]
