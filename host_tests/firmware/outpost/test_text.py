import unittest

from outpost.text import is_topic


class TestUtf8(unittest.TestCase):
    def test_every_border(self):
        for code in (1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
            data = chr(code).encode()
            self.assertTrue(is_topic(data, 0, len(data)), data)
            for cut in range(1, len(data)):
                self.assertFalse(is_topic(data, 0, cut), data)

    def test_ill_formed(self):
        for data in (
            b"\x00", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf",
            b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xc3a", b"\xe2\x82a", b"\xc3\xc3",
            b"\xfe", b"\xf8\x88\x80\x80\x80",
        ):  # fmt: skip
            self.assertFalse(is_topic(data, 0, len(data)), data)

    def test_agrees_with_the_interpreter_on_all_two_byte_texts(self):
        for high in range(0x80, 0x100):
            for low in range(0, 0x100, 3):
                data = bytes([high, low])
                self.assertEqual(is_topic(data, 0, 2), 0xC2 <= high <= 0xDF and 0x80 <= low <= 0xBF)


if __name__ == "__main__":
    unittest.main()
