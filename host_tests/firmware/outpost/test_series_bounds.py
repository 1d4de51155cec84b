"""Series at their bounds: what may be set up, which samples a record takes, how much room it
reserves, and the codes that it begins with (`firmware/SERIES_FORMAT.md`, `firmware/README.md`).
"""

import unittest

from faulty_flash import faulty
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from outpost.status import FULL, OK, STORAGE
from series_rig import Rig, values_of
from series_samples import COLUMNS, TOPIC, Clock, read_all

DAYS_11_S = 11 * 86_400
MOST_BYTES = 4096 - 32  # of a record
BYTES = "topic, device, names and units must be bytes"
FIRST_SECTOR = 4096 - 64  # bytes for records: at its end is a copy of its header


def column(name=1, unit=0, exponent=0):
    """Lengths of its texts."""
    return b"n" * name, b"u" * unit, exponent


def payloads(outbox):
    found = []
    while outbox.load(outbox.loaded_seq + 1 if found else outbox.oldest_seq) == OK:
        at = outbox.topic_at + outbox.topic_length
        found.append(bytes(outbox.buffer[at : at + outbox.payload_length]))
    return found


def take(outbox, count):
    """Store messages that take so many bytes, a multiple of 4."""
    while count:
        size = count if count < 64 else 32
        assert outbox.append(b"t", bytes(size), size - 17) == OK
        count -= size


def rooms(rig):
    """Bytes that each record reserved for samples; the open one is closed."""
    rig.series.close()
    return [one[18] | one[19] << 8 for one in payloads(rig.outbox) if one[:1] == b"\xf5"]


def parameters(rig):
    """k of each record's codes: of the time, and of COLUMNS."""
    rig.series.close()
    found = []
    for one in payloads(rig.outbox):
        at = 31 + one[30]
        ks = [one[28]]
        for _ in COLUMNS:
            ks.append(one[at + 1] & 15)
            at += 3 + one[at + 2] + (one[at + 1] >> 4)
        found.append(tuple(ks))
    return found


class TestSetUp(unittest.TestCase):
    def series(self, device=b"board-1", columns=COLUMNS, topic=TOPIC, **options):
        outbox = over(Outbox)(Rig().flash, record_bytes=MOST_BYTES)
        outbox.mount()
        return Series(outbox, topic, device, columns, **options)

    def test_the_extremes_are_taken(self):
        for options in (
            {"step_ms": 65_535},
            {"max_age_s": 1},
            {"max_age_s": DAYS_11_S},
            {"device": b"d"},
            {"topic": b"t"},
            {"device": b"d" * 32},
            {"columns": [column()]},
            {"columns": [column()] * 16},
            {"columns": [column(127, 15, -9), column(1, 0, 9)]},
            {"device": b"d", "columns": [column(127, 15), column(69)]},  # 255 bytes of header
        ):
            self.series(**options)

    def test_what_lies_beyond_is_refused(self):
        for wrong, options in (
            ("step_ms, max_age_s", {"step_ms": 65_536}),
            ("step_ms, max_age_s", {"max_age_s": DAYS_11_S + 1}),
            ("device, columns", {"device": b"d" * 33}),
            ("device, columns", {"columns": [column()] * 17}),
            ("column " + "n" * 128, {"columns": [column(128)]}),
            ("column nn", {"columns": [column(2, 16)]}),
            ("column n", {"columns": [column(exponent=-10)]}),
            ("topic", {"topic": b"a/#"}),
            ("topic", {"topic": b""}),
            ("topic", {"topic": b"#"}),
            ("topic", {"topic": b"t" * 256}),
            (BYTES, {"topic": "t"}),
            (BYTES, {"device": "d"}),
            (BYTES, {"columns": [("n", b"", 0)]}),
            (BYTES, {"columns": [(b"n", "", 0)]}),
            (
                "the columns' names are too long",
                {"device": b"d", "columns": [column(127, 15), column(70)]},
            ),
        ):
            with self.assertRaises(ValueError) as caught:
                self.series(**options)
            self.assertEqual(str(caught.exception), "series: " + wrong)

    def test_the_smallest_record_has_room_for_two_samples_of_any_size(self):
        sample = 8 * 4 + 12  # at most
        header = 64 + sample  # with an uptime, and with the first sample
        least = 16 + len(TOPIC) + header + 2 * sample
        self.assertEqual(least % 4, 0)
        self.series(record_bytes=least)
        with self.assertRaises(ValueError):
            self.series(record_bytes=least - 4)

    def test_the_longest_samples_fit(self):
        most = (1 << 28) - 1  # a larger difference is no code
        for count in (1, 16):
            rig = Rig(columns=[column()] * count, most_bytes=1024, max_age_s=DAYS_11_S)
            rows = [(0,) * count, (most,) * count]
            for row in rows:
                self.assertEqual(rig.add(row, most), OK)
            rig.series.close()
            messages = read_all(rig.outbox)
            self.assertEqual(len(messages), 1)
            self.assertEqual(values_of(messages[0]), rows)


