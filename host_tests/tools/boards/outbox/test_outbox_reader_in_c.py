# cpython-only: a desktop tool
"""The reader in C (`tools/outbox_reader.c`) finds in an image what the firmware finds: in good
ones, after power cuts, in those of earlier versions, and with flipped bits.
"""

import base64
import random
import subprocess
import zlib

import pytest

import c_program
import old_images
import store_histories
from fake_flash import flash_in_ram, image_of
from outbox_invariants import LAST_SEQ
from outpost import status
from outpost.checksum import crc30
from outpost.outbox import Outbox
from outpost.state_note import NotedOutbox
from outpost_tools.boards.outbox import layout
from paths import HOST_TESTS, REPOSITORY
from virtual.chip import Chip

SOURCE = REPOSITORY / "tools" / "outbox_reader.c"
FORMAT_1 = HOST_TESTS / "firmware" / "outpost" / "images" / "format_1.bin.z"
HISTORIES = 30
SAMPLE = old_images.sample()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return c_program.compiled(SOURCE, tmp_path_factory.mktemp("outbox"))


def read_in_c(program, image):
    done = subprocess.run([program], input=image, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().splitlines()


def text_of(outbox):
    """Flags, topic and payload of the message that is loaded."""
    middle = outbox.topic_at + outbox.topic_length
    topic = bytes(outbox.buffer[outbox.topic_at : middle])
    payload = bytes(outbox.buffer[middle : middle + outbox.payload_length])
    flags = outbox.flags >> 4 & 3, outbox.flags >> 6
    return [*map(str, flags)], [topic.hex() or "-", payload.hex() or "-"]


def looking(kind):
    """A subclass that makes sure of nothing at a mount, so that this only reads."""

    class Looking(kind):
        def _settle(self):
            found = kind._settle(self) if hasattr(kind, "_settle") else 0
            self._shown_end = LAST_SEQ
            return found

    return Looking


def expected(image, align=4, page_bytes=256, kind=Outbox):
    """(what the firmware finds, the next number as its mount() says)."""
    chip = Chip(len(image) // 4096, page_bytes, data=split(image))
    outbox = looking(kind)(chip, 512, align, page_bytes)
    outbox.settles_later = True
    found = outbox.mount()
    if found:
        names = {status.NEWER: "newer", status.SHORT_DEVICE: "short"}
        return [names.get(found, "none")], 0
    assert chip.programs == chip.erases == 0
    lines = []
    if kind is NotedOutbox and outbox.note_length:
        lines.append("note " + outbox.note[: outbox.note_length].hex())
    seq = 0
    while outbox.load(seq) == status.OK:
        flags, text = text_of(outbox)
        seq = outbox.loaded_seq + 1
        distance = seq - 1 - outbox.oldest_seq
        is_acked = (outbox.acked << 1) >> distance & 1
        state = "acked" if is_acked else "held"
        lines.append(" ".join(["message", str(seq - 1), *flags, state, *text]))
    for index in range(outbox.aside):
        shelf = outbox.shelf()
        assert shelf.load(index) == status.OK
        flags, text = text_of(outbox)
        key = map(str, (shelf.seq, shelf._now.held[index][1], shelf.mark))
        lines.append(" ".join(["aside", *key, *flags, *text]))
    return lines, outbox.next_seq


def split(image):
    return [bytes(image[at : at + 4096]) for at in range(0, len(image), 4096)]


def compare(program, image, align=4, page_bytes=256, kind=Outbox):
    """Returns what was found."""
    wanted, next_seq = expected(image, align, page_bytes, kind)
    found = read_in_c(program, image)
    if found[0].startswith("outbox"):
        told = found.pop(0).split()
        assert int(told[2]) == align
        assert next_seq - int(told[5]) in (0, layout.JUMP)
    if kind is not NotedOutbox:
        found = [line for line in found if not line.startswith("note")]
    assert found == wanted
    return found


@pytest.mark.parametrize("align", [4, 32, 64, 256])
@pytest.mark.parametrize("page_bytes", [256, 4096])
def test_messages_released_in_any_order(program, align, page_bytes):
    dice = random.Random(align)
    flash = flash_in_ram(6, page_bytes)
    outbox = Outbox(flash, 512, align, page_bytes)
    assert outbox.format(b"01234567") == status.OK
    for number in range(150):
        topic, size = b"t" * dice.randrange(1, 40), dice.randrange(300)
        outbox.append(topic, dice.randbytes(size), size, dice.choice((0, 0x10, 0x50, 0x60)))
        if outbox.next_seq - outbox.oldest_seq > 20:
            outbox.discard(outbox.oldest_seq + dice.randrange(4))
        if number % 30 == 20:
            outbox.save_state()
            assert len(compare(program, image_of(flash), align, page_bytes)) > 15


def test_format_1(program):
    found = compare(program, zlib.decompress(FORMAT_1.read_bytes()))
    assert len(found) == 100


@pytest.mark.parametrize("name", SAMPLE)
def test_images_of_earlier_versions(program, name):
    old = SAMPLE[name]
    image = zlib.decompress(base64.b64decode(old["image"]))
    compare(program, image, old["align"], kind=NotedOutbox if old["noted"] else Outbox)


def lives(seed):
    """Returns (image, history) before and after each start of a history."""
    seen = []

    class Seen(store_histories.History):
        def _start(self):
            seen.append((b"".join(self.chip.data), self))
            super()._start()
            seen.append((b"".join(self.chip.data), self))

    Seen(seed, weak=False, bad=bool(seed & 1)).run()
    return seen


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_shelf_note_and_messages_after_power_cuts(program, first):
    dice = random.Random(first)
    for seed in range(first, first + 10):
        for image, history in lives(seed):
            geometry = history.align, history.page, history.kind
            compare(program, image, *geometry)
            compare(program, damaged(image, dice), *geometry)


def damaged(image, dice):
    """One bit has flipped, or a header is gone."""
    data = bytearray(image)
    block = dice.randrange(len(data) // 4096) * 4096
    at = block + dice.choice((dice.randrange(32), dice.randrange(600)))
    if dice.randrange(4):
        data[at] ^= 1 << dice.randrange(8)
    else:
        data[block : block + 32] = bytes(32)
    return bytes(data)


def test_programs_cut_at_any_byte(program):
    """Of the newest record, and of a sector's first program, several messages a page of 256."""
    whole = made(3, 80)
    for at in range(4096 - 300, 4096):
        for block in range(3):
            cut = bytearray(whole)
            used = 4096 * block + len(whole[4096 * block :][:4096].rstrip(b"\xff"))
            start = max(4096 * block, used - (4096 - at))
            cut[start:used] = b"\xff" * (used - start)
            compare(program, bytes(cut))


def made(blocks, messages):
    flash = flash_in_ram(blocks, 256)
    outbox = Outbox(flash)
    assert outbox.format(b"01234567") == status.OK
    for number in range(messages):
        assert outbox.append(b"t/%d" % number, bytes(range(number)), number) == status.OK
        outbox.discard(outbox.oldest_seq + number % 2)
    return image_of(flash)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (b"\xff" * 8192, "none"),
        (bytes(8192), "none"),
        (made(3, 5)[:8192], "short"),
        (b"OB\x03\x02" + made(3, 5)[4:28] + b"----" + made(3, 5)[32:], "newer"),
        (made(3, 5)[:8000], ""),
        (b"", ""),
    ],
)
def test_what_is_no_outbox(program, image, said):
    if said == "newer":
        image = image[:28] + crc30(0, image, 0, 28).to_bytes(4, "little") + image[32:]
    found = subprocess.run([program], input=image, stdout=subprocess.PIPE, check=False)
    assert found.stdout.decode().splitlines() == [said] * bool(said)
    assert found.returncode == (not said)


def test_what_cannot_be_written_is_a_status(program):
    with open("/dev/full", "wb") as full:
        found = subprocess.run([program], input=made(2, 1), stdout=full, check=False)
    assert found.returncode == 1
