"""Defects of other MQTT clients for small devices, and what their users ask for, each as a test of
this one.

The first class has a test for each defect shown in a run or by reading, the second one for each of
fifteen issue threads. The stream is a fake one and the time simulated; test_real_sockets.py repeats
with sockets what depends on them.
"""

import unittest

from bench_client import STREAM, TOPIC, Bench, confirmation, puback, publishes
from fake_flash import PowerCut, flash_in_ram
from nor_flash import CUT_MODES
from outpost import status
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from scripted_server import decode_all, encode


def connected(mode="broker", **options):
    return Bench(mode, **options).connect()


def reconnected(bench, session_present=1):
    return bench.connect(encode("CONNACK", session_present=session_present))


def kinds(bench):
    return [kind for kind, _ in decode_all(bench.stream.take())]


def near_the_wrap(before=5, mode="broker"):
    """A bench whose next packet identifier is 65535 - before + 1."""
    flash = flash_in_ram(8, 256)
    Outbox(flash).format(STREAM, first_seq=65535 - before)
    return Bench(mode, flash=flash)


def logged_writes(bench):
    """[(offset, bytes)] of each write() from now on."""
    calls, write = [], bench.stream.write

    def logged(buf, offset, length):
        calls.append((offset, bytes(buf[offset : offset + length])))
        return write(buf, offset, length)

    bench.stream.write = logged
    return calls


