"""native.py and native_checksum.py do what portable.py does; which of them is used must not matter
to a byte on flash.
"""

import random
import sys
import unittest

from outpost import portable


class Native:
    """The two as one module."""


IMPLEMENTATIONS = [portable]
SOURCE = bytes(range(200))
try:
    from outpost import native, native_checksum

    for source, names in (
        (native, "copy fill put_publish puback_id put_prefix u32"),
        (native_checksum, "crc30 is_blank skip_records put_record holds_record"),
    ):
        for name in names.split():
            setattr(Native, name, getattr(source, name))
    IMPLEMENTATIONS.append(Native)
except (ImportError, AttributeError, SyntaxError, ValueError):
    # CPython makes no machine code, nor does MicroPython on 64-bit ARM
    if getattr(sys.implementation, "_mpy", 0) >> 10 & 15:
        raise


class Misaligned:
    """Machine code that reads wrong constants."""

    @staticmethod
    def crc30(seed, buf, at, end):
        return seed

    is_blank = skip_records = crc30


class TestFrozen(unittest.TestCase):
    def test_machine_code_that_computes_wrongly_is_not_used(self):
        """As a frozen RP2040 image of MicroPython 1.25 has it, when it lies at an odd half-word."""
        names = ("outpost.checksum", "outpost.native_checksum")
        kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        sys.modules["outpost.native_checksum"] = Misaligned
        try:
            crc = __import__("outpost.checksum", None, None, ("crc30",))
            self.assertTrue(crc.crc30 is portable.crc30)
        finally:
            sys.modules.pop("outpost.checksum", None)
            del sys.modules["outpost.native_checksum"]
            sys.modules.update(kept)


