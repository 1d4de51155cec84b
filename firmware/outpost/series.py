"""A series: samples of several sensors, each durable when add() returns OK, and sent packed, many
in one message (`firmware/SERIES_FORMAT.md`).

    outbox = over(Outbox)(device)          an outbox that holds series: `series_outbox.py`
    series = Series(outbox, topic, b"board-1", ((b"temperature", b"Cel", -2), (b"load", b"", 0)))
    series.add(clock, (2150, 42))          OK: on flash
    series.close()                         what was taken is a message now

A record is open in the newest sector, and takes its samples in place. It is closed, which programs
nothing, when it is full, older than max_age_s, when asked, and before any other message is stored.
Then it is one message with one number, under the outbox's promises; before, it is not sent.

Must not know MQTT, or where values come from. Allocation: construction.
"""
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from array import array
from struct import pack_into

from micropython import const

from outpost.memory import copy
from outpost.series_bits import is_near, put_bits, put_codes, put_sample, put_wholes, remember
from outpost.series_outbox import any_check_of

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


class Series:
    """outbox: mounted. device: as in the topic. columns: (name, unit, exponent) of each, bytes and
    -9..9; 1 to 16.

    step_ms: times are rounded down to it, from the record's start; the jitter of a loop then costs
    nothing. max_age_s: a record is closed when it is so old, at the next add() or poll(); at most
    11 days. record_bytes: of a record in flash, at most the outbox's; less is reserved where the
    record before was closed with less in it. Raises ValueError.
    """

    def __init__(self, outbox, topic, device, columns, step_ms=1, max_age_s=600, record_bytes=4096):
        _check(outbox, device, columns, step_ms, max_age_s)
        count = len(columns)
        self._outbox, self._topic = outbox, topic
        self._count, self.step_ms, self._max_age_ms = count, step_ms, max_age_s * 1000
        self.refused = 0  # samples that add() returned no OK for
        # The header: fixed fields, device, columns, and maybe an uptime.
        self._header = _header_of(device, columns)
        self._columns_at = _FIXED + len(device)
        self._with_uptime = False
        self._stream = b""  # the outbox's, as the header has it
        self._mask = -outbox._align  # room begins and ends where a record may
        self._record_bytes = min(record_bytes, outbox.record_bytes) & self._mask
        self._room = 0  # bytes for samples of the record that was begun last
        self._last_bytes = 0  # of the last sample, its check included
        self._is_full = False  # the last record was
        # The sample, its codes, and what they go on from: see `series_bits.py`.
        self._state = array("i", [0] * (3 * count + 6))
        self._now = 2 * count + 4  # its place in _state
        self._ks = bytearray([0] + [_FIRST_K] * count)
        self._is_restart = False  # the sample that was coded last
        self._full = (1 << count) - 1 << 5 | count  # shape of a sample with nothing missing
        self._sample = bytearray(8 * (count + 1) + 12)
        self._blank = bytes(len(self._sample))
        self._is_set = False  # the record's times are since 1970
        self._day = self._ms = 0  # its start
        self._up_day = self._up_ms = 0  # the same since boot
        self._header += self._blank  # where the first sample goes; its length with an uptime:
        self._header_bytes = len(self._header) - len(self._blank)
        if self._record_bytes - self._size(len(self._header)) < 2 * len(self._sample):
            raise ValueError("series: record_bytes")

    def add(self, clock, values):
        """Store a sample: OK, FULL, BUSY, STORAGE; TOO_BIG: a value is not within 30 bits. clock:
        day (0: it is not set), ms, up_day, up_ms, brought up to now. values: an integer or None
        for each column; with None for all there is nothing to store.

        Power cut inside: the sample is whole or absent. Returned OK: it survives. STORAGE: it may
        be on flash, but nothing is promised.
        """
        status = self._take(values)
        if status > 0:
            status = self._add(clock, status << 5 | self._count)
        if status:
            self.refused += 1
        return status

    def poll(self, clock, ahead_ms=0):
        """Close the record if it is too old, or will be in so many ms, less than 2^29."""
        if self.is_open() and self._is_old(clock, ahead_ms):
            self.close()

    def is_nearly_full(self):
        """The open record has no room for two more samples like the last one."""
        left = self._outbox._room_end - self._outbox._room_at
        return self.is_open() and left < 2 * self._last_bytes

    def close(self):
        """What was taken is a message now. Before sleep, and when somebody waits for it."""
        if self.is_open():
            self._outbox.close_series()

    def is_open(self):
        """A record takes samples; False after close(), and after any other message."""
        return self._outbox._owner is self

    def _take(self, values):
        """Which values are there, as bits; OK when none is; TOO_BIG."""
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
            status = self._store(outbox, shape)
            if status <= 0:
                return status
            self._is_full = True
        return self._begin(clock, shape)

    def _is_old(self, clock, ahead_ms=0):
        days = clock.up_day - self._up_day
        if days > _MOST_DAYS:
            return True
        return days * _DAY_MS + clock.up_ms - self._up_ms >= self._max_age_ms - ahead_ms

    def _set_time(self, clock):
        """Of the sample, in steps since the record's start. False: the record cannot have it."""
        is_set = self._is_set
        if is_set and clock.day == self._day and clock.up_day == self._up_day:  # nearly always
            if clock.up_ms - self._up_ms >= self._max_age_ms:
                return False
            self._state[self._now] = (clock.ms - self._ms) // self.step_ms
            return True
        if self._is_old(clock) or (clock.day > 0) != is_set:
            return False
        days = (clock.day if is_set else clock.up_day) - self._day
        if not -_MOST_DAYS <= days <= _MOST_DAYS:
            return False
        days = days * _DAY_MS - self._ms  # milliseconds from here on
        days = (days + (clock.ms if is_set else clock.up_ms)) // self.step_ms
        self._state[self._now] = days
        return -_LIMIT <= days < _LIMIT

    def _begin(self, clock, shape):
        """The sample is the first of a new record."""
        self._outbox.close_series()
        self._learn()
        self._start(clock)
        return self._open(self._put_first(shape))

    def _put_first(self, shape):
        """The first sample, a restart, goes behind the header. Returns the length of both."""
        self._state[self._now] = 0
        self._state[self._count + 2] = 0  # it is a restart
        shape = self._put_codes(shape) + 7 >> 3  # its bytes
        return copy(self._header, self._header[2], self._sample, 0, shape)

    def _open(self, length):
        """Status of a record with the first `length` bytes of _header."""
        status = _STORAGE
        tries = 5
        while tries:
            self._room = self._next_room(self._record_bytes - self._size(length))
            status = self._try(length)
            if status == _OK or (status != _STORAGE and tries == 5):
                break
            status = _STORAGE  # also where no room is left for another try: it may be on flash
            tries -= 1
        self._is_full = False
        return status

    def _size(self, length):
        """Of a record with `length` bytes of header and first sample, padding included."""
        return -(-_OVERHEAD - len(self._topic) - length & self._mask)

    def _next_room(self, most):
        """Bytes for samples. A record that was closed before it was full may have wasted most of
        its room; else what the newest sector has left is taken, if that is at least half."""
        outbox = self._outbox
        if outbox._room and not self._is_full:
            most = min((outbox._room_at - outbox._room) * 9 // 8 + 16, most)
            return -(-max(2 * len(self._sample), most) & self._mask)
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
            outbox._owner = self
        return status

    def _learn(self):
        """k of each code, by the record that was written last: the mean length of its numbers. That
        is within 1 % of the best k, also where there are spikes."""
        samples = self._state[self._count + 2] - 1  # those that were coded
        at = self._count + 3
        i = 0
        while i <= self._count:
            if samples > 7:
                self._ks[i] = min(self._state[at + i] // samples, 15)
            self._state[at + i] = 0
            i += 1

    def _start(self, clock):
        """The record's start."""
        self._is_set = clock.day > 0
        self._with_uptime = self._with_uptime or not self._is_set
        self._up_day, self._up_ms = clock.up_day, clock.up_ms
        self._day = clock.day if self._is_set else clock.up_day
        self._ms = clock.ms if self._is_set else clock.up_ms
        self._header[3] = self._is_set | (self._is_set and self._with_uptime) << 1
        self._header[2] = self._header_bytes - (0 if self._header[3] & _SETS_CLOCK else 6)

    def _put_header(self, outbox):
        header = self._header
        if outbox.stream != self._stream:
            self._stream = outbox.stream
            self._put_stream(header)
        pack_into("<II", header, 8, outbox.next_seq, outbox.oldest_seq)
        pack_into("<HH", header, 16, outbox.boot, self._room)
        pack_into("<HI", header, 20, self._day, self._ms)
        pack_into("<HB", header, 26, self.step_ms, self._ks[0])
        if header[3] & _SETS_CLOCK:
            pack_into("<HI", header, header[2] - 6, self._up_day, self._up_ms)
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

    def _store(self, outbox, shape):
        """OK, STORAGE; 1: the room that is left is too small."""
        length = 0
        if shape == self._full:
            length = put_sample(self._sample, self._state, self._ks, shape, outbox.seed())
        if not length:
            length = self._put_check(self._put_codes(shape), self._is_restart)
        self._last_bytes = length
        if outbox._room_at + length > outbox._room_end:
            return 1
        return _OK if outbox.extend(self._sample, length) else _STORAGE

    def _put_codes(self, shape):
        """The sample. Returns its length in bits."""
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

    def _put_check(self, bits, is_restart):
        """Fill the sample's last byte up, and add its check. Returns its length."""
        end = bits + 7 >> 3
        sample = self._sample
        sample[end - 1] |= (1 << (-bits & 7)) - 1
        bits = any_check_of(sample, 0, end, self._outbox.seed(), is_restart)
        sample[end] = bits & 0xFF
        sample[end + 1] = bits >> 8 & 0xFF
        if not is_restart:
            return end + 2
        sample[end + 2] = bits >> 16 & 0xFF
        sample[end + 3] = bits >> 24
        return end + 4


def _digit(character):
    """Of a lower-case hex digit."""
    return character - 48 if character < 58 else character - 87


def _check(outbox, device, columns, step_ms, max_age_s):
    if not hasattr(outbox, "close_series"):
        raise ValueError("series: the outbox must be over(...)'s")
    if outbox._align != 4 and not outbox.reprograms:
        raise ValueError("series: this flash takes one program in a page")
    if not 0 < step_ms < 65_536 or not 0 < max_age_s <= _MOST_DAYS * 86_400:
        raise ValueError("series: step_ms, max_age_s")
    if not 0 < len(device) <= 32 or not 0 < len(columns) <= _MOST_COLUMNS:
        raise ValueError("series: device, columns")
    for name, unit, exponent in columns:
        if not 0 < len(name) < 128 or len(unit) > 15 or not -9 <= exponent <= 9:
            raise ValueError("series: column " + name.decode())


def _header_of(device, columns):
    """All of it but what _put_header() fills in."""
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