class TestTimes(unittest.TestCase):
    def check(self, times, expected, **options):
        """times: of two samples; day, ms, up_day, up_ms. expected: one record has both."""
        rig = Rig(**options)
        clock, texts = Clock(0, 0), []
        for clock.day, clock.ms, clock.up_day, clock.up_ms in times:
            self.assertEqual(rig.series.add(clock, (1, 2, 3)), OK)
            texts.append((clock.day > 0, clock.time_ms()))
        rig.series.close()
        messages = read_all(rig.outbox)
        found = [(one["clock_set"], time) for one in messages for time, _ in one["samples"]]
        self.assertEqual(found, texts, times)
        self.assertEqual(len(messages) == 1, expected, times)

    def test_a_record_has_what_is_younger_than_its_longest_age(self):
        for up_day, up_ms, expected in ((3, 599_999, True), (3, 600_000, False)):
            self.check([(30, 0, 3, 0), (30, 5, up_day, up_ms)], expected)
        for up_day, up_ms, expected in (
            (11, 0, True),
            (11, 79_999_999, True),
            (11, 80_000_000, False),
            (12, 0, False),
            (9_999, 0, False),
        ):
            times = [(30, 0, 0, 80_000_000), (30, 5, up_day, up_ms)]
            self.check(times, expected, max_age_s=DAYS_11_S)

    def test_a_record_has_what_is_within_2_to_the_29_steps_and_11_days(self):
        begin = 20_000_000
        for days, ms, expected in (
            (6, 18_470_911, True),
            (6, 18_470_912, False),  # 2^29
            (-6, -18_470_912, True),
            (-6, -18_470_913, False),
        ):
            times = [(30, begin, 0, 0), (30 + days, begin + ms, 0, 5)]
            self.check(times, expected)
        for days, expected in ((11, True), (12, False), (-11, True), (-12, False)):
            self.check([(30, 0, 0, 0), (30 + days, 0, 0, 5)], expected, step_ms=10)

    def test_it_counts_days_since_boot_until_the_clock_is_set(self):
        self.check([(0, 0, 3, 1000), (0, 0, 3, 2000)], True)
        self.check([(0, 0, 3, 86_399_000), (0, 0, 4, 1000)], True)
        self.check([(0, 0, 0, 1000), (1, 0, 0, 2000)], False)
        self.check([(1, 1000, 0, 1000), (1, 2000, 0, 2000)], True)  # 1970-01-02

    def test_poll_closes_what_will_be_too_old(self):
        rig = Rig()
        rig.add((1, 2, 3))
        rig.clock.pass_ms(500_000)
        rig.series.poll(rig.clock, 99_999)
        self.assertTrue(rig.series.is_open())
        rig.series.poll(rig.clock, 100_000)
        self.assertFalse(rig.series.is_open())

    def test_poll_closes_what_was_left_for_longer_than_11_days(self):
        rig = Rig()
        rig.add((1, 2, 3))
        rig.clock.up_day, rig.clock.up_ms = 12, 0
        rig.series.poll(rig.clock)
        self.assertFalse(rig.series.is_open())