class TestBytes(unittest.TestCase):
    def test_crc_is_crc32_cut_to_30_bits(self):
        for module in IMPLEMENTATIONS:
            self.assertEqual(module.crc30(0, b"123456789", 0, 9), 0xCBF43926 & 0x3FFFFFFF)
            self.assertEqual(module.crc30(0, b"xx123456789", 2, 11), 0xCBF43926 & 0x3FFFFFFF)
            self.assertEqual(module.crc30(0, b"", 0, 0), 0)

    def test_all_implementations_agree(self):
        random.seed(2)
        for _ in range(200):
            data = bytes([random.getrandbits(8) for _ in range(random.getrandbits(6))])
            seed = random.getrandbits(29)
            answers = [module.crc30(seed, data, 0, len(data)) for module in IMPLEMENTATIONS]
            self.assertEqual(len(set(answers)), 1)

    def test_publish_with_lengths_around_four_bytes_and_127(self):
        """3.3: header, topic, packet identifier where there is one, properties, payload."""
        for module in IMPLEMENTATIONS:
            for topic in (1, 2, 3, 4, 5, 8):
                for length in (0, 1, 3, 4, 7, 113, 114, 115, 120, 150):
                    for packet_id in (0, 1, 0x1234, 65535):
                        for more in (None, b"\0", b"\x05abcde", bytes(130), bytes(300)):
                            self.check_publish(module, topic, length, packet_id, more)

    def check_publish(self, module, topic, length, packet_id, more):
        for is_left_out in (False, True) if more else (False,):
            properties = 0
            if more:
                properties = bytes((len(more) & 255, len(more) >> 8, is_left_out)) + more
            tx = bytearray(520)
            lengths = topic << 14 | length
            end = module.put_publish(tx, 0x3A | packet_id << 8, SOURCE, 7, lengths, properties)
            name = b"" if is_left_out else SOURCE[7 : 7 + topic]
            payload = SOURCE[7 + topic : 7 + topic + length]
            body = bytes((0, len(name))) + name
            if packet_id:
                body += bytes((packet_id >> 8, packet_id & 255))
            body += more or b""
            rest = len(body) + length
            header = bytes((0x3A, rest) if rest < 128 else (0x3A, rest & 127 | 128, rest >> 7))
            self.assertEqual(bytes(tx[:end]), header + body + (payload if packet_id else b""))

    def test_publish_of_the_longest_lengths(self):
        """Compared in pieces, because a board has no memory for copies."""
        source, tx = bytes(range(1, 252)) * 66, bytearray(16_700)
        for module in IMPLEMENTATIONS:
            for topic, length in ((255, 0x3FFF - 255), (0x3FFF, 0), (300, 16_000)):
                end = module.put_publish(tx, 0x000132, source, 1, topic << 14 | length, b"\1\0\0\0")
                at = end - length - topic - 5
                self.assertEqual(bytes(tx[at : at + 2]), bytes((topic >> 8, topic & 255)))
                self.assertEqual(bytes(tx[end - length - 3 : end - length]), b"\0\1\0")
                for start in range(0, topic, 200):
                    stop = min(start + 200, topic)
                    self.assertEqual(
                        tx[at + 2 + start : at + 2 + stop], source[1 + start : 1 + stop]
                    )
                for start in range(0, length, 200):
                    stop = min(start + 200, length)
                    place, its = end - length, 1 + topic
                    self.assertEqual(
                        tx[place + start : place + stop], source[its + start : its + stop]
                    )

    def test_puback_only_when_it_is_there_as_a_whole(self):
        rx = b"\x40\x02\x12\x34\x40\x02\x00"
        for module in IMPLEMENTATIONS:
            self.assertEqual(
                [module.puback_id(rx, at, 7) for at in range(7)], [0x1234, 0, 0, 0, 0, 0, 0]
            )
            self.assertEqual(module.puback_id(b"\x40\x03\x00\x01\x00", 0, 5), 0)

    def test_numbers_and_the_head_of_a_record(self):
        for module in IMPLEMENTATIONS:
            self.assertEqual(module.u32(b"...\x9a\x78\x56\xb4", 3), 0x3456789A)
            prefix = bytearray(b"." * 16)
            module.put_prefix(prefix, 0x2A345678, 0x0ABCDE01, 0x3FFFFFFE, 0xFEDC)
            self.assertEqual(prefix, b"\x01\xde\xbc\x0a\xfe\xff\xff\x3f\xdc\xfe..\x78\x56\x34\x2a")
            buf = bytearray(24)
            module.fill(buf, 20)
            self.assertEqual(buf, b"\xff" * 20 + bytes(4))

    def test_a_record_is_written_whole_and_each_wrong_byte_of_it_is_seen(self):
        for module in IMPLEMENTATIONS:
            for topic in (b"", b"a", b"a/b/c", b"seven/7"):
                for payload in (b"", b"xy", b"0123", bytes(range(250, 256)) * 50):
                    prefix = bytearray(16)
                    first = 0x51 | len(topic) << 8 | len(payload) << 16
                    module.put_prefix(prefix, 0x12345678, first, 77, 5)
                    end = 20 + len(topic) + len(payload)
                    buf = bytearray(b"." * (end + 8))
                    whole = bytes(prefix[:12]) + topic + payload
                    module.put_record(buf, 8, prefix, topic, payload)
                    crc = portable.crc30(0x12345678, whole, 0, len(whole))
                    stored = bytes((crc & 255, crc >> 8 & 255, crc >> 16 & 255, crc >> 24))
                    self.assertEqual(bytes(prefix[12:]), stored)
                    self.assertEqual(bytes(buf), b"." * 8 + whole + stored + b"." * 4)
                    self.assertTrue(module.holds_record(buf, prefix, 8, topic, payload))
                    for at in range(8, end + 4):
                        for bit in (1, 0x80):
                            buf[at] ^= bit
                            self.assertFalse(module.holds_record(buf, prefix, 8, topic, payload))
                            buf[at] ^= bit

    def test_records_are_skipped_by_their_lengths(self):
        def record(kind, topic, length, align):
            size = 16 + topic + length
            return (
                bytes((kind, topic, length & 255, length >> 8))
                + b"r" * (size - 4)
                + b"\xff" * (-size % align)
            )

        for module in IMPLEMENTATIONS:
            for align in (4, 32):
                parts = [
                    record(0x11, 3, 10, align),
                    record(2, 0, 4, align),
                    record(0x51, 1, 300, align),
                    record(0x61, 0, 0, align),
                ]
                buf = b"".join(parts) + b"\xff" * 16
                for count, passed in ((1, 1), (2, 3), (3, 4), (9, 4)):
                    found = module.skip_records(buf, 0, len(buf), align, count)
                    size = sum([len(part) for part in parts[:passed]])
                    self.assertEqual(found, min(count, 3) << 13 | size)
                self.assertEqual(
                    module.skip_records(buf, 0, len(parts[0]) + 5, align, 9),
                    1 << 13 | len(parts[0]),
                )
                self.assertEqual(module.skip_records(b"\x05" + buf[1:], 0, len(buf), align, 9), 0)

    def test_copy_and_blank(self):
        for module in IMPLEMENTATIONS:
            buf = bytearray(8)
            self.assertEqual(module.copy(buf, 2, b"abcdef", 1, 3), 5)
            self.assertEqual(buf, b"\0\0bcd\0\0\0")
            buf = bytearray(b"\0\0b\xff\xff\xff\0\0")
            self.assertTrue(module.is_blank(buf, 3, 6))
            self.assertTrue(module.is_blank(buf, 3, 3))
            self.assertFalse(module.is_blank(buf, 3, 7))
            self.assertFalse(module.is_blank(buf, 2, 6))

    def test_copy_within_a_buffer_goes_byte_by_byte_upwards(self):
        for module in IMPLEMENTATIONS:
            buf = bytearray(b"..abcdef")
            self.assertEqual(module.copy(buf, 0, buf, 2, 6), 6)
            self.assertEqual(buf, b"abcdefef")
            self.assertEqual(module.copy(buf, 1, buf, 0, 7), 8)
            self.assertEqual(buf, b"aaaaaaaa")


if __name__ == "__main__":
    unittest.main()
