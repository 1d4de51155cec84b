"""QoS 2 in both directions, also across a reset. A class of its own, so that boards without it do
not pay.

Out: PUBLISH, PUBREC, PUBREL, PUBCOMP (4.3.3). Once the server has sent PUBREC, the message must
never be published again. So the outbox's note records that it is released before PUBREL goes out;
one note covers all that arrived together. After a reset, released messages get a PUBREL, and the
others a PUBLISH with DUP.

In: the message goes to the handler, then its identifier into the note, then PUBREC goes out. While
the identifier is noted, the server's repetitions only get a PUBREC. PUBREL removes it from the
note, then PUBCOMP goes out: from then on the server may use the identifier for another message. A
power cut between the handler's return and the note brings the message again, with DUP. Nothing on
this side of the handler can close that gap. If the note has no room, the message is passed over
without an answer, and so is every new one after it. When everything in the note is released, the
connection is closed, because most servers repeat the messages only on the next one.

If the server has lost the session (session-present 0), what it had not completed is published
again: better twice than never. MQTT 3.1 has no session-present; there this session relies on the
server to keep a session that is not clean.

A message that was set aside and sent again (`suspects.py`) has its identifier in the note from
PUBREC to PUBCOMP, so that after a reset it continues with PUBREL.

Note: base:4 released:2 identifiers:2 each; bit (seq & 15) of released belongs to the one message in
base..base+15 that it fits. Bit 31 of base: the last identifier is that of the message set aside.
Must not know a stream or a clock. Allocation: construction only.

Its hooks, in addition to those of `subscribing.py`:
    _on_progress(first, packet_id)  PUBREC or PUBCOMP of a message that went out
"""

from micropython import const

from outpost import packets
from outpost.subscribing import SubscribingSession

_OK = const(0)
_FULL = const(-1)
_STORAGE = const(-5)
_TOO_MANY = const(-24)
_CONNECTED = const(2)
_FIXED_BYTES = const(6)
_ARRIVED = const(32)  # identifiers that may await PUBREL at a time; mosquitto has 20 in flight
_MOST_NOTED = const(70)  # where the note ends when it has all of them
_RECORD_OVERHEAD = const(16)
_HAS_ASIDE = const(0x80)
_IDS = const(65535)
_PUBREL_BYTES = const(4)
_PUBREC = const(0x500000)
_PUBREL = const(0x620000)
_PUBCOMP = const(0x700000)


