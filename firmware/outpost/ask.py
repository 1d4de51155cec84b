"""Questions by UDP that do not wait: one datagram out, one in; and names made addresses that way.

The ports' own getaddrinfo() waits for the name server, on some ports longer than a watchdog lasts. This asks at most three
times, 2 s each, and returns at once each time. IPv4; a name without an answer gives DNS_FAILED. No mDNS (`.local`).
Takes heap, while asking only.
"""

from micropython import const

from outpost.session import elapsed_ms

_TIMED_OUT = const(-22)
_DNS_FAILED = const(-44)
_AGAIN_MS = const(2000)
_TRIES = const(3)
_DNS_PORT = const(53)
_HEAD = const(12)


class Ask:
    """socket: the module. One question at a time; call it with the same one until the answer is there."""

    def __init__(self, socket, ticks_ms):
        self._module, self._ticks_ms = socket, ticks_ms
        self._udp = None
        self._tries = self.sent_ms = 0

    def __call__(self, server, port, question, check):
        """What check(reply) gives; None: not yet. OSError: no answer came. check gives None for a reply to something else."""
        try:
            if not self._udp:
                self._open(server, port)
                self._send(question)
            return self._look(question, check)
        except OSError:
            self.stop()
            raise

    def _open(self, server, port):
        self._tries = 0
        self._udp = self._module.socket(self._module.AF_INET, self._module.SOCK_DGRAM)
        self._udp.setblocking(False)
        self._udp.connect((server, port))  # answers from elsewhere are not for us

    def _send(self, question):
        self._tries += 1
        self.sent_ms = self._ticks_ms()
        self._udp.send(question)

    def _look(self, question, check):
        try:
            reply = self._udp.recv(512)
        except OSError:  # nothing there, or "port unreachable": the deadline decides
            reply = None
        found = check(reply) if reply else None
        if found is not None:
            self.stop()
        elif elapsed_ms(self._ticks_ms(), self.sent_ms) >= _AGAIN_MS:
            if self._tries == _TRIES:
                raise OSError(_TIMED_OUT)
            self._send(question)
        return found

    def stop(self):
        """Forget the question."""
        if self._udp:
            self._udp.close()
        self._udp = None


def _is_address(host):
    parts = host.split(".")
    return len(parts) == 4 and all([part.isdigit() and int(part) < 256 for part in parts])


def _question(host, random_bits):
    """A query for the IPv4 address: RFC 1035, section 4.1."""
    labels = host.rstrip(".").split(".")
    packet = bytes((random_bits >> 8 & 255, random_bits & 255, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0))
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
    """ask: an Ask of its own. random: callable, 16 random bits."""

    def __init__(self, ask, random):
        self._ask, self._random = ask, random
        self._packet = b""

    def __call__(self, server, host):
        """Address (text) of host, or None: not yet. Raises OSError(DNS_FAILED)."""
        if _is_address(host):
            return host
        try:
            self._packet = self._packet or _question(host, self._random())
            address = self._ask(server, _DNS_PORT, self._packet, self._address)
        except OSError:
            self._packet = b""
            raise OSError(_DNS_FAILED)
        if address:
            self._packet = b""
        return address

    def stop(self):
        self._packet = b""
        self._ask.stop()

    def _address(self, reply):
        asked = self._packet
        at = len(asked)
        if len(reply) < at or reply[:2] != asked[:2] or not reply[2] & 0x80 or reply[_HEAD:at] != asked[_HEAD:]:
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
