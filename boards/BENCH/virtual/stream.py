"""One TCP connection as the board has it: the stream contract of outpost/client.py.

write(buf, offset, length) and readinto(buf) return a count, or None for "nothing now"; readinto
returns 0 when the server has closed; both raise OSError when the connection is broken.

**The law.** What is written is at the server when write() returns, after the effect "send", unless
an outage is in between. What the server says arrives after its latency, in order, and its end comes
last. So nothing is lost on the way that TCP would not lose.

Must not know the protocol (connection.py), nor which outages there are (outages.py).
"""

NET_US = 100  # what a call costs
_ROOM = 8 * 1024  # bytes that TCP keeps unacknowledged before write() takes no more
_EBADF, _ECONNRESET = 9, 104
_END = b""  # the server's FIN


class Stream:
    """server: the server's side, with receive(data), lost(), and is_over."""

    def __init__(self, broker, server):
        self._broker, self._world = broker, broker.world
        self.server = server
        self._coming = []  # [us, data]: what the server said, until the board has read it
        self._held = b""  # written, and not at the server
        self._lost = False  # what was held has no way to the server any more
        self._error = 0
        self._reset_us = 0  # when the answer to what was written after the end arrives: a reset

    # --- The board's side ---

    def write(self, buf, offset=0, length=None):
        self._pass()
        end = len(buf) if length is None else offset + length
        data = bytes(buf[offset:end])
        is_held = self._broker.outages.kind(self._world.now_us) in ("silent", "half_open")
        if is_held:
            data = data[: _ROOM - len(self._held)]
        if not data:
            return None if end > offset else 0
        if self.server.is_over and not is_held:
            self._check_reset()
        self._world.effect("send", data)
        if is_held:
            self._hold(data)
        else:
            self.server.receive(data)
        return len(data)

    def readinto(self, buf):
        self._pass()
        if not self._coming or self._coming[0][0] > self._world.now_us:
            return None
        data = self._coming[0][1]
        count = min(len(buf), len(data))
        buf[:count] = data[:count]
        if count < len(data):
            self._coming[0][1] = data[count:]
        elif data:  # the end stays
            self._coming.pop(0)
        return count

    def close(self):
        """Without DISCONNECT before it, the server learns of it now, and publishes the will."""
        self._world.pass_us(NET_US)
        self._broker.look()
        is_heard = self._broker.outages.kind(self._world.now_us) not in ("silent", "half_open")
        if not self._error and not self.server.is_over and is_heard:
            self._world.effect("send", _END)
            self.server.lost()
        self.break_(_EBADF)

    def _pass(self):
        self._world.pass_us(NET_US)
        self._broker.look()
        if self._error:
            raise OSError(self._error)

    def _check_reset(self):
        """The server has closed: what arrives there is answered by a reset, which the next write
        meets. What it said before can still be read."""
        if self._reset_us and self._world.now_us >= self._reset_us:
            raise OSError(_ECONNRESET)
        self._reset_us = self._reset_us or self._broker.arrives_us()

    def _hold(self, data):
        """Of what half_open swallows nothing comes later; the room that it takes stays taken."""
        self._held += data
        if self._broker.outages.kind(self._world.now_us) == "half_open":
            self._lost = True

    # --- The server's side ---

    def is_broken(self):
        return self._error != 0

    def say(self, data):
        """Returns when it arrives, in us."""
        at_us = self._broker.arrives_us()
        if self._coming:
            at_us = max(at_us, self._coming[-1][0])
        if not self._error:
            self._coming.append([at_us, data])
        return at_us

    def end(self):
        """The server closes. In half_open the board does not learn of it before the outage ends."""
        if self._broker.outages.kind(self._broker.now_us) == "half_open":
            self._lost = True
        else:
            self.say(_END)

    def resume(self):
        """An outage ended."""
        if self._lost:
            self.break_(_ECONNRESET)
        elif self._held:
            data, self._held = self._held, b""
            if not self.server.is_over:
                self.server.receive(data)

    def break_(self, error=_ECONNRESET):
        """From now on each call raises this error, the first one if there are several."""
        self._error = self._error or error
        self._held = b""
        del self._coming[:]
