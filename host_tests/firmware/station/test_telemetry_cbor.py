"""The message in CBOR, byte by byte, within its buffer, and without heap. That the desktop reads
what it reads of JSON: host_tests/tools/messages/test_message_cbor.py."""

import unittest

from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from station import telemetry_cbor
from station.clock import Clock
from station.telemetry import Pack
from station.telemetry_cbor import CborPack

try:
    from micropython import heap_lock, heap_unlock, mem_total
except ImportError:  # CPython
    heap_lock = None


def encoded(put, *arguments):
    buf = bytearray(16)
    return bytes(buf[: put(buf, 0, *arguments)])


class TestNumbers(unittest.TestCase):
    def test_integers(self):
        for value, expected in (
            (0, b"\x00"), (23, b"\x17"), (24, b"\x18\x18"), (255, b"\x18\xff"),
            (256, b"\x19\x01\x00"), (65535, b"\x19\xff\xff"), (65536, b"\x1a\x00\x01\x00\x00"),
            ((1 << 30) - 1, b"\x1a\x3f\xff\xff\xff"), (-1, b"\x20"), (-24, b"\x37"),
            (-25, b"\x38\x18"), (-256, b"\x38\xff"), (-257, b"\x39\x01\x00"),
            (-(1 << 29), b"\x3a\x1f\xff\xff\xff"),
        ):  # fmt: skip
            self.assertEqual(encoded(telemetry_cbor.put_integer, value), expected)

    def test_decimals(self):
        self.assertEqual(encoded(telemetry_cbor.put_decimal, 42, 0), b"\x18\x2a")
        self.assertEqual(encoded(telemetry_cbor.put_decimal, 42, -2), b"\xc4\x82\x21\x18\x2a")
        self.assertEqual(encoded(telemetry_cbor.put_decimal, -5, 3), b"\xc4\x82\x03\x24")

    def test_times(self):
        for day, ms in ((0, 0), (0, 86_399_999), (20_413, 45_296_007), (65_535, 86_399_999)):
            found = encoded(telemetry_cbor.put_milliseconds, day, ms)
            self.assertEqual(int.from_bytes(found, "big"), day * 86_400_000 + ms)


def pack_for(clock, size_bytes=440, device=b"board-1"):
    outbox = Outbox(flash_in_ram(2))
    outbox.format(b"3fa9c1d2")
    pack = CborPack(device, size_bytes)
    pack.begin(outbox, clock)
    return outbox, pack


def clock_at(day, ms):
    clock = Clock(0)
    clock.set(day, ms, 0)
    return clock


class TestPack(unittest.TestCase):
    def test_every_byte(self):
        _, pack = pack_for(clock_at(20_413, 45_296_007))
        pack.add(b"load", b"", 42, -2)
        pack.add(b"memory", b"KiB", 123456)
        self.assertEqual(
            bytes(pack.buffer[: pack.end()]),
            b"\x82\xa9\x21\x68board-1/\x63ver\x01\x63sid\x683fa9c1d2\x63seq\x00\x64held\x00"
            b"\x64boot\x01\x22\xc4\x82\x22\x1b"
            + (20_413 * 86_400_000 + 45_296_007).to_bytes(8, "big")
            + b"\x00\x64load\x02\xc4\x82\x21\x18\x2a"
            + b"\xa3\x00\x66memory\x01\x63KiB\x02\x1a\x00\x01\xe2\x40",
        )

    def test_three_readings_take_two_thirds_of_the_bytes_of_json(self):
        """The figures of boards/README.md."""
        sizes = []
        for kind in (Pack, CborPack):
            pack = kind(b"kitchen")
            outbox = Outbox(flash_in_ram(2))
            outbox.format(b"3fa9c1d2")
            outbox.next_seq, outbox.oldest_seq, outbox.boot = 1234, 1200, 3
            pack.begin(outbox, clock_at(20_413, 45_296_007))
            pack.add(b"temperature", b"Cel", 215, -1)
            pack.add(b"humidity", b"%RH", 4812, -2)
            pack.add(b"pressure", b"hPa", 10132, -1)
            sizes.append(pack.end())
        self.assertEqual(sizes, [208, 134])

    def test_a_pack_without_readings_has_no_length(self):
        _, pack = pack_for(Clock(0))
        self.assertEqual(pack.end(), 0)

    def test_readings_that_do_not_fit_are_left_out(self):
        _, pack = pack_for(Clock(0), size_bytes=260)
        added = [pack.add(b"temperature", b"Cel", 2150, -2) for _ in range(12)]
        self.assertTrue(added[0] and not added[-1])
        self.assertTrue(pack.end() <= 260)
        self.assertEqual(pack.buffer[0], 0x80 | sum(added))

    def test_a_pack_holds_23_records(self):
        _, pack = pack_for(Clock(0), size_bytes=2000)
        added = [pack.add(b"t", b"", 1) for _ in range(24)]
        self.assertEqual(added, [True] * 23 + [False])

    def test_the_widest_of_all_fit_the_smallest_buffer(self):
        outbox, _ = pack_for(Clock(0))
        outbox.next_seq = outbox.oldest_seq = (1 << 30) - 1
        outbox.boot = 65535
        clock = Clock(0)
        pack = CborPack(b"d" * 32, 218)
        pack.begin(outbox, clock)
        clock.set(65_535, 86_399_999, 0)
        pack.begin(outbox, clock)
        self.assertTrue(pack.length < len(pack.buffer))

    def test_long_names(self):
        _, pack = pack_for(clock_at(20_413, 0))
        self.assertTrue(pack.add(b"n" * 30, b"u" * 24, -(1 << 29), -9))
        expected = b"\x00\x78\x1e" + b"n" * 30 + b"\x01\x78\x18" + b"u" * 24
        expected += b"\x02\xc4\x82\x28\x3a\x1f\xff\xff\xff"
        self.assertTrue(bytes(pack.buffer[: pack.end()]).endswith(expected))

    @unittest.skipUnless(heap_lock, "the heap lock exists only in MicroPython")
    def test_no_heap(self):
        outbox, pack = pack_for(Clock(0))
        clock = clock_at(20_413, 45_296_007)
        before = mem_total()
        heap_lock()
        try:
            for _ in range(3):
                pack.begin(outbox, clock)
                pack.add(b"load", b"", 42, -2)
                pack.add(b"memory.of.a.board.with.a.long.name", b"KiB", (1 << 30) - 1, -9)
                pack.end()
        finally:
            heap_unlock()
        self.assertEqual(mem_total(), before)


if __name__ == "__main__":
    unittest.main()
