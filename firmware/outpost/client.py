"""The I/O shell: one link, one stream and one session, driven by poll().

    client = Client(link, Session(outbox, b"board-1"))
    client.publish(b"t", payload)
    while True:
        client.poll(ticks_ms())

It owns the stream, the chunk that is read from it, and the delay between connection attempts. It
drives whichever session it was given; the session owns its fields and counters (`session.py`).
It must not know a packet.

Its duties to the session, which any other owner of one has too:
- set `now_ms`, the ticks (they may wrap at 2^30 or beyond), before it calls anything else;
- open() when there is a stream, lost(error) when it is gone;
- receive(data, at, end) with what the server sent; a negative result is a status: close the stream;
- next_packet(): write that many bytes of `out`, from out_at on; if all were taken, set out_end to
  0, otherwise call part_written(count);
- when is_tick, then settle(moved), `moved` if bytes went either way; unless it returns OK, close
  the stream with that status.
Nothing need be called before the ticks reach `check_ms`, unless bytes arrive.

poll() does a bounded piece of work and returns: at most one packet written and one chunk read. Only
the board's `link()` may block (DNS, TLS handshake). Allocation: construction; connecting allocates
what the board's link does.

Stream contract: the stream does not block. write(buf, offset, length) and readinto(buf) return a
count, or None for "nothing now". readinto returns 0 when the peer has closed. Both raise OSError
when the stream is broken. A port's other oddities are handled in its board.py.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_OK = const(0)
_BUSY = const(-3)
_CONNECTED = const(2)
_LINK_LOST = const(-23)
_TOO_MANY = const(-24)
_TAKEN_OVER = const(-26)
_TICKS = const(0x3FFFFFFF)
_BEFORE = const(0x3FFFFFF0)  # ticks since a time that is 1 to 16 ms ahead: at least this
_TICK_MS = const(16)
_CHUNK_BYTES = const(64)
_FIRST_WAIT_MS = const(500)
_LONGEST_WAIT_MS = const(60_000)  # and up to 16 s of jitter
_GROWING_WAITS = const(7)
# Consecutive connections that the server closed within _SOON_MS: one with something in flight adds
# 1 if it made progress, an idle one adds _COUNT_OF_IDLE. A sum of _ENOUGH is no accident.
_SOON_MS = const(120_000)
_COUNT_OF_IDLE = const(3)
_ENOUGH = const(8)


def backoff_ms(attempt, random):
    """Milliseconds to wait after `attempt` attempts without progress: 250 to 500 after the first,
    doubled up to the seventh, then 60,000 to 76,000. The random part keeps a thousand boards from
    reconnecting in step after a broker's restart. random: 16 random bits.
    """
    random &= 0xFFFF
    if attempt > _GROWING_WAITS:
        return _LONGEST_WAIT_MS + (random >> 2)
    step = _FIRST_WAIT_MS // 2 << attempt - 1
    return step + (random * step >> 16)


def nothing(buf):
    """Stands in for readinto() while there is no stream."""
    return None


class Client:
    """link: callable that returns a connected stream, or None (not yet: it is called again), or
    raises OSError. session: a Session or one of its subclasses, used by this client alone. random:
    callable that returns 16 random bits; None: no jitter.

    publish() is the session's method.
    """

    # Class attributes, because they are rarely other than 0, and fewer fields are found faster.
    last_error = _OK  # status, or the port's error number, that ended the last stream
    failures = 0  # streams that ended in an error, or did not open
    takeovers = 0  # how many of them were TAKEN_OVER
    _short = 0  # recent connections that ended as if taken over: see _ENOUGH

    def __init__(self, link, session, random=None):
        # The fields that each poll() reads come first, so that each gets the place its hash names.
        self.session = session
        self._read = nothing  # the stream's readinto
        self._rx = bytearray(_CHUNK_BYTES)
        self._rx_at = self._rx_end = 0  # _rx[_rx_at:_rx_end] still waits for the session
        self._stream = None
        # A bound method in a field costs 16 bytes, and saves the search through the classes.
        self._receive, self._next_packet = session.receive, session.next_packet
        self.publish = session.publish
        self._link, self._random = link, random
        self._attempt = 0  # attempts since the last progress, see Session.has_progress()
        self._since_ms = 0  # ticks at which the stream was lost
        self._wait_ms = 0  # from _since_ms until the next attempt

    def is_connected(self) -> bool:
        return self.session.state == _CONNECTED

    def is_drained(self) -> bool:
        """True when no published message awaits acknowledgement (collector mode: confirmation)."""
        return self.session.outbox.oldest_seq == self.session.outbox.next_seq

    def poll(self, now_ms) -> bool:
        """Do a bounded piece of work. True: something moved, so call again soon. False: nothing to
        do now. now_ms: ticks, in ms."""
        try:
            # Work is due except in the tick before check_ms. This holds however long ago poll() was
            # called last, or if it never was.
            if (now_ms - self.session.check_ms) & _TICKS < _BEFORE:
                self.session.now_ms = now_ms
                return self._work(self._rx_end or self._read(self._rx))
            # Only what arrives matters now. From here on now_ms is a count, because a frame with
            # `except` has room for two locals.
            now_ms = self._rx_end or self._read(self._rx)
            return now_ms is not None and self._work(now_ms)
        except OSError:
            self._lost(_LINK_LOST)
        return True

    def _work(self, count):
        """_rx holds `count` bytes (0: the stream ended, None: none arrived), or work is due."""
        session = self.session
        if self._stream is None and not self._connect(session):
            return False
        moved = count is not None
        if moved:
            at = self._receive(self._rx, self._rx_at, count)
            if at != count or self._rx_end or not count:
                moved = self._keep_rest(at, count)
        left = self._next_packet()
        if left:
            count = self._stream.write(session.out, session.out_at, left)
            if count == left:
                moved = True
                session.out_end = 0
            else:
                moved = session.part_written(count or 0) or moved
        if session.is_tick:
            count = session.settle(moved)
            if count:
                self._lost(count)
        return moved

    def _keep_rest(self, at, count):
        """The session took _rx[:at] of the `count` bytes there. A negative `at` is the status with
        which to close the stream. True when something moved."""
        if at < 0 or not count:
            self._lost(at or _LINK_LOST)
            return True
        moved = at != self._rx_at
        if at == count:
            at = count = 0
        self._rx_at = at
        self._rx_end = count
        return moved

    def _connect(self, session):
        """Connect when it is due. True when there is a stream."""
        wait_ms = self._wait_ms - elapsed_ms(session.now_ms, self._since_ms)
        if wait_ms > 0:
            session.check_ms = (session.now_ms + min(wait_ms, _TICK_MS)) & _TICKS
            session.settle(False)
            return False
        self._wait_ms = 0  # over, even if the link takes longer than ticks can measure
        with self:
            self._stream = self._link()
        if self._stream is None:
            session.settle(False)
            return False
        self._read = self._stream.readinto
        session.open()
        return True

    __enter__ = nothing

    def __exit__(self, kind, error, trace):
        """An OSError in `with self` ends the stream. `except OSError as error` would need a frame
        of 13 words, which would come from the heap at each call."""
        if not isinstance(error, OSError):
            return False
        number = error.args[0] if error.args else _LINK_LOST
        if not isinstance(number, int) or -20 < number <= 0:
            number = _LINK_LOST  # it would read as another status, and 0 as none
        self._lost(number)
        return True

    def _lost(self, error):
        """The stream failed or did not open: close it, and connect again after a delay."""
        try:
            if self._stream:
                self._stream.close()
        except OSError:
            pass
        self._stream = None
        self._read = nothing
        self._rx_at = self._rx_end = 0
        self.last_error = self._reported(error)
        self.session.lost(error)
        self.failures += error != _OK
        self._since_ms = self.session.now_ms
        self._wait_ms = backoff_ms(self._attempt, self._random() if self._random else 0)

    def _reported(self, error):
        """Returns the status for the user: TAKEN_OVER if another client seems to use this client
        id. It also sets the delay, but is no evidence against a message: the session gets `error`.

        A server lets the newest connection have the id, and closes the other one. That client then
        reconnects and takes the id back, and nothing else goes wrong in between."""
        session = self.session
        has_progress = session.has_progress()
        if error != _LINK_LOST or (session.now_ms - session._up_ms) & _TICKS >= _SOON_MS:
            self._short = 0
        elif (
            session.next_send != session.base
            or session._requested
            or (session.suspects and session.suspects.is_testing())
        ):
            # A failing network looks the same; so does a message that the server does not take.
            self._short += has_progress and not session.suspects
        elif session.state == _CONNECTED:
            self._short += _COUNT_OF_IDLE
        if self._short >= _ENOUGH or error == _TAKEN_OVER:
            self.takeovers += 1
            error = _TAKEN_OVER
        elif has_progress or error == _OK or error == _TOO_MANY:  # TOO_MANY: there is room again
            self._attempt = 0
        self._attempt += 1
        return error

    def close(self) -> int:
        """Write what has begun, send DISCONNECT if there is a connection, and save the
        acknowledgements. The outbox keeps all other messages. Returns a status: see
        Outbox.save_state(); BUSY: the stream did not take all of it now, so the server may lack a
        QoS 0 message and publish the will."""
        try:
            if self._flush() and self.session.leave():
                self._flush()
        except OSError:
            self.session.out_end = 0  # of a broken stream nothing is told
        is_busy = self.session.out_end > 0
        if self._stream:
            self._lost(_OK)
        return self.session.outbox.save_state() or (_BUSY if is_busy else _OK)

    def _flush(self):
        """Write what is left of the packet that goes out. True when the stream took it."""
        session = self.session
        while session.out_end:
            count = self._stream.write(
                session.out, session.out_at, session.out_end - session.out_at
            )
            if not session.part_written(count or 0):
                return False
            if session.out_at == session.out_end:
                session.out_end = 0
        return True
