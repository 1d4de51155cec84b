import unittest

from bench_client import Bench
from fake_flash import flash_in_ram
from outpost import status
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from station.clock import Clock
from station.station import Station
from station.telemetry import Pack


def made(outbox_class, blocks, **options):
    flash = flash_in_ram(blocks, 256)
    outbox = outbox_class(flash, **options)
    assert outbox.format(b"01234567") == status.OK
    return flash, outbox


def everything(outbox):
    """[(number, topic, payload)] of what is held."""
    found, seq = [], 0
    while outbox.load(seq) == status.OK:
        middle = outbox.topic_at + outbox.topic_length
        topic = bytes(outbox.buffer[outbox.topic_at : middle])
        seq = outbox.loaded_seq + 1
        found.append(
            (seq - 1, topic, bytes(outbox.buffer[middle : middle + outbox.payload_length]))
        )
    return found


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

    def test_too_few_blocks_are_refused_at_set_up(self):
        with self.assertRaises(ValueError):
            NewestPerTopic(flash_in_ram(3))

    def test_collector_mode_refuses_it(self):
        with self.assertRaises(ValueError):
            Bench("collector", blocks=16, outbox_class=NewestPerTopic)


if __name__ == "__main__":
    unittest.main()
