"""viper.py and viper_crc.py do what bytecode.py does; which of them is used must not matter to a byte on flash."""

import random
import unittest

from outpost import bytecode


class Native:
    """The two as one module."""


IMPLEMENTATIONS = [bytecode]
try:
    from outpost import viper, viper_crc

    Native.copy, Native.crc30, Native.is_blank = viper.copy, viper_crc.crc30, viper_crc.is_blank
    IMPLEMENTATIONS.append(Native)
except (ImportError, AttributeError, SyntaxError, ValueError):
    pass


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
