"""Queries by UDP that do not block: one datagram out, one in; and name resolution with them.

The ports' own getaddrinfo() waits for the name server, on some ports longer than the watchdog
allows. A query is sent at most three times, 2 s apart, and every call returns at once. IPv4 only; a
name without an answer ends as DNS_FAILED. A name that ends in `.local` is queried by multicast on
the board's own network (one-shot mDNS, RFC 6762, section 5.1): the host with this name answers
directly to the board, and no name server is involved. Names compare without regard to case
(RFC 1035, section 2.3.3), so a query is in small letters; lengths and types have no letters' codes.

Allocates when a query is sent and when a datagram arrives, not while waiting: readinto() of the
socket returns None where recv() would raise, the buffer is made with the socket, and the name
server's address, for which the port builds new strings at each call, is read once a query.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_TIMED_OUT = const(-22)
_DNS_FAILED = const(-44)
_AGAIN_MS = const(2000)
_TRIES = const(3)
_DNS_PORT = const(53)
_MDNS_GROUP = const("224.0.0.251")
_MDNS_PORT = const(5353)
_HEAD = const(12)
_MOST_BYTES = const(512)  # of a DNS answer by UDP: RFC 1035, section 4.2.1


class Ask:
    """socket: the module. One query at a time: begin(), answer() until there is one, stop()."""

    def __init__(self, socket, ticks_ms):
        self._module, self._ticks_ms = socket, ticks_ms
        self._udp = None
        self._group = None  # address and port of a multicast group; None: one connected server
        self._question = self._buffer = b""
        self._tries = self.sent_ms = 0

    def begin(self, server, port, question, is_group=False):
        """Send the query. is_group: to a group, so any host may answer. Raises OSError."""
        self._udp = udp = self._module.socket(self._module.AF_INET, self._module.SOCK_DGRAM)
        try:
            udp.setblocking(False)
            self._group = (server, port) if is_group else None
            if not is_group:
                udp.connect((server, port))  # drops datagrams from other hosts
            self._question, self._buffer = question, bytearray(_MOST_BYTES)
            self._tries = 0
            self._send()
        except OSError:
            self.stop()
            raise

    def _send(self):
        self._tries += 1
        self.sent_ms = self._ticks_ms()
        if self._group:
            self._udp.sendto(self._question, self._group)
        else:
            self._udp.send(self._question)

    def answer(self):
        """The next datagram (bytes) or None. OSError: the time for an answer is over.

        A datagram that is no answer does not extend that time; the caller ignores it and retries.
        """
        if elapsed_ms(self._ticks_ms(), self.sent_ms) >= _AGAIN_MS:
            if self._tries == _TRIES:
                raise OSError(_TIMED_OUT)
            self._send()
        count = self._read()
        return bytes(self._buffer[:count]) if count else None

    def _read(self):
        try:
            return self._udp.readinto(self._buffer)
        except OSError:  # "port unreachable", once per datagram sent: the deadline decides
            return None

    def stop(self):
        """Discard the query."""
        if self._udp:
            self._udp.close()
        self._udp = None
        self._question = self._buffer = b""


def _is_address(host):
    parts = host.split(".")
    return len(parts) == 4 and all([part.isdigit() and int(part) < 256 for part in parts])


def _question(host, random_bits, is_recursive):
    """A query for the IPv4 address: RFC 1035, section 4.1."""
    labels = host.split(".")
    packet = bytes(
        (random_bits >> 8 & 255, random_bits & 255, is_recursive, 0, 0, 1, 0, 0, 0, 0, 0, 0)
    )
    for label in labels:
        if not 0 < len(label) < 64:
            raise OSError(_DNS_FAILED)
        packet += bytes((len(label),)) + label.encode()
    return packet + b"\0\0\1\0\1"


def _behind_name(reply, at):
    while at < len(reply):
        if reply[at] >= 0xC0:
            return at + 2
        if not reply[at]:
            return at + 1
        at += reply[at] + 1
    return at


class Dns:
    """ask: an unshared Ask. network: has `name_server`. random: callable, 16 random bits."""

    def __init__(self, ask, network, random):
        self._ask, self._network, self._random = ask, network, random
        self._packet = b""

    def __call__(self, host):
        """Address (text) of host, or None: not yet known. Raises OSError(DNS_FAILED).

        Call it with the same host until the address is known, or call stop().
        """
        try:
            return self._step(host)
        except OSError:
            self.stop()
            raise OSError(_DNS_FAILED)

    def _step(self, host):
        if self._packet:
            return self._look()
        return host if _is_address(host) else self._begin(host)

    def _begin(self, host):
        host = host.lower()
        if host.endswith("."):  # the root, which every name ends with
            host = host[:-1]
        is_local = host.endswith(".local")
        packet = _question(host, self._random(), not is_local)
        if is_local:
            self._ask.begin(_MDNS_GROUP, _MDNS_PORT, packet, True)
        else:
            self._ask.begin(self._network.name_server, _DNS_PORT, packet)
        self._packet = packet

    def _look(self):
        reply = self._ask.answer()
        address = self._address(reply) if reply else None
        if address:
            self.stop()
        return address

    def stop(self):
        self._packet = b""
        self._ask.stop()

    def _address(self, reply):
        asked = self._packet
        at = len(asked)
        if (
            len(reply) < at
            or reply[:2] != asked[:2]
            or not reply[2] & 0x80
            or reply[_HEAD:at].lower() != asked[_HEAD:]
        ):
            return None
        for _ in range(reply[6] << 8 | reply[7]):
            at = _behind_name(reply, at) + 10
            if at > len(reply):
                break
            length = reply[at - 2] << 8 | reply[at - 1]
            if reply[at - 10 : at - 8] == b"\0\1" and length == 4 and at + 4 <= len(reply):
                return "%d.%d.%d.%d" % tuple(reply[at : at + 4])
            at += length  # CNAME and others
        raise OSError(_DNS_FAILED)
