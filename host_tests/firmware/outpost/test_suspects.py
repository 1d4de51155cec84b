# long: thousands of cases
"""Messages that the server does not take are set aside, and no others. Virtual time: a server that
answers after a round trip, and ends connections as it is told to."""

import unittest

from bench_client import STREAM, WORD, confirmation, split
from fake_flash import flash_in_ram
from outpost import status
from outpost.client import Client
from outpost.durable import DurableSession
from outpost.exactly_once import ExactlyOnceSession
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.state_note import NotedOutbox
from outpost.subscribing import SubscribingSession
from virtual.packets import take_frame

CONNACK = b"\x20\x02\x01\x00"
TICK_MS = 5
IDLE_MS = 50


class World:
    """A client and its server. rejects(topic, payload): the server ends the connection on that
    message; rtt_ms: until its answers are there; life_ms: the network ends each connection at that
    age, by a reset."""

    def __init__(self, kind=Session, outbox=None, rejects=None, rtt_ms=50, life_ms=0, **options):
        self.outbox = outbox or RamOutbox(16, 400)
        self.rejects = rejects or (lambda topic, payload: False)
        self.rtt_ms, self.life_ms = rtt_ms, life_ms
        self.takes_connect = self.answers_pings = True
        self.on_packet = None
        self.now_ms = self.links = 0
        self.got = []  # (topic, payload) of what the server has taken
        self.packets = []  # of this connection: (ms, first byte, body)
        self.queue = []  # (ms, bytes) that come; None: the end
        self.outgoing = b""
        self.since_ms = -1
        self.session = kind(self.outbox, b"dev", **options)
        self.client = Client(self._link, self.session)

    def _link(self):
        self.links += 1
        self.queue, self.packets, self.outgoing = [], [], b""
        self.since_ms = self.now_ms
        return self

    # The stream

    def write(self, buf, offset, length):
        self.outgoing += bytes(buf[offset : offset + length])
        while True:
            found = take_frame(self.outgoing)
            if found is None:
                return length
            self._serve(self.outgoing[: len(self.outgoing) - len(found[2])])
            self.outgoing = found[2]

    def readinto(self, buf):
        if self.life_ms and self.now_ms - self.since_ms >= self.life_ms:
            raise OSError(104)
        if not self.queue or self.queue[0][0] > self.now_ms:
            return None
        data = self.queue[0][1]
        if data is None:
            return 0
        buf[: len(data)] = data
        self.queue.pop(0)
        return len(data)

    def close(self):
        self.queue = []

    # The server

    def _serve(self, packet):
        first, body = split(packet)[0]
        self.packets.append((self.now_ms, first, body))
        if self.queue and self.queue[-1][1] is None:
            return
        answer = b""
        if first == 0x10:
            answer = CONNACK if self.takes_connect else b""
        elif first & 0xF0 == 0x30:
            answer = self._take(first, body, packet)
        elif first == 0xC0:
            answer = b"\xd0\x00" if self.answers_pings else b""
        elif first == 0x62:
            answer = b"\x70\x02" + body
        elif first == 0x82:
            answer = self._subscribe(body)
        if answer != b"":
            self.queue.append((self.now_ms + self.rtt_ms, answer))

    def _subscribe(self, body):
        return b"\x90\x03" + body[:2] + b"\x01"

    def _take(self, first, body, packet):
        """The answer; None: the end."""
        end = 2 + (body[0] << 8 | body[1])
        topic = body[2:end]
        qos = first >> 1 & 3
        payload = body[end + (2 if qos else 0) :]
        if self.rejects(topic, payload):
            return None
        self.got.append((topic, payload))
        if not qos:
            return b""
        return (b"\x40\x02" if qos == 1 else b"\x50\x02") + body[end : end + 2]

    def run(self, seconds, until=None):
        """Returns the seconds that passed."""
        begin = self.now_ms
        while self.now_ms - begin < seconds * 1000:
            is_busy = self.session.state and (self.queue or self.now_ms - self.since_ms < 200)
            self.now_ms += TICK_MS if is_busy else IDLE_MS
            for _ in range(4):
                self.client.poll(self.now_ms)
            if until and until():
                break
        return (self.now_ms - begin) / 1000

    def publish(self, *payloads, topic=b"t"):
        for payload in payloads:
            assert self.client.publish(topic, payload) == status.OK
        return self

    def payloads(self):
        return [payload for _, payload in self.got]

    def shelf(self):
        found = []
        for index in range(self.outbox.aside):
            assert self.outbox.shelf().load(index) == status.OK and self.outbox.loaded_seq == -1
            middle = self.outbox.topic_at + self.outbox.topic_length
            found.append(bytes(self.outbox.buffer[middle : middle + self.outbox.payload_length]))
        return found


