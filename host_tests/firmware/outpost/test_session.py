"""A session driven by bytes alone, as h11 is: no client, no stream, no clock. What the server sends
goes into receive(), what next_packet() starts is what the server gets."""

import unittest

from outpost import status
from outpost.connect_packet import encode_connect
from outpost.level5 import over
from outpost.packets import packet_id_of
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.streaming import StreamingSession
from outpost.subscribing import SubscribingSession

CONNACK = b"\x20\x02\x00\x00"
PINGREQ = b"\xc0\x00"


def make(kind=Session, outbox=None, **options):
    one = kind(outbox or RamOutbox(16, 64), b"dev", **options)
    one.told = []
    one.on_acknowledged = one.told.append
    return one


def written(one):
    """The bytes that the server gets now."""
    out = b""
    while True:
        left = one.next_packet()
        if not left:
            return out
        out += bytes(one.out[one.out_at : one.out_at + left])
        one.out_end = 0


def say(one, data):
    """Bytes from the server: OK, or the status to close the stream with. Drops the answers."""
    at = 0
    while at < len(data):
        at = one.receive(data, at, len(data))
        if at < 0:
            return at
        written(one)
    return status.OK


def opened(kind=Session, **options):
    one = make(kind, **options)
    one.open()
    written(one)
    return one


def connected(kind=Session, **options):
    one = opened(kind, **options)
    assert say(one, CONNACK) == status.OK
    return one


def publish(one, count):
    for _ in range(count):
        assert one.publish(b"t", b"") == status.OK


def sent(one):
    """[(number, dup)] of the PUBLISH packets that go out now; each has 7 bytes."""
    data = written(one)
    found = []
    for at in range(0, len(data), 7):
        assert data[at] & 0xF7 == 0x32 and data[at + 1] == 5, data
        found.append(((data[at + 5] << 8 | data[at + 6]) - 1, bool(data[at] & 8)))
    return found


def numbers(one):
    return [seq for seq, _ in sent(one)]


def acknowledgement(first, seq):
    return bytes([first, 2, packet_id_of(seq) >> 8, packet_id_of(seq) & 255])


def puback(seq):
    return acknowledgement(0x40, seq)


