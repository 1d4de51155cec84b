"""A Bench whose session speaks MQTT 5.0: what tests of `level5.py` share."""

from bench_client import KINDS, Bench, split
from outpost.level5 import over
from packets5 import connack, publish_parts


class Bench5(Bench):
    """A Bench whose session speaks MQTT 5.0."""

    def boot(self):
        plain = KINDS[self.mode]
        KINDS[self.mode] = over(plain)
        try:
            Bench.boot(self)
        finally:
            KINDS[self.mode] = plain


def connected(properties=b"", mode="broker", **options):
    bench = Bench5(mode, options=options)
    bench.connect(connack(properties))
    return bench


def sent(bench, polls=8):
    """[(topic, identifier, properties, payload)] of the PUBLISH packets of the next polls."""
    bench.poll(polls)
    packets = split(bench.stream.take())
    return [publish_parts(first, body) for first, body in packets if first & 0xF0 == 0x30]
