"""Series in the proof: the samples that are added, what was promised about them, and the fields of
a Series in a state's key.

Samples go through PLACES in turn, in each record from the first on. The steps are large, so that a
record has few samples. The step from the last place to the first is too large for a code, so that
sample is a restart. The content of a record stands for the bytes of its message: its tag and its
places, `b"<tag> F5 <place> <place> ..."`. The tag distinguishes attempts under one number, as in
`outbox_states.payload()`; the values contain it.

No record has enough samples for the parameters of the codes to change (`Series._learn`).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from outbox_invariants import Promise, require
from outbox_states import RECORD, SAMPLE, Piece, Ram, attempt_of
from series_samples import DAY_MS, Clock, read

if TYPE_CHECKING:
    from prove_outbox import Explorer

IS_SERIES = 0xF5
TOPIC = b"t"
DEVICE = b"d"
COLUMNS = ((b"v", b"", 0),)
DAY = 20_413
TIMES_MS = (0, 1 << 27, 1 << 26)  # of the places; time also goes back
_FIRST = 1 << 20
_TAG = 7  # what a tag adds to the values
PLACES = (_FIRST, _FIRST + (1 << 27), _FIRST + (1 << 28))
_KNOWN = {value + _TAG * tag: (tag, at) for tag in range(32) for at, value in enumerate(PLACES)}


def first_sample(tag: int, place: int) -> bytes:
    """Returns the content of a record with one sample."""
    return bytes((0x20 + tag, IS_SERIES, place))


def content(message: bytes, seq: int) -> bytes:
    """Returns the content of a message that load() returned. All of the message must be right."""
    try:
        found = read(message)
    except (AssertionError, IndexError) as fault:
        raise AssertionError(f"no series: {fault}, {message.hex()}") from fault
    require(found["seq"] == seq, "numbers", "message %d says it is %d", seq, found["seq"])
    tags, places = set(), []
    for time_ms, (value,) in found["samples"]:
        require(value in _KNOWN, "invented", "value %d in message %d", value, seq)
        tag, place = _KNOWN[value]
        require(time_ms == DAY * DAY_MS + TIMES_MS[place], "invented", "time of %d", seq)
        tags.add(tag)
        places.append(place)
    require(len(tags) == 1, "invented", "samples of %d records in message %d", len(tags), seq)
    return bytes((0x20 + tags.pop(), IS_SERIES, *places))


def record_content(message: bytes, seq: int) -> bytes:
    """Returns the content of a record in flash, with its room, which limits what can follow."""
    return content(message, seq) + message[18:20]


def is_part(found: bytes, whole: bytes) -> bool:
    """True when samples of `whole` are missing in `found`, and nothing else differs."""
    rest = iter(whole[2:])
    return found[:2] == whole[:2] and all(place in rest for place in found[2:])


class SeriesPromise(Promise):
    """grown: (number, content) that the open record may have after the present add()."""

    def __init__(self, next_seq: int = 0) -> None:
        Promise.__init__(self, next_seq)
        self.grown: tuple[int, bytes] | None = None

    def copy(self) -> SeriesPromise:
        twin = Promise.copy(self)
        twin.grown = self.grown
        return twin

    def add(self, outbox: Any, series: Any, tag: int) -> None:
        is_open, seq = outbox._owner is not None, outbox.next_seq
        before = self.held[seq] if is_open else b""
        if is_open:
            tag = attempt_of(before)
        place = (before[-1] + 1) % len(PLACES) if is_open else 0
        began = first_sample(tag, place)
        self.trying(began, seq + is_open)
        if is_open:
            self.grown = seq, before + bytes([place])
        clock = Clock(DAY, 0)
        clock.pass_ms(TIMES_MS[place])
        status = series.add(clock, (PLACES[place] + _TAG * tag,))
        require(coded(series) < 8, "scope", "so many samples change the codes")
        if status == 0 and is_open and outbox.next_seq == seq:
            self.held[seq] = self.grown[1]
            self._forget(began)
        elif status == 0:
            self._began(outbox.next_seq, began)
        else:
            self._forget(began)
        self.grown = None

    def _began(self, seq: int, began: bytes) -> None:
        require(seq >= self.next_seq, "numbers", "%d given again, %d is next", seq, self.next_seq)
        require(began in self.maybe.get(seq, ()), "numbers", "%d was not to come yet", seq)
        del self.maybe[seq]
        self.held[seq] = began
        self.next_seq = self.top_seq = seq + 1
        self.unsaved = {}

    def _forget(self, began: bytes) -> None:
        for seq in [one for one, tried in self.maybe.items() if began in tried]:
            self.maybe[seq] = tuple(one for one in self.maybe[seq] if one != began)
            if not self.maybe[seq]:
                del self.maybe[seq]

    def append(self, outbox: Any, topic: bytes, payload: bytes, flags: int = 0x10) -> int:
        """Append a message of another kind, which closes the open record."""
        self.trying(payload, outbox.next_seq + (outbox._owner is not None))
        status = outbox.append(topic, payload, len(payload), flags)
        self.tried(outbox, payload, status)
        return status

    def check(self, outbox: Any, settled: bool = True) -> int:
        found = self.contents(outbox)
        if self.grown is not None:
            seq, grown = self.grown
            if found.get(seq) == grown:
                self.held[seq] = grown  # the interrupted add() came through
            self.grown = None
        for seq, was in self.unsaved.items():
            if seq in found and is_part(found[seq], was):
                self.unsaved[seq] = found[seq]  # an erase may leave a part of a released record
        return Promise.check(self, outbox, settled)

    def payload_of(self, outbox: Any) -> bytes:
        found = Promise.payload_of(self, outbox)
        return content(found, outbox.loaded_seq) if found[:1] == bytes([IS_SERIES]) else found


def coded(series: Any) -> int:
    """Returns the number of samples in the latest record, without restarts."""
    return max(0, series._state[series._count + 2] - 1)


class SeriesRam(Ram):
    """The outbox's fields, and those of its Series."""

    # Fields that are left out are constant, or set before they are read; the promise of the open
    # record implies what was sampled last.
    _SAVED = (
        "_header", "_with_uptime", "_stream", "_room", "_is_full", "_state", "_ks", "_is_restart",
        "_sample", "_since", "refused",
    )  # fmt: skip

    def __init__(self, outbox: Any, series: Any) -> None:
        Ram.__init__(self, outbox)
        self.series = series
        self._at_start = self._series()

    def _series(self) -> tuple:
        values = [getattr(self.series, name) for name in self._SAVED]
        return tuple(value[:] if hasattr(value, "append") else value for value in values)

    def _restore_series(self, state: tuple) -> None:
        for name, value in zip(self._SAVED, state, strict=True):
            if hasattr(value, "append"):
                getattr(self.series, name)[:] = value
            else:
                setattr(self.series, name, value)

    def restart(self) -> None:
        """Do what a power cut does to the fields that mount() does not set."""
        self._restore_series(self._at_start)
        o = self.outbox
        o._record_at = 0
        o.where[:] = array("i", (0, 0, 0, 0, o._page, 0, 0))

    def snapshot(self) -> tuple:
        return Ram.snapshot(self), self._series(), self.outbox.where[:]

    def restore(self, state: tuple) -> None:
        Ram.restore(self, state[0])
        self._restore_series(state[1])
        self.outbox.where[:] = state[2]

    def key(self, sector: int, turn: int) -> tuple:
        o = self.outbox
        is_set = self.series._since[0] > 0
        mine = self.series._is_full, is_set, coded(self.series)
        at, end, start = o.where[:3]
        if o._owner is not None:
            room = o._record_at, start, at, end
        else:  # only how much the last one used
            room = (at - start if start else -1,)
        return (*Ram.key(self, sector, turn), mine, room, o._owner is not None)


def sample_piece(offset: int, data: bytes, before: tuple, room_at: int, place: int) -> Piece:
    """Returns the piece for the program of a sample. It has the acknowledgements of its record,
    which are the last ones that a mount finds."""
    record = [one for one in before if one.sort == RECORD][-1]
    at = room_at - offset
    return Piece(
        room_at, data[at:].rstrip(b"\xff"), SAMPLE, record.sector, b"", record.first,
        record.oldest, record.acked, 0, bytes([place]),
    )  # fmt: skip


def sample_under_way(explorer: Explorer) -> tuple[int, int] | None:
    """Returns (where in its block, place) of the sample that is being programmed."""
    outbox, promise = explorer.outbox, explorer.promise
    if getattr(outbox, "_owner", None) is None or not promise.grown:
        return None
    return outbox.where[0], promise.grown[1][-1]