class TestConnection(unittest.TestCase):
    def test_connect_goes_out_first(self):
        one = make()
        one.open()
        self.assertEqual(written(one), encode_connect(b"dev", 60))

    def test_connack_refusals_are_told_with_their_code(self):
        for code in range(1, 6):
            one = opened()
            self.assertEqual(say(one, b"\x20\x02\x00" + bytes([code])), status.REFUSED)
            self.assertEqual((one.return_code, one.connects), (code, 0))

    def test_a_refusal_with_session_present_is_one_too(self):
        """L7: mosquitto above its max_keepalive."""
        one = opened()
        self.assertEqual(say(one, b"\x20\x02\x01\x02"), status.REFUSED)
        self.assertEqual((one.return_code, one.connects, one.session_present), (2, 0, False))

    def test_anything_but_a_sound_connack_first_is_a_protocol_error(self):
        unsound = (
            b"\x20\x02\x02\x00", b"\x20\x03\x00\x00\x00", b"\x20\x00",
            b"\x20\x01\x00", b"\xd0\x00", b"\x40\x02\x00\x01", b"\x21\x02\x00\x00",
            b"\x30\x04\x00\x01ab",
        )  # fmt: skip
        for data in unsound:
            self.assertEqual(say(opened(), data), status.PROTOCOL_ERROR, data)

    def test_session_present_is_told(self):
        for flag in (0, 1):
            one = opened()
            say(one, b"\x20\x02" + bytes([flag]) + b"\x00")
            found = (one.session_present, one.connects, one.state)
            self.assertEqual(found, (bool(flag), 1, status.CONNECTED))

    def test_reserved_types_and_flags_are_protocol_errors(self):
        for first in b"\x00\xf0\x10\x41\x91\xd1\x50\x60\x70\xc0\xe0\x90\xb0\x20":
            data = bytes([first]) + b"\x02\x00\x01"
            self.assertEqual(say(connected(), data), status.PROTOCOL_ERROR)

    def test_what_is_left_of_a_session_that_took_qos_2_is_no_error(self):
        """The server repeats PUBREL after each CONNACK: no message would ever go out again."""
        for kind in (Session, over(Session)):
            one = make(kind)
            publish(one, 1)
            one.open()
            written(one)
            is_5 = kind is not Session
            self.assertEqual(say(one, b"\x20\x03\x01\x00\x00" if is_5 else b"\x20\x02\x01\x00"), 0)
            self.assertEqual(say(one, b"\x62\x02\x00\x07"), status.OK)
            self.assertEqual((one.skipped, one.state), (1, status.CONNECTED))
            self.assertEqual(say(one, b"\x40\x02\x00\x01"), status.OK)
            self.assertEqual(one.told, [0])

    def test_ping_goes_out_in_time_and_a_missing_answer_ends_the_connection(self):
        one = connected(keep_alive_s=10)
        one.now_ms = 7499
        self.assertEqual(written(one), b"")
        one.now_ms = one.check_ms = 7515  # the next tick
        self.assertEqual(written(one), PINGREQ)
        one.now_ms = 7515 + 7499
        self.assertFalse(one.settle(True))
        one.now_ms = 7515 + 7500
        self.assertEqual(one.settle(True), status.TIMED_OUT)

    def test_of_a_long_keep_alive_response_ms_is_what_a_missing_answer_may_take(self):
        one = connected(keep_alive_s=600)
        one.now_ms = one.check_ms = 450_000
        self.assertEqual(written(one), PINGREQ)
        one.now_ms += 9_999
        self.assertFalse(one.settle(True))
        one.now_ms += 1
        self.assertEqual(one.settle(True), status.TIMED_OUT)

    def test_pingresp_in_time_keeps_it(self):
        one = connected(keep_alive_s=10)
        one.now_ms = 8000
        self.assertEqual(written(one), PINGREQ)
        say(one, b"\xd0\x00")
        one.now_ms = 30_000
        self.assertFalse(one.settle(True))

    def test_connack_that_never_comes_times_out(self):
        one = make(response_ms=3000)
        one.now_ms = 5
        one.open()
        written(one)
        one.now_ms = 3004
        self.assertFalse(one.settle(True))
        one.now_ms = 3005
        self.assertTrue(one.settle(True))

    def test_a_packet_that_the_stream_does_not_take_times_out(self):
        one = connected(keep_alive_s=0)
        publish(one, 1)
        self.assertTrue(one.next_packet() > 0)
        one.now_ms = 9_999
        self.assertFalse(one.settle(True))
        one.now_ms = 10_000
        self.assertTrue(one.settle(True))

    def test_a_lost_connection_has_no_deadline(self):
        one = opened()
        one.lost(status.LINK_LOST)
        one.now_ms = 60_000
        self.assertFalse(one.settle(True))

    def test_disconnect_goes_out_between_packets_only(self):
        one = connected()
        publish(one, 1)
        one.next_packet()
        self.assertFalse(one.leave())
        one.out_end = 0
        self.assertTrue(one.leave())
        self.assertEqual(bytes(one.out[: one.out_end]), b"\xe0\x00")

    def test_a_message_that_nobody_asked_for_is_counted(self):
        one = connected()
        self.assertEqual(say(one, b"\x32\x07\x00\x03a/b\x00\x0a"), status.OK)
        self.assertEqual((one.skipped, written(one)), (1, b""))