class FullShelf:
    def put(self, seq, mark):
        return status.FULL

    def has(self, seq):
        return False


class NotedRam(RamOutbox):
    """What QoS 2 needs beside, for one boot."""

    note_length = 0

    def __init__(self):
        RamOutbox.__init__(self, 16, 400)

    def set_note(self, note, length):
        return status.OK


def no_network():
    raise OSError(-43)


def is_bad(topic, payload):
    return payload[:3] == b"bad"


def numbered(count):
    return [b"%d" % number for number in range(count)]


class TestSetAside(unittest.TestCase):
    def test_one_that_the_server_rejects_is_set_aside_and_the_others_arrive(self):
        for bad_at in (0, 1, 7, 15):
            payloads = numbered(16)
            payloads[bad_at] = b"bad"
            world = World(rejects=is_bad).publish(*payloads)
            seconds = world.run(60, world.client.is_drained)
            self.assertTrue(seconds < 40, seconds)
            self.assertEqual(set(payloads) - {b"bad"}, set(world.payloads()))
            self.assertEqual((world.shelf(), world.outbox.aside), ([b"bad"], 1))
            self.assertTrue(world.links <= 6, world.links)

    def test_two_of_them(self):
        payloads = numbered(16)
        payloads[3] = payloads[12] = b"bad"
        world = World(rejects=is_bad).publish(*payloads)
        world.run(60, world.client.is_drained)
        self.assertEqual((world.shelf(), world.client.is_drained()), ([b"bad", b"bad"], True))
        self.assertEqual(set(payloads) - {b"bad"}, set(world.payloads()))
        self.assertTrue(world.links <= 10, world.links)

    def test_a_topic_that_no_server_takes_needs_no_trials(self):
        world = World(rejects=lambda topic, payload: topic == b"\xb0C")
        world.publish(b"1")
        world.outbox.append(b"\xb0C", b"bad", 3)
        world.publish(b"2")
        world.run(60, world.client.is_drained)
        self.assertEqual((world.shelf(), set(world.payloads())), ([b"bad"], {b"1", b"2"}))
        self.assertTrue(world.links <= 3, world.links)

    def test_what_was_freed_otherwise_is_not_suspected_any_more(self):
        """By a collector's confirmation, or dropped: no PUBACK comes for it."""
        world = World()
        world._take = lambda *_: b""
        world.publish(b"1").run(1)
        world.queue.append((0, None))
        world.run(0.1)
        assert world.session._load_suspects()
        world.session.suspects.begin()
        self.assertTrue(world.outbox.discard(0))
        world.run(30)
        self.assertEqual((world.session.suspects, world.session.window), (None, 16))

    def test_the_window_and_the_memory_are_as_before_when_all_is_well_again(self):
        world = World(rejects=is_bad).publish(b"bad", b"1")
        world.run(60, world.client.is_drained)
        world.rejects = lambda topic, payload: False
        world.run(120, lambda: not world.outbox.aside)
        world.run(1)
        self.assertEqual((world.outbox.aside, world.session.window), (0, 16))
        self.assertEqual((world.payloads()[-1], world.session.suspects), (b"bad", None))

    def test_after_four_without_an_acknowledgement_the_shelf_fills_slowly(self):
        """A server that ends the connection on whatever is published, but answers pings."""
        world = World(outbox=on_flash(), rejects=lambda *_: True).publish(*numbered(10))
        world.run(3600, lambda: world.outbox.aside == 4)
        world.run(200)
        self.assertEqual((world.outbox.aside, len(world.got)), (4, 0))
        self.assertEqual(world.session.suspects.status, status.BLOCKED)
        world.run(3600)
        self.assertTrue(4 < world.outbox.aside < 9, world.outbox.aside)
        world.rejects = lambda *_: False
        world.run(300, lambda: world.client.is_drained() and not world.outbox.aside)
        self.assertEqual(sorted(set(world.payloads())), sorted(numbered(10)))

    def test_one_that_is_never_acknowledged_though_later_ones_are(self):
        world = World(outbox=RamOutbox(16, 400))
        original = world._take
        world._take = lambda first, body, packet: (
            b"" if b"bad" in body else original(first, body, packet)
        )
        world.publish(b"bad", *numbered(15))
        seconds = world.run(1200, world.client.is_drained)
        self.assertEqual((world.shelf(), world.client.is_drained()), ([b"bad"], True))
        self.assertTrue(seconds < 400, seconds)
        self.assertEqual(set(world.payloads()), set(numbered(15)))

    def test_a_full_shelf_keeps_the_message_and_tells(self):
        world = World(rejects=is_bad)
        world.outbox.shelf = FullShelf
        world.publish(b"bad", b"1").run(120)
        self.assertEqual((world.outbox.oldest_seq, world.outbox.aside), (0, 0))
        self.assertEqual(world.session.suspects.status, status.FULL)

    def test_a_server_that_ends_every_connection_at_once_has_nothing_set_aside(self):
        for rtt_ms in (5, 50, 400):
            world = World(rtt_ms=rtt_ms, life_ms=3 * rtt_ms + 20).publish(*numbered(10))
            world.rejects = lambda *_: True
            world.run(600)
            self.assertEqual(world.outbox.aside, 0, rtt_ms)


