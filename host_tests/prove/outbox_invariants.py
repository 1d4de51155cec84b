"""The outbox's promises, in one place: their names, and the code that checks an outbox against
them. The format page names them; the hunts (`power_loss.py`) and the proof (`prove_outbox.py`)
check them.

A `Promise` records what the user was promised: append() returned OK, discard() returned True. After
each mount `check()` compares it with what is found. Must not know the bytes in flash. Runs under
MicroPython too.
"""

INVARIANTS = (
    ("mounts", "After any cut mount() returns OK, once format() has; before that OK or BLANK."),
    ("kept", "A message whose append() returned OK and that was not released is there, whole."),
    ("invented", "What is there besides is the message of the interrupted call, or a duplicate."),
    ("order", "Messages are read in the order of their numbers, each once."),
    ("numbers", "No number is used again that append() returned OK for, or that load() has shown."),
    ("duplicates", "A released message comes back only if no record was written since."),
    (
        "note",
        "The state note is the last one that set_note() returned OK for, or the one under way.",
    ),
    ("dropped", "A policy drops no more than the messages of one sector an append()."),
    ("goes on", "An outbox whose messages are all released takes a message."),
    ("chip", "No byte is programmed twice between erases; no address is outside of the region."),
    ("raises", "No call lets an OSError of the driver out; mount() and format() may."),
)
NAMES = tuple([name for name, _ in INVARIANTS])

MOST_SKIPPED = 256  # numbers that a mount may skip if it cannot know whether they were used
LAST_SEQ = (1 << 30) - 1  # the last of these numbers is never assigned


class Violation(Exception):
    """An invariant does not hold: its name, and what was found."""

    def __init__(self, name, details):
        super().__init__("%s: %s" % (name, details))
        self.name = name


def require(truth, name, details, *values):
    if not truth:
        raise Violation(name, details % values if values else details)


