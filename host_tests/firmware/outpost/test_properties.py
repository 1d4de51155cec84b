"""The 27 properties of MQTT 5.0 in every packet that a server sends: whole, byte by byte, cut off
at each byte, doubled and misplaced. Each has its stated outcome."""

import unittest

from bench_level5 import Bench5, connected, sent
from outpost import status
from outpost.mqtt5.properties import TABLE, check, find
from packets5 import CARRIERS, OFTEN, PROPERTIES, carried, length_of, sample

WHERE = {"CONNACK": 16, "PUBLISH": 4, "ACK": 32, "DISCONNECT": 64}


def allowed(number, kind):
    return ("ACK" if kind == "PUBACK" else kind) in PROPERTIES[number][1]


def told(kind, packet, chunk=None):
    """(status, DISCONNECT that went out) after that packet."""
    bench = Bench5(chunk=chunk)
    if kind == "CONNACK":
        bench.connect(packet)
        bench.poll(20 if chunk is None else 200)
        return bench.client.last_error, b""
    bench.connect(b"\x20\x03\x00\x00\x00")
    bench.poll(20)
    bench.publish(b"x")
    sent(bench)
    stream = bench.stream
    bench.say(packet, 20 if chunk is None else 400)
    return bench.client.last_error, stream.take()[-3:]


class TestEach(unittest.TestCase):
    def test_where_it_may_be_and_where_not(self):
        for kind in CARRIERS:
            for number in range(1, 0x30):
                one = sample(number) if number in PROPERTIES else bytes((number, 1))
                found = told(kind, carried(kind, one))
                if number not in PROPERTIES or not allowed(number, kind):
                    self.assertEqual(found[0], status.PROTOCOL_ERROR, (kind, number))
                    self.assertEqual(found[1], b"" if kind == "CONNACK" else b"\xe0\x01\x81")
                elif number == 0x23:
                    self.assertEqual(found[1], b"\xe0\x01\x94")
                else:
                    wanted = status.SERVER_LEFT if kind == "DISCONNECT" else 0
                    self.assertEqual(found[0], wanted, (kind, number))

    def test_doubled(self):
        for kind in CARRIERS:
            for number in PROPERTIES:
                if allowed(number, kind) and number != 0x23:
                    found = told(kind, carried(kind, sample(number) * 2))
                    is_fault = found[0] == status.PROTOCOL_ERROR
                    self.assertEqual(is_fault, number not in OFTEN, (kind, number))
                    if is_fault and kind != "CONNACK":
                        self.assertEqual(found[1], b"\xe0\x01\x82")

    def test_cut_off_at_each_byte(self):
        for name, where in WHERE.items():
            for number in PROPERTIES:
                if name not in PROPERTIES[number][1]:
                    continue
                one = sample(number)
                whole = length_of(len(one)) + one
                self.assertEqual(check(whole, 0, len(whole), where), len(whole))
                for end in range(len(whole)):
                    self.assertEqual(check(whole, 0, end, where), -0x81)
                for count in range(1, len(one)):
                    short = bytes((count,)) + one
                    found = check(short, 0, len(short), where)
                    self.assertTrue(found < 0, (name, number, count))

    def test_byte_by_byte(self):
        for kind in CARRIERS:
            numbers = [n for n in PROPERTIES if allowed(n, kind) and n != 0x23]
            packet = carried(kind, b"".join([sample(number) for number in numbers]))
            self.assertEqual(told(kind, packet, 1), told(kind, packet))

    def test_values_that_it_must_not_have(self):
        for one in (
            b"\x01\x02", b"\x24\x02", b"\x25\x02", b"\x28\x02", b"\x29\x02", b"\x2a\xff",
            b"\x21\x00\x00", b"\x27\x00\x00\x00\x00", b"\x23\x00\x00", b"\x0b\x00",
        ):  # fmt: skip
            where = 4 if one[0] in (1, 0x23, 0x0B) else 16
            whole = bytes((len(one),)) + one
            self.assertEqual(check(whole, 0, len(whole), where), -0x82, one)
        for one in (b"\x03\x00\x01\xff", b"\x03\x00\x01\x00", b"\x26\x00\x01n\x00\x02\xc0\x80",
                    b"\x0b\xff\xff\xff\xff\x01", b"\x0b\x81\x00"):  # fmt: skip
            whole = bytes((len(one),)) + one
            self.assertEqual(check(whole, 0, len(whole), 4), -0x81, one)

    def test_length_in_more_bytes_than_it_needs(self):
        """[MQTT-1.5.5-1]"""
        self.assertEqual(check(b"\x80\x00", 0, 2, 4), -0x81)

    def test_find(self):
        data = sample(1) + sample(0x26) + sample(3)
        self.assertEqual(data[find(data, 0, len(data), 3)], 0)
        self.assertEqual(find(data, 0, len(data), 3), len(sample(1) + sample(0x26)) + 1)
        self.assertEqual(find(data, 0, len(data), 2), -1)

    def test_the_table_has_27(self):
        self.assertEqual(sum([1 for n in range(0x2B) if TABLE[2 * n]]), 27)
        self.assertEqual({n for n in range(0x2B) if TABLE[2 * n]}, set(PROPERTIES))


class TestNoMatter(unittest.TestCase):
    def test_a_server_reads_what_is_whole_only(self):
        """A packet that is cut off is awaited; nothing is told yet."""
        packet = carried("PUBLISH", sample(3))
        for end in range(len(packet)):
            bench = connected()
            bench.say(packet[:end])
            self.assertEqual((bench.client.last_error, bench.session.received), (0, 0))


if __name__ == "__main__":
    unittest.main()