class TestBadNetwork(unittest.TestCase):
    def test_nothing_is_set_aside_because_a_network_ends_each_connection(self):
        """At an age: with one that lets some round trips pass, and with fewer."""
        for rtt_ms in (10, 50, 300, 700, 1000, 1400):
            for life_ms in (500, 1000, 3000):
                world = World(rtt_ms=rtt_ms, life_ms=life_ms)
                for _ in range(20):
                    world.publish(*numbered(10)).run(120, world.client.is_drained)
                    if not world.client.is_drained():
                        break
                self.assertEqual(world.outbox.aside, 0, (rtt_ms, life_ms))
                if 3 * rtt_ms + 100 < life_ms:
                    self.assertTrue(world.client.is_drained(), (rtt_ms, life_ms))

    def test_nor_because_it_ends_them_by_chance(self):
        seed = 1
        for rtt_ms in (50, 300, 1000):
            world = World(rtt_ms=rtt_ms)
            for _ in range(150):
                seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
                world.life_ms = 1 + seed % 6000
                if world.client.is_drained():
                    world.publish(*numbered(16))
                world.run(world.life_ms / 1000 + 1)
            self.assertEqual(world.outbox.aside, 0, rtt_ms)
            self.assertTrue(len(world.got) > 1000 // rtt_ms, (rtt_ms, len(world.got)))

    def test_nor_because_nothing_is_acknowledged(self):
        world = World().publish(*numbered(5))
        world._take = lambda *_: b""
        world.run(1800)
        self.assertEqual((world.outbox.aside, world.outbox.oldest_seq), (0, 0))


class TestAgain(unittest.TestCase):
    def test_at_growing_distances_alone_and_the_others_go_on(self):
        world = World(rejects=is_bad).publish(b"bad", b"ok")
        world.run(60, world.client.is_drained)
        times, links = [], world.links
        original = world._take

        def noted(first, body, packet):
            if b"bad" in body:
                times.append(world.now_ms)
                self.assertTrue(world.client.is_drained())  # alone
            return original(first, body, packet)

        world._take = noted
        for second in range(4 * 3600 // 10):
            world.publish(b"%d" % second).run(10)
        minutes = [(times[i + 1] - times[i]) // 60_000 for i in range(len(times) - 1)]
        self.assertEqual(minutes, [2, 4, 8, 16, 32, 64])
        self.assertEqual((world.links - links, world.outbox.aside), (len(times), 1))
        self.assertEqual(len(set(world.payloads())), 4 * 360 + 1)

    def test_days_without_a_network_do_not_put_it_off(self):
        for days in (1, 7, 13):
            world = World(rejects=is_bad).publish(b"bad")
            world.run(60, world.client.is_drained)
            link, world.client._link = world.client._link, no_network
            world.life_ms = 1
            for _ in range(days * 24):
                world.now_ms += 3_600_000
                world.client.poll(world.now_ms)
            world.client._link, world.life_ms = link, 0
            world.rejects = lambda *_: False
            world.run(100, lambda world=world: not world.outbox.aside)
            self.assertEqual((world.payloads(), world.outbox.aside), ([b"bad"], 0), days)

    def test_once_it_is_taken_the_others_of_the_shelf_follow_at_once(self):
        world = World(rejects=is_bad).publish(b"bad1", b"ok", b"bad2", b"bad3")
        world.run(120, world.client.is_drained)
        self.assertEqual(len(world.shelf()), 3)
        world.rejects = lambda *_: False
        world.run(240, lambda: not world.outbox.aside)
        self.assertEqual(sorted(world.payloads()[-3:]), [b"bad1", b"bad2", b"bad3"])

    def test_one_that_is_never_answered_does_not_hold_the_others_up(self):
        world = World(rejects=is_bad).publish(b"bad")
        world.run(60, world.client.is_drained)
        world.rejects = lambda *_: False
        original = world._take
        world._take = lambda first, body, packet: (
            b"" if b"bad" in body else original(first, body, packet)
        )
        worst = 0
        for second in range(120):
            world.publish(b"%d" % second)
            worst = max(worst, world.run(20, world.client.is_drained))
        self.assertTrue(worst < 11, worst)
        self.assertEqual(world.outbox.aside, 1)


class TestEverySession(unittest.TestCase):
    def test_a_qos_2_record_of_another_firmware_goes_out_with_qos_1(self):
        for kind in (Session, SubscribingSession):
            world = World(kind)
            world.outbox.append(b"t", b"two", 3, 0x20)
            world.outbox.append(b"t", b"kept", 4, 0x60)
            world.run(10, world.client.is_drained)
            self.assertEqual((world.payloads(), world.links), ([b"two", b"kept"], 1))
            firsts = [first for _, first, _ in world.packets if first & 0xF0 == 0x30]
            self.assertEqual(firsts, [0x32, 0x33])

    def test_a_filter_on_which_the_server_ends_the_connection_is_given_up(self):
        """C5: AWS IoT does so where a policy forbids it. Publishing goes on."""
        for count in (0, 5):
            world = World(SubscribingSession)
            answer = world._subscribe
            world._subscribe = lambda body, answer=answer: (
                None if b"forbidden" in body else b"\x90" + answer(body)[1:]
            )
            world.session.subscribe(b"forbidden", 1)
            world.publish(*numbered(count))
            world.run(60)
            self.assertEqual(world.session.filters, [[b"forbidden", 1, 255]])
            self.assertEqual((world.session.refused, world.outbox.aside), (1, 0))
            self.assertTrue(world.client.is_connected() and world.client.is_drained())
            self.assertTrue(world.links <= 10, world.links)


def on_flash(kind=Outbox, blocks=8):
    outbox = kind(flash_in_ram(blocks, 256))
    assert outbox.format(STREAM) == status.OK
    return outbox


def again(outbox):
    """After a reset."""
    fresh = type(outbox)(outbox._device)
    assert fresh.mount() == status.OK
    return fresh


class Collector(World):
    """Broker and collector: what it took is durable, and confirmed up to the first number that is
    missing and that the board may still hold. The payload: number, and the oldest held."""

    def __init__(self, outbox, **options):
        self.durable, self.floor, self.rounds = set(), 0, 0
        World.__init__(self, DurableSession, outbox, topic=WORD, timeout_ms=2000, **options)

    def publish(self, *words):
        for word in words:
            held, seq = self.outbox.oldest_seq, self.outbox.next_seq
            payload = b"%s %d %d" % (word, seq, held)
            assert self.client.publish(b"t", payload) == status.OK
        return self

    def _take(self, first, body, packet):
        answer = World._take(self, first, body, packet)
        if answer:
            _, seq, held = self.got[-1][1].split(b" ")
            self.durable.add(int(seq))
            self.floor = max(self.floor, int(held))
        return answer

    def _serve(self, packet):
        World._serve(self, packet)
        through = self.floor
        while through in self.durable:
            through += 1
        if through and self.client.is_connected():
            self.queue.append((self.now_ms + self.rtt_ms, confirmation(through - 1)))


class KeptSession:
    """A server that keeps its session while boards come and go: what it has taken (by identifier,
    until PUBREL), what it has delivered. MQTT 3.1 has no session-present."""

    def __init__(self, level):
        self.level, self.taken, self.delivered = level, set(), []
        self.is_again = False  # PUBLISH came

    def world(self, outbox, rejects=None):
        world = World(ExactlyOnceSession, outbox, rejects, level=self.level)
        serve = world._serve

        def serve_all(packet):
            if packet[0] == 0x62:
                self.taken.discard(packet[2:4])
            serve(packet)
            if packet[0] == 0x10 and self.level == 3:
                world.queue[-1] = (world.queue[-1][0], b"\x20\x02\x00\x00")

        def take(first, body, packet):
            end = 2 + (body[0] << 8 | body[1])
            number = body[end : end + 2]
            if world.rejects(body[2:end], body[end + 2 :]):
                return None
            self.is_again = True
            if number not in self.taken:
                self.delivered.append(body[end + 2 :])
            if first & 6 == 2:
                return b"\x40\x02" + number
            self.taken.add(number)
            return b"\x50\x02" + number

        world._serve, world._take = serve_all, take
        return world


class TestOnFlash(unittest.TestCase):
    def test_broker_mode_over_a_reset(self):
        outbox = on_flash()
        world = World(Session, outbox, is_bad).publish(b"1", b"bad", b"2", b"3")
        world.run(60, world.client.is_drained)
        self.assertEqual(world.shelf(), [b"bad"])
        outbox = again(outbox)  # before a record said that it was freed: both have it
        self.assertEqual((outbox.aside, outbox.shelf().has(1)), (1, True))
        world = World(Session, outbox, is_bad)
        world.run(30)
        self.assertTrue(world.client.is_drained() and world.client.is_connected())
        self.assertEqual((world.links, world.shelf()), (1, [b"bad"]))
        world.rejects = lambda *_: False
        world.run(120, lambda: not outbox.aside)
        self.assertEqual((world.payloads()[-1], again(outbox).aside), (b"bad", 0))

    def test_collector_mode_the_confirmations_go_on_past_it(self):
        outbox = on_flash()
        world = Collector(outbox, rejects=is_bad)
        world.publish(b"a", b"bad", b"b", b"c").run(60, lambda: outbox.aside)
        world.run(20)
        for _ in range(5):
            world.publish(b"more").run(20)
        self.assertTrue(world.client.is_drained())
        self.assertEqual((world.shelf(), outbox.aside), ([b"bad 1 0"], 1))
        self.assertEqual(world.durable, set(range(9)) - {1})
        outbox.save_state()
        outbox = again(outbox)
        self.assertEqual((outbox.aside, outbox.oldest_seq), (1, outbox.next_seq))
        durable, world = world.durable, Collector(outbox)
        world.run(120, lambda: not outbox.aside)
        self.assertEqual((world.durable | durable, world.links), (set(range(9)), 1))

    def test_collector_mode_over_a_bad_network(self):
        outbox = on_flash()
        world = Collector(outbox, life_ms=3000, rtt_ms=200)
        for _ in range(40):
            world.publish(b"x", b"y").run(2)
        world.life_ms = 0
        world.run(60)
        world.publish(b"z").run(60, world.client.is_drained)
        self.assertEqual((outbox.aside, world.client.is_drained()), (0, True))

    def test_qos_2_and_again_with_four_packets(self):
        outbox = on_flash(NotedOutbox)
        world = World(ExactlyOnceSession, outbox, is_bad)
        for payload in (b"1", b"bad", b"2"):
            self.assertEqual(world.client.publish(b"t", payload, 2), status.OK)
        world.run(60, world.client.is_drained)
        self.assertEqual((world.shelf(), world.payloads()), ([b"bad"], [b"1", b"2"]))
        world.rejects = lambda *_: False
        world.run(120, lambda: not outbox.aside)
        self.assertEqual(world.payloads(), [b"1", b"2", b"bad"])
        firsts = [first for _, first, body in world.packets[-3:]]
        # with DUP: the exchange is open [MQTT-3.3.1-1]
        self.assertEqual((firsts[-2:], outbox.aside), ([0x3C, 0x62], 0))

    def test_each_of_the_shelf_has_its_own_identifier(self):
        """A server that has taken the first, whose PUBREC was lost, takes what comes with that
        identifier for the first: the second would be released and never delivered."""
        for outbox in (on_flash(NotedOutbox), NotedRam()):
            world = World(ExactlyOnceSession, outbox, is_bad)
            for payload in (b"bad1", b"bad2", b"ok"):
                self.assertEqual(world.client.publish(b"t", payload, 2), status.OK)
            world.run(120, world.client.is_drained)
            self.assertEqual(world.shelf(), [b"bad1", b"bad2"])
            world.rejects = lambda *_: False
            taken = {}  # by identifier, until PUBREL
            serve = world._serve

            def serve_and_forget(packet, world=world, taken=taken, serve=serve):
                if packet[0] == 0x62:
                    world.got.append(taken.pop(packet[2:4]))
                serve(packet)

            def take(first, body, packet, world=world, taken=taken):
                end = 2 + (body[0] << 8 | body[1])
                is_first = not taken and len(world.got) == 1
                taken.setdefault(body[end : end + 2], (body[2:end], body[end + 2 :]))
                return None if is_first else b"\x50\x02" + body[end : end + 2]

            world._serve, world._take = serve_and_forget, take
            world.run(400, lambda outbox=outbox: not outbox.aside)
            self.assertEqual(sorted(world.payloads()), [b"bad1", b"bad2", b"ok"])

    def test_one_that_the_server_has_is_not_published_again(self):
        """The connection ends on its PUBREL, or PUBCOMP does not come."""
        for answer in (None, b""):
            world = World(ExactlyOnceSession, on_flash(NotedOutbox), is_bad)
            for payload in (b"bad1", b"bad2"):
                self.assertEqual(world.client.publish(b"t", payload, 2, length=4), status.OK)
            world.run(120, world.client.is_drained)
            world.rejects = lambda *_: False
            serve, releases = world._serve, []

            def serve_once(packet, world=world, serve=serve, releases=releases, answer=answer):
                if packet[0] == 0x62:
                    releases.append(packet)
                    if len(releases) == 1:
                        world.queue += [(world.now_ms, answer)] if answer is None else []
                        return
                serve(packet)

            world._serve = serve_once
            world.run(600, lambda world=world: not world.outbox.aside)
            self.assertEqual((world.payloads(), world.outbox.aside), ([b"bad1", b"bad2"], 0))
            self.assertEqual(releases, [b"\x62\x02\x00\x01"] * 2 + [b"\x62\x02\x00\x02"])

    def test_qos_2_again_is_exact_over_a_power_cut_at_any_moment(self):
        for level in (4, 3):
            for has_others in (False, True):
                for cut_ms in range(0, 300, 25):
                    delivered, aside = self.cut_while_it_goes_out_again(level, has_others, cut_ms)
                    expected = [b"bad1", b"bad2", b"ok"] if has_others else [b"bad1", b"ok"]
                    at = level, cut_ms
                    self.assertEqual((at, sorted(delivered), aside), (at, expected, 0))

    def cut_while_it_goes_out_again(self, level, has_others, cut_ms):
        server = KeptSession(level)
        outbox = on_flash(NotedOutbox)
        world = server.world(outbox, is_bad)
        for payload in (b"bad1", b"bad2", b"ok") if has_others else (b"bad1", b"ok"):
            self.assertEqual(world.client.publish(b"t", payload, 2), status.OK)
        world.run(120, world.client.is_drained)
        world.run(10)
        world.rejects = lambda *_: False
        server.is_again = False
        world.run(120, lambda: server.is_again)
        world.run(cut_ms / 1000)
        outbox = again(outbox)
        note, length = bytes(outbox.note), outbox.note_length
        server.world(outbox)
        outbox.append(b"", outbox.note, outbox.note_length, 2)  # as a fresh sector has it again
        outbox = again(outbox)
        self.assertEqual((bytes(outbox.note), outbox.note_length), (note, length))
        server.world(outbox).run(300, lambda: not outbox.aside)
        return server.delivered, outbox.aside

    def test_what_the_server_has_is_kept_while_there_is_no_memory_to_look_for_it(self):
        server = KeptSession(4)
        outbox = on_flash(NotedOutbox)
        world = server.world(outbox, is_bad)
        self.assertEqual(world.client.publish(b"t", b"bad", 2), status.OK)
        world.run(120, world.client.is_drained)
        world.rejects = lambda *_: False
        world.run(120, lambda: world.session.aside_id)
        self.assertEqual(world.session._save(), True)
        outbox = again(outbox)
        world = server.world(outbox)
        world.session._load_suspects = lambda: False
        world.run(10)
        self.assertTrue(world.client.is_connected())
        self.assertEqual((outbox.aside, world.session.aside_id), (1, 1))
        del world.session._load_suspects
        world.queue.append((0, None))
        world.run(200, lambda: not outbox.aside)
        self.assertEqual((server.delivered, outbox.aside, world.session.aside_id), ([b"bad"], 0, 0))

    def test_one_that_flash_keeps_on_the_shelf_is_not_delivered_again(self):
        """QoS 2; with QoS 1 it goes out again, a minute later."""
        for qos, most in ((2, 1), (1, 4)):
            server = KeptSession(4)
            outbox = on_flash(NotedOutbox)
            world = server.world(outbox, is_bad)
            self.assertEqual(world.client.publish(b"t", b"bad", qos), status.OK)
            world.run(120, world.client.is_drained)
            world.rejects = lambda *_: False
            shelf = outbox.shelf()
            shelf.release = lambda index: status.STORAGE
            world.run(240)
            self.assertEqual(outbox.aside, 1)
            self.assertTrue(1 <= len(server.delivered) <= most, len(server.delivered))
            del shelf.release
            world.run(1000, lambda outbox=outbox: not outbox.aside)
            self.assertEqual(outbox.aside, 0)
            self.assertTrue(len(server.delivered) <= most + 1)
            if qos == 2:
                self.assertEqual((server.delivered, world.session.aside_id), ([b"bad"], 0))

    def test_what_was_noted_of_a_message_that_left_the_shelf_is_forgotten(self):
        """Its identifier comes again, 65,535 messages later: that one is published."""
        server = KeptSession(4)
        outbox = NotedOutbox(flash_in_ram(8, 256))
        assert outbox.format(STREAM, first_seq=4) == status.OK
        world = server.world(outbox, is_bad)
        self.assertEqual(world.client.publish(b"t", b"bad", 2), status.OK)
        world.run(120, world.client.is_drained)
        world.rejects = lambda *_: False
        release = outbox.shelf().release

        def cut(index):
            release(index)
            raise KeyboardInterrupt

        outbox.shelf().release = cut
        with self.assertRaises(KeyboardInterrupt):
            world.run(120)
        outbox = again(outbox)
        self.assertEqual((outbox.aside, server.delivered), (0, [b"bad"]))
        outbox.next_seq = outbox.oldest_seq = 4 + 65535  # as many as that
        outbox._open_sector()
        world = server.world(outbox, is_bad)
        self.assertEqual(world.client.publish(b"t", b"bad", 2), status.OK)
        world.run(120, world.client.is_drained)
        world.rejects = lambda *_: False
        world.run(120, lambda: not outbox.aside)
        self.assertEqual(server.delivered, [b"bad", b"bad"])

    def test_a_subscription_has_another_identifier_than_what_is_out_again(self):
        """[MQTT-2.3.1-2]"""
        world = World(SubscribingSession, None, is_bad).publish(b"bad")
        world.run(60, world.client.is_drained)
        world.run(5)
        world.rejects = lambda *_: False
        world._take = lambda *_: b""

        def is_out():
            return world.packets[-1][1] & 0xF0 == 0x30

        world.run(120, is_out)
        self.assertTrue(is_out())
        body = world.packets[-1][2]
        self.assertEqual(world.session.subscribe(b"f", 1), status.OK)
        world.run(1)
        first, asked = world.packets[-1][1:]
        self.assertEqual((first, asked[:2] == body[3:5]), (0x82, False))

    def test_refused_by_the_servers_word(self):
        """MQTT 5: a reason code in PUBACK. One in the middle of the window, and the oldest."""
        outbox = on_flash()
        world = World(Session, outbox)
        world._take = lambda *_: b""
        world.publish(*numbered(4)).run(1)
        for seq in (2, 0):
            assert world.session._load_suspects()
            self.assertEqual(world.session.suspects.refuse(seq), status.OK)
        self.assertEqual((outbox.oldest_seq, outbox.aside), (1, 2))
        self.assertEqual(sorted(world.shelf()), [b"0", b"2"])
        world.queue.append((0, b"\x40\x02\x00\x02\x40\x02\x00\x04"))
        world.run(1)
        self.assertTrue(world.client.is_drained())

    def test_a_shelf_without_memory_postpones(self):
        world = World(Session, on_flash(), is_bad).publish(b"bad", b"1")

        def no_memory():
            raise MemoryError()

        world.outbox.shelf = no_memory
        world.run(120)
        self.assertEqual((world.outbox.aside, world.outbox.oldest_seq), (0, 0))
        del world.outbox.shelf
        world.run(200, world.client.is_drained)
        self.assertEqual((world.shelf(), world.payloads()), ([b"bad"], [b"1"]))


if __name__ == "__main__":
    unittest.main()
