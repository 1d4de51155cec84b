import json
import unittest

from bench_client import Bench
from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from station import flash_wear
from station.clock import Clock
from station.station import Station
from station.telemetry import Pack


class Sensor:
    name, unit, exponent = b"load", b"", -2
    value = 42

    def read(self):
        return self.value


def station(interval_ms=100, sensors=None):
    bench = Bench()
    found = Station(
        bench.client, Pack(b"board-1"), Clock(0), sensors or [Sensor()], b"t", interval_ms, 0
    )
    return bench, found


class TestStation(unittest.TestCase):
    def test_measures_at_once_and_then_each_interval(self):
        bench, one = station()
        times = [now_ms for now_ms in range(0, 1001, 10) if one.step(now_ms)]
        self.assertEqual(times, list(range(0, 1001, 100)))
        self.assertEqual((one.published, bench.outbox.next_seq), (11, 11))

    def test_a_late_step_keeps_the_rhythm_and_a_very_late_one_starts_anew(self):
        _, one = station()
        self.assertTrue(one.step(0))
        self.assertTrue(one.step(130))
        self.assertFalse(one.step(190))
        self.assertTrue(one.step(200))
        self.assertTrue(one.step(5000))
        self.assertFalse(one.step(5050))

    def test_what_finds_no_room_in_a_message_is_in_the_next_ones(self):
        many = [Sensor() for _ in range(20)]
        for number, one in enumerate(many):
            one.name, one.value = ("sensor_number_%d" % number).encode(), number * 1000
        bench, one = station(sensors=many)
        found, times, turns = [], [], 0
        while one.step(10 * turns):
            turns += 1
            pack = json.loads(bytes(one.pack.buffer[: one.pack.length]).decode())
            times.append(pack[0]["up"])
            found += [(record["n"], record["v"]) for record in pack]
        expected = [("sensor_number_%d" % number, number * 10) for number in range(20)]
        self.assertEqual(found, expected)
        self.assertEqual((bench.outbox.next_seq, len(times), len(set(times))), (turns, turns, 1))
        self.assertTrue(turns > 2)
        self.assertTrue(one.step(100) and one.published == turns + 1)

    def test_a_sensor_without_a_reading_is_left_out(self):
        silent = Sensor()
        silent.value = None
        bench, one = station(sensors=[silent])
        self.assertFalse(one.step(0))
        self.assertEqual(bench.outbox.next_seq, 0)

    def test_a_refused_message_is_counted_and_its_status_told(self):
        bench, one = station()
        bench.outbox.record_bytes = 64
        self.assertTrue(one.step(0))
        self.assertEqual((one.status, one.published, one.not_published), (-2, 0, 1))


class TestWear(unittest.TestCase):
    def test_each_64th_message_tells_the_erases_since_the_format_over_a_reset_too(self):
        flash = flash_in_ram(8, 256)
        outbox = Outbox(flash)
        outbox.format(b"01234567")
        formatted, seen = flash.erases, []
        for number in range(1000):
            if number == 500:
                outbox = Outbox(flash)
                outbox.mount()
            erases, blocks = [sensor.read() for sensor in flash_wear.sensors(outbox)]
            if erases is not None:
                seen.append((number, erases - (flash.erases - formatted), blocks))
            outbox.append(b"topic", bytes(64), 64)
            outbox.discard_through(outbox.next_seq)
        self.assertEqual([number for number, _, _ in seen], list(range(0, 1000, 64)))
        self.assertEqual({blocks for _, _, blocks in seen}, {8})
        self.assertTrue(flash.erases - formatted > 20)
        # after the first round, which needs no erase
        differences = [difference for _, difference, _ in seen[4:]]
        self.assertTrue(max(differences) - min(differences) <= 1, str(differences))


if __name__ == "__main__":
    unittest.main()