class TestDefectsOfOthers(unittest.TestCase):
    def test_umqtt_robust_link_drops_before_puback_and_the_publish_goes_again_with_same_id_and_dup(
        self,
    ):
        bench = connected().publish(b"reading")
        self.assertEqual(bench.sent(), [(1, False, b"reading")])
        bench.stream.ended = True
        bench.poll(2)
        self.assertEqual(bench.client.last_error, status.LINK_LOST)
        self.assertEqual(reconnected(bench).sent(), [(1, True, b"reading")])
        bench.say(puback(1))
        self.assertEqual(
            (bench.client.is_drained(), bench.session.redelivered, bench.client.failures),
            (True, 1, 1),
        )

    def test_umqtt_simple_identifier_wraps_from_65535_to_1_and_each_is_acknowledged(self):
        bench, ids = near_the_wrap().connect(), []
        for number in range(12):
            bench.publish(b"%d" % number)
            packet_id = bench.sent(4)[0][0]
            ids.append(packet_id)
            bench.say(puback(packet_id), 2)
        self.assertEqual(ids, [65531, 65532, 65533, 65534, 65535, 1, 2, 3, 4, 5, 6, 7])
        self.assertEqual(
            (bench.session.acknowledged, bench.session.ignored, bench.client.is_drained()),
            (12, 0, True),
        )
        self.assertTrue(bench.client.is_connected())

    def test_umqtt_simple_timeout_survives_the_first_packet(self):
        """Silence ends each connection in the same time, whatever came before: no CONNACK, no
        PINGRESP, a stuck write.
        """
        for round_number in range(3):
            bench = connected(keep_alive_s=20)
            for _ in range(5):
                bench.publish(b"x")
                bench.say(puback(bench.sent(3)[0][0]))
            first, start = bench.stream, bench.now_ms
            bench.poll(round_number * 10)
            while not first.closed:
                bench.poll()
            self.assertTrue(24_800 <= bench.now_ms - start <= 25_100, bench.now_ms - start)
            self.assertEqual(bench.client.last_error, status.TIMED_OUT)

    def test_mqtt_as_session_present_after_an_outage_is_accepted(self):
        bench = connected().publish(b"a")
        bench.sent()
        bench.drop()
        reconnected(bench, session_present=1)
        self.assertEqual((bench.client.is_connected(), bench.session.session_present), (True, True))
        self.assertEqual((bench.sent(), bench.client.failures), ([(1, True, b"a")], 1))

    def test_mqtt_as_identifier_and_dup_are_kept_over_any_number_of_outages(self):
        bench = connected().publish(b"a", b"b")
        self.assertEqual(bench.sent(), [(1, False, b"a"), (2, False, b"b")])
        for outage in range(1, 2):
            bench.drop()
            self.assertEqual(reconnected(bench).sent(), [(1, True, b"a"), (2, True, b"b")])
            self.assertEqual(bench.session.redelivered, 2 * outage)
        bench.drop()  # the second in a row with nothing acknowledged: one by one, after PINGRESP
        reconnected(bench)
        for _ in range(20):
            bench.say(encode("PINGRESP"), 10)
        bench.early = []
        self.assertEqual(publishes(bench.stream.take()), [(1, True, b"a")])

    def test_mqtt_as_broker_closes_and_the_client_is_back_within_half_a_second(self):
        bench = connected()
        # each time: a connection that stood makes the next wait a short one again
        for _ in range(6):
            for _ in range(12_500):
                if bench.poll().stream.take() == encode("PINGREQ"):
                    bench.stream.say(encode("PINGRESP"))
            bench.stream.ended = True
            start, links = bench.now_ms, bench.links
            while bench.links == links:
                bench.poll()
            self.assertTrue(bench.now_ms - start <= 500, bench.now_ms - start)
            self.assertEqual(bench.client.last_error, status.LINK_LOST)
            bench.say(encode("CONNACK", session_present=1))
            self.assertTrue(bench.client.is_connected())

    def test_all_of_them_no_half_packet_is_ever_left_on_the_wire_because_a_packet_is_one_write(
        self,
    ):
        bench = Bench("exactly once")
        bench.poll(2)
        self.assertEqual((bench.stream.writes, kinds(bench)), (1, ["CONNECT"]))
        calls = logged_writes(bench)
        bench.say(encode("CONNACK"))
        bench.session.subscribe(b"c/#", 2)
        bench.poll(3).say(encode("SUBACK", packet_id=32768, codes=[2]))
        for qos in (0, 1, 2):
            bench.client.publish(TOPIC, bytes(200), qos)
            bench.poll(3)
        bench.say(puback(1) + encode("PUBREC", packet_id=2), 8)
        for qos in (1, 2):
            bench.say(encode("PUBLISH", topic=b"c/d", qos=qos, packet_id=qos))
        bench.say(encode("PUBREL", packet_id=2))
        bench.session.unsubscribe(b"c/#")
        bench.poll(3)
        packet_id = decode_all(calls[-1][1])[0][1]["packet_id"]
        bench.say(encode("UNSUBACK", packet_id=packet_id)).poll(4600)
        bench.client.close()
        found = [decode_all(data)[0][0] for offset, data in calls if offset == 0]
        self.assertEqual(len(found), len(calls))
        wanted = [
            "SUBSCRIBE",
            "PUBLISH",
            "PUBLISH",
            "PUBLISH",
            "PUBREL",
            "PUBACK",
            "PUBREC",
            "PUBCOMP",
            "UNSUBSCRIBE",
            "PINGREQ",
        ]
        for kind in wanted + ["DISCONNECT"]:
            self.assertIn(kind, found)
        for _, data in calls:
            self.assertEqual(len(decode_all(data)), 1)

    def test_all_of_them_a_memory_error_of_the_application_leaves_the_stream_sound(self):
        """The handler runs out of memory while a publish waits: nothing half, nothing lost, the
        message not acknowledged, as was chosen.
        """
        bench = connected(options={"unacknowledged": 1}).publish(b"kept")

        def hungry(message):
            raise MemoryError("no room")

        bench.session.on_message = hungry
        bench.say(encode("PUBLISH", topic=b"a/b", payload=b"x", qos=1, packet_id=9))
        self.assertEqual((bench.session.handler_errors, kinds(bench)), (1, ["PUBLISH"]))
        bench.say(puback(1))
        self.assertEqual((bench.client.is_drained(), bench.client.is_connected()), (True, True))