class TestPublish(unittest.TestCase):
    def test_a_topic_is_utf_8(self):
        """C5: mosquitto closes on any other, each time that it comes."""
        one = connected()
        for topic in (
            b"room/21\xb0C", b"\xc0\xaf",
            b"\xed\xa0\x80", b"a\xf4\x90\x80\x80", b"\xe2\x82", b"a\x00",
            b"a/#", b"+", b"gr\xc3\xbcn/#", b"",
        ):  # fmt: skip
            for kind in (bytes, bytearray):
                for qos in (0, 1):
                    self.assertEqual(one.publish(kind(topic), b"", qos), status.BAD_TOPIC, topic)
        self.assertEqual((one.outbox.next_seq, written(one)), (0, b""))
        for topic in (
            "gr\u00fcn/21\u00b0C".encode(),
            b"\xf0\x9f\x8c\xa1",
            b"/",
            b"//",
            b"$x",
            b" ",
        ):
            for kind in (bytes, bytearray):
                self.assertEqual(one.publish(kind(topic), b""), status.OK, topic)

    def test_a_length_that_the_payload_does_not_have_is_refused(self):
        """C10: it would store, and send, what lies beside the payload in memory."""
        one = connected()
        for payload, length in (
            (b"abc", 4), (bytearray(b"abc"), 300), (b"", 1), (b"abc", -1), (memoryview(b"abc"), 4),
        ):  # fmt: skip
            for qos in (0, 1):
                self.assertEqual(one.publish(b"t", payload, qos, length=length), status.BAD_LENGTH)
        self.assertEqual((one.outbox.next_seq, written(one)), (0, b""))
        for length in range(4):
            self.assertEqual(one.publish(b"t", memoryview(b"abc"), length=length), status.OK)

    def test_a_payload_of_characters_is_refused(self):
        """MicroPython would send as many of its bytes as it has characters."""
        one = make()
        for topic, payload in ((b"t", "gr\u00fcn"), ("t", b"green")):
            for qos in (0, 1):
                with self.assertRaises(TypeError) as got:
                    one.publish(topic, payload, qos)
                self.assertIn("must be bytes: write text.encode()", str(got.exception))
        self.assertEqual(one.outbox.next_seq, 0)

    def test_the_order_of_other_clients_is_told_and_not_guessed(self):
        """umqtt.simple and mqtt_as have `retain` third, where this client has qos."""
        one = connected()
        self.assertEqual(one.publish(b"t", b"first"), status.OK)  # a known topic is checked as well
        for qos in (True, False, "1", None, 1.0):
            with self.assertRaises(TypeError) as got:
                one.publish(b"t", b"x", qos)
            self.assertIn("qos must be 0, 1 or 2, not " + repr(qos), str(got.exception))
        for qos in (2, 3, -1):
            self.assertEqual(one.publish(b"t", b"x", qos), status.BAD_QOS)
        self.assertEqual(one.outbox.next_seq, 1)

    def test_the_whole_payload_goes_out_unless_a_length_is_given(self):
        for payload in (b"hello", bytearray(b"hello"), memoryview(b"hello")):
            one = connected()
            self.assertEqual(one.publish(b"t", payload), status.OK)
            self.assertEqual(one.publish(b"t", payload, length=2), status.OK)
            self.assertEqual(one.publish(b"t", payload, 1, True), status.OK)
            self.assertEqual([one.outbox.load(seq) for seq in range(3)], [status.OK] * 3)
            self.assertEqual(one.outbox.payload_length, 5)
            self.assertEqual(one.outbox.flags, 0x50)


class TestOptions(unittest.TestCase):
    def test_texts_that_no_server_takes_are_named_at_set_up(self):
        """C5: a server would close each connection."""
        for topic in (b"", b"a/#", b"+", b"a\x00", b"\xb0C"):
            with self.assertRaises(ValueError):
                make(will=(topic, b"gone", 0, False))
        with self.assertRaises(ValueError):
            make(user=b"\xff", password=b"")
        with self.assertRaises(ValueError):
            Session(RamOutbox(), b"board\xff")
        make(will=("gr\u00fcn".encode(), b"\x00\xff", 0, False), user=b"#", password=b"\xff")

    def test_texts_that_are_no_bytes_are_named_and_not_shown(self):
        """In MicroPython some would go out, with a length in characters."""
        for name, options in (
            ("client_id", {"client_id": "kitchen"}),
            ("user", {"user": "board"}),
            ("password", {"user": b"board", "password": "p\u00e4ss"}),
            ("will's topic", {"will": ("t", b"gone", 0, False)}),
            ("will's message", {"will": (b"t", "gone", 0, False)}),
            ("a will is", {"will": (b"t", b"gone", 0)}),
            ("a will is", {"will": b"t"}),
            ("will QoS", {"will": (b"t", b"gone", -1, False)}),
        ):
            client_id = options.pop("client_id", b"dev")
            with self.assertRaises(ValueError) as caught:
                Session(RamOutbox(), client_id, **options)
            self.assertTrue(name in str(caught.exception), caught.exception)
            self.assertFalse("p\u00e4ss" in str(caught.exception))

    def test_an_option_out_of_range_is_named_at_set_up(self):
        for name, values in (
            ("window", (0, 17, 2.5)),
            ("keep_alive_s", (-1, 65_536, None, "60")),
            ("rx_bytes", (3,)),
            ("in_flight_bytes", (-1,)),
            ("response_ms", (0,)),
            ("level", (2, 5)),
        ):
            for value in values:
                try:
                    make(**{name: value})
                    raise AssertionError("%s %r was taken" % (name, value))
                except ValueError as error:
                    self.assertTrue(name in str(error) and str(value) in str(error), error)

    def test_an_option_that_does_not_exist_is_named(self):
        for kind in (Session, SubscribingSession, StreamingSession):
            try:
                kind(RamOutbox(), b"dev", keep_alive=60)
                raise AssertionError("it was taken")
            except TypeError as error:
                self.assertTrue("keep_alive" in str(error), error)


