"""Cuts the power in every program and erase of a series load: the hunt of `power_loss.py`, with the
promise of a series. Every sample whose add() returned OK is there, once, in order, whole, with its
time; so is every message of another kind; nothing is invented.

Values and time of a sample follow from its place in the load, so that any mix-up is seen.
"""

import random
import sys

from outbox_invariants import contents, require
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from outpost.series import Series
from outpost.series_outbox import over
from outpost.state_note import NotedOutbox
from power_loss import LAST_SEQ, Hunt, Load, Tally, Violation
from series_samples import COLUMNS, DAY_MS, TOPIC, Clock, read
from virtual.chip import ChipRuleError

# As in power_loss.py: the same functions, faster.
if sys.implementation.name == "cpython":
    from outbox_real import check_of, crc30, fill, is_blank, move_bits, take_bits
    from outpost import series_outbox

    for function in (crc30, fill, is_blank, take_bits, move_bits, check_of):
        setattr(series_outbox, function.__name__, function)

DAY = 20_413
STEP_MS = 977


def values_at(place):
    """Returns the values of the sample taken at `place` of the load."""
    mixed = place * 7919 % 1009
    third = None if mixed % 11 == 0 else 101_325 + mixed % 3
    return place, (mixed << 19) if mixed % 17 == 0 else 4500 + mixed % 40, third


class SeriesModel:
    """What the user of a series did, and what was promised. Samples and alarms have places in the
    load.

    kept: {place: number of its message} of what was stored and not released. maybe: places whose
    storing was interrupted or failed. released: places that may come back, until a record says so.
    """

    def __init__(self, first_seq=0):
        self.kept, self.maybe, self.released = {}, set(), set()
        self.next_seq, self.place, self.shown = first_seq, 0, {}

    def copy(self):
        twin = type(self)(self.next_seq)
        twin.kept, twin.maybe, twin.released = dict(self.kept), set(self.maybe), set(self.released)
        twin.place, twin.shown = self.place, dict(self.shown)
        return twin

    # What the user does

    def store(self, outbox, payload):
        self.place += 1
        self.maybe.add(self.place)
        is_alarm = random.getrandbits(4) == 0
        status = self._alarm(outbox, payload) if is_alarm else self._sample(outbox)
        self.drop(outbox)
        if status == 0:
            seq = outbox.next_seq - is_alarm
            if seq < 9999 and self.next_seq > LAST_SEQ - 99:  # a new stream
                self.next_seq, self.shown = 0, {}
            require(seq >= self.next_seq, "numbers", "%d, %d is next", seq, self.next_seq)
            self.maybe.discard(self.place)
            self.kept[self.place] = seq
            self.next_seq = max(self.next_seq, seq)
        elif status != -5:  # nothing of it was programmed
            self.maybe.discard(self.place)

    def _alarm(self, outbox, payload):
        payload = b"%d:" % self.place + payload
        return outbox.append(TOPIC, payload, len(payload))

    def _sample(self, outbox):
        clock = Clock(DAY, 0)
        clock.pass_ms(self.place * STEP_MS)
        return series_of(outbox).add(clock, values_at(self.place))

    def free(self, outbox):
        """The oldest message was sent, and is acknowledged; sometimes the open record is closed for
        that."""
        if random.getrandbits(3) == 0:
            series_of(outbox).close()
        if outbox.load(outbox.oldest_seq) == 0:
            seq = outbox.loaded_seq
            at = outbox.topic_at + outbox.topic_length
            found = places_in(bytes(outbox.buffer[at : at + outbox.payload_length]), seq)
            self._check_shown(seq, found)
            outbox.discard(seq)
            for place in found:
                self.kept.pop(place, None)
                self.maybe.discard(place)
                self.released.add(place)
            self.next_seq = max(self.next_seq, seq + 1)

    def save(self, outbox):
        if outbox.save_state() == 0:
            self.released = set()
        self.drop(outbox)

    def new_note(self, outbox):
        outbox.set_note(b"note", random.getrandbits(2))

    def drop(self, outbox):
        """Accept what a policy gave up. In a new stream, the same number may be another
        message's."""
        if hasattr(outbox, "_drop_sector"):
            for place in [one for one, seq in self.kept.items() if seq < outbox.oldest_seq]:
                del self.kept[place]
                self.released.add(place)

    # What must be true

    def check(self, outbox, settled=True):
        """Check after a mount. Returns the number of messages that came twice."""
        found, duplicates, last = {}, 0, -1
        for seq, payload in contents(outbox).items():
            places = places_in(payload, seq)
            self._check_shown(seq, places, seq >= outbox._shown_end)
            for place in places:
                known = place in self.kept or place in self.maybe or place in self.released
                require(known, "invented", "place %d in message %d", place, seq)
                require(place > last, "order", "place %d after %d", place, last)
                last = place
                found[place] = seq
            duplicates += any([place in self.released for place in places])
        for place, seq in self.kept.items():
            require(place in found, "kept", "place %d of message %d", place, seq)
        least = max([self.next_seq] + [seq + 1 for seq in found.values()])
        if outbox.next_seq < 9999 and least > LAST_SEQ - 99:
            self.shown = {}
        else:
            require(outbox.next_seq >= least, "numbers", "%d is next", outbox.next_seq)
        if settled:
            self.kept, self.maybe = found, set()
            self.released -= set(found)
            self.next_seq = least if outbox.next_seq >= least else outbox.next_seq
        else:
            self.maybe |= self.released
        return duplicates

    def _check_shown(self, seq, places, is_held_back=False):
        """A message that was seen is seen again with the same samples, except one whose add() was
        interrupted. is_held_back: load() does not return it yet, because a cut in its first program
        may have left cells that read differently next time."""
        before = self.shown.get(seq, places)
        for place in set(before) ^ set(places):
            known = place in self.maybe or place in self.released
            require(known, "kept", "message %d was %s, is %s", seq, before[-2:], places[-2:])
        if not is_held_back:
            self.shown[seq] = places


