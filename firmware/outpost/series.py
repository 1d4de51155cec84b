"""A series: samples of several sensors, each durable when add() returns OK, and many sent together
in one message (`firmware/SERIES_FORMAT.md`).

    outbox = over(Outbox)(device)          an outbox that holds series: `series_outbox.py`
    series = Series(outbox, topic, b"board-1", ((b"temperature", b"Cel", -2), (b"load", b"", 0)))
    series.add(clock, (2150, 42))          OK: on flash
    series.close()                         makes the samples taken so far a message

A record is open in the newest sector, and takes its samples in place. It is closed when it is full
or older than max_age_s, by close(), and before any other message is stored; closing programs
nothing. Then it is one message with one number, under the outbox's promises. Before, it is not
sent.

Must not know MQTT, or where values come from. Allocation: construction.
"""
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from array import array
from struct import pack_into

from micropython import const

from outpost.memory import copy
from outpost.series_codec.series_bits import (
    is_near,
    put_bits,
    put_codes,
    put_sample,
    put_wholes,
    remember,
    take,
)
from outpost.text import is_topic

_OK = const(0)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_STORAGE = const(-5)

_FIXED = const(31)  # bytes of the header before the device's name
_MOST_COLUMNS = const(16)
_OVERHEAD = const(16)  # of a record
_LIMIT = const(0x20000000)  # of a value, and of a time in steps
_MOST_DAYS = const(11)  # so that milliseconds stay below 2^30
_DAY_MS = const(86_400_000)
_FIRST_K = const(3)  # before a record has shown a better one
_SETS_CLOCK = const(2)  # the flag of an uptime

# Indexes into the outbox's `where`: see `series_bits.py`.
_AT = const(0)
_END = const(1)
_START = const(2)
_LAST = const(6)
# Indexes into `since`; the day is 0 when it is not known.
_ON_DAY = const(0)
_AT_MS = const(1)
_UP_DAY = const(2)
_UP_MS = const(3)
_MAX_AGE_MS = const(5)


