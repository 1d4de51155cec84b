"""A filter that the server refuses, or on which it ends the connection, makes a client neither deaf
for good nor busy for ever."""

import unittest

from bench_client import CONNACK, TOPIC, Bench, puback, publishes, split

CONNACK_WITH_SESSION = b"\x20\x02\x01\x00"
CLOSES, REFUSES, GRANTS = range(3)
LIFE = 400  # polls


class Server:
    """Speaks with a Bench over its connections. mood: what it does on a SUBSCRIBE."""

    def __init__(self, mode, mood, connack=CONNACK):
        self.bench, self.mood, self.connack = Bench(mode), mood, connack
        self.asked = []  # connections, counted from 1, that had a SUBSCRIBE
        self.delivered = []  # payloads
        self.connections = 0

    def live(self, connections):
        """Over so many more; each lasts LIFE polls if nothing ends it before."""
        until = self.connections + connections
        while self.connections < until:
            stream, life = self._next(), 0
            while not stream.closed and life < LIFE:
                self._answer(stream)
                self.bench.poll()
                life += 1
            if not stream.closed:
                stream.ended = True
                self.bench.poll(2)
        return self

    def _next(self):
        stream = self.bench.stream
        while self.bench.stream is stream or self.bench.stream.closed:
            self.bench.poll()
        self.connections += 1
        return self.bench.stream

    def _answer(self, stream):
        for first, body in split(stream.take()):
            if first == 0x10:
                stream.say(self.connack)
            elif first == 0x82:
                self.asked.append(self.connections)
                if self.mood == CLOSES:
                    stream.ended = True
                    return
                code = b"\x80" if self.mood == REFUSES else body[-1:]
                stream.say(b"\x90\x03" + body[:2] + code)
            elif first & 0xF0 == 0x30:
                ((number, _, payload),) = publishes(bytes((first, len(body))) + body)
                self.delivered.append(payload)
                stream.say(puback(number))


class TestRefusedFilters(unittest.TestCase):
    def test_a_confirmation_on_which_the_server_closes_stops_no_message(self):
        for mode in ("collector", "queued"):
            server = Server(mode, CLOSES)
            server.bench.publish(b"a", b"b")
            server.live(5)
            self.assertEqual((server.asked, server.delivered[:2]), ([1, 2, 3, 4], [b"a", b"b"]))

    def test_it_is_asked_for_on_every_second_connection(self):
        for mode in ("collector", "queued", "broker"):
            server = Server(mode, CLOSES)
            if mode == "broker":
                server.bench.session.subscribe(TOPIC)
            server.live(9)
            self.assertEqual(server.asked, [1, 2, 3, 4, 6, 8], mode)
            server.mood = GRANTS
            server.live(2)
            self.assertEqual(server.asked[6:], [10, 11])
            entry = server.bench.session.filters[0]
            self.assertEqual(entry[2], entry[1])

    def test_several_leave_a_connection_in_between(self):
        """Each is asked for again, whatever the others are."""
        server = Server("broker", CLOSES)
        for name in (b"1", b"2"):
            server.bench.session.subscribe(name)
        server.live(13)
        # both twice, each alone twice, and each once in three
        self.assertEqual(server.asked, [1, 2, 3, 4, 5, 6, 8, 9, 11, 12])

    def test_what_was_refused_is_asked_for_on_each_connection(self):
        """The rights may have been mended; the server's session goes on."""
        server = Server("broker", REFUSES, CONNACK_WITH_SESSION)
        server.bench.session.subscribe(TOPIC)
        server.live(3)
        self.assertEqual((server.asked, server.bench.session.refused), ([1, 2, 3], 3))
        server.mood = GRANTS
        server.live(3)
        self.assertEqual(server.asked, [1, 2, 3, 4])


if __name__ == "__main__":
    unittest.main()