def series_of(outbox):
    if not hasattr(outbox, "hunted"):
        outbox.hunted = Series(outbox, TOPIC, b"board-1", COLUMNS, max_age_s=60)
    return outbox.hunted


_known = {}


def places_in(payload, seq):
    """Returns the places that a message claims to have, if everything in it is right."""
    if (payload, seq) not in _known:
        if len(_known) > 5000:
            _known.clear()
        _known[payload, seq] = _places_in(payload, seq)
    return _known[payload, seq]


def _places_in(payload, seq):
    if payload[0] != 0xF5:
        return [int(payload.split(b":")[0])]
    message = read(payload)
    require(message["seq"] == seq, "invented", "number %d in message %d", message["seq"], seq)
    places = [values[0] for _, values in message["samples"]]
    for time_ms, values in message["samples"]:
        is_right = values == values_at(values[0])
        is_right = is_right and time_ms == DAY * DAY_MS + values[0] * STEP_MS
        require(is_right, "invented", "%s in message %d", values, seq)
    return places


LOADS = (
    Load("series", 12, over(Outbox, True), SeriesModel),
    Load("series, full, refuse", 15, over(Outbox, True), SeriesModel),
    Load("series, few acknowledgements", 14, over(Outbox, True), SeriesModel, erases_ahead=True),
    Load("series, full, drop oldest", 15, over(DropOldest, True), SeriesModel),
    Load("series, notes", 12, over(NotedOutbox, True), SeriesModel, notes=True),
    Load("series, end of the numbers", 13, over(Outbox, True), SeriesModel, first_seq=LAST_SEQ - 5),
    Load(
        "series, driver errors", 13, over(Outbox, True), SeriesModel, erases_ahead=True, errors=True
    ),
    Load(
        "series, bad blocks",
        13,
        over(Outbox, True),
        SeriesModel,
        erases_ahead=True,
        bad_blocks=True,
    ),
)
# blocks, align, page_bytes
GEOMETRIES = ((2, 4, 256), (3, 4, 32), (4, 4, 256), (4, 256, 256), (5, 4, 64), (16, 4, 4096))


class SeriesHunt(Hunt):
    """More steps that store, because a record holds many samples."""

    def _payload(self):
        return b"x" * (random.getrandbits(16) % 400)


def hunt(steps, seed, loads=LOADS, geometries=GEOMETRIES, outbox_class=None):
    """As power_loss.hunt()."""
    total = Tally()
    for geometry in geometries:
        for load in loads:
            one = SeriesHunt(geometry, load, seed, outbox_class)
            try:
                one.run(steps, 0 if load.first_seq else 40 * geometry[0])
            except (Violation, ChipRuleError, AssertionError) as fault:
                where = "%s blocks=%d align=%d page=%d" % ((load.name,) + geometry)
                name = getattr(fault, "name", "chip")
                raise Violation(name, "%s seed=%d: %s" % (where, seed, fault))
            total.add(one)
    return total
