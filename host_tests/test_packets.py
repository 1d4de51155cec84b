import unittest

from golden_packets import LENGTHS
from outpost import packets


def encoded(encode, *arguments):
    buf = bytearray(256)
    return bytes(buf[: encode(buf, *arguments)])


class TestEncode(unittest.TestCase):
    def test_remaining_length_at_every_border(self):
        for length, expected in LENGTHS:
            self.assertEqual(encoded(packets.put_fixed_header, 0, 0x30, length), b"\x30" + expected)

    def test_connect_with_everything(self):
        packet = encoded(packets.encode_connect, b"dev", 60, False, (b"w", b"gone", 1, True), b"me", b"pw")
        expected = b"\x10\x20\x00\x04MQTT\x04\xec\x00\x3c\x00\x03dev\x00\x01w\x00\x04gone\x00\x02me\x00\x02pw"
        self.assertEqual(packet, expected)
        self.assertTrue(packets.connect_length(b"dev", (b"w", b"gone", 1, True), b"me", b"pw") >= len(expected))

    def test_connect_clean_and_bare(self):
        self.assertEqual(encoded(packets.encode_connect, b"d", 0, True), b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01d")

    def test_connect_user_without_password(self):
        packet = encoded(packets.encode_connect, b"d", 5, False, None, b"me")
        self.assertEqual(packet, b"\x10\x11\x00\x04MQTT\x04\x80\x00\x05\x00\x01d\x00\x02me")

    def test_connect_3_1(self):
        packet = encoded(packets.encode_connect, b"d", 5, True, None, None, None, 3)
        self.assertEqual(packet, b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x05\x00\x01d")

    def test_subscribe_acknowledgement_and_empty(self):
        self.assertEqual(encoded(packets.encode_subscribe, 0, 10, b"a/b", 1), b"\x82\x08\x00\x0a\x00\x03a/b\x01")
        self.assertEqual(encoded(packets.encode_acknowledgement, 0, packets.PUBACK, 0x1234), b"\x40\x02\x12\x34")
        self.assertEqual(encoded(packets.encode_empty, 0, packets.PINGREQ), b"\xc0\x00")


if __name__ == "__main__":
    unittest.main()
