import unittest

from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from series_world import DAY, DAY_MS, INTERVAL_MS, Thermometer, World
from station.series_station import step_of

START_MS = DAY * DAY_MS
WITH_NOTICES = 1  # message 0 tells of the flash


def times(rows):
    return [time_ms for time_ms, _ in rows]


class Waiting:
    """Commands with an answer that is to be stored."""

    work = 1


class TestSeriesStation(unittest.TestCase):
    def test_each_measurement_is_a_sample_or_a_message_and_never_both(self):
        one = Thermometer()
        world = World([one])
        for number in range(500):
            one.value = 2150 + number % 7
            world.turn()
        world.station.close_record()
        found, seen = world.messages(), []
        for number, (seq, is_series, rows) in enumerate(found):
            self.assertEqual(seq, number)
            for time_ms, values in rows:
                value = values["t"] if is_series else round(values["t"] * 100)
                seen.append((time_ms, value))
        expected = [(START_MS + n * INTERVAL_MS, 2150 + n % 7) for n in range(500)]
        self.assertEqual(seen, expected)
        self.assertEqual((world.station.published, world.station.not_published), (500, 0))
        self.assertTrue(5 < len(found) < 40, str(len(found)))

    def test_a_record_goes_out_before_a_sample_would_find_it_too_old(self):
        world = World([Thermometer()], series_age_s=60)
        world.turn(WITH_NOTICES)
        for count in range(1, 7):
            self.assertEqual(len(world.messages()), 1, str(count))
            world.turn()
        _, is_series, rows = world.messages()[1]
        self.assertTrue(is_series)
        self.assertEqual(len(rows), 6)
        self.assertEqual(world.now_ms, times(rows)[-1] - START_MS + INTERVAL_MS)

    def test_it_goes_out_though_no_sensor_has_a_reading_any_more(self):
        one = Thermometer()
        world = World([one], series_age_s=60)
        world.turn(WITH_NOTICES + 1)
        one.value = None
        world.turn(5)
        self.assertEqual([len(rows) for _, _, rows in world.messages()], [1, 1])

    def test_a_missing_value_is_missing_and_all_missing_is_no_sample(self):
        one, two = Thermometer(b"a"), Thermometer(b"b")
        world = World([one, two])
        world.turn(WITH_NOTICES)
        for a, b in ((1, 2), (None, 3), (4, None), (None, None), (5, 6)):
            one.value, two.value = a, b
            world.turn()
        world.station.close_record()
        _, _, rows = world.messages()[1]
        values = [values for _, values in rows]
        self.assertEqual(values, [{"a": 1, "b": 2}, {"b": 3}, {"a": 4}, {"a": 5, "b": 6}])
        self.assertEqual(world.station.published, 5)

    def test_a_fault_is_told_at_once_by_a_message_and_so_is_its_end(self):
        one, two = Thermometer(b"a"), Thermometer(b"b")
        world = World([one, two])
        world.turn(WITH_NOTICES + 3)
        one.value = OSError(5)
        world.turn()
        found = world.messages()
        self.assertEqual([len(rows) for _, _, rows in found], [1, 3, 1])
        self.assertEqual(found[2][2][0][1], {"b": 21.5, "a.fault": 1})
        world.turn(2)
        one.value = 7
        while world.guards[0].fault:
            world.turn()
        found = world.messages()
        self.assertEqual(found[-1][2][0][1], {"a": 0.07, "b": 21.5, "a.fault": 0})
        world.turn(3)  # and goes on with samples
        self.assertEqual(len(world.messages()), len(found))
        world.station.close_record()
        self.assertEqual(len(world.messages()[-1][2]), 3)

    def test_a_counter_of_health_that_changed_is_told_at_once(self):
        world = World([Thermometer()])
        world.turn(WITH_NOTICES + 3)
        world.outbox.mended = 2
        world.turn()
        self.assertEqual(world.messages()[-1][2][0][1], {"t": 21.5, "mended": 2})
        world.turn(2)
        self.assertEqual(len(world.messages()), 3)

    def test_a_reading_that_crosses_a_limit_goes_out_at_once_both_ways(self):
        one = Thermometer()
        world = World([one], alarms={"t": {"below": 5, "above": 30.1}})
        world.turn(WITH_NOTICES)
        alarms = []
        for value in (2150, 3010, 3011, 3012, None, 3012, 3010, 500, 499, 300, 4000, 2000):
            one.value = value
            world.turn()
            if world.station.is_alarm:
                alarms.append(value)
                self.assertEqual(world.messages()[-1][2][0][1]["t"], value / 100)
        self.assertEqual(alarms, [3011, 3010, 499, 4000, 2000])
        world.station.close_record()
        stored = [values["t"] for _, is_series, rows in world.messages()[1:] if is_series
                  for _, values in rows]  # fmt: skip
        self.assertEqual(stored, [2150, 3010, 3012, 3012, 500, 300])

    def test_what_no_sample_takes_is_a_message(self):
        one = Thermometer(exponent=0, value=1 << 29)
        world = World([one])
        world.turn(WITH_NOTICES + 1)
        one.value = 5
        world.turn()
        one.value = -(1 << 29) - 1
        world.turn()
        kinds = [(is_series, rows[0][1]["t"]) for _, is_series, rows in world.messages()]
        expected = [(False, 1 << 29), (False, 1 << 29), (True, 5), (False, -(1 << 29) - 1)]
        self.assertEqual(kinds, expected)

    def test_the_boards_own_readings_come_at_their_places_of_64_numbers(self):
        world = World([Thermometer()], series_age_s=20)
        told = set()
        for _ in range(300):
            world.turn()
            while world.outbox.load(world.outbox.oldest_seq) == 0:
                for seq, is_series, rows in world.messages()[:1]:
                    told |= set() if is_series else {(seq & 63, name) for name in rows[0][1]}
                world.outbox.discard(world.outbox.oldest_seq)
        for place, name in ((0, "erases"), (0, "outbox_blocks"), (8, "left_out"), (16, "aside")):
            self.assertTrue((place, name) in told, name)

    def test_a_full_outbox_refuses_samples_or_drops_old_records(self):
        for base in (Outbox, DropOldest):
            one = Thermometer()
            world = World([one], flash=flash_in_ram(2, 256), base=base, series_age_s=40)
            for number in range(400):
                one.value = number
                world.turn()
            world.station.close_record()
            values = []
            for _, is_series, rows in world.messages():
                values += [round(v["t"] * (1 if is_series else 100)) for _, v in rows]
            self.assertEqual(values, sorted(set(values)))
            if base is Outbox:
                self.assertEqual(values[0], 0)
                self.assertEqual(world.station.not_published, 400 - len(values))
                self.assertTrue(300 > len(values) > 100, str(len(values)))
            else:
                self.assertEqual(values[-20:], list(range(380, 400)))

    def test_no_sample_takes_the_number_of_an_answer_that_waits(self):
        world = World([Thermometer()])
        world.turn(WITH_NOTICES + 2)
        world.station.commands = Waiting()
        world.turn()
        self.assertEqual([is_series for _, is_series, _ in world.messages()], [False, True, False])

    def test_a_start_in_the_middle_of_a_record_begins_another(self):
        world = World([Thermometer()])
        world.turn(WITH_NOTICES + 5)
        later = World([Thermometer(value=1)], flash=world.flash)
        later.turn(3)
        later.station.close_record()
        shapes = [(seq, len(rows)) for seq, _, rows in later.messages()]
        self.assertEqual(shapes, [(0, 1), (1, 5), (2, 3)])

    def test_a_clock_that_is_set_or_jumps_in_a_record_gives_each_sample_its_time(self):
        world = World([Thermometer()])
        world.clock.day = 0
        world.turn(WITH_NOTICES + 2)
        world.clock.set(DAY, 500, world.now_ms - INTERVAL_MS)
        world.turn(2)
        for days in (1, -2, 30):
            world.clock.set(world.clock.day + days, world.clock.ms, world.now_ms - INTERVAL_MS)
            world.turn(2)
        world.station.close_record()
        rows = [row for _, _, rows in world.messages()[1:] for row in rows]
        set_ms, step = DAY * DAY_MS + 500, INTERVAL_MS
        expected = [10_000, 20_000, set_ms + step, set_ms + 2 * step]
        for turn, days in ((3, 1), (4, 1), (5, -1), (6, -1), (7, 29), (8, 29)):
            expected.append(set_ms + turn * step + days * DAY_MS)
        self.assertEqual(times(rows), expected)

    def test_flash_of_one_program_a_page_is_refused_by_a_word_for_it(self):
        for align in (32, 256):
            with self.assertRaises(ValueError) as caught:
                World([Thermometer()], align=align)
            said = str(caught.exception)
            self.assertTrue("'series'" in said and "one program in a page" in said, said)
        world = World([Thermometer()], align=256, reprograms=True)  # RP2
        world.turn(200)
        world.station.close_record()
        self.assertEqual(sum([len(rows) for _, _, rows in world.messages()]), 200)

    def test_too_many_readings_and_unknown_alarms_are_refused_at_the_start(self):
        for sensors, alarms, word in (
            (17, None, "columns"),
            (2, {"kitchen": {"above": 1}}, "'kitchen'; readings: t0, t1"),
        ):
            many = [Thermometer(b"t%d" % number) for number in range(sensors)]
            with self.assertRaises(ValueError) as caught:
                World(many, alarms=alarms)
            self.assertTrue(word in str(caught.exception), str(caught.exception))

    def test_times_are_kept_to_a_hundredth_of_the_interval(self):
        steps = [step_of(ms) for ms in (1, 50, 100, 1000, 10_000, 60_000, 86_400_000)]
        self.assertEqual(steps, [1, 1, 1, 10, 100, 600, 1000])


if __name__ == "__main__":
    unittest.main()
