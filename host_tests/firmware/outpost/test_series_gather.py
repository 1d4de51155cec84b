"""What of a record's room becomes the message, written bit by bit from `firmware/SERIES_FORMAT.md`:
the samples up to the first that does not check, and what follows a gap from a restart on.
"""

import unittest

from faulty_flash import faulty
from outpost import series_outbox
from outpost.checksum import crc30
from outpost.outbox import Outbox
from outpost.series_codec.series_bits import check_of, move_bits, pass_codes, take_bits
from outpost.series_outbox import over
from outpost.status import OK

TOPIC = b"t"
KS = (2, 1, 0, 3)  # of the time's codes, and of each column's
RECORD_BYTES = 132
PAGE_BYTES = 64
LAST = 60  # a record from here in its page on ends with the buffer


def bits_of(number, size):
    return ("0" * size + bin(number)[2:])[-size:] if size else ""


def code(k, number):
    """G(k)"""
    size = len(bin(number + (1 << k))) - 2
    return "0" * (size - k - 1) + bits_of(number + (1 << k), size)


def whole(number):
    """A signed number of a restart."""
    number = number << 1 if number >= 0 else -1 - (number << 1)
    size = len(bin(number)) - 2 if number else 0
    return bits_of(size, 5) + bits_of(number, size)


def codes(*numbers, ks=KS):
    """A sample with nothing missing: of the time and each column."""
    return "".join([code(k, number) for k, number in zip(ks, numbers)])


def mark(text, ks=KS):
    """M, and the bits of `text` that follow it, blanks left out."""
    return code(ks[0], 1) + text.replace(" ", "")


def restart(*numbers, ks=KS):
    mask = "".join(["0" if one is None else "1" for one in numbers[1:]])
    return mark("1" + mask + "".join([whole(one) for one in numbers if one is not None]), ks)


def packed(bits, rest):
    """Bytes, the last one filled up with `rest`."""
    bits += rest * (-len(bits) % 8)
    return bytes([int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)])


def checked(bits, seed):
    """A sample as it lies in flash."""
    text = packed(bits, "1")
    if bits.startswith(code(KS[0], 1) + "1"):
        check = crc30(seed, text, 0, len(text))
        return text + bytes([check & 255, check >> 8 & 255, check >> 16 & 255, check >> 24])
    check = check_of(text, 0, len(text), seed)
    return text + bytes([check & 255, check >> 8])


def header_of(ks):
    header = bytearray(32)
    header[0], header[1] = 0xF5, 1
    header[28:32] = bytes((ks[0], len(ks) - 1, 1, 0x62))
    for i, k in enumerate(ks[1:]):
        header += bytes((0, k | 0x10 * (i & 1), 1, 0x61 + i)) + b"u" * (i & 1)
    header[2] = len(header)
    return header


class Rig:
    """A record that begins at byte `at` of its block, with nothing in its room."""

    def __init__(self, ks=KS, at=LAST, align=4, record_bytes=RECORD_BYTES):
        self.flash = faulty(2)
        self.outbox = over(Outbox)(self.flash, record_bytes, align, PAGE_BYTES)
        assert self.outbox.format(b"3fa9c1d2") == OK
        while self.outbox._offset < at:
            length = min(at - self.outbox._offset, 128) - 16
            assert self.outbox.append(b"", bytes(length), length) == OK
        self.first = restart(*range(len(ks)), ks=ks)
        header = header_of(ks)
        self.header_length = len(header)
        header += packed(self.first, "0")
        header[18] = self.room = record_bytes - (-(-len(header) - len(TOPIC) - 16 & -align))
        assert self.outbox.prepare(len(header) + len(TOPIC) + self.room) == OK
        assert self.outbox.begin(TOPIC, header, len(header))
        self.seq = self.outbox.next_seq
        self.outbox.next_seq += 1  # it is closed

    def lay(self, items):
        """Samples (text of bits), and bytes that are none, from the start of the room on. Returns
        how many bytes."""
        where = self.outbox.where
        start = where[5] * 4096 + where[2]
        self.flash.put(start, b"\xff" * (self.room + 32))
        at = 0
        for item in items:
            if isinstance(item, str):
                item = checked(item, where[3] ^ at)
            self.flash.put(start + at, item)
            at += len(item)
        return at

    def message(self):
        """The bytes of the message's samples."""
        self.outbox.loaded_seq = -1  # flash has changed
        assert self.outbox.load(self.seq) == OK
        at = self.outbox.topic_at
        assert bytes(self.outbox.buffer[at : at + 1]) == TOPIC
        end = at + 1 + self.outbox.payload_length
        return bytes(self.outbox.buffer[at + 1 + self.header_length : end])


