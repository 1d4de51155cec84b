"""Bounds what is sent without proof that the server has it.

It is for ports whose write() blocks for seconds when the network stack is full. It bounds what the
stack holds, and sends a PINGREQ as a request for proof where no acknowledgement will bring it. It
is a module of its own, so that boards without such a port do not pay. It replaces those of its
session's methods that start a packet, and reads the session's fields to see what was proved.
Allocation: construction.

Cost: what a packet occupies in the stack until the server's TCP has it. Proof of one packet proves
all before it, because TCP keeps the order.

    packets started    [ p q ][ PINGREQ ][ r ][ PUBLISH ][ s ]
                       |------------ unproven_cost ----------|
                       |------------ proof_end ------|           proved by the window's last PUBACK
                       |-- ping_end ---|                         proved by PINGRESP
"""

from micropython import const

_BUSY = const(-3)
_CONNECTING = const(1)
_CONNECTED = const(2)
_OVERHEAD = const(9)  # of a PUBLISH: fixed header, length of the topic, packet identifier
_PACKET_COST = const(130)  # besides a packet's bytes: lwIP's buffer and segment headers 100, TLS 29
_LEAST_COST = const(200)  # also keeps segments few: lwIP has only 32 of them


def cost_of(length):
    """Cost of a packet of `length` bytes."""
    return max(length + _PACKET_COST, _LEAST_COST)


class InFlight:
    """most: the bound on the sum of cost_of()."""

    def __init__(self, session, most):
        self.most = most
        self._session = session
        self._longest = len(session.tx) - _OVERHEAD
        self._unproven_cost = 0  # cost of the packets that are not proved to have arrived
        self._proof_end = 0  # of it, up to the last PUBLISH that the server must acknowledge
        self._ping_end = 0  # of it, up to the PINGREQ whose answer is awaited
        self.answers_wait = False  # answers are held back until there is room
        # The session's own methods; the session now calls the methods below instead.
        self._start, self._start_message = session._start, session._start_message
        self._publish_now, self._on_tick = session._publish_now, session._on_tick

    def publish_now(self, topic, payload, length):
        """Publish with QoS 0. BUSY also while there is no room for the message."""
        if self._session.state == _CONNECTED and not self.has_room(len(topic) + length):
            return _BUSY
        return self._publish_now(topic, payload, length)

    def start(self, data, length):
        """Start any packet except the PUBLISH of an outbox message."""
        session = self._session
        self._look()
        self._start(data, length)
        if session.state == _CONNECTING:  # CONNECT: CONNACK proves it before another packet starts
            self._unproven_cost = self._proof_end = self._ping_end = 0
            self.answers_wait = False
            return
        self.add(session.out_end)
        if data[0] == 0xC0 and session._awaited_ms < 0:
            self._ping_end = self._unproven_cost

    def start_message(self):
        """Start a PUBLISH, or a PUBREL in its place, which start() has counted."""
        session = self._session
        self._look()
        if not self._start_message():
            return False
        if session.out is session.tx and session.tx[0] >> 4 == 3:
            self.add(session.out_end)
        self._proof_end = self._unproven_cost
        return True

    def on_tick(self):
        """Start a PINGREQ when nothing else goes out and proof is needed."""
        session = self._session
        if self._on_tick():
            return True
        if session.state != _CONNECTED or session._awaited_ms >= 0 or not self._needs_ping():
            return False
        session.start_ping()
        return True

    def has_room(self, length):
        """True when a packet with `length` bytes of topic and payload may be started. A single
        packet may have any length. No packet starts before answers that wait."""
        if self.answers_wait:
            return False
        self._look()
        cost = self._unproven_cost
        return not cost or cost + cost_of(length + _OVERHEAD) <= self.most

    def add(self, length):
        """A packet was started."""
        self._unproven_cost += cost_of(length)

    def _look(self):
        """Look for proof: PINGRESP, or the acknowledgement of the last PUBLISH in flight."""
        session = self._session
        if self._ping_end and session._awaited_ms < 0:
            self._prove(self._ping_end)
        if self._proof_end and session.next_send == session.base:
            self._prove(self._proof_end)

    def _prove(self, end):
        self._unproven_cost -= end
        self._proof_end = max(self._proof_end - end, 0)
        self._ping_end = max(self._ping_end - end, 0)

    def _needs_ping(self):
        """True when answers wait for room, or when no PUBLISH in flight will bring proof and either
        more than half of the bound is used or the longest packet has no room."""
        if self.answers_wait:
            return True
        self._look()
        cost = self._unproven_cost if self._session.next_send == self._session.base else 0
        return cost > 0 and (cost * 2 > self.most or not self.has_room(self._longest))
