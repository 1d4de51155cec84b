"""Messages longer than the buffer, handed to the application in pieces as they come in. Memory does not grow.

A class of its own, so that boards that do not use it do not pay: without it, what is too long is skipped and counted. No heap.
"""

from micropython import const

from outpost.subscriber import Subscriber

_SKIPS = const(0)
_STREAMS = const(1)
_FAILED = const(2)


class Streamer(Subscriber):
    """on_piece: called with (this client, data, at, count): data[at:at+count] is the next piece of the payload; `piece_at` tells
    where in the payload it belongs, `payload_length` how long that is in all. The topic stands in `buffer`, as for on_message.

    Acknowledged after the last piece. When the handler raises, the rest of the message is skipped and nothing is acknowledged.
    """

    def __init__(self, link, outbox, client_id, **options):
        self.on_piece = self._data = None
        self.piece_at = self._data_at = self._streams = 0
        Subscriber.__init__(self, link, outbox, client_id, **options)

    def restart(self):
        Subscriber.restart(self)
        self._streams = _SKIPS

    def _keep(self, chunk, at, count):
        room = len(self.buffer) - self.have
        if count < room or self.length <= len(self.buffer) or self.first & 0xF0 != 0x30 or not self.on_piece:
            return Subscriber._keep(self, chunk, at, count)
        if room > 0:  # the buffer is full: topic and identifier are in it
            Subscriber._keep(self, chunk, at, room)
            at += room
            count -= room
            self._begin()
        if self._streams == _STREAMS and count:
            self._data = chunk
            self._data_at = at
            self._hand_over(count)

    def _begin(self):
        """The first piece is what the buffer has of the payload."""
        qos = self.first >> 1 & 3
        self.piece_at = 0
        if qos < 2 and self._parse(2 if qos else 0) >= 0:
            self._streams = _STREAMS
        if self._streams and self.payload_at < len(self.buffer):
            self._data = self.buffer
            self._data_at = self.payload_at
            self._hand_over(len(self.buffer) - self.payload_at)

    def _hand_over(self, count):
        """In two, and with the rest in fields: else the frame would be taken from the heap."""
        try:
            self._give(count)
        except Exception:  # the application's fault, whatever it is: not acknowledged, so not lost
            self.handler_errors += 1
            self._streams = _FAILED

    def _give(self, count):
        self.on_piece(self, self._data, self._data_at, count)
        self.piece_at += count

    def _too_long(self) -> bool:
        if self._streams == _SKIPS:
            return Subscriber._too_long(self)
        if self._streams == _FAILED:
            return False
        self.received += 1
        return True
