"""The sensors of the desktop board, over files written here and over this host's own."""

import os
import unittest

import host_sensors

FILE = "test_host_sensors.tmp"


def reading(text, words=0, places=2):
    """What a sensor makes of a file with this text."""
    with open(FILE, "w") as file:
        file.write(text)
    try:
        return host_sensors.HostFile(b"n", b"", FILE, words, places, -places).read()
    finally:
        os.remove(FILE)


class TestNumber(unittest.TestCase):
    def test_a_number_is_an_integer_of_its_last_decimal(self):
        for text, value in (
            ("0.42 0.31", 42),
            ("7", 700),
            ("7.", 700),
            ("12.3456", 1234),
            ("0.00", 0),
        ):
            self.assertEqual(reading(text), value, text)

    def test_words_before_it_are_skipped(self):
        self.assertEqual(reading("MemTotal:  16 kB\nMemFree: 8 kB\n", 4, 0), 8)

    def test_no_number_is_none(self):
        for text in ("", "   ", "load", "-1"):
            self.assertEqual(reading(text), None, text)
        self.assertEqual(reading("1 2", words=2), None)

    def test_a_number_beyond_30_bits_is_none(self):
        self.assertEqual(reading("100000000", places=0), 100_000_000)
        self.assertEqual(reading("4000000000", places=0), None)


class TestHost(unittest.TestCase):
    def test_this_host_has_load_memory_and_uptime(self):
        load, memory, uptime = host_sensors.choose(["load", "memory", "uptime"])
        self.assertTrue(load.read() >= 0)
        self.assertTrue(memory.read() > 1024)
        first = uptime.read()
        self.assertTrue(0 < first <= uptime.read())

    def test_an_unknown_name_is_refused(self):
        with self.assertRaises(ValueError):
            host_sensors.choose(["colour"])


if __name__ == "__main__":
    unittest.main()