class TestWhatUsersAskFor(unittest.TestCase):
    def test_01_bad_wifi_no_call_hangs_and_delivery_is_known(self):
        """micropython-lib#103"""
        bench, told = connected(blocks=4), []
        bench.session.on_acknowledged = told.append
        stored, result = 0, status.OK
        while result == status.OK:  # no PUBACK ever comes
            result = bench.client.publish(TOPIC, bytes(100))
            stored += result == status.OK
            bench.poll()
        self.assertEqual((result, bench.outbox.refused, told), (status.FULL, 1, []))
        self.assertTrue(stored > 80, stored)
        self.assertEqual(len(bench.sent()), 16)  # the window; the rest waits in flash
        bench.say(b"".join([puback(1 + seq) for seq in range(16)]), 40)
        self.assertEqual((told, bench.session.acknowledged), (list(range(16)), 16))

    def test_01_bad_wifi_old_data_may_be_dropped_instead(self):
        """micropython-lib#103"""
        bench = Bench(blocks=4, outbox_class=DropOldest)
        bench.publish(*[b"%04d" % number + bytes(96) for number in range(200)])
        self.assertTrue(bench.outbox.dropped > 50)
        first = bench.connect().sent()[0][2]
        self.assertEqual(first[:4], b"%04d" % bench.outbox.dropped)

    def test_02_identifier_rolls_over_in_every_mode_and_over_a_reset(self):
        """micropython-lib#94"""
        for mode in ("broker", "collector"):
            bench = near_the_wrap(2, mode)
            bench.publish(b"a", b"b", b"c", b"d")
            bench.connect(word=None).poll(200 if mode == "collector" else 1)
            self.assertEqual([packet_id for packet_id, _, _ in bench.sent()], [65534, 65535, 1, 2])
            bench.boot()
            bench.connect(encode("CONNACK", session_present=1)).poll(
                200 if mode == "collector" else 1
            )
            self.assertEqual(
                [p[:2] for p in bench.sent()], [(65534, True), (65535, True), (1, True), (2, True)]
            )

    def test_02_identifier_of_subscribe_keeps_away_from_those_in_flight_at_the_wrap(self):
        """micropython-lib#94"""
        for before in range(20):
            bench = near_the_wrap(before).connect().publish(*[b"x"] * 16)
            used = [packet_id for packet_id, _, _ in bench.sent()]
            bench.session.subscribe(b"a")
            packet_id = decode_all(bench.poll(3).stream.take())[0][1]["packet_id"]
            self.assertEqual((len(set(used)), 0 in used, packet_id in used), (16, False, False))

    def test_03_deep_sleep_unsent_messages_wait_in_flash_over_many_wakes(self):
        """esp-mqtt#237"""
        bench = Bench()
        for wake in range(10):
            bench.boot()
            bench.publish(b"wake %d" % wake)
        bench.boot()
        self.assertEqual(
            [payload for _, _, payload in bench.connect().sent()],
            [b"wake %d" % wake for wake in range(10)],
        )

    def test_04_power_down_right_after_publish_loses_nothing(self):
        """esp-mqtt#274"""
        for polls in range(6):  # before, while and after it is sent
            bench = connected().publish(b"stored")
            bench.poll(polls)
            bench.boot()
            self.assertEqual([payload for _, _, payload in bench.connect().sent()], [b"stored"])

    def test_05_offline_for_hours_takes_no_memory_and_nothing_expires(self):
        """esp-idf#5668"""
        bench, sizes = Bench(blocks=4), []
        stored = 0
        for _ in range(7 * 60):
            stored += bench.client.publish(TOPIC, bytes(64)) == status.OK
            bench.now_ms += 60_000
            bench.client.poll(bench.now_ms)
            sizes.append(
                len(bench.session.tx) + len(bench.session.buffer) + len(bench.outbox.buffer)
            )
        self.assertEqual(
            (min(sizes), bench.outbox.refused, bench.outbox.dropped), (max(sizes), 420 - stored, 0)
        )
        bench.connect()
        delivered = 0
        for _ in range(1000):
            for packet_id, _, _ in bench.sent(2):
                delivered += 1
                bench.stream.say(puback(packet_id))
        self.assertEqual((delivered, bench.client.is_drained()), (stored, True))

    def test_06_bounded_and_per_topic_the_newest(self):
        """esp-idf#9090"""
        bench = Bench(blocks=8, outbox_class=NewestPerTopic)
        for number in range(300):
            topic = b"rare" if number == 7 else b"often"
            self.assertEqual(bench.client.publish(topic, b"%04d" % number + bytes(96)), status.OK)
        bench.poll(2).stream.take()
        bench.stream.say(encode("CONNACK"))
        seen = {}
        for _ in range(1000):
            for _, fields in decode_all(bench.poll().stream.take()):
                seen[fields["topic"]] = fields["payload"][:4]
                bench.stream.say(puback(fields["packet_id"]))
        self.assertTrue(bench.client.is_drained())
        self.assertEqual(seen, {b"rare": b"0007", b"often": b"0299"})

    def test_07_publish_state_is_restored_after_a_reboot(self):
        """coreMQTT#271"""
        bench = connected().publish(b"a", b"b", b"c")
        bench.sent()
        bench.say(puback(2))
        bench.publish(b"d")  # its record carries the acknowledgement
        bench.boot()
        bench.connect(encode("CONNACK", session_present=1))
        self.assertEqual(bench.sent(), [(1, True, b"a"), (3, True, b"c"), (4, True, b"d")])

    def test_08_late_acknowledgements_make_no_resends_pile_up(self):
        """micropython-mqtt#54"""
        bench = connected(keep_alive_s=20).publish(*[b"%d" % number for number in range(16)])
        self.assertEqual(len(bench.sent()), 16)
        for _ in range(5_900):  # a minute, the server answering pings only
            if bench.poll().stream.length:
                self.assertEqual(kinds(bench), ["PINGREQ"])
                bench.stream.say(encode("PINGRESP"))
        self.assertEqual(
            (bench.session.sent, bench.session.redelivered, bench.session.connects), (16, 0, 1)
        )
        bench.say(b"".join([puback(1 + seq) for seq in range(16)]), 40)
        self.assertEqual((bench.client.is_drained(), bench.session.ignored), (True, 0))

    def test_09_a_big_incoming_packet_is_skipped_and_the_connection_stays(self):
        """micropython-mqtt#151"""
        bench = connected()
        bench.say(encode("PUBLISH", topic=b"a/b", payload=bytes(20_000), qos=1, packet_id=5), 1500)
        self.assertEqual(
            (bench.session.skipped, bench.client.is_connected(), kinds(bench)),
            (1, True, ["PUBACK"]),
        )
        bench.say(encode("PUBLISH", topic=b"a/b", payload=b"x"))
        self.assertEqual((bench.session.received, len(bench.session.buffer)), (1, 256))

    def test_10_a_duplicate_can_be_told_by_its_identifier(self):
        """micropython-mqtt#39"""
        bench, heard = connected().publish(*[b"%d" % number for number in range(8)]), {}
        for _ in range(5):
            for packet_id, dup, payload in bench.sent():
                self.assertEqual(
                    (dup, heard.get(packet_id, payload)), (packet_id in heard, payload)
                )
                heard[packet_id] = payload
            bench.drop()
            reconnected(bench)
        self.assertEqual(heard, {1 + number: b"%d" % number for number in range(8)})

    def test_11_blocking_is_never_switched_and_nothing_now_is_no_error(self):
        """micropython-lib#363: what TLS sockets do not stand. The stream needs write, readinto and
        close, and no more.
        """
        bench = Bench()
        link = bench.client._link
        used = []

        class Strict:
            def __init__(self, stream):
                self._stream = stream

            def __getattr__(self, name):
                used.append(name)
                if name not in ("write", "readinto", "close"):
                    raise AttributeError(name)
                return getattr(self._stream, name)

        bench.client._link = lambda: Strict(link())
        bench.connect().publish(b"a")
        bench.sent()
        bench.say(puback(1)).poll(1000)
        bench.client.close()
        self.assertEqual(
            (sorted(set(used)), bench.client.is_drained()), (["close", "readinto", "write"], True)
        )
        self.assertEqual((bench.client.failures, bench.session.connects), (0, 1))

    def test_12_keep_alive_is_pinged_by_itself_before_it_is_over(self):
        """micropython-lib#909"""
        bench = connected(keep_alive_s=30)
        start, pings = bench.now_ms, []
        for _ in range(12_000):
            if bench.poll().stream.length:
                self.assertEqual(kinds(bench), ["PINGREQ"])
                pings.append(bench.now_ms - start)
                start = bench.now_ms
                bench.stream.say(encode("PINGRESP"))
        self.assertEqual((len(pings), bench.session.connects), (5, 1))
        self.assertTrue(22_000 <= min(pings) and max(pings) <= 30_000, pings)

    def test_13_no_length_on_the_wire_allocates(self):
        """MiniMQTT#107"""
        for first in range(0x20, 0xE0, 0x10):
            bench = connected(keep_alive_s=0)
            sizes = (len(bench.session.buffer), len(bench.session.tx))
            bench.say(
                bytes([first, 0xFF, 0xFF, 0xFF, 0x7F]) + bytes([0, 3]) + b"a/b" + bytes(300), 10
            )
            self.assertEqual((len(bench.session.buffer), len(bench.session.tx)), sizes)

    def test_13_a_partial_send_is_noticed_and_goes_on(self):
        """MiniMQTT PR#231"""
        for room in (1, 2, 3, 7, 50):
            bench = Bench(room=room).connect().publish(b"x" * 100)
            bench.client.publish(TOPIC, b"y", qos=0)
            heard = decode_all(bench.poll(400).stream.take())
            self.assertEqual([fields["payload"] for _, fields in heard], [b"y", b"x" * 100])

    def test_14_disconnect_and_ping_on_a_dead_link_return_at_once(self):
        """micropython-lib#716: one try each, then close() closes and the ping is given up after
        response_ms.
        """
        bench = connected(keep_alive_s=20)
        bench.stream.room = 0
        calls = logged_writes(bench)
        first = bench.stream
        bench.client.close()
        self.assertEqual(([data for _, data in calls], first.closed), ([b"\xe0\x00"], True))
        bench = connected(keep_alive_s=20)
        bench.stream.room = 0
        calls, first = logged_writes(bench), bench.stream
        polls = 0
        while not first.closed:
            bench.poll()
            polls += 1
            self.assertTrue(len(calls) <= polls + 1)  # never a loop around write()
        self.assertEqual((calls[0], bench.client.last_error), ((0, b"\xc0\x00"), status.TIMED_OUT))

    def test_14_disconnect_on_a_broken_link_raises_nothing(self):
        """micropython-lib#1070"""
        bench = connected().publish(b"kept")
        bench.poll(4)
        bench.stream.broken = True
        self.assertEqual(bench.client.close(), status.OK)
        self.assertEqual((bench.client.is_connected(), bench.client.is_drained()), (False, False))

    def test_15_offline_messages_survive_a_power_cut_in_the_middle_of_any_write(self):
        """mipy_esp#1"""
        for mode in CUT_MODES:
            for operation in range(1, 12):
                bench, stored = Bench(), []
                bench.flash.cut_at, bench.flash.cut_mode = bench.flash.operations + operation, mode
                try:
                    for number in range(20):
                        bench.publish(b"%d" % number)
                        stored.append(b"%d" % number)
                except PowerCut:
                    pass
                bench.flash.cut_at = 0
                bench.boot()
                delivered = [payload for _, _, payload in bench.connect().sent(80)]
                self.assertEqual(delivered[: len(stored)], stored[:16], (mode, operation))
                # the one in hand: whole or absent
                self.assertTrue(len(delivered) - len(stored) <= 1, (mode, operation))

    def test_15_flash_wear_is_one_program_a_message_and_an_erase_a_sector(self):
        """esp_mqtt#123"""
        bench = connected(blocks=16)
        flash = bench.flash
        programs, erases = flash.programs, flash.erases
        for number in range(400):
            bench.publish(b"%04d" % number + bytes(60)).poll(2)
            bench.say(puback(1 + number), 2).stream.take()
        self.assertTrue(bench.client.is_drained())
        self.assertTrue(flash.programs - programs <= 408, flash.programs - programs)
        self.assertTrue(flash.erases - erases <= 12, flash.erases - erases)


