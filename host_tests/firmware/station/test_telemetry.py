import json
import unittest

from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from station import telemetry
from station.clock import Clock
from station.telemetry import Pack


def text(put, *arguments):
    buf = bytearray(64)
    return bytes(buf[: put(buf, 0, *arguments)]).decode()


class TestNumbers(unittest.TestCase):
    def test_integers(self):
        for value in (0, 1, 9, 10, 99, 12345, -7, (1 << 30) - 1):
            self.assertEqual(text(telemetry.put_integer, value), str(value))

    def test_decimals(self):
        for value, exponent, expected in (
            (42, -2, "0.42"), (-5, -1, "-0.5"), (12345, -3, "12.345"), (7, 0, "7"), (42, 3, "42e3"),
            (0, -2, "0.00"), (100, -2, "1.00"), (-1, -9, "-0.000000001"),
        ):  # fmt: skip
            self.assertEqual(text(telemetry.put_decimal, value, exponent), expected)
            json.loads(expected)

    def test_times(self):
        self.assertEqual(
            text(telemetry.put_time, 20_413, 45_296_007), str(20_413 * 86400 + 45296) + ".007"
        )
        self.assertEqual(text(telemetry.put_time, 0, 5_123), "5.123")
        self.assertEqual(text(telemetry.put_time, 0, 105_004), "105.004")
        self.assertEqual(text(telemetry.put_time, 30_000, 0), "2592000000.000")


def pack_for(clock, device=b"board-1", size_bytes=440):
    outbox = Outbox(flash_in_ram(2))
    outbox.format(b"3fa9c1d2")
    pack = Pack(device, size_bytes)
    pack.begin(outbox, clock)
    return outbox, pack


def loaded(pack):
    return json.loads(bytes(pack.buffer[: pack.length]).decode())


class TestPack(unittest.TestCase):
    def test_pack_is_the_json_of_the_module_header(self):
        clock = Clock(0)
        clock.set(20_413, 45_296_007, 0)
        _, pack = pack_for(clock)
        pack.add(b"load", b"", 42, -2)
        pack.add(b"memory", b"KiB", 123456)
        pack.end()
        first, second = loaded(pack)
        self.assertEqual((first["bn"], first["sid"], first["ver"]), ("board-1/", "3fa9c1d2", 1))
        self.assertEqual((first["seq"], first["held"], first["boot"]), (0, 0, 1))
        self.assertEqual((first["n"], second), ("load", {"n": "memory", "u": "KiB", "v": 123456}))
        self.assertFalse("up" in first)

    def test_without_a_clock_there_is_uptime_and_it_stays_for_this_boot(self):
        clock = Clock(0)
        clock.now(5_123)
        outbox, pack = pack_for(clock)
        pack.add(b"load", b"", 1)
        pack.end()
        self.assertFalse("bt" in loaded(pack)[0])
        clock.set(20_413, 0, 5_123)
        pack.begin(outbox, clock)
        pack.add(b"load", b"", 1)
        pack.end()
        self.assertTrue("bt" in loaded(pack)[0] and "up" in loaded(pack)[0])

    def test_a_pack_without_readings_has_no_length(self):
        _, pack = pack_for(Clock(0))
        self.assertEqual(pack.end(), 0)

    def test_readings_that_do_not_fit_are_left_out_and_told(self):
        _, pack = pack_for(Clock(0), size_bytes=260)
        added = [pack.add(b"temperature", b"Cel", 2150, -2) for _ in range(8)]
        pack.end()
        self.assertTrue(added[0] and not added[-1])
        self.assertEqual(len(loaded(pack)), sum(added))

    def test_the_widest_numbers_fit_the_smallest_buffer(self):
        outbox, _ = pack_for(Clock(0))
        outbox.next_seq = outbox.oldest_seq = (1 << 30) - 1
        outbox.boot = 65535
        clock = Clock(0)
        clock.up_day = 9999
        pack = Pack(b"d" * 32, 218)
        pack.begin(outbox, clock)
        clock.set(99_999, 86_399_999, 0)
        pack.begin(outbox, clock)
        self.assertTrue(pack.length < len(pack.buffer))
        with self.assertRaises(ValueError):
            Pack(b"d" * 32, 180)


if __name__ == "__main__":
    unittest.main()
