"""How a session cuts the server's bytes into packets."""

import random
import unittest

from golden_packets import GOLDEN
from outpost.ram_outbox import RamOutbox
from outpost.session import Session


def reader(buffer_bytes):
    return Session(RamOutbox(1, 1), b"dev", rx_bytes=buffer_bytes)


def read_all(data, pieces, buffer_bytes=512):
    """Feed data in pieces of that many bytes; returns [(first, body)] or "error"."""
    read, found = reader(buffer_bytes), []
    for start in range(0, len(data), pieces):
        chunk = data[start : start + pieces]
        at = 0
        while at < len(chunk):
            at = read.feed(chunk, at, len(chunk))
            if at < 0:
                return "error"
            if read.is_between:
                found.append((read.first, bytes(read.buffer[: min(read.length, buffer_bytes)])))
    return found


class TestReader(unittest.TestCase):
    def test_whole_byte_by_byte_and_glued(self):
        for name, data, _ in GOLDEN:
            body = data[3:] if data[1] & 0x80 else data[2:]
            for pieces in (1, 2, 3, len(data)):
                self.assertEqual(read_all(data, pieces), [(data[0], body)], name)
            self.assertEqual(read_all(data * 3, len(data) * 3), [(data[0], body)] * 3, name)

    def test_every_truncation_needs_more(self):
        for name, data, _ in GOLDEN:
            for end in range(len(data)):
                self.assertEqual(read_all(data[:end], 7), [], name)

    def test_remaining_lengths_at_the_borders_of_their_bytes(self):
        """2.2.3."""
        for length, data in (
            (1, b"\x01"), (127, b"\x7f"), (128, b"\x80\x01"), (255, b"\xff\x01"),
            (16_383, b"\xff\x7f"), (16_384, b"\x80\x80\x01"), (2_097_151, b"\xff\xff\x7f"),
            (2_097_152, b"\x80\x80\x80\x01"), (268_435_455, b"\xff\xff\xff\x7f"),
        ):  # fmt: skip
            read = reader(4)
            self.assertEqual(read.feed(b"\x30" + data, 0, 1 + len(data)), 1 + len(data))
            self.assertEqual((read.length, read.is_between), (length, False))
            taken = min(length, 3)
            self.assertEqual(read.feed(b"abc", 0, taken), taken)
            self.assertEqual((read.have, read.is_between), (taken, length < 3))

    def test_fifth_length_byte_is_an_error(self):
        self.assertEqual(read_all(b"\x30\xff\xff\xff\xff\x01", 6), "error")
        self.assertEqual(read_all(b"\x30\xff\xff\xff\xff\x01", 1), "error")
        self.assertEqual(read_all(b"\x30\x80\x80\x80\x80", 4), "error")

    def test_oversize_packet_is_skipped_in_place(self):
        big = b"\x30\xe8\x07\x00\x03a/b" + b"z" * 995
        found = read_all(big + b"\xd0\x00", 100, buffer_bytes=64)
        self.assertEqual(found, [(0x30, (b"\x00\x03a/b" + b"z" * 59)), (0xD0, b"")])

    def test_any_bytes_give_packets_need_more_or_an_error(self):
        random.seed(11)
        for _ in range(400):
            data = bytes([random.getrandbits(8) for _ in range(random.getrandbits(6))])
            whole = read_all(data, 64, 16)
            self.assertEqual(read_all(data, 1, 16), whole)


if __name__ == "__main__":
    unittest.main()
