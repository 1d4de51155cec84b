"""The part of a session that notices when connections end on messages. What it then does is in
`suspects.py`, which is loaded for it, and as long as messages are aside.

Must not know more of a session than its window. Allocation: the import.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import unload

_LINK_LOST = const(-23)
_MOST_IN_FLIGHT = const(16)


class Suspicion:
    """A base of Session: what it adds is seldom called, so it is looked up last."""

    def __init__(self):
        self._suspects = None  # a Suspects, while messages are suspected, or aside
        self._ends = 0  # connections that the peer ended on messages, see _on_lost()

    def _on_lost(self, error):
        """Was a message the reason? The second end in a row suggests it, the first while messages
        are aside: `suspects.py` finds out."""
        if self._suspects:
            ends = self._suspects.on_lost(error)
            if ends is not None:
                self._ends = ends
                return
        if error != _LINK_LOST or self.acknowledged != self._acked_before:
            self._ends = min(self._ends, 0)
        if error == _LINK_LOST and self.next_send != self.base:
            self._ends += 1
            if self._ends > (0 if self.outbox.aside else 1) and self._load_suspects():
                self._suspects.begin()

    def _follow_suspects(self):
        if (self.outbox.aside or self._suspects) and self._load_suspects():
            self._suspects.on_connected()

    def _load_suspects(self):
        """False: there is no memory for it now."""
        try:
            if not self._suspects:
                from outpost.suspects import Suspects

                self._suspects = Suspects(self)
        except (ImportError, MemoryError):
            return False
        return True

    def _ask_suspects(self):
        self.window = self._suspects.on_tick()
        if self._suspects.is_over():
            self._suspects = None
            unload("outpost.suspects")

    def pass_over(self, seq):
        """Message seq, which is aside, counts as acknowledged. False: it is beyond the window."""
        if not 0 <= seq - self.base < _MOST_IN_FLIGHT:
            return False
        self._slide(seq - self.base)
        self._release(seq)
        return True

    def _on_unexpected(self, first, packet_id):
        """An acknowledgement of none in flight: of one that is aside, or ignored and counted."""
        if self._suspects and self._suspects.takes(first, packet_id):
            self.acknowledged += first != 0x50
        else:
            self.ignored += 1
