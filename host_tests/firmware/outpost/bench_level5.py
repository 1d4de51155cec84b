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

    def away(self, days):
        """No network for so long: each attempt fails."""
        link, self.client._link = self.client._link, no_network
        self.drop()
        for _ in range(days * 24):
            self.now_ms += 3_600_000
            self.poll()
        self.client._link = link


def no_network():
    raise OSError(-43)


def connected(properties=b"", mode="broker", **options):
    bench = Bench5(mode, options=options)
    bench.connect(connack(properties))
    return bench


def sent(bench, polls=8):
    """[(topic, identifier, properties, payload)] of the PUBLISH packets of the next polls."""
    bench.poll(polls)
    packets = split(bench.stream.take())
    return [publish_parts(first, body) for first, body in packets if first & 0xF0 == 0x30]
