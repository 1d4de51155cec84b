"""Bounds what is sent without proof that the server has it.

For ports whose write() blocks for seconds when the network stack is full: what the stack holds is
bounded, and a PINGREQ asks for proof where no acknowledgement will bring it. A module of its own,
so that boards that have no such port do not pay. Must not know a packet. Allocation: construction.

Cost: what a packet occupies in the stack until the server's TCP has it. Proof of one packet proves
all before it: TCP keeps the order.

    packets started    [ p q ][ PINGREQ ][ r ][ PUBLISH ][ s ]
                       |------------ unproven_cost ----------|
                       |------------ proof_end ------|           proved by the window's last PUBACK
                       |-- ping_end ---|                         proved by PINGRESP
"""

from micropython import const

_OVERHEAD = const(9)  # of a PUBLISH: fixed header, length of the topic, packet identifier
_PACKET_COST = const(130)  # beside a packet's bytes: lwIP's buffer and segment headers 100, TLS 29
_LEAST_COST = const(200)  # keeps the segments few as well: 32 of them are all that lwIP has


def cost_of(length):
    """Cost of a packet of `length` bytes."""
    return max(length + _PACKET_COST, _LEAST_COST)


class InFlight:
    """most: the bound, a sum of cost_of(). longest: bytes of the longest packet."""

    def __init__(self, most, longest):
        self.most = most
        self._longest = longest - _OVERHEAD
        self.unproven_cost = 0  # of the packets that no answer has shown to have arrived
        self._proof_end = 0  # of it, up to the last PUBLISH that the server must acknowledge
        self._ping_end = 0  # of it, up to the PINGREQ whose answer is awaited
        self.answers_wait = False  # answers are held back until there is room

    def forget(self):
        """A new connection, or its CONNACK: nothing is unproven."""
        self.unproven_cost = self._proof_end = self._ping_end = 0
        self.answers_wait = False

    def has_room(self, length):
        """True when a packet with `length` bytes of topic and payload may be started: a single one
        goes out whatever its length, and none before answers that wait."""
        if self.answers_wait:
            return False
        cost = self.unproven_cost
        return not cost or cost + cost_of(length + _OVERHEAD) <= self.most

    def add(self, length):
        """A packet was started."""
        self.unproven_cost += cost_of(length)

    def add_more(self, length):
        """The packet started last, which must be acknowledged, is this much longer."""
        self.unproven_cost += length
        self._proof_end = self.unproven_cost

    def await_proof(self):
        """The packet started last is one that the server must acknowledge."""
        self._proof_end = self.unproven_cost

    def add_ping(self):
        """A PINGREQ was started."""
        self._ping_end = self.unproven_cost

    def on_pong(self):
        """PINGRESP."""
        self._prove(self._ping_end)

    def on_all_acknowledged(self):
        """The last PUBLISH in flight is acknowledged."""
        self._prove(self._proof_end)

    def _prove(self, end):
        self.unproven_cost -= end
        self._proof_end = max(self._proof_end - end, 0)
        self._ping_end = max(self._ping_end - end, 0)

    def needs_ping(self, is_idle):
        """True when answers wait for room; or when no PUBLISH in flight will prove anything
        (is_idle), and half of the bound, or the room for the longest packet, is taken."""
        if self.answers_wait:
            return True
        cost = self.unproven_cost if is_idle else 0
        return cost > 0 and (cost * 2 > self.most or not self.has_room(self._longest))