class Series:
    """outbox: mounted. device: as in the topic. columns: 1 to 16 of (name, unit, exponent): bytes,
    bytes, and -9..9.

    step_ms: times are rounded down to it, from the record's start; the jitter of a loop then costs
    nothing. max_age_s: a record of this age is closed at the next add() or poll(); at most 11 days.
    record_bytes: size of a record in flash, at most the outbox's; less is reserved if the record
    before was closed with less in it. Raises ValueError.
    """

    def __init__(self, outbox, topic, device, columns, step_ms=1, max_age_s=600, record_bytes=4096):
        _check(outbox, topic, device, columns, step_ms, max_age_s)
        count = len(columns)
        # The fields that a sample uses come first, so that each gets the place its hash names.
        self._outbox = outbox
        # Methods in fields are found without a search through the classes.
        self.add, self._extend = self.add, outbox.extend
        self._sample = bytearray(8 * (count + 1) + 12)
        # Its codes, and the state that they continue from: see `series_bits.py`.
        self._state = array("i", [0] * (3 * count + 6))
        self._since = array("i", (0, 0, 0, 0, step_ms, max_age_s * 1000, count))
        self._ks = bytearray([0] + [_FIRST_K] * count)
        self._parts = self._state, self._since, self._ks, self._sample
        self._full = (1 << count) - 1 << 5 | count  # shape of a sample with nothing missing
        self._now = 2 * count + 4  # place in _state of the new sample
        self._is_restart = False  # of the sample that was coded last
        self._topic, self._count, self.step_ms = topic, count, step_ms
        self.refused = 0  # samples for which add() did not return OK
        # The header: fixed fields, device, columns, and maybe an uptime.
        self._header = _header_of(device, columns)
        self._columns_at = _FIXED + len(device)
        self._with_uptime = False
        self._stream = b""  # the outbox's, as in the header
        self._mask = -outbox._align  # room begins and ends where a record may
        self._record_bytes = min(record_bytes, outbox.record_bytes) & self._mask
        self._room = 0  # bytes for samples in the latest record
        self._is_full = False  # the latest record was full
        self._blank = bytes(len(self._sample))
        self._header += self._blank  # where the first sample goes; its length with an uptime:
        self._header_bytes = len(self._header) - len(self._blank)
        if self._record_bytes - self._size(len(self._header)) < 2 * len(self._sample):
            raise ValueError("series: record_bytes")

    def add(self, clock, values):
        """Store a sample: OK, FULL, BUSY, STORAGE; TOO_BIG: a value is not within 30 bits. clock:
        day (0: it is not set), ms, up_day, up_ms, brought up to now. values: an integer or None for
        each column, and perhaps more; if all columns have None, nothing is stored.

        Power cut during the call: the sample is whole or absent. After OK it survives. After
        STORAGE it may be in flash, but that is not guaranteed.
        """
        outbox = self._outbox
        if outbox._owner is self and not outbox._busy and take(self._parts, clock, values):
            status = put_sample(self._parts)
            status = self._extend(status)
            if status > 0:
                status = self._go_on(clock, self._full)
        else:
            status = self._take(values)
            if status > 0:
                status = self._add(clock, status << 5 | self._count)
        if status:
            self.refused += 1
        return status

    def poll(self, clock, ahead_ms=0):
        """Close the record if it is too old, or will be in ahead_ms, which is less than 2^29."""
        if self.is_open() and self._is_old(clock, ahead_ms):
            self.close()

    def is_nearly_full(self):
        """True when the open record has no room for two more samples like the last one."""
        where = self._outbox.where
        return self.is_open() and where[_END] - where[_AT] < 2 * where[_LAST]

    def close(self):
        """Make the samples so far a message: before sleep, and when somebody waits for it."""
        if self.is_open():
            self._outbox.close_series()

    def is_open(self):
        """True while a record takes samples; False after close(), and after any other message."""
        return self._outbox._owner is self

    def _take(self, values):
        """Returns a bit for each value that is there; OK: none is; TOO_BIG."""
        state = self._state
        at = self._now
        mask = i = 0
        while i < self._count:
            value = values[i]
            i += 1
            mask <<= 1
            if value is not None:
                if (value >> 29) + 1 >> 1:  # it is neither 0 nor -1
                    return _TOO_BIG
                state[at + i] = value
                mask |= 1
        return mask

    def _add(self, clock, shape):
        outbox = self._outbox
        if outbox._busy:
            return _BUSY
        if outbox._owner is self and self._set_time(clock):
            status = self._fill_up(self._put_codes(shape))
            status = self._extend(status)
            return status if status <= _OK else self._go_on(clock, shape)
        return self._begin(clock, shape)

    def _go_on(self, clock, shape):
        """The record has no room for the sample, so the sample begins another record."""
        self._is_full = True
        return self._begin(clock, shape)

    def _is_old(self, clock, ahead_ms=0):
        since = self._since
        days = clock.up_day - since[_UP_DAY]
        if days > _MOST_DAYS:
            return True
        return days * _DAY_MS + clock.up_ms - since[_UP_MS] >= since[_MAX_AGE_MS] - ahead_ms

    def _set_time(self, clock):
        """Set the sample's time, in steps since the record's start. False: out of its range."""
        since = self._since
        if self._is_old(clock) or (clock.day > 0) != (since[_ON_DAY] > 0):
            return False
        if since[_ON_DAY]:
            days, ms = clock.day - since[_ON_DAY], clock.ms - since[_AT_MS]
        else:
            days, ms = clock.up_day - since[_UP_DAY], clock.up_ms - since[_UP_MS]
        if not -_MOST_DAYS <= days <= _MOST_DAYS:
            return False
        days = (days * _DAY_MS + ms) // self.step_ms  # steps from here on
        self._state[self._now] = days
        return -_LIMIT <= days < _LIMIT

    def _begin(self, clock, shape):
        """Begin a new record with this sample."""
        self._learn()
        self._start(clock)
        return self._open(self._put_first(shape))

    def _put_first(self, shape):
        """Put the first sample, a restart, after the header. Returns the length of both."""
        self._state[self._now] = 0
        self._state[self._count + 2] = 0  # it is a restart
        shape = self._put_codes(shape) + 7 >> 3  # its bytes
        return copy(self._header, self._header[2], self._sample, 0, shape)

    def _open(self, length):
        """Open a record with the first `length` bytes of _header. Returns a status."""
        status = _STORAGE
        tries = 5
        while tries:
            self._room = self._next_room(self._record_bytes - self._size(length))
            status = self._try(length)
            if status == _OK or (status != _STORAGE and tries == 5):
                break
            status = _STORAGE  # also if there is no room for another try: it may be in flash
            tries -= 1
        self._is_full = False
        return status

    def _size(self, length):
        """Size of a record with `length` bytes of header and first sample, padding included."""
        return -(-_OVERHEAD - len(self._topic) - length & self._mask)

    def _next_room(self, most):
        """Returns how many bytes to reserve for samples: as many as the last record used, if it was
        closed early; else all that the newest sector has left, if that is at least half."""
        outbox = self._outbox
        where = outbox.where
        if where[_START] and not self._is_full:
            left = (where[_AT] - where[_START]) * 9 // 8 + 16  # room like the last one's
            if left < most:
                return -(-max(2 * len(self._sample), left) & self._mask)
        left = abs(outbox._limit) - outbox._offset - self._record_bytes + most
        if most > left >= max(most >> 1, 2 * len(self._sample)):
            return left & self._mask
        return most

    def _try(self, length):
        outbox = self._outbox
        status = outbox.prepare(len(self._topic) + length + self._room)
        if status == _OK:
            self._put_header(outbox)
            if not outbox.begin(self._topic, self._header, length):
                return _STORAGE
            outbox._owner, outbox.sample = self, self._sample
        return status

    def _learn(self):
        """Set k of each code to the mean length of its numbers in the latest record. That is within
        1 % of the best k, also where there are spikes."""
        samples = self._state[self._count + 2] - 1  # those that were coded
        at = self._count + 3
        i = 0
        while i <= self._count:
            if samples > 7:
                self._ks[i] = min(self._state[at + i] // samples, 15)
            self._state[at + i] = 0
            i += 1

    def _start(self, clock):
        """Take the record's start from the clock."""
        is_set = clock.day > 0
        self._with_uptime = self._with_uptime or not is_set
        since = self._since
        since[_ON_DAY], since[_AT_MS] = clock.day, clock.ms
        since[_UP_DAY], since[_UP_MS] = clock.up_day, clock.up_ms
        self._header[3] = is_set | (is_set and self._with_uptime) << 1
        self._header[2] = self._header_bytes - (0 if self._header[3] & _SETS_CLOCK else 6)

    def _put_header(self, outbox):
        header = self._header
        if outbox.stream != self._stream:
            self._stream = outbox.stream
            self._put_stream(header)
        pack_into("<II", header, 8, outbox.next_seq, outbox.oldest_seq)
        pack_into("<HH", header, 16, outbox.boot, self._room)
        since = self._since
        if since[_ON_DAY]:
            pack_into("<HI", header, 20, since[_ON_DAY], since[_AT_MS])
        else:
            pack_into("<HI", header, 20, since[_UP_DAY], since[_UP_MS])
        pack_into("<HB", header, 26, self.step_ms, self._ks[0])
        if header[3] & _SETS_CLOCK:
            pack_into("<HI", header, header[2] - 6, since[_UP_DAY], since[_UP_MS])
        self._put_parameters(header)

    def _put_stream(self, header):
        i = 0
        while i < 4:
            header[4 + i] = _digit(self._stream[2 * i]) << 4 | _digit(self._stream[2 * i + 1])
            i += 1

    def _put_parameters(self, header):
        at = self._columns_at
        i = 0
        while i < self._count:
            i += 1
            header[at + 1] = header[at + 1] & 0xF0 | self._ks[i]
            at += 3 + header[at + 2] + (header[at + 1] >> 4)

    def _put_codes(self, shape):
        """Encode the sample. Returns its length in bits."""
        copy(self._sample, 0, self._blank, 0, len(self._blank))
        self._is_restart = not is_near(self._state, shape)
        at = 0
        if self._is_restart or shape != self._full:
            at = self._put_mask(shape, self._is_restart)
        if self._is_restart:
            at = put_wholes(self._sample, at, self._state, shape)
        else:
            at = put_codes(self._sample, at, self._state, self._ks, shape)
        remember(self._state, shape, self._is_restart)
        return at

    def _put_mask(self, shape, is_restart):
        k = self._ks[0]
        k = put_bits(self._sample, 0, (2 << k) + 2 + is_restart, k + 2 if k else 4)
        return put_bits(self._sample, k, shape >> 5, self._count)

    def _fill_up(self, bits):
        """Pad the sample's last byte. Returns twice its length, plus 1 if it is a restart."""
        end = bits + 7 >> 3
        self._sample[end - 1] |= (1 << (-bits & 7)) - 1
        return end << 1 | self._is_restart


def _digit(character):
    """Returns the value of a lower-case hex digit."""
    return character - 48 if character < 58 else character - 87


def _check(outbox, topic, device, columns, step_ms, max_age_s):
    if not hasattr(outbox, "close_series"):
        raise ValueError("series: the outbox must be over(...)'s")
    if outbox._align != 4 and not outbox.reprograms:
        raise ValueError("series: this flash takes one program in a page")
    if not 0 < step_ms < 65_536 or not 0 < max_age_s <= _MOST_DAYS * 86_400:
        raise ValueError("series: step_ms, max_age_s")
    _check_texts(topic, device, columns)
    for name, unit, exponent in columns:
        if not 0 < len(name) < 128 or len(unit) > 15 or not -9 <= exponent <= 9:
            raise ValueError("series: column " + name.decode())


def _check_texts(topic, device, columns):
    texts = [topic, device]
    for column in columns:
        texts += column[:2]
    if any(not isinstance(text, (bytes, bytearray)) for text in texts):
        raise ValueError("series: topic, device, names and units must be bytes")
    if not 0 < len(device) <= 32 or not 0 < len(columns) <= _MOST_COLUMNS:
        raise ValueError("series: device, columns")
    if not 0 < len(topic) < 256 or not is_topic(topic, 0, len(topic)):
        raise ValueError("series: topic")


def _header_of(device, columns):
    """Returns the header, except for what _put_header() fills in."""
    header = bytearray(_FIXED)
    header[0], header[1] = 0xF5, 1
    header[29], header[30] = len(columns), len(device)
    header += device
    for name, unit, exponent in columns:
        header += bytes((exponent & 0xFF, len(unit) << 4, len(name))) + name + unit
    header += bytes(6)
    if len(header) > 255:
        raise ValueError("series: the columns' names are too long")
    return header
