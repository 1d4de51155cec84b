"""Messages longer than the buffer, handed to the application in pieces as they arrive.

A class of its own, so that boards that do not use it do not pay: without it, a message that is too
long is skipped and counted. Must not know a stream or a clock. Allocation: none after construction.

Its hook: on_piece(self, data, at, count), the application's.
"""

from micropython import const

from outpost.subscribing import SubscribingSession

_SKIPS = const(0)
_STREAMS = const(1)
_FAILED = const(2)  # the handler raised: the rest is skipped and not acknowledged
_ACKNOWLEDGED = const(3)  # the handler raised: the rest is skipped and acknowledged


class StreamingSession(SubscribingSession):
    """on_piece: called with (this session, data, at, count): data[at:at+count] is the next piece of
    the payload, `piece_at` its place there and `payload_length` the payload's length. The topic is
    in `buffer`, as for on_message.

    Acknowledged after the last piece. If the handler raises, the rest of the message is skipped.
    Options: see SubscribingSession.
    """

    def __init__(self, outbox, client_id, **options):
        SubscribingSession.__init__(self, outbox, client_id, **options)
        self.on_piece = None
        self.piece_at = 0  # offset of the next piece in the payload
        self._mode = _SKIPS  # how the message that is arriving is treated
        self._data = None  # the next piece begins at _data[_data_at]
        self._data_at = 0

    def _keep(self, data, at, count):
        if not self.have:
            self._mode = _SKIPS  # a packet begins
        room = len(self.buffer) - self.have
        SubscribingSession._keep(self, data, at, count)
        if count < room or not self._is_long() or not self.on_piece:
            return
        if room > 0:  # the buffer is full now: topic and identifier are in it
            at += room
            count -= room
            self._begin()
        if self._mode == _STREAMS and count:
            self._data = data
            self._data_at = at
            self._hand_over(count)

    def _is_long(self):
        return self.length > len(self.buffer) and self.first & 0xF0 == 0x30

    def _begin(self):
        """The first piece is the payload that the buffer has. A message whose topic does not fit
        into the buffer is skipped."""
        self.piece_at = 0
        packet_id = self._parse(2 if self.first & 6 else 0)
        if packet_id >= 0 and self.payload_at <= len(self.buffer):
            self._mode = _STREAMS
        if self._mode and self.payload_at < len(self.buffer):
            self._data = self.buffer
            self._data_at = self.payload_at
            self._hand_over(len(self.buffer) - self.payload_at)

    def _hand_over(self, count):
        """Two functions, and the rest in fields: one frame for all would exceed 11 words."""
        try:
            self._call(count)
        except Exception:  # the application's fault, whatever it is
            self._mode = _ACKNOWLEDGED if self._on_failed() else _FAILED

    def _call(self, count):
        self.on_piece(self, self._data, self._data_at, count)
        self.piece_at += count

    def _on_too_long(self) -> bool:
        if self._mode == _SKIPS:
            return SubscribingSession._on_too_long(self)
        self.received += self._mode == _STREAMS
        return self._mode != _FAILED
