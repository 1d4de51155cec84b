# cpython-only: compares with what a desktop writes; test_series_bits.py compares machine code
"""Every byte of a record in flash, and of its message, is what the page says; a sample that is
taken at once, as machine code does, leaves the same bytes.
"""

import random
import unittest
from unittest import mock

import series_at_once
import series_image
import series_writer
import test_series
from fake_flash import image_of
from outpost import portable_series
from outpost.checksum import crc30
from outpost.memory import u32
from outpost.status import OK
from series_rig import Rig
from series_samples import COLUMNS, TOPIC, read

AT_ONCE = {"take": series_at_once.take, "put_sample": series_at_once.put_sample}
TEXTS = [(name.decode(), unit.decode(), exponent) for name, unit, exponent in COLUMNS]
FIRST_AT = 32  # of the first record in its block
PREFIX = 12


def row_of(chance, size):
    """Values with differences of up to `size` bits; some are missing."""
    values = [chance.getrandbits(size) - (1 << size - 1) for _ in COLUMNS]
    if not chance.randrange(4):
        values[chance.randrange(3)] = None
    return tuple(values)


def stored(chance, count, size):
    """A rig with samples at irregular times."""
    rig = Rig(8, step_ms=10)
    for _ in range(count):
        assert rig.add(row_of(chance, size), chance.choice((1000, 1000, 1009, 5000))) == OK
    return rig


def header_of(payload):
    """As series_writer takes them."""
    at, ks = 31 + payload[30], []
    for _ in COLUMNS:
        ks.append(payload[at + 1] & 15)
        at += 3 + payload[at + 2] + (payload[at + 1] >> 4)
    return {"time_parameter": payload[28], "parameters": ks, "room": u32(payload, 16) >> 16}


def written(payload, count=None):
    """(The message with the first `count` samples, by the reference; the bits of each sample)."""
    message, header = read(payload), header_of(payload)
    start_ms = message["samples"][0][0]
    rows = [(time - start_ms, values) for time, values in message["samples"]][:count]
    codes = 10, header["time_parameter"], header["parameters"]
    bits = list(series_writer.entries(rows, len(COLUMNS), *codes))
    whole = series_writer.payload(
        rows, TEXTS, step_ms=10, start_ms=start_ms, seq=message["seq"], held=message["held"],
        boot=message["boot"], **header,
    )  # fmt: skip
    return whole, bits


def payloads(outbox):
    seq = outbox.oldest_seq
    while outbox.load(seq) == OK:
        at = outbox.topic_at + outbox.topic_length
        yield bytes(outbox.buffer[at : at + outbox.payload_length])
        seq = outbox.loaded_seq + 1


def in_flash(image, first, bits):
    """What follows the prefix of the first record in its sector, by the page. first: the payload
    with one sample; bits: of the other samples."""
    salt, begin = u32(image, 28), FIRST_AT + PREFIX  # its number is 0
    prefix = bytes((0x13, len(TOPIC))) + len(first).to_bytes(2, "little")
    checked = prefix + image[FIRST_AT + 4 : begin] + TOPIC + first
    crc = crc30(salt, checked, 0, len(checked))
    record = checked[PREFIX:] + crc.to_bytes(4, "little")
    record += b"\xff" * (-(PREFIX + len(record)) % 4)
    room = b""
    for one in bits:
        room += with_check(one, crc ^ len(room))
    return record + room


def with_check(bits, seed):
    """A sample in flash. A restart begins with 0101 where k of the time is 0."""
    end = -(-len(bits) // 8)
    sample = int(bits + "1" * (8 * end - len(bits)), 2).to_bytes(end, "big")
    if bits[:4] == "0101":
        return sample + crc30(seed, sample, 0, end).to_bytes(4, "little")
    return sample + portable_series.check_of(sample, 0, end, seed).to_bytes(2, "little")


class TestBytes(unittest.TestCase):
    def test_messages_are_as_the_reference_writes_them(self):
        chance = random.Random(3)
        for size in (1, 4, 12, 30):
            rig = stored(chance, 150, size)
            rig.series.close()
            found = list(payloads(rig.outbox))
            self.assertTrue(len(found) > 1)
            for payload in found:
                self.assertEqual(payload, written(payload)[0])

    def test_a_record_is_in_flash_as_the_page_says(self):
        chance = random.Random(4)
        for turn in range(60):
            rig = stored(chance, 8, 1 + turn % 30)
            rig.series.close()
            payload = next(payloads(rig.outbox))
            first, _ = written(payload, 1)
            image = image_of(rig.flash)
            expected = in_flash(image, first, written(payload)[1][1:]) + b"\xff"
            begin = FIRST_AT + PREFIX
            self.assertEqual(image[begin : begin + len(expected)], expected)


@mock.patch.multiple("outpost.series", **AT_ONCE)
class TestSeriesAtOnce(test_series.TestSeries):
    """All that is true of series, where samples are taken at once."""

    def test_they_leave_the_same_bytes(self):
        image = image_of(series_image.made()[0])
        with mock.patch.multiple("outpost.series", take=portable_series.take):
            self.assertEqual(image_of(series_image.made()[0]), image)


if __name__ == "__main__":
    unittest.main()
