"""Series on flash: what add() took is in the message, in order, with its times, once; the outbox's
promises hold for its record; nothing of the format differs for who has none.
"""

import unittest

from fake_flash import flash_in_ram, image_of
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from outpost.series import Series
from outpost.series_outbox import over
from outpost.state_note import NotedOutbox
from outpost.status import BUSY, EMPTY, FULL, NEWER, OK, SHORT_RECORDS, STORAGE, TOO_BIG
from series_rig import DAY, Rig, values_of
from series_samples import COLUMNS, TOPIC, read_all, read_message


def failing(write, way):
    def fail(block, buf, offset=0):
        if way == "raises":
            write(block, buf, offset)
            raise OSError(5)
        if way == "torn":
            write(block, bytes([byte | 0x1F for byte in buf]), offset)

    return fail


class Sleeping(Outbox):
    settles_later = True  # each wake stores a sample first


class TestSeries(unittest.TestCase):
    def test_a_record_longer_than_the_outbox_reads_is_refused(self):
        rig = Rig(max_age_s=86_400)
        for n in range(300):
            self.assertEqual(rig.add((2150 + n * 7 % 30, 4512, 101_325)), OK)
        rig.series.close()
        image = image_of(rig.flash)
        found = []
        for record_bytes in (512, 128):
            outbox = over(Outbox)(flash_in_ram(4, 256, image), record_bytes=record_bytes)
            found.append(outbox.mount())
        self.assertEqual(found, [OK, SHORT_RECORDS])

    def test_what_a_wake_from_deep_sleep_costs(self):
        """Each wake begins a record, whose room nobody fills: record_bytes of flash a sample, and
        a program, or two where the first of a sector crosses a page. SERIES.md says so."""
        found = {}
        for record_bytes in (512, 256):
            rig = Rig(blocks=16, record_bytes=record_bytes)
            began, programs = rig.outbox._offset, 0
            for n in range(60):
                before = rig.flash.programs
                self.assertEqual(rig.add((2150 + n, 4512, 101_325)), OK)
                programs += rig.flash.programs - before
                used = rig.outbox._sector_no * 4096 + rig.outbox._offset - began
                rig = rig.again(Sleeping, record_bytes=record_bytes)
            rig = rig.again(record_bytes=record_bytes)
            counts = [len(message["samples"]) for message in read_all(rig.outbox)]
            self.assertEqual(counts, [1] * 60)
            found[record_bytes] = used // 60
            self.assertTrue(60 <= programs <= 70, programs)
        self.assertEqual(found, {512: 512, 256: 256})

    def test_samples_are_one_message_in_order_with_their_times(self):
        rig = Rig()
        rows = [(2150, 4512, 101_325), (2151, None, 101_325), (2149, 4500, 101_327)]
        for row in rows:
            self.assertEqual(rig.add(row), OK)
        self.assertEqual(rig.outbox.load(0), EMPTY)  # not before it is closed
        self.assertEqual(rig.outbox.next_seq, 0)
        rig.series.close()
        self.assertEqual(rig.outbox.next_seq, 1)
        self.assertEqual(rig.outbox.load(0), OK)
        self.assertEqual(rig.outbox.flags, 0x10)
        message = read_message(rig.outbox)
        self.assertEqual(values_of(message), rows)
        start = DAY * 86_400_000 + 1000
        self.assertEqual([time - start for time, _ in message["samples"]], [10_000, 20_000, 30_000])
        head = [message[name] for name in ("device", "stream", "seq", "held", "boot", "clock_set")]
        self.assertEqual(head, ["board-1", "3fa9c1d2", 0, 0, rig.outbox.boot, True])
        self.assertEqual(message["columns"], [("t", "Cel", -2), ("h", "%RH", -2), ("p", "Pa", 0)])
        self.assertEqual(message["uptime_ms"], None)

    def test_a_record_that_is_full_is_a_message(self):
        rig = Rig()
        rows = [(2000 + i % 7, 4500 - i, 101_325) for i in range(400)]
        for row in rows:
            self.assertEqual(rig.add(row), OK)
        self.assertTrue(rig.outbox.next_seq > 2)
        rig.series.close()
        found = read_all(rig.outbox)
        self.assertEqual([row for message in found for row in values_of(message)], rows)
        self.assertEqual([message["seq"] for message in found], list(range(len(found))))

    def test_what_was_taken_is_there_after_a_power_cut_at_any_moment(self):
        rig = Rig()
        rows = []
        for i in range(70):
            rows.append((i, -i, i * i))
            self.assertEqual(rig.add(rows[-1]), OK)
            later = rig.again()
            self.assertEqual(later.status, OK)
            found = read_all(later.outbox)
            self.assertEqual([row for message in found for row in values_of(message)], rows)

    def test_another_message_closes_the_record_and_follows_it(self):
        rig = Rig()
        rig.add((1, 2, 3))
        self.assertEqual(rig.outbox.append(TOPIC, b"alarm", 5), OK)
        rig.add((4, 5, 6))
        rig.series.close()
        self.assertEqual(rig.outbox.load(0), OK)
        self.assertEqual(values_of(read_message(rig.outbox)), [(1, 2, 3)])
        self.assertEqual(rig.outbox.load(1), OK)
        at = rig.outbox.topic_at + rig.outbox.topic_length
        self.assertEqual(bytes(rig.outbox.buffer[at : at + 5]), b"alarm")
        self.assertEqual(rig.outbox.load(2), OK)
        self.assertEqual(values_of(read_message(rig.outbox)), [(4, 5, 6)])

    def test_a_state_record_leaves_it_open(self):
        rig = Rig()
        rig.outbox.append(TOPIC, b"old", 3)
        rig.add((1, 2, 3))
        rig.outbox.discard(0)
        self.assertEqual(rig.outbox.save_state(), OK)
        rig.add((4, 5, 6))
        later = rig.again()
        self.assertEqual(later.outbox.oldest_seq, 1)
        self.assertEqual(values_of(read_all(later.outbox)[0]), [(1, 2, 3), (4, 5, 6)])
        self.assertEqual(later.outbox.damaged + later.outbox.sealed_torn, 0)
        rig.series.close()
        self.assertEqual(values_of(read_all(rig.outbox)[0]), [(1, 2, 3), (4, 5, 6)])

    def test_reading_the_backlog_leaves_the_open_record_alone(self):
        rig = Rig()
        for i in range(100):
            rig.add((i, i, i))
            rig.outbox.load(0)
            rig.outbox.load(1)
        rig.series.close()
        found = [row for message in read_all(rig.outbox) for row in values_of(message)]
        self.assertEqual(found, [(i, i, i) for i in range(100)])

    def test_values_may_jump_over_all_30_bits_and_be_missing(self):
        rig = Rig(blocks=8)
        low, high = -(1 << 29), (1 << 29) - 1
        rows = [(low, high, 0), (high, low, None), (None, low, None), (0, 0, 0), (low, None, high)]
        rows += [(None, None, 1), (1, -1, low)]
        for row in rows * 9:
            self.assertEqual(rig.add(row), OK)
        rig.series.close()
        found = [row for message in read_all(rig.outbox) for row in values_of(message)]
        self.assertEqual(found, rows * 9)

    def test_what_is_no_value_is_refused(self):
        rig = Rig()
        self.assertEqual(rig.add((1 << 29, 0, 0)), TOO_BIG)
        self.assertEqual(rig.add((0, -(1 << 29) - 1, 0)), TOO_BIG)
        self.assertEqual(rig.series.refused, 2)
        self.assertEqual(rig.add((None, None, None)), OK)
        rig.series.close()
        self.assertEqual(rig.outbox.next_seq, 0)
        for _ in range(2):  # in no record, and in one that is open
            rig.outbox._busy = True
            self.assertEqual(rig.add((1, 2, 3)), BUSY)
            rig.outbox._busy = False
            self.assertEqual(rig.add((1, 2, 3)), OK)
        rig.series.close()
        self.assertEqual(values_of(read_all(rig.outbox)[0]), [(1, 2, 3)] * 2)
        self.assertEqual(rig.series.refused, 4)

    def test_time_may_be_unset_jump_and_go_back(self):
        rig = Rig()
        rig.clock.day = 0
        expected = []
        for change in (None, "set", "day", "back", "far", "odd"):
            if change == "set":
                rig.clock.set(DAY, 5000)
            elif change == "day":
                rig.clock.day += 1
            elif change == "back":
                rig.clock.day -= 3
            elif change == "far":
                rig.clock.day += 300
            for i in range(3):
                ms = 10_000 if change != "odd" else 9_000 + 777 * i
                self.assertEqual(rig.add((i, i, i), ms), OK)
                expected.append((rig.clock.is_set, rig.clock.time_ms()))
        rig.series.close()
        messages = read_all(rig.outbox)
        found = [(one["clock_set"], time) for one in messages for time, _ in one["samples"]]
        self.assertEqual(found, expected)
        # The records from before and after the clock was set, the latter with the uptime too.
        self.assertEqual(messages[0]["uptime_ms"], 10_000)
        self.assertEqual(messages[1]["uptime_ms"], 40_000)

    def test_times_are_rounded_down_to_steps(self):
        rig = Rig(step_ms=100)
        for ms in (10_000, 10_049, 9_999, 10_111):
            rig.add((1, 2, 3), ms)
        rig.series.close()
        message = read_all(rig.outbox)[0]
        start = message["samples"][0][0]
        self.assertEqual([t - start for t, _ in message["samples"]], [0, 10_000, 20_000, 30_100])

    def test_a_record_that_is_old_is_closed(self):
        rig = Rig(max_age_s=60)
        for _ in range(5):
            rig.add((1, 2, 3), 20_000)
        self.assertEqual(rig.outbox.next_seq, 1)  # of 0, 20 and 40 s
        rig.clock.pass_ms(39_999)
        rig.series.poll(rig.clock)
        self.assertEqual(rig.outbox.next_seq, 1)
        rig.clock.pass_ms(2)
        rig.series.poll(rig.clock)
        self.assertEqual(rig.outbox.next_seq, 2)
        self.assertEqual([len(m["samples"]) for m in read_all(rig.outbox)], [3, 2])

    def test_full_refuses_and_goes_on_when_there_is_room(self):
        rig = Rig(blocks=2)
        taken = 0
        while rig.add((taken, taken * 7, -taken)) == OK:
            taken += 1
        self.assertEqual(rig.add((0, 0, 0)), FULL)
        found = [row for message in read_all(rig.outbox) for row in values_of(message)]
        self.assertEqual(found, [(i, i * 7, -i) for i in range(taken)])
        rig.outbox.discard_through(rig.outbox.next_seq - 1)
        self.assertEqual(rig.add((0, 0, 0)), OK)

    def test_dropping_the_oldest_keeps_the_newest(self):
        rig = Rig(blocks=3, base=DropOldest)
        for i in range(3000):
            self.assertEqual(rig.add((i, i * 7, -i)), OK)
        rig.series.close()
        found = [row[0] for message in read_all(rig.outbox) for row in values_of(message)]
        self.assertEqual(found, list(range(found[0], 3000)))
        self.assertTrue(rig.outbox.dropped > 0)
        message = read_all(rig.outbox)[-1]
        self.assertTrue(0 < message["held"] <= message["seq"])

    def test_with_state_notes(self):
        rig = Rig(blocks=4, base=NotedOutbox)
        rows = []
        for i in range(200):
            if i % 10 == 3:
                self.assertEqual(rig.outbox.set_note(b"note %d" % i, 6), OK)
            rows.append((i, 0, 0))
            self.assertEqual(rig.add(rows[-1]), OK)
        later = rig.again(NotedOutbox)
        self.assertEqual(bytes(later.outbox.note[:6]), b"note 193"[:6])
        found = [row for message in read_all(later.outbox) for row in values_of(message)]
        self.assertEqual(found, rows)

    def test_a_firmware_without_series_reports_newer_and_changes_nothing(self):
        rig = Rig()
        rig.add((1, 2, 3))
        image = image_of(rig.flash)
        flash = flash_in_ram(4, 256, image)
        self.assertEqual(Outbox(flash).mount(), NEWER)
        self.assertEqual(image_of(flash), image)

    def test_a_region_from_before_is_continued(self):
        flash = flash_in_ram(4, 256)
        outbox = Outbox(flash)
        outbox.format(b"3fa9c1d2")
        outbox.append(TOPIC, b"old", 3)
        rig = Rig(4, image=image_of(flash))
        self.assertEqual(rig.status, OK)
        self.assertEqual(rig.add((1, 2, 3)), OK)
        later = rig.again()
        self.assertEqual(later.outbox.load(0), OK)
        self.assertEqual(later.outbox.payload_length, 3)
        self.assertEqual(later.outbox.load(1), OK)
        self.assertEqual(values_of(read_message(later.outbox)), [(1, 2, 3)])

    def test_a_flipped_bit_costs_no_more_than_its_record(self):
        rig = Rig()
        for i in range(40):
            rig.add((i, i, i))
        rig.series.close()
        rig.outbox.append(TOPIC, b"next", 4)
        image = image_of(rig.flash)
        end = rig.outbox._offset
        for bit in range(32 * 8, end * 8, 31):
            damaged = bytearray(image)
            damaged[bit >> 3] ^= 1 << (bit & 7)
            later = Rig(4, image=bytes(damaged))
            self.assertEqual(later.status, OK)
            self.assertEqual(later.outbox.next_seq, 2)
            if later.outbox.load(0) == OK and later.outbox.loaded_seq == 0:
                for row in values_of(read_message(later.outbox)):
                    self.assertTrue(row == (row[0], row[0], row[0]) and row[0] < 40)

    def test_a_program_that_does_not_read_back_promises_nothing_and_the_next_sample_is_there(self):
        for way in ("lost", "torn", "raises"):
            rig = Rig(blocks=6)
            rig.add((1, 2, 3))
            rig.add((2, 2, 3))
            write = rig.flash.writeblocks
            rig.flash.writeblocks = failing(write, way)
            self.assertEqual(rig.add((3, 2, 3)), STORAGE)
            rig.flash.writeblocks = write
            self.assertEqual(rig.add((4, 2, 3)), OK)
            rig.series.close()
            found = [row[0] for message in read_all(rig.outbox) for row in values_of(message)]
            self.assertEqual([row for row in found if row != 3], [1, 2, 4])
            self.assertTrue(rig.outbox.storage_errors > 0)

    def test_the_codes_learn_from_the_record_before(self):
        rig = Rig(blocks=8, record_bytes=300)
        for i in range(300):
            rig.add((2000 + i % 2, 100 * (i * 7919 % 40), 5))
        rig.series.close()
        counts = [len(message["samples"]) for message in read_all(rig.outbox)]
        self.assertTrue(counts[1] > counts[0], counts)

    def test_the_numbers_end_and_a_new_stream_begins(self):
        rig = Rig()
        rig.outbox.format(b"3fa9c1d2", True, (1 << 30) - 2)
        self.assertEqual(rig.add((1, 2, 3)), OK)
        rig.series.close()
        self.assertEqual(rig.add((1, 2, 3)), FULL)
        rig.outbox.discard_through(rig.outbox.next_seq - 1)
        self.assertEqual(rig.add((4, 5, 6)), OK)
        rig.series.close()
        message = read_all(rig.outbox)[0]
        self.assertEqual((message["seq"], values_of(message)), (0, [(4, 5, 6)]))
        self.assertTrue(message["stream"] != "3fa9c1d2")

    def test_the_last_number_is_that_of_a_record_that_was_open_until_it_was_full(self):
        rig = Rig()
        rig.outbox.format(b"3fa9c1d2", True, (1 << 30) - 2)
        self.assertEqual(rig.add((1, 2, 3)), OK)
        while rig.add((1, 2, 3)) == OK:
            self.assertEqual(rig.outbox.next_seq, (1 << 30) - 2)
        self.assertEqual(rig.add((1, 2, 3)), FULL)
        self.assertEqual(rig.outbox.next_seq, (1 << 30) - 1)

    def test_set_up_mistakes_are_told(self):
        flash = flash_in_ram(4, 256)
        outbox = over(Outbox)(flash)
        outbox.format(b"3fa9c1d2")
        good = outbox, TOPIC, b"board-1", COLUMNS
        for wrong in (
            (Outbox(flash),) + good[1:],
            (over(Outbox)(flash, align=256),) + good[1:],
            good[:2] + (b"", COLUMNS),
            good[:3] + ((),),
            good[:3] + (((b"", b"", 0),),),
            good[:3] + (((b"n", b"", 10),),),
            good[:3] + (((b"n", b"u" * 16, 0),),),
            good[:3] + (COLUMNS * 6,),
            good[:3] + (tuple([(b"a long name of a column", b"unit", 0)] * 16),),
            good + (0,),
            good + (1, 0),
            good + (1, 600, 128),
        ):
            with self.assertRaises(ValueError):
                Series(*wrong)
        with self.assertRaises(ValueError):
            over(NewestPerTopic)


class TestWithoutSeries(unittest.TestCase):
    def test_messages_are_where_they_were_and_only_bit_4_of_the_header_differs(self):
        images = []
        for kind in (Outbox, over(Outbox)):
            flash = flash_in_ram(2, 256)
            outbox = kind(flash)
            outbox.format(b"3fa9c1d2")
            outbox.append(TOPIC, b"42", 2)
            images.append(image_of(flash))
        self.assertEqual(images[0][3], 2)
        self.assertEqual(images[1][3], 18)
        self.assertEqual(images[0][:3] + images[0][4:28], images[1][:3] + images[1][4:28])
        self.assertEqual(images[0][32:44], images[1][32:44])


if __name__ == "__main__":
    unittest.main()
