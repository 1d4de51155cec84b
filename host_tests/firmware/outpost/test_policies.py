"""What a full outbox drops and what it keeps: counted."""

import unittest

import power_loss  # noqa: F401 - on CPython a faster CRC
from bench_client import Bench
from fake_flash import flash_in_ram
from faulty_flash import faulty
from filled_outbox import everything, made, newest_of
from outpost import status
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from station.clock import Clock
from station.station import Station
from station.telemetry import Pack


class TestDropOldest(unittest.TestCase):
    def test_the_oldest_sector_goes_and_the_newest_messages_stay(self):
        flash, outbox = made(DropOldest, 3)
        for seq in range(200):
            self.assertEqual(outbox.append(b"t", b"%03d" % seq + bytes(300), 303), status.OK)
        held = everything(outbox)
        self.assertEqual(
            [payload[:3] for _, _, payload in held],
            [b"%03d" % seq for seq in range(200 - len(held), 200)],
        )
        self.assertEqual((outbox.dropped, outbox.refused), (200 - len(held), 0))
        self.assertTrue(len(held) >= 2 * 12)
        again = Outbox(flash)
        again.mount()
        self.assertEqual(everything(again), held)

    def test_a_message_tells_what_was_dropped_to_make_room_for_it(self):
        """So that the collector does not wait for numbers that never come."""
        bench = Bench(blocks=2, outbox_class=DropOldest)

        class Sensor:
            name, unit, exponent = b"n" * 150, b"", 0

            def read(self):
                return 1

        station = Station(bench.client, Pack(b"board-1"), Clock(0), [Sensor()], b"t", 10, 0)
        for now_ms in range(10, 1000, 10):
            self.assertTrue(station.step(now_ms))
            self.assertTrue(
                b'"held":%d,' % bench.outbox.oldest_seq
                in bytes(station.pack.buffer[: station.pack.length])
            )
        self.assertTrue(bench.outbox.dropped > 50)

    def test_messages_dropped_in_flight_do_not_stop_the_client(self):
        bench = Bench(blocks=2, outbox_class=DropOldest).connect()
        for number in range(60):
            bench.publish(b"%02d" % number + bytes(300))
            bench.poll(1)
        for _ in range(30):
            for packet_id, _, _ in bench.sent(2):
                bench.stream.say(b"\x40\x02" + bytes([packet_id >> 8, packet_id & 255]))
        self.assertTrue(bench.outbox.dropped > 0 and bench.client.is_drained())

    def test_one_sector_at_a_time(self):
        _, outbox = made(DropOldest, 6)
        while not outbox.dropped:
            self.assertEqual(outbox.append(b"t", bytes(303), 303), status.OK)
        self.assertEqual((outbox.dropped, outbox.oldest_seq, outbox.next_seq), (12, 12, 5 * 12 + 1))

    def test_a_full_ring_waits_for_no_erase_after_erase_ahead(self):
        _, outbox = made(DropOldest, 4)
        while outbox.dropped < 100:
            outbox.erase_ahead()
            erases = outbox.erases
            self.assertEqual(outbox.append(b"t", bytes(303), 303), status.OK)
            self.assertEqual(outbox.erases, erases)

    def test_a_ring_of_one_block_refuses(self):
        """As while the other one is lent."""
        _, outbox = made(DropOldest, 2)
        outbox._out = (1,)
        answers = [outbox.append(b"t", bytes(303), 303) for _ in range(20)]
        self.assertEqual((answers[-1], outbox.dropped), (status.FULL, 0))