class TestNextInLine(unittest.TestCase):
    def test_a_queue_in_ram_has_a_bound_that_it_tells(self):
        """umqtt.robust2#1"""
        outbox = RamOutbox(4, 64)
        client = Client(None, Session(outbox, b"d"))
        results = [client.publish(b"t", b"x") for _ in range(6)]
        self.assertEqual((results, outbox.refused), ([status.OK] * 4 + [status.FULL] * 2, 2))

    def test_every_stream_is_closed_before_the_next_is_opened(self):
        """micropython-lib#556: sockets that are not freed end in ENOMEM."""
        bench, streams = Bench(), []
        for fault in ("ended", "broken", "garbage", "refused") * 5:
            for _ in range(8000):
                if bench.poll().stream and not bench.stream.closed:
                    break
            streams.append(bench.stream)
            bench.poll(2).stream.say(encode("CONNACK", code=5 if fault == "refused" else 0))
            bench.poll(3)
            if fault == "garbage":
                bench.say(b"\xf0\x00", 2)
            elif fault != "refused":
                setattr(bench.stream, fault, True)
            bench.poll(3)
            self.assertEqual([stream.closed for stream in streams], [True] * len(streams), fault)
        self.assertEqual(bench.links, len(streams))

    def test_subscriptions_are_there_again_after_the_broker_forgot_them(self):
        """micropython-lib#321"""
        bench = Bench()
        bench.session.subscribe(b"a/#", 1)
        bench.connect().say(encode("SUBACK", packet_id=32768, codes=[1]))
        bench.drop()
        bench.poll(60).stream.take()
        bench.say(encode("CONNACK", session_present=0))
        self.assertEqual(
            decode_all(bench.stream.take())[0],
            ("SUBSCRIBE", {"packet_id": 32768, "filters": [(b"a/#", 1)]}),
        )

    def test_a_broker_restart_is_survived_however_long_it_takes(self):
        """micropython-lib#102"""
        bench = connected().publish(b"kept")
        bench.sent()
        link, refusals = bench.client._link, [0]

        def refused():
            refusals[0] += 1
            raise OSError(111)

        bench.client._link = refused
        bench.drop()
        bench.poll(60_000)
        self.assertTrue(10 <= refusals[0] <= 40, refusals[0])
        self.assertEqual(bench.client.last_error, 111)
        bench.client._link = link
        self.assertEqual(reconnected(bench).sent(), [(1, True, b"kept")])

    def test_the_collectors_word_and_not_a_number_in_a_metal_box_says_what_arrived(self):
        """async-mqtt-client#213"""
        bench = connected("collector", blocks=8).publish(b"a", b"b", b"c")
        bench.poll(200)
        for packet_id, _, _ in bench.sent():
            bench.say(puback(packet_id))
        self.assertFalse(bench.client.is_drained())
        bench.say(confirmation(1))
        self.assertEqual(
            (bench.session.through, bench.outbox.oldest_seq, bench.client.is_drained()),
            (1, 2, False),
        )
        bench.say(confirmation(2))
        self.assertTrue(bench.client.is_drained())


if __name__ == "__main__":
    unittest.main()