class TestWindow(unittest.TestCase):
    def test_no_more_than_the_window_in_flight(self):
        one = connected(window=4)
        publish(one, 9)
        self.assertEqual(numbers(one), [0, 1, 2, 3])
        one.receive(puback(1), 0, 4)
        self.assertEqual(numbers(one), [])
        one.receive(puback(0), 0, 4)
        self.assertEqual(numbers(one), [4, 5])

    def test_unasked_repeated_and_foreign_acknowledgements_only_count(self):
        one = connected(window=4)
        publish(one, 2)
        written(one)
        strange = b"\x40\x02\x00\x00", b"\x40\x02\x00\x09", b"\x40\x02\xff\xff"
        for data in strange + (puback(1), puback(1)):
            self.assertEqual(say(one, data), status.OK)
        self.assertEqual((one.ignored, one.base, one.told), (4, 0, [1]))

    def test_an_acknowledgement_may_come_byte_by_byte(self):
        outbox = RamOutbox(16, 64)
        outbox.oldest_seq = outbox.next_seq = 0x1233
        one = connected(outbox=outbox)
        publish(one, 1)
        self.assertEqual(numbers(one), [0x1233])
        for byte in puback(0x1233):
            self.assertEqual(one.told, [])
            self.assertEqual(say(one, bytes([byte])), status.OK)
        self.assertEqual((one.told, one.ignored), ([0x1233], 0))

    def test_after_a_drop_the_unacknowledged_go_again_with_dup_in_order(self):
        one = connected(window=8)
        publish(one, 5)
        written(one)
        say(one, puback(0) + puback(2))
        one.lost(status.LINK_LOST)
        one.open()
        written(one)
        one.receive(b"\x20\x02\x01\x00", 0, 4)
        self.assertEqual(sent(one), [(1, True), (3, True), (4, True)])
        publish(one, 1)
        self.assertEqual(sent(one), [(5, False)])

    def test_ids_wrap_twice_with_a_stuck_message_and_none_is_reused_or_0(self):
        one = connected(window=16)
        total, stuck = 0, 0
        while total < 140_000:
            publish(one, 16)
            first = one.next_send
            written(one)
            total += one.next_send - first
            ids = [packet_id_of(seq) for seq in range(one.base, one.next_send)]
            assert 0 not in ids and len(set(ids)) == len(ids) and max(ids) <= 65535
            for seq in range(first + 1, one.next_send):
                one.receive(puback(seq), 0, 4)
            stuck += one.base == first  # held back while all that follow it are acknowledged
            one.receive(puback(first), 0, 4)
        self.assertEqual((one.base, stuck), (total, total // 16))


class TestInAndOut(unittest.TestCase):
    """Whatever the pieces in which the bytes arrive, the same bytes go out."""

    DATA = (
        CONNACK + b"\x32\x08\x00\x01a\x00\x07one" + b"\x30\x05\x00\x01btw" + puback(0)
        + b"\x32\x08\x00\x01a\x00\x08two" + b"\xd0\x00" + puback(1)
    )  # fmt: skip
    OUT = (
        b"\x32\x05\x00\x01t\x00\x01",
        b"\x32\x05\x00\x01t\x00\x02",
        b"\x40\x02\x00\x07",
        b"\x40\x02\x00\x08",
    )

    def driven(self, size):
        one, got, out, at = make(SubscribingSession), [], [], 0
        one.on_message = lambda m: got.append(bytes(m.buffer[m.payload_at : m.length]))
        one.open()
        written(one)
        publish(one, 2)
        while at < len(self.DATA):
            end = min(at + size, len(self.DATA))
            while at < end:
                at = one.receive(self.DATA, at, end)
                assert at >= 0, at
                while one.next_packet():
                    out.append(bytes(one.out[one.out_at : one.out_end]))
                    one.out_end = 0
        return got, out, one.told

    def test_in_pieces_of_any_size(self):
        for size in range(1, len(self.DATA) + 1):
            got, out, told = self.driven(size)
            self.assertEqual((got, told), ([b"one", b"tw", b"two"], [0, 1]), size)
            self.assertEqual(sorted(out), sorted(self.OUT), size)

    def test_a_packet_is_written_from_where_the_stream_stopped(self):
        one = connected()
        publish(one, 1)
        whole, out = b"\x32\x05\x00\x01t\x00\x01", b""
        for left in range(7, 0, -1):
            self.assertEqual(one.next_packet(), left)
            out += bytes(one.out[one.out_at : one.out_at + 1])
            one.out_at += 1
        one.out_end = 0
        self.assertEqual((out, one.next_packet()), (whole, 0))


if __name__ == "__main__":
    unittest.main()