class ExactlyOnceSession(SubscribingSession):
    """outbox: a NotedOutbox, mounted. The other options: see SubscribingSession. Broker mode only,
    because a collector's tables drop duplicates.

    ValueError when the outbox keeps no note, or has no room for one in a record.
    """

    highest_qos = 2

    def __init__(self, outbox, client_id, **options):
        SubscribingSession.__init__(self, outbox, client_id, **options)
        self._is_clean, self._is_level_3 = options.get("clean"), options.get("level") == 3
        self._two = 0  # bit seq & 15 of a message in flight: it is QoS 2
        self._released = 0  # likewise: the server has it (PUBREC)
        self._due = 0  # likewise: its PUBREL is due
        self._bits_base = self.base  # the window's base when its bits were last updated
        self.unnoted = 0  # counter: notes not written because the ring had no room
        self._note = bytearray(_FIXED_BYTES + 2 * _ARRIVED + 2)
        self._note_end = _FIXED_BYTES  # the identifiers before it arrived and await PUBREL
        self._is_passed_over = False  # this connection passed over a message: the note was full
        self._is_noted = True  # the note in flash has all released messages
        self.aside_id = 0  # identifier of a message set aside, from PUBREC to PUBCOMP; 0: none
        is_long = outbox.record_bytes >= len(self._note) + _RECORD_OVERHEAD
        if not is_long or not hasattr(outbox, "set_note"):  # which no other outbox need know
            raise ValueError("session: QoS 2 needs a NotedOutbox, with record_bytes of 88 or more")
        if outbox.note_length >= _FIXED_BYTES:
            self._take_note(outbox.note, outbox.note_length)

    def _take_note(self, note, length):
        for i in range(length):
            self._note[i] = note[i]
        if note[0] & _HAS_ASIDE:
            length -= 2
            self.aside_id = packets.get_u16(note, length)
            self._note[0] ^= _HAS_ASIDE
        self._note_end = length
        base = packets.get_u16(self._note, 0) << 16 | packets.get_u16(note, 2)
        for seq in range(max(base, self.base), min(base + 16, self.outbox.next_seq)):
            self._released |= packets.get_u16(note, 4) & 1 << (seq & 15)

    def _save(self):
        """Write the note. False: flash did not take it, and nothing that relies on it may go out.

        If the ring has no room for a note, exchanges could never end. So they continue, counted in
        `unnoted`, and a reset may repeat their messages.
        """
        self._follow_window()
        packets.put_u16(self._note, 0, self.base >> 16)
        packets.put_u16(self._note, 2, self.base & 0xFFFF)
        packets.put_u16(self._note, 4, self._released)
        end = self._note_end
        if self.aside_id:
            self._note[0] |= _HAS_ASIDE
            end = packets.put_u16(self._note, end, self.aside_id)
        status = self.outbox.set_note(self._note, end)
        self._is_noted = status == _OK
        self.unnoted += status == _FULL
        return status == _OK or status == _FULL

    def _on_connected(self):
        SubscribingSession._on_connected(self)
        self._due = 0
        self._is_passed_over = False
        is_kept = (self.session_present or self._is_level_3) and not self._is_clean
        if not is_kept and (self._released or self._note_end > _FIXED_BYTES):
            self._released = 0
            self._note_end = _FIXED_BYTES
            self._is_noted = False
        if self.aside_id and not (is_kept and self._has_aside()):
            self.note_aside(0)
        if not self._is_noted:
            self._save()

    def note_aside(self, packet_id):
        """Called by `suspects.py`: PUBREC arrived for this identifier; 0: PUBCOMP arrived, and the
        message has left the shelf. The note records this before the next PUBREL or PUBLISH."""
        self.aside_id = packet_id
        self._is_noted = False

    def _has_aside(self):
        """True when the message of aside_id is, or may be, still set aside. It is then the next to
        be sent again. A cut may have come before the note recorded that it left."""
        outbox = self.outbox
        index = outbox.aside
        while index and self.suspects:
            index -= 1
            is_unread = outbox.shelf().load(index)
            if is_unread or packets.packet_id_of(outbox.shelf().seq) == self.aside_id:
                self.suspects.shelved().begin_at(index)
                return True
        return index > 0

    # --- Out ---

    def _start_message(self):
        """Not while the note cannot be written: a reset would forget a PUBREL sent now."""
        is_noted = self._is_noted or self._save()
        return is_noted and SubscribingSession._start_message(self)

    def _follow_window(self):
        """Clear the bits of messages that the window has passed since the last call: acknowledged,
        lost by the flash, or of a stream that ended. The messages with numbers 16 higher reuse
        these bits, so this precedes each use of them."""
        seq, base = self._bits_base, self.base
        self._bits_base = base
        kept = 0xFFFF if 0 <= base - seq < 16 else 0
        while kept and seq < base:
            kept &= ~(1 << (seq & 15))
            seq += 1
        self._two &= kept
        self._released &= kept
        self._due &= kept

    def _on_released(self, seq):
        """A released message gets a PUBREL in its turn, any other one a PUBLISH."""
        self._follow_window()
        bit = 1 << (seq & 15)
        self._two |= bit
        if not self._released & bit:
            return False
        packets.put_u16(self.tx, packets.put_header(self.tx, 0x62, 2), packets.packet_id_of(seq))
        self._start(self.tx, _PUBREL_BYTES)
        self.next_send = seq + 1
        self.high = max(self.high, seq + 1)
        return True

    def _on_tick(self):
        if self._due:
            self._follow_window()
        is_open = self._due and not self._answer and self.state == _CONNECTED
        if is_open and (self._is_noted or self._save()):
            seq = self.base
            while not self._due >> (seq & 15) & 1:
                seq += 1
            self._due &= ~(1 << (seq & 15))
            self._answer = _PUBREL | packets.packet_id_of(seq)
        return SubscribingSession._on_tick(self)

    def _on_puback(self, packet_id):
        """PUBACK is valid for a QoS 1 message only."""
        if self._two:
            self._follow_window()
        distance = (packet_id - packets.packet_id_of(self.base)) % _IDS
        if distance < 16 and self._two >> (self.base + distance & 15) & 1:
            self.ignored += 1
            return _OK
        return SubscribingSession._on_puback(self, packet_id)

    def _on_packet(self, first):
        if (first == 0x50 or first == 0x70) and self.length == 2:
            return self._on_progress(first, packets.get_u16(self.buffer, 0))
        return SubscribingSession._on_packet(self, first)

    def _on_progress(self, first, packet_id):
        """PUBREC, PUBCOMP: one that does not fit its message is ignored and counted."""
        self._follow_window()
        place = self._in_flight(first, packet_id)
        bit = 1 << (self.base + place & 15)
        if place < 0:
            pass
        elif first == 0x50 and self._two & bit:
            self._is_noted = self._is_noted and self._released & bit > 0
            self._released |= bit
            self._due |= bit
        elif first == 0x70 and self._released & bit & ~self._due:
            self._two &= ~bit
            self._released &= ~bit
            return SubscribingSession._on_puback(self, packet_id)
        else:
            self.ignored += 1
        return _OK

    def _in_flight(self, first, packet_id):
        """Returns the place in the window of the message with this identifier; -1: no message in
        flight has it, which is counted."""
        place = (packet_id - packets.packet_id_of(self.base)) % _IDS
        end = self.next_send - self.base
        if self.out_end and self.out is self.tx and self.tx[0] & 0x36 > 0x30:
            end -= 1  # the last PUBLISH is half written
        if packet_id and place < end and not self._acked >> place & 1:
            return place
        self._on_unexpected(first, packet_id)
        return -1

    # --- In ---

    def _on_publish(self, qos):
        if qos != 2:
            return SubscribingSession._on_publish(self, qos)
        packet_id = self._parse(2)
        if packet_id < 0:
            return SubscribingSession._on_publish(self, qos)
        if self._place(packet_id) < 0:
            is_new = not self.first & 8  # it must not overtake one that was passed over
            if self._note_end == _MOST_NOTED or (self._is_passed_over and is_new):
                self._is_passed_over = True
                self.skipped += 1
                return _OK
            is_long = self.length > len(self.buffer)
            if not (self._on_too_long() if is_long else self._on_message()):
                return _OK
            self._note_end = packets.put_u16(self._note, self._note_end, packet_id)
            if not self._save():
                self._note_end -= 2
                return _STORAGE
        self._answer = _PUBREC | packet_id
        return _OK

    def _place(self, packet_id):
        """Returns the offset of the identifier in the note; -1: it is not there."""
        at = _FIXED_BYTES
        while at < self._note_end:
            if packets.get_u16(self._note, at) == packet_id:
                return at
            at += 2
        return -1

    def _on_pubrel(self, packet_id):
        """Free the identifier. An unknown identifier gets a PUBCOMP as well (4.3.3)."""
        at = self._place(packet_id)
        if at >= 0:
            self._note_end -= 2
            packets.put_u16(self._note, at, packets.get_u16(self._note, self._note_end))
            if not self._save():
                packets.put_u16(self._note, at, packet_id)
                self._note_end += 2
                return _STORAGE  # the server will repeat PUBREL
            if self._is_passed_over and self._note_end == _FIXED_BYTES:
                return _TOO_MANY
        self._answer = _PUBCOMP | packet_id
        return _OK