class TestRoom(unittest.TestCase):
    def test_nearly_full_is_what_has_no_room_for_two_more(self):
        """Samples of 11 bytes: some of the records are full to the last byte."""
        for record_bytes in range(800, 844, 4):
            options = {"most_bytes": 1024, "record_bytes": record_bytes, "max_age_s": DAYS_11_S}
            rig = Rig(columns=[column()] * 16, **options)
            found = []
            self.assertFalse(rig.series.is_nearly_full())
            while not rig.outbox.next_seq:
                self.assertEqual(rig.add((5,) * 16), OK)
                found.append(rig.series.is_nearly_full())
            count = len(found) - 1  # the last one is in another record
            self.assertEqual(found[:count], [False] * (count - 2) + [True] * 2)

    def test_a_closed_record_is_not_nearly_full(self):
        rig = Rig(record_bytes=256)
        while not rig.series.is_nearly_full():
            rig.add((1, 2, 3))
        rig.series.close()
        self.assertFalse(rig.series.is_nearly_full())

    def test_after_a_short_record_it_is_an_eighth_and_16_bytes_more(self):
        for is_another in (False, True):
            for count in range(1, 60, 3):
                rig = Rig()
                for _ in range(count):
                    rig.add((1, 2, 3))
                used = rig.outbox.where[0] - rig.outbox.where[2]
                rig.series.close()
                if is_another:
                    rig.series = Series(rig.outbox, TOPIC, b"board-1", COLUMNS)
                rig.add((1, 2, 3))
                expected = max(used + used // 8 + 16, 88)  # of two samples
                self.assertEqual(rooms(rig)[1], (expected + 3) // 4 * 4, count)

    def test_the_first_one_takes_the_rest_of_its_sector_where_that_is_half_of_it(self):
        for record_bytes in (1024, 1028, 240):
            rig = Rig(most_bytes=record_bytes, record_bytes=record_bytes)
            rig.add((1, 2, 3))
            most = rooms(rig)[0]
            least = max((most // 2 + 3) // 4 * 4, 88)  # of two samples
            for left, expected in (
                (most + 4, most),
                (most, most),
                (most - 4, most - 4),
                (least, least),
                (least - 4, most),  # in the next sector
            ):
                rig = Rig(most_bytes=record_bytes, record_bytes=record_bytes)
                take(rig.outbox, FIRST_SECTOR - (record_bytes - most) - left)
                rig.add((1, 2, 3))
                self.assertEqual(rooms(rig)[-1], expected)

    def test_after_a_full_one_it_is_all_or_the_rest_of_the_sector(self):
        """Also after one that is closed when it is nearly full, as the station does."""
        for record_bytes, in_sector, is_closed in (
            (1024, 3, False),
            (1024, 3, True),
            (1500, 2, False),
        ):
            options = {"record_bytes": record_bytes, "max_age_s": DAYS_11_S}
            rig = Rig(most_bytes=record_bytes, **options)
            while rig.outbox.next_seq < in_sector + 2:
                self.assertEqual(rig.add((1, 2, 3)), OK)
                if is_closed and rig.series.is_nearly_full():
                    rig.series.close()
            most = rooms(rig)[0]
            rest = FIRST_SECTOR - in_sector * record_bytes - (record_bytes - most)
            self.assertEqual(rooms(rig)[: in_sector + 2], [most] * in_sector + [rest, most])

    def test_after_one_that_used_nearly_all_it_is_as_after_a_full_one(self):
        rig = Rig(record_bytes=260)
        for _ in range(32):
            rig.add((1, 2, 3))
        most = 160  # an eighth and 16 bytes more than was used
        self.assertEqual(rig.outbox.where[0] - rig.outbox.where[2], 128)
        rig.series.close()
        take(rig.outbox, FIRST_SECTOR - 260 - (260 - most) - (most - 4))
        rig.add((1, 2, 3))
        self.assertEqual(rooms(rig), [most, most - 4])

    def test_a_record_with_its_room_is_in_one_sector(self):
        size = 512 - 412 + 88  # of one that is as short as can be
        for rest, block in ((size, 0), (size - 4, 1)):
            rig = Rig()
            rig.add((1, 2, 3))
            rig.series.close()
            take(rig.outbox, FIRST_SECTOR - 512 - rest)
            self.assertEqual(rig.add((1, 2, 3)), OK)
            self.assertEqual(rig.outbox.where[5], block)
            self.assertEqual(rooms(rig), [412, 88])


class TestCodes(unittest.TestCase):
    def test_k_is_the_mean_length_of_the_numbers_before(self):
        """Differences of 64, -1 and 2 or 1 are numbers of 8, 1, and 3 or 2 bits; the time's first
        one has 15, the others none."""
        first = 0, 3, 3, 3
        for count, expected in ((7, first), (8, (1, 8, 2, 1)), (9, (1, 8, 2, 1))):
            rig = Rig()
            for i in range(count + 1):
                rig.add((64 * i, min(2 * i, 15), -i))
            rig.series.close()
            rig.add((0, 0, 0))
            self.assertEqual(parameters(rig), [first, expected])

    def test_each_record_is_learned_from_alone(self):
        rig = Rig()
        for values in ((1 << 25, 1 << 14, 1), (0, 0, 0)):
            for i in range(9):
                rig.add([value * (i & 1) for value in values])
            rig.series.close()
        rig.add((0, 0, 0))
        self.assertEqual(parameters(rig)[1:], [(1, 15, 15, 1), (1, 0, 0, 0)])

    def test_a_short_record_changes_nothing(self):
        rig = Rig()
        for count in (9, 8, 1):
            for i in range(count):
                rig.add((64 * i, 64 * i, 64 * i))
            rig.series.close()
        self.assertEqual(parameters(rig)[1:], [(1, 8, 8, 8)] * 2)


class TestFaults(unittest.TestCase):
    def test_a_record_that_does_not_read_back_is_begun_again_up_to_four_times(self):
        for lost in range(6):
            flash = faulty(8)
            rig = Rig(flash=flash)
            self.assertEqual(rig.add((0, 0, 0)), OK)
            rig.series.close()
            flash.programs_lost = lost
            status = rig.add((1, 2, 3))
            self.assertEqual(status, OK if lost < 5 else STORAGE, lost)
            flash.programs_lost = 0
            self.assertEqual(rig.add((2, 2, 3)), OK)
            rig.series.close()
            found = [row[0] for message in read_all(rig.outbox) for row in values_of(message)]
            self.assertEqual(found, [0, 1, 2] if lost < 5 else [0, 2], lost)

    def test_with_no_room_to_begin_it_again_it_is_a_fault_of_storage(self):
        """Not FULL: the sample may be on flash."""
        rig = Rig(flash=faulty(2))
        take(rig.outbox, FIRST_SECTOR)
        take(rig.outbox, 64)
        rig.flash.programs_lost = 1
        self.assertEqual(rig.add((1, 2, 3)), STORAGE)
        self.assertEqual(rig.add((1, 2, 3)), FULL)


if __name__ == "__main__":
    unittest.main()