class TestNewestPerTopic(unittest.TestCase):
    def test_the_newest_of_each_topic_stays_however_old(self):
        flash, outbox = made(NewestPerTopic, 8, topics=4)
        outbox.append(b"rare", b"once", 4)
        for number in range(400):
            topic = b"often/%d" % (number % 2)
            self.assertEqual(outbox.append(topic, b"%03d" % number + bytes(300), 303), status.OK)
        newest = {topic: payload[:4] for _, topic, payload in everything(outbox)}
        self.assertEqual(newest, {b"rare": b"once", b"often/0": b"398\0", b"often/1": b"399\0"})
        self.assertTrue(outbox.dropped > 200)
        again = NewestPerTopic(flash, topics=4)
        again.mount()
        self.assertEqual(everything(again), everything(outbox))

    def test_flags_stay_with_the_message(self):
        _, outbox = made(NewestPerTopic, 8, topics=4)
        outbox.append(b"rare", b"once", 4, 0x50)
        for _ in range(300):
            outbox.append(b"often", bytes(300), 300)
        flags, seq = {}, 0
        while outbox.load(seq) == status.OK:
            flags[bytes(outbox.buffer[outbox.topic_at : outbox.topic_at + outbox.topic_length])] = (
                outbox.flags
            )
            seq = outbox.loaded_seq + 1
        self.assertEqual(flags[b"rare"], 0x50)

    def test_topics_beyond_the_table_are_dropped_with_the_oldest(self):
        _, outbox = made(NewestPerTopic, 8, topics=2)
        for number in range(300):
            self.assertEqual(outbox.append(b"t/%d" % number, bytes(300), 300), status.OK)
        topics = [topic for _, topic, _ in everything(outbox)]
        self.assertTrue(b"t/0" in topics and b"t/1" in topics and b"t/2" not in topics)

    def test_what_holds_no_message_takes_no_place_in_the_table(self):
        _, outbox = made(NewestPerTopic, 8, topics=1)
        self.assertEqual(outbox.reserve(100), status.OK)
        self.assertEqual(outbox.append(b"", b"state", 5, 2), status.OK)
        outbox.append(b"rare", b"once", 4)
        for _ in range(300):
            outbox.append(b"others", bytes(300), 300)
        self.assertEqual(newest_of(outbox)[b"rare"], b"once")

    def test_a_message_that_was_not_stored_is_not_the_newest(self):
        outbox = NewestPerTopic(faulty(8), topics=2)
        outbox.format(b"01234567")
        outbox.append(b"rare", b"once", 4)
        outbox._device.programs_fail = 1
        self.assertEqual(outbox.append(b"rare", b"lost", 4), status.STORAGE)
        for _ in range(300):
            self.assertEqual(outbox.append(b"often", bytes(300), 300), status.OK)
        self.assertEqual(newest_of(outbox)[b"rare"], b"once")

    def test_each_message_is_held_freed_or_counted_as_dropped(self):
        _, outbox = made(NewestPerTopic, 8, topics=4)
        freed = 0
        for number in range(600):
            topic = b"rare" if number % 150 == 3 else b"often"
            self.assertEqual(outbox.append(topic, bytes(300), 300), status.OK)
            if number % 4 == 0 and not outbox.acked & 2:  # the third, and not those before it
                freed += outbox.discard(outbox.oldest_seq + 2)
                outbox.save_state()
        held = [seq for seq, _, _ in everything(outbox)]
        held = [one for one in held if not outbox.acked << 1 >> (one - outbox.oldest_seq) & 1]
        self.assertEqual((len(held) + outbox.dropped + freed, outbox.unreadable), (600, 0))

    def test_as_many_topics_as_set_up_allows(self):
        for blocks, record_bytes, topics in ((7, 512, 16), (4, 512, 4), (8, 2040, 5)):
            _, outbox = made(NewestPerTopic, blocks, record_bytes=record_bytes, topics=topics)
            newest = {}
            for number in range(100):
                topic = b"t/%d" % (number % topics if number < 2 * topics else 0)
                newest[topic] = b"%04d" % number
                payload = newest[topic] + bytes(record_bytes - 28)
                self.assertEqual(outbox.append(topic, payload, record_bytes - 24), status.OK)
            self.assertEqual(newest_of(outbox), newest)
            self.assertEqual(outbox.refused, 0)

    def test_too_few_blocks_are_refused_at_set_up(self):
        self.assertEqual(len(NewestPerTopic(flash_in_ram(7))._newest), 16)
        for blocks, options in ((6, {}), (4, {"topics": 5}), (3, {"topics": 0})):
            with self.assertRaises(ValueError):
                NewestPerTopic(flash_in_ram(blocks), **options)

    def test_collector_mode_refuses_it(self):
        with self.assertRaises(ValueError):
            Bench("collector", blocks=16, outbox_class=NewestPerTopic)


if __name__ == "__main__":
    unittest.main()
