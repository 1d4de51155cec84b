"""The samples of many series payloads, read side by side: each step reads the next one of each.

What is not clearly valid ends a payload here, and the exact reader reads it (series_rows.py). The
bits are those of `firmware/SERIES_FORMAT.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from outpost_tools.messages import series
from outpost_tools.messages.series import MOST_BITS

_WINDOW_BITS = 57  # of 64 bits read from a byte on, these are always valid
# A payload with more samples goes to the exact reader: a step for only a few payloads is slow.
_MOST_STEPS = 4096


class Codes:
    """Reads codes at positions in the bits, one of each payload at a time."""

    def __init__(self, bits, at, end, time_k, parameters) -> None:
        self._windows = np.lib.stride_tricks.sliding_window_view(bits, 8)
        self.at, self.end = at, end
        self.time_k, self.parameters = time_k.astype(np.int64), parameters.astype(np.int64)

    def window(self, at: np.ndarray) -> np.ndarray:
        """64 bits from there on: _WINDOW_BITS of them are valid, the rest may not be."""
        at = np.minimum(at, 8 * (len(self._windows) - 1))
        words = self._windows[at >> 3].view(">u8")[:, 0].astype(np.uint64)
        return words << (at & 7).astype(np.uint64)

    def take(self, at: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Exp-Golomb of order k: (numbers, where they end, which are not plain)."""
        window = self.window(at)
        zeros = 32 - np.frexp((window >> np.uint64(32)).astype(np.float64))[1].astype(np.int64)
        length = zeros + 1 + k
        is_odd = (length > MOST_BITS) | (zeros + length > _WINDOW_BITS)
        shown = np.minimum(length, MOST_BITS)
        number = (window << zeros.astype(np.uint64)) >> (64 - shown).astype(np.uint64)
        return number.astype(np.int64) - (1 << k), at + zeros + length, is_odd

    def take_whole(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers preceded by their length, signed; as take()."""
        window = self.window(at)
        length = (window >> np.uint64(59)).astype(np.int64)
        shown = np.clip(length, 1, MOST_BITS)
        number = (window << np.uint64(5)) >> (64 - shown).astype(np.uint64)
        number = np.where(length > 0, number.astype(np.int64), 0)
        is_odd = (length > MOST_BITS) | ((length > 0) & (number >> (shown - 1) != 1))
        return _signed(number), at + 5 + length, is_odd


def _signed(number: np.ndarray) -> np.ndarray:
    """0, -1, 1, -2, 2 ... for 0, 1, 2, 3, 4."""
    return np.where(number & 1, -(number + 1 >> 1), number >> 1)


class Samples:
    """The samples of payloads with the same number of columns.

    After read(): is_whole for each payload; then a row per sample: its payload (owner), its time in
    steps, its values and which are present, in the order of each payload's samples.
    """

    members: np.ndarray

    def __init__(self, codes: Codes, heads: np.ndarray, start_ms: np.ndarray) -> None:
        self._codes, self._step_ms = codes, heads["step_ms"].astype(np.int64)
        limits_ms = 1000 * np.array(series.TIME_LIMITS_S, np.int64)[heads["flags"] & 1]
        self._earliest_ms = np.maximum(limits_ms[:, 0] - start_ms, 1 - series.SPAN_LIMIT_MS)
        self._latest_ms = np.minimum(limits_ms[:, 1] - start_ms, series.SPAN_LIMIT_MS) - 1
        payloads, columns = codes.parameters.shape
        self.columns = columns
        self._time = np.zeros(payloads, np.int64)
        self._step = np.zeros(payloads, np.int64)
        self._last = np.zeros((payloads, columns), np.int64)
        self.is_whole = np.zeros(payloads, dtype=bool)
        self._samples: list[tuple[np.ndarray, ...]] = []

    def read(self) -> None:
        active, steps = np.arange(len(self.is_whole)), 0
        while len(active) and steps < _MOST_STEPS:
            active, steps = self._step_of(active, is_first=not steps), steps + 1
        columns = list(zip(*self._samples, strict=True)) or [()] * 4
        self.owner, self.times, self.values, self.present = (
            np.concatenate(column) if column else np.zeros((0, self.columns)[:dimensions], kind)
            for column, kind, dimensions in zip(
                columns, (np.int64, np.int64, np.int64, bool), (1, 1, 2, 2), strict=True
            )
        )

    def _step_of(self, active: np.ndarray, *, is_first: bool) -> np.ndarray:
        """Read the next sample of each; returns the payloads that continue."""
        now = _Step(self._codes, active, self.columns)
        now.take_marks(is_first)
        now.take_times(self._time[active], self._step[active])
        now.take_values(self._last[active])
        since_ms = now.time * self._step_ms[active]
        out = (since_ms < self._earliest_ms[active]) | (since_ms > self._latest_ms[active])
        out |= (np.abs(now.values + 0.5) > series.VALUE_LIMIT).any(axis=1)
        has_ended = now.at > self._codes.end[active]
        self.is_whole[active[has_ended]] = self._is_padding(active[has_ended]) & (not is_first)
        keep = ~(has_ended | now.is_odd | out)
        kept = active[keep]
        self._codes.at[kept] = now.at[keep]
        self._time[kept], self._step[kept] = now.time[keep], now.step[keep]
        self._last[kept] = now.values[keep]
        self._samples.append((kept, now.time[keep], now.values[keep], now.present[keep]))
        return kept

    def _is_padding(self, ended: np.ndarray) -> np.ndarray:
        """Whether what is left of each is less than a byte, and zero."""
        at = self._codes.at[ended]
        rest = self._codes.end[ended] - at
        bits = self._codes.window(at) >> (64 - np.clip(rest, 1, 8)).astype(np.uint64)
        return (rest == 0) | ((rest < 8) & (bits == 0))


@dataclass
class _Step:
    """A sample of each active payload while it is read. at: the current position in each."""

    codes: Codes
    active: np.ndarray
    columns: int
    at: np.ndarray = field(init=False)
    is_odd: np.ndarray = field(init=False)
    is_restart: np.ndarray = field(init=False)
    present: np.ndarray = field(init=False)
    time: np.ndarray = field(init=False)
    step: np.ndarray = field(init=False)
    values: np.ndarray = field(init=False)
    _code: np.ndarray = field(init=False)  # of the time

    def take_marks(self, is_first: bool) -> None:
        """Read the time's code, and the mark that may replace it."""
        k = self.codes.time_k[self.active]
        self._code, self.at, self.is_odd = self.codes.take(self.codes.at[self.active], k)
        self.is_restart = np.zeros(len(self.active), dtype=bool)
        self.present = np.ones((len(self.active), self.columns), dtype=bool)
        marked = np.flatnonzero(self._code == 1)
        if len(marked):
            self._take_masks(marked, k)
        if is_first:
            self.is_odd |= ~self.is_restart

    def _take_masks(self, marked: np.ndarray, k: np.ndarray) -> None:
        window = self.codes.window(self.at[marked])
        is_restart = window >> np.uint64(63) == 1
        mask = (window << np.uint64(1)) >> np.uint64(64 - self.columns)
        self.at[marked] += 1 + self.columns
        places = np.arange(self.columns - 1, -1, -1, dtype=np.uint64)
        self.present[marked] = mask[:, None] >> places & np.uint64(1) == 1
        full = (1 << self.columns) - 1
        self.is_odd[marked] |= (mask == 0) | (~is_restart & (mask == full))
        self.is_restart[marked] = is_restart
        others = marked[~is_restart]
        self._code[others], self.at[others], is_odd = self.codes.take(self.at[others], k[others])
        self.is_odd[others] |= is_odd | (self._code[others] == 1)

    def take_times(self, time: np.ndarray, step: np.ndarray) -> None:
        self.step = step + _signed(np.maximum(self._code - 1, 0))
        self.time = time + self.step
        self._whole(np.flatnonzero(self.is_restart), self.time)
        self.step[self.is_restart] = 0

    def take_values(self, last: np.ndarray) -> None:
        self.values = last
        self.values[self.is_restart] = 0
        for column in range(self.columns):
            here = self.present[:, column]
            changed = np.flatnonzero(here & ~self.is_restart)
            k = self.codes.parameters[self.active[changed], column]
            number, self.at[changed], is_odd = self.codes.take(self.at[changed], k)
            self.is_odd[changed] |= is_odd
            self.values[changed, column] += _signed(number)
            self._whole(np.flatnonzero(here & self.is_restart), self.values[:, column])

    def _whole(self, places: np.ndarray, target: np.ndarray) -> None:
        if len(places):
            target[places], self.at[places], is_odd = self.codes.take_whole(self.at[places])
            self.is_odd[places] |= is_odd
