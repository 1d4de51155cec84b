import unittest

from golden_packets import LENGTHS
from outpost import packets
from outpost.connect_packet import encode_connect


class TestEncode(unittest.TestCase):
    def test_remaining_length_at_every_border(self):
        buf = bytearray(8)
        for length, expected in LENGTHS:
            end = packets.put_header(buf, 0x30, length)
            self.assertEqual(bytes(buf[:end]), b"\x30" + expected)

    def test_connect_with_everything(self):
        packet = encode_connect(b"dev", 60, False, (b"w", b"gone", 1, True), b"me", b"pw")
        expected = (
            b"\x10\x20\x00\x04MQTT\x04\xec\x00\x3c\x00\x03dev"
            b"\x00\x01w\x00\x04gone\x00\x02me\x00\x02pw"
        )
        self.assertEqual(packet, expected)

    def test_will_with_every_qos_and_retain(self):
        for qos in (0, 1, 2):
            for retain in (False, True):
                packet = encode_connect(b"d", 0, True, (b"w", b"m", qos, retain))
                self.assertEqual(packet[9], 0x06 | qos << 3 | (0x20 if retain else 0))

    def test_connect_clean_and_bare(self):
        self.assertEqual(
            encode_connect(b"d", 0, True), b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01d"
        )
        self.assertEqual(
            encode_connect(b"", 0, True), b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00"
        )

    def test_connect_user_without_password(self):
        self.assertEqual(
            encode_connect(b"d", 5, user=b"me"),
            b"\x10\x11\x00\x04MQTT\x04\x80\x00\x05\x00\x01d\x00\x02me",
        )

    def test_connect_3_1(self):
        self.assertEqual(
            encode_connect(b"d", 5, True, level=3),
            b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x05\x00\x01d",
        )

    def test_connect_refuses_what_the_server_would(self):
        for client_id, options in (
            (b"d", {"password": b"secret"}),
            (b"", {}),
            (b"", {"clean": True, "level": 3}),
            (bytes(65_536), {}),
        ):
            with self.assertRaises(ValueError):
                encode_connect(client_id, **options)


if __name__ == "__main__":
    unittest.main()
