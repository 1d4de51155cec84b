"""The truth about messages: what the program was told is stored, and what came.

**The law.** An entry is made where the program gets its answer, outside of all that is under test.
Lost is what was accepted, has not come, and is no longer in the outbox; "not arrived" alone is not
lost, because a sleeping board holds it. A message is identified by the outbox's stream, its number,
topic and payload; without an outbox by topic and payload.

Entries: (ms, topic, payload, QoS, number, stream). `trying` is the one whose answer has not come.
"""

from virtual.samples import Samples
from virtual.series_reader import MAGIC
from virtual.watches import watches

_SERIES = bytes([MAGIC])
_IN_RAM = b"RAM of boot "


class Ledger:
    def __init__(self, world):
        self._world = world
        self.accepted, self.maybe, self.refused = [], [], []
        self.trying = self.outbox = None
        self._before = None  # the outbox of the boot before: until this one has opened its own
        self.samples = Samples(self)
        self.watches = watches(self)  # what is watched from its import on, by module

    def copy(self, world):
        twin = Ledger(world)
        twin.accepted, twin.refused = self.accepted[:], self.refused[:]
        twin.maybe = self.maybe[:] + ([self.trying] if self.trying else [])
        twin.samples = self.samples.copy(twin)
        return twin

    def restart(self):
        """A boot: RAM is new, and so is the outbox's object."""
        if self.trying:
            self.maybe.append(self.trying)
        self._before = self.outbox or self._before
        self.trying = self.outbox = None
        self.samples.restart()

    def now_ms(self):
        return self._world.now_ms()

    def enter(self):
        self._world.enter()

    def leave(self):
        self._world.leave()

    def count(self):
        """How many messages and samples were accepted."""
        return len(self.accepted) + len(self.samples.stored)

    def stream(self):
        """Whose numbers the program uses now. A server cannot know it; the world does. An outbox in
        RAM begins anew at each boot."""
        if not self.outbox:
            return b""
        return bytes(getattr(self.outbox, "stream", b"") or _IN_RAM + b"%d" % self._world.boots)

    # --- What the program is told (watches.py) ---

    def begin(self, topic, payload, length, qos, outbox):
        """A publish() begins. QoS 0 promises nothing, and text raises TypeError in it."""
        self._world.enter()
        if not isinstance(topic, str) and not isinstance(payload, str):
            number = outbox.next_seq if outbox and qos else -1
            self.trying = (
                self.now_ms(), bytes(topic), bytes(payload[:length]), qos, number, self.stream(),
            )  # fmt: skip
        self._world.leave()

    def end(self, status, qos, outbox):
        """It returned. Without an outbox: its client says that the server has the message."""
        self._world.enter()
        entry, self.trying = self.trying, None
        if entry and status:
            self.refused.append((entry, status))
        elif entry and qos:
            number = outbox.next_seq - 1 if outbox else -1
            self.accepted.append(entry[:4] + (number, self.stream()))
        elif entry and not outbox:
            self.maybe.append(entry)
        self._world.hurry()
        self._world.leave()

    def turn(self, is_end):
        """A poll() begins, or ended: how long it took, and from one to the next."""
        world = self._world
        world.enter()
        now_us = world.now_us
        if is_end:
            if not world.dead:
                world.longest_poll_us = max(world.longest_poll_us, now_us - world.polled_us)
        else:
            if world.polled_us:
                world.longest_turn_us = max(world.longest_turn_us, now_us - world.polled_us)
            world.polled_us = now_us
        world.leave()

    # --- What became of it ---

    def held(self):
        """(stream, first number, next number) of what the outbox holds now."""
        outbox = self.outbox or self._before
        if not outbox:
            return b"", 0, 0
        return bytes(outbox.stream) or self.stream(), outbox.oldest_seq, outbox.next_seq

    def pending(self):
        """Accepted, and not at the server."""
        came = {key_of_arrival(one) for one in self._world.broker.came}
        return [one for one in self.accepted if key_of(one) not in came]

    def have_come(self, accepted, samples):
        """True when the first so many messages and samples are at the server."""
        came = {key_of_arrival(one) for one in self._world.broker.came}
        if [one for one in self.accepted[:accepted] if key_of(one) not in came]:
            return False
        return not self.samples.faults(self._world.broker.came, [], samples)[0]

    def sample_faults(self):
        """([sample that is lost], [sample that came and that nobody stored]). For a boot that is
        over: it closes the record that is open, which load() does not show before."""
        if not self.samples.stored:
            return [], []
        return self.samples.faults(self._world.broker.came, self._held_messages())

    def _held_messages(self):
        outbox = self.outbox or self._before
        return self._world.unseen(lambda: _messages(outbox)) if outbox else []

    def lost(self):
        return [one for one in self.pending() if not self._is_held(one) and not _may_go(one, self)]

    def _is_held(self, entry):
        """It is in the outbox, or was set aside in its shelf."""
        stream, first, _ = self.held()
        number = entry[4]
        return entry[5] == stream and number >= 0 and (number >= first or self._is_aside(number))

    def _is_aside(self, number):
        """The shelf is in flash: it is read as the program would read it."""
        shelf = getattr(self.outbox or self._before, "_shelf", None)
        return bool(shelf) and self._world.unseen(lambda: shelf.has(number))

    def duplicates(self):
        seen, twice = set(), []
        for one in self._world.broker.came:
            if one[3]:
                key = key_of_arrival(one)
                if key in seen:
                    twice.append(one)
                seen.add(key)
        return twice

    def invented(self):
        """Came, and was never published."""
        known = {key_of(one) for one in self.accepted + self.maybe}
        return [
            one
            for one in self._world.broker.came
            if one[3] and one[2][:1] != _SERIES and key_of_arrival(one) not in known
        ]

    def out_of_order(self):
        """First arrivals whose number is below one of the same stream that came before."""
        seen, last, found = set(), {}, []
        for one in self._world.broker.came:
            number, stream = one[4], one[6]
            if not one[3] or (stream, number) in seen:
                continue
            seen.add((stream, number))
            if number < last.get(stream, 0):
                found.append(one)
            last[stream] = number
        return found


def _messages(outbox):
    """[(topic, payload)] of the messages that an outbox holds, once no record takes samples."""
    if hasattr(outbox, "close_series"):
        outbox.close_series()
    found, seq = [], outbox.oldest_seq
    while outbox.load(seq) == 0:
        at = outbox.topic_at + outbox.topic_length
        topic = bytes(outbox.buffer[outbox.topic_at : at])
        found.append((topic, bytes(outbox.buffer[at : at + outbox.payload_length])))
        seq = outbox.loaded_seq + 1
    return found


def _may_go(entry, ledger):
    """It was promised only until the power goes: an outbox in RAM, in a boot that is over."""
    return entry[5].startswith(_IN_RAM) and entry[5] != ledger.stream()


def key_of(entry):
    """Of what was accepted; a packet identifier follows from the number (session.py)."""
    _, topic, payload, _, number, stream = entry
    return stream, number % 65_535 + 1 if number >= 0 else 0, topic, payload


def key_of_arrival(arrival):
    _, topic, payload, _, packet_id, _, stream = arrival
    return stream, packet_id if stream else 0, topic, payload