class Promise:
    """What the user of an outbox was promised.

    held: messages stored and not released, by number. unsaved: those released since the last
    record, which may come back. maybe: for a number, the payloads whose append() was interrupted or
    failed; one of them may be there, or none. next_seq: the number of the next message, unless one
    of `maybe` has it. top_seq: the highest next_seq so far; the outbox may skip numbers.
    """

    extra = ()  # whatever a test wants to store with it
    bits_flip = False  # a flipped bit may have lost the record of a release

    def __init__(self, next_seq=0):
        self.held = {}
        self.unsaved = {}
        self.maybe = {}
        self.next_seq = self.top_seq = next_seq
        self.note = b""
        self.maybe_notes = ()  # those whose set_note() was interrupted since; one may be there
        self.renewing = False  # the append() under way begins a new stream

    def copy(self):
        twin = type(self)(self.next_seq)
        twin.held, twin.unsaved, twin.maybe = dict(self.held), dict(self.unsaved), dict(self.maybe)
        twin.note, twin.maybe_notes, twin.renewing = self.note, self.maybe_notes, self.renewing
        twin.top_seq = self.top_seq
        twin.extra, twin.bits_flip = self.extra, self.bits_flip
        return twin

    # What the user does

    def append(self, outbox, topic, payload, flags=0x10):
        self.trying(payload, outbox.next_seq)
        status = outbox.append(topic, payload, len(payload), flags)
        self.tried(outbox, payload, status)
        return status

    def trying(self, payload, next_seq):
        """append() is called, and would assign this number."""
        if self.renewing and next_seq < self.next_seq:  # the interrupted one began the new stream
            self.unsaved, self.next_seq = {}, next_seq
        self.renewing = next_seq == LAST_SEQ and not self.held
        seq = 0 if self.renewing else next_seq
        self.maybe[seq] = self.maybe.get(seq, ()) + (payload,)

    def tried(self, outbox, payload, status):
        self.drop(outbox)
        if status == 0:
            seq = outbox.next_seq - 1
            if self.renewing:
                self.unsaved, self.next_seq = {}, 0
            require(
                seq >= self.next_seq, "numbers", "%d given again, %d is next", seq, self.next_seq
            )
            require(payload in self.maybe.get(seq, ()), "numbers", "%d was not to come yet", seq)
            del self.maybe[seq]
            self.held[seq] = payload
            self.next_seq = self.top_seq = seq + 1
            self.unsaved = {}
        elif status in (-1, -2, -3):  # FULL, TOO_BIG, BUSY: nothing was programmed of it
            for seq in list(self.maybe):
                if payload in self.maybe[seq]:
                    self.maybe[seq] = self.maybe[seq][:-1]
                    if not self.maybe[seq]:
                        del self.maybe[seq]
        self.renewing = False

    def drop(self, outbox):
        """Accept what a policy gave up. An outbox that refuses drops nothing."""

    def load(self, outbox, seq, settled=True):
        """load(seq) returns the oldest held message from there on, or one that may be there. After
        that, its number is known to others. Returns whether it is `seq`."""
        errors = outbox.storage_errors
        status = outbox.load(seq)
        if status and outbox.storage_errors > errors:
            return False  # the driver's error, reported as EMPTY
        expected = min([one for one in self.held if one >= seq], default=-1)
        if status:
            require(expected < 0, "kept", "load(%d) returns %d", seq, status)
            return False
        found, payload = outbox.loaded_seq, self.payload_of(outbox)
        known = self.held.get(found) == payload or self.unsaved.get(found) == payload
        known = known or payload in self.maybe.get(found, ())
        require(known, "invented", "load(%d) returns %d %s", seq, found, payload[:20])
        require(expected < 0 or found <= expected, "order", "load(%d) returns %d", seq, found)
        self.next_seq = max(self.next_seq, found + 1)
        return found == seq

    def discard(self, outbox, seq):
        if not outbox.discard(seq):
            return False
        require(seq in self.held, "kept", "discard(%d) released what is not held", seq)
        self.unsaved[seq] = self.held.pop(seq)
        return True

    def save(self, outbox):
        status = outbox.save_state()
        self.drop(outbox)
        if status == 0:
            self.unsaved = {}
        return status

    def set_note(self, outbox, note):
        if note not in self.maybe_notes:
            self.maybe_notes += (note,)
        status = outbox.set_note(note, len(note))
        self.drop(outbox)
        if status == 0:
            self.note, self.maybe_notes, self.unsaved = note, (), {}
        return status

    def format(self, outbox, stream, force, first_seq=0):
        status = outbox.format(stream, force, first_seq)
        if status == 0:
            self.__init__(first_seq)
        return status

    # What must be true

    def payload_of(self, outbox):
        """Returns the payload of the message that load() returned, in the form used in `held`."""
        return payload_of(outbox)

    def contents(self, outbox):
        return contents(outbox, self.payload_of)

    def check(self, outbox, settled=True):
        """Check a freshly mounted outbox against the promise. settled: no cell is unstable, so what
        was found stays, and is accepted; otherwise it may be different after the next mount.

        Returns the number of duplicates."""
        found = self.contents(outbox)
        for seq, payload in self.held.items():
            require(found.get(seq) == payload, "kept", "%d of %s lost, found %s",
                    seq, sorted(self.held), sorted(found))  # fmt: skip
        duplicates = 0
        for seq, payload in found.items():
            if seq in self.held:
                continue
            if self.unsaved.get(seq) == payload:
                duplicates += 1
            else:
                known = payload in self.maybe.get(seq, ())
                name = "duplicates" if seq < self.next_seq and not known else "invented"
                known = known or (name == "duplicates" and self.bits_flip)
                require(known, name, "%d %s, held are %s", seq, payload[:20], sorted(self.held))
        self._check_next(outbox, found)
        self._check_note(outbox, settled)
        if settled:
            if self.renewing and outbox.next_seq < self.next_seq:
                self.next_seq = 0
            # Released and not found: no record says so yet, so it may still come back.
            self.unsaved = {one: data for one, data in self.unsaved.items() if one not in found}
            self.held, self.maybe, self.renewing = found, {}, False
            self.next_seq = max([self.next_seq] + [seq + 1 for seq in found])
        else:  # the outbox no longer knows which were released; they may be there, or not
            for seq, payload in self.unsaved.items():
                self.maybe[seq] = self.maybe.get(seq, ()) + (payload,)
            self.unsaved = {}
        return duplicates

    def _check_next(self, outbox, found):
        """A number may be skipped, but none comes back."""
        least = 0 if self.renewing else max([self.next_seq] + [seq + 1 for seq in found])
        most = max([least, self.top_seq] + [seq + 1 for seq in self.maybe]) + MOST_SKIPPED
        near = least <= outbox.next_seq <= most
        near = near or (self.renewing and outbox.next_seq >= self.next_seq)
        require(near, "numbers", "next is %d, expected %d", outbox.next_seq, least)
        self.top_seq = outbox.next_seq

    def _check_note(self, outbox, settled):
        if not hasattr(outbox, "set_note"):
            return
        note = bytes(outbox.note[: outbox.note_length])
        known = note == self.note or note in self.maybe_notes
        require(known, "note", "%s, expected %s or %s", note, self.note, self.maybe_notes)
        if settled:
            self.note, self.maybe_notes = note, ()


class DropPromise(Promise):
    """For `DropOldest`: what it gave up is no longer promised, but may come back until a record
    says so."""

    most = 10000  # messages in a sector

    def drop(self, outbox):
        gone = [seq for seq in self.held if seq < outbox.oldest_seq]
        require(len(gone) <= self.most, "dropped", "%d messages at once", len(gone))
        for seq in gone:
            self.unsaved[seq] = self.held.pop(seq)


def payload_of(outbox):
    """Returns the payload of the message that load() returned."""
    at = outbox.topic_at + outbox.topic_length
    return bytes(outbox.buffer[at : at + outbox.payload_length])


def contents(outbox, payload_of=payload_of):
    """Returns what the outbox holds, by number, without those released out of order.

    Reads only: does not settle first what mount() is unsure of, as load() would.
    """
    end = getattr(outbox, "_shown_end", LAST_SEQ)
    outbox._shown_end = LAST_SEQ
    found, last = {}, -1
    while outbox.load(last + 1) == 0:
        seq = outbox.loaded_seq
        require(seq > last, "order", "%d after %d", seq, last)
        last = seq
        distance = seq - outbox.oldest_seq
        if distance >= 0 and not (outbox.acked << 1) >> distance & 1:
            found[seq] = payload_of(outbox)
    outbox._shown_end = end
    return found


def goes_on(outbox, promise, payload):
    """An emptied outbox accepts a message. The outbox and the promise are unusable afterwards."""
    outbox.discard_through(outbox.next_seq - 1)
    promise.unsaved.update(promise.held)
    promise.held = {}
    status = -1
    for _ in range(outbox.blocks + 2):  # each failure may cost one block, and is reported
        status = promise.append(outbox, b"t", payload)
        if status == 0:
            return
    raise Violation("goes on", "append() returns %d from an empty outbox" % status)
