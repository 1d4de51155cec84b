# micropython-only: CPython has no mem_total
"""The whole program with all of it on (collector mode, state and will, health, what is told of the
board, a policy for a full outbox) takes no heap while it measures, sends and is confirmed."""

import gc
import unittest

import micropython

from fake_flash import flash_in_ram
from outpost import __version__
from outpost.client import Client
from outpost.durable import DurableSession
from outpost.policies import DropOldest
from station import flash_wear
from station.about import About
from station.clock import Clock
from station.health import Health
from station.state import State
from station.station import Station
from station.telemetry import Pack
from station.unheard import Unheard

STREAM = b"3fa9c1d2"
TOPIC = b"outpost/b/durable"


class Reading:
    def __init__(self, name, value):
        self.name, self.unit, self.exponent, self.value = name, b"dBm", 0, value

    def read(self):
        return self.value


class Server:
    """Acknowledges each PUBLISH of QoS 1; without heap once it is made."""

    def __init__(self):
        self.out, self.end = bytearray(64), 0
        self.states = 0

    def write(self, buf, offset, length):
        if buf[offset] == 0x10:
            self.say(0x20, 0)
        elif buf[offset] == 0x82:
            self.say(0x90, buf[offset + 2] << 8 | buf[offset + 3])
        elif buf[offset] & 0x36 == 0x32:
            self.acknowledge(buf, offset + 2 + (buf[offset + 1] >> 7))
        elif buf[offset] & 0xF0 == 0x30:
            self.states += 1
        return length

    def acknowledge(self, buf, at):
        at += 2 + (buf[at] << 8) + buf[at + 1]
        self.say(0x40, buf[at] << 8 | buf[at + 1])

    def say(self, first, word):
        self.put(first)
        self.put(2 + (first == 0x90))
        self.put(word >> 8)
        self.put(word & 255)
        if first == 0x90:
            self.put(0)

    def put(self, byte):
        self.out[self.end] = byte
        self.end += 1

    def readinto(self, buf):
        count = self.end
        if not count:
            return None
        for i in range(count):
            buf[i] = self.out[i]
        self.end = 0
        return count

    def close(self):
        pass


class World:
    def __init__(self, has_link=True):
        self.has_link = has_link
        outbox = DropOldest(flash_in_ram(4, 256))
        outbox.format(STREAM)
        self.outbox, self.server = outbox, Server()
        will = b"outpost/b/state", b"offline", 1, True
        self.session = DurableSession(outbox, b"b", TOPIC, 10_000, will=will)
        self.client = Client(self.link, self.session)
        clock, health = Clock(0), Health(outbox, self.nothing)
        health.unheard = Unheard(self.client, clock)
        about = About(outbox, health, __version__, lambda: 60, [Reading(b"signal", -60)])
        sensors = [Reading(b"t", 21)] + flash_wear.sensors(outbox) + [health, about]
        self.station = Station(self.client, Pack(b"b"), clock, sensors, b"outpost/b/data", 100, 0)
        self.station.state = State(self.client, will[0])
        health.station = self.station
        self.now = 0

    def link(self):
        return self.server if self.has_link else None

    def nothing(self):
        return 0

    def turns(self, count):
        while count:
            count -= 1
            self.turn()

    def turn(self):
        self.now = (self.now + 20) & 0x3FFFFFFF
        self.station.step(self.now)
        self.client.poll(self.now)
        self.station.tell_state()
        if self.session.acknowledged & 7 == 7:  # a collector confirms now and then
            self.session._on_confirmation(self.session.base - 1)


def measured(turns, count):
    """(gross, net) bytes of heap that so many turns take."""
    gc.collect()
    gc.disable()
    gross, net = micropython.mem_total(), gc.mem_alloc()
    turns(count)
    gross, net = micropython.mem_total() - gross, gc.mem_alloc() - net
    gc.enable()
    return gross, net


class TestHeap(unittest.TestCase):
    def test_measured_sent_acknowledged_confirmed(self):
        world = World()
        world.turns(400)
        sent = world.session.acknowledged
        self.assertEqual(measured(world.turns, 4000), (0, 0))
        self.assertTrue(world.session.acknowledged - sent > 700, str(world.session.acknowledged))
        self.assertEqual(world.server.states, 1)

    def test_the_word_after_a_new_connection(self):
        """Another topic than the last one is checked again."""
        world = World()
        world.turns(400)
        world.session.connects += 1  # as after one
        self.assertEqual(measured(world.turns, 100), (0, 0))
        self.assertEqual(world.server.states, 2)

    def test_a_full_outbox_that_drops(self):
        world = World(has_link=False)
        world.turns(400)
        self.assertEqual(measured(world.turns, 4000), (0, 0))
        self.assertTrue(world.outbox.dropped > 100, str(world.outbox.dropped))


if __name__ == "__main__":
    unittest.main()
