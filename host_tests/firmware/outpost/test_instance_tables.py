# cpython-only: counts the fields of instances by vars()
"""No session or outbox has as many fields as its hash table has places.

MicroPython looks for a method among the fields first, from the place that the name's hash says on
to the first empty one: where none is empty, past every field. A session of MQTT 5.0 with 97 fields
took 30,000 cycles of an RP2040 more for each message than one with 98.
"""

import itertools
import unittest

from bench_client import KINDS, Bench, puback
from bench_level5 import Bench5
from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from outpost.ram_outbox import RamOutbox
from outpost.series_outbox import over
from outpost.session import Session
from outpost.state_note import NotedOutbox
from packets5 import connack

# Places that a table grows to (`py/map.c`).
SIZES = (4, 6, 8, 10, 12, 17, 23, 29, 37, 47, 59, 73, 97, 127, 167, 223)
OUTBOXES = (Outbox, NotedOutbox, DropOldest, NewestPerTopic, over(Outbox), over(DropOldest))


def used(bench):
    """After a message, its PUBACK and a new connection."""
    connack_5 = isinstance(bench, Bench5)
    for _ in range(2):
        bench.connect(connack()) if connack_5 else bench.connect()
        bench.publish(b"x").sent()
        bench.say(puback(1 + (bench.session.next_send - 1) % 65535))
        bench.drop()
    return bench


class TestTables(unittest.TestCase):
    def check(self, thing, *what):
        count = len(vars(thing))
        self.assertNotIn(count, SIZES, (what, "one field more or less"))

    def test_of_sessions(self):
        for kind, mode in itertools.product((Bench, Bench5), KINDS):
            bench = used(kind(mode))
            self.check(bench.session, kind.__name__, mode)

    def test_of_a_session_that_only_publishes(self):
        for kind in (Bench, Bench5):
            KINDS["plain"] = Session
            try:
                self.check(used(kind("plain")).session, kind.__name__)
            finally:
                KINDS.pop("plain")

    def test_of_outboxes(self):
        self.check(RamOutbox(4, 128), RamOutbox)
        for kind in OUTBOXES:
            outbox = kind(flash_in_ram(16, 256))
            self.assertEqual(outbox.format(b"01234567"), 0)
            outbox.append(b"t", b"x", 1)
            self.check(outbox, kind.__name__)


if __name__ == "__main__":
    unittest.main()
