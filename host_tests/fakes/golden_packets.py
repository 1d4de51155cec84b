"""One table of control packets for encoders, the reader and the session: name, bytes, section of
MQTT 3.1.1 (or the seed).
"""

GOLDEN = (
    ("PUBLISH QoS 1 a/b id 10, seed 000", b"\x32\x07\x00\x03a/b\x00\x0a", "3.3"),
    ("PUBLISH QoS 0", b"\x30\x06\x00\x03a/bx", "3.3"),
    ("CONNACK accepted", b"\x20\x02\x00\x00", "3.2"),
    ("CONNACK accepted, session present", b"\x20\x02\x01\x00", "3.2"),
    ("PUBACK id 10", b"\x40\x02\x00\x0a", "3.4"),
    ("SUBACK id 1 granted 1", b"\x90\x03\x00\x01\x01", "3.9"),
    ("PINGREQ", b"\xc0\x00", "3.12"),
    ("PINGRESP", b"\xd0\x00", "3.13"),
    ("DISCONNECT", b"\xe0\x00", "3.14"),
    ("PUBLISH of 321 bytes remaining", b"\x30\xc1\x02\x00\x01t" + bytes(318), "2.2.3"),
)

# remaining length and its bytes; 321 is C1 02 by the algorithm of the seeds (their "82 41" would
# read as 8,322)
LENGTHS = (
    (0, b"\x00"),
    (127, b"\x7f"),
    (128, b"\x80\x01"),
    (321, b"\xc1\x02"),
    (16_383, b"\xff\x7f"),
    (16_384, b"\x80\x80\x01"),
    (2_097_151, b"\xff\xff\x7f"),
    (2_097_152, b"\x80\x80\x80\x01"),
    (268_435_455, b"\xff\xff\xff\x7f"),
)