def moved(buf, at, place, ks):
    """What the machine code does where there is one: see `series_bits.py`."""
    last = place[1] - 2
    shape = (1 << place[4]) - 1 << 5 | place[4]
    while at + 2 <= last and take_bits(buf, at << 3, 16) >> place[5] != place[6]:
        bit = pass_codes(buf, at << 3, last << 3, ks, shape)
        end = bit + 7 >> 3
        seed = place[3] ^ at - place[2]
        if not bit or buf[end] | buf[end + 1] << 8 != check_of(buf, at, end, seed):
            break
        move_bits(buf, place[0], at, bit - (at << 3))
        place[0] += bit - (at << 3)
        at = end + 2
    return at


A, B, C = codes(0, 5, 0, 9), codes(700, 1, 70_000, 2), codes(0, 0, 0, 0)
PART = mark("0 010") + code(2, 0) + code(0, 6)  # with two values missing
AGAIN, SOME = restart(-9, 1 << 28, 0, -(1 << 28)), restart(1 << 28, None, 3, None)


class TestGather(unittest.TestCase):
    """Samples that are in no message would be lost; bits that are no sample would be readings that
    nobody took."""

    move_samples = staticmethod(series_outbox.move_samples)

    def setUp(self):
        self.before = series_outbox.move_samples
        series_outbox.move_samples = self.move_samples

    def tearDown(self):
        series_outbox.move_samples = self.before

    def check(self, rig, items, expected):
        length = rig.lay(items)
        self.assertEqual(rig.message(), packed(rig.first + "".join(expected), "0"), items)
        self.assertEqual(rig.outbox.cut_short, 0)
        return length

    def test_samples_of_every_kind_in_order(self):
        items = [A, B, PART, C, AGAIN, PART, C, SOME, A, C]
        for align in (4, 32):
            self.check(Rig(at=320, align=align, record_bytes=260), items, items)

    def test_of_one_column_and_of_sixteen_with_every_k(self):
        for k in range(16):
            for count in (1, 16):
                ks = [k] + [(k + 5 * i) % 16 for i in range(count)]
                zeros, more = codes(*[0] * (count + 1), ks=ks), codes(*range(2, count + 3), ks=ks)
                items = [zeros, more, zeros]
                self.check(Rig(ks, record_bytes=260), items, items)

    def test_after_a_gap_it_goes_on_from_a_restart_wherever_that_is(self):
        rig = Rig()
        for gap in range(1, 12):
            self.check(rig, [A, bytes(gap), C, SOME, C, PART], [A, SOME, C, PART])
            self.check(rig, [A, bytes(gap), C], [A])

    def test_up_to_the_last_byte_of_the_room_and_no_further(self):
        for at in (LAST, 320):
            rig = Rig(at=at)
            for last in (C, PART, AGAIN, SOME, B):
                size = len(checked(last, 0))
                gap = rig.room - size - len(checked(AGAIN, 0))
                end = self.check(rig, [bytes(gap), AGAIN, last], [AGAIN, last])
                self.assertEqual(end, rig.room)
                for beyond in range(1, size):
                    self.check(rig, [bytes(gap + beyond), AGAIN, last], [AGAIN])

    def test_what_the_page_excludes_is_no_sample_though_it_checks(self):
        """A mask without a value, and a mark in place of a time."""
        rig = Rig()
        for wrong in (
            mark("0 000") + code(2, 0),
            mark("1 000") + whole(5),
            mark("0 010") + mark("") + code(0, 6),
            mark("0 010") + mark("0 010") + code(2, 0) + code(0, 6),
        ):
            self.check(rig, [A, wrong, A, PART], [A])
            self.check(rig, [A, wrong, C, SOME, C], [A, SOME, C])

    def test_a_restart_needs_each_bit_of_its_check(self):
        rig = Rig()
        for bit in range(30):
            wrong = bytearray(checked(AGAIN, rig.outbox.where[3]))
            wrong[-4 + (bit >> 3)] ^= 1 << (bit & 7)
            self.check(rig, [wrong, C], [])

    def test_damage_up_to_the_end_of_the_buffer_is_no_error(self):
        for ks in (KS, (0, 0, 0), (4, 1, 0, 3), (15, 15)):
            rig = Rig(ks)
            self.check(rig, [bytes(rig.room)], [])
            for byte in range(255):
                self.check(rig, [b"\xff" * (rig.room - 2) + bytes([byte, byte])], [])


class TestGatherAsMachineCode(TestGather):
    move_samples = staticmethod(moved)


if __name__ == "__main__":
    unittest.main()
