"""What was reported about current problems, and what is still to be reported. A problem is reported
once when it begins and once when it ends. Pure; times are arguments.

A problem that is a past event (messages were lost) has no end. It is reported again if it grows, at
most once a day.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

BEGIN, MORE, END, TEST = "begin", "more", "end", "test"
_MORE_S = 86_400.0
_FORGOTTEN_S = 400 * 86_400.0  # after this time, a problem without an end is forgotten


@dataclass(frozen=True, slots=True)
class Condition:
    """One current problem. wait_s: the problem must last this long before it is reported, and be
    over this long before its end is reported. size: for problems without an end. seen_ms: when a
    silent board was last heard."""

    kind: str
    board: str
    text: str
    wait_s: float = 0.0
    size: float = 0.0
    has_end: bool = True
    todo: str = ""
    seen_ms: int = 0
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Told:
    """A reported problem. began_s, told_s: since 1970."""

    id: str
    kind: str
    board: str
    text: str
    began_s: float
    told_s: float
    wait_s: float
    size: float
    has_end: bool
    seen_ms: int


Event = dict[str, Any]  # as it is sent in JSON


class Ledger:
    """told: the reported problems by key. update() returns an event for each change to it, except
    when an old problem without an end is forgotten."""

    def __init__(self, told: dict[str, Told] | None = None) -> None:
        self.told = told or {}
        self._since: dict[str, float] = {}  # for problems that are not reported yet
        self._gone: dict[str, float] = {}

    @classmethod
    def load(cls, saved: dict[str, Any], is_wanted: Callable[[str], bool]) -> Ledger:
        """is_wanted: whether there is still a rule for a key. Raises TypeError, AttributeError if
        `saved` has another form."""
        return cls({key: Told(**one) for key, one in saved.items() if is_wanted(key)})

    def saved(self) -> dict[str, Any]:
        return {key: asdict(one) for key, one in self.told.items()}

    def keys(self, prefix: str) -> set[str]:
        return {key for key in self.told if key.startswith(prefix)}

    def update(
        self,
        now_s: float,
        steady_s: float,
        conditions: dict[str, Condition],
        *,
        is_known: Callable[[str], bool] = lambda _key: True,
        over: Callable[[str, Told], str] = lambda _key, told: told.text,
    ) -> list[Event]:
        """Returns the events, and updates `told` with them. steady_s: the time of a monotonic
        clock. is_known: False for a key that cannot be judged now. over: returns the text that
        reports the end of a problem."""
        events = [self._on(key, one, now_s, steady_s) for key, one in conditions.items()]
        for key in self._since.keys() - conditions.keys():
            del self._since[key]
        gone = [key for key in self.told if key not in conditions and is_known(key)]
        events += [self._off(key, now_s, steady_s, over) for key in gone]
        return [one for one in events if one is not None]

    def _on(self, key: str, one: Condition, now_s: float, steady_s: float) -> Event | None:
        told = self.told.get(key)
        if told is None:
            if steady_s - self._since.setdefault(key, steady_s) < one.wait_s:
                return None
            return self._begin(key, one, now_s, now_s - (steady_s - self._since.pop(key)))
        self._gone.pop(key, None)
        if one.has_end or one.size <= told.size or abs(now_s - told.told_s) < _MORE_S:
            return None
        told.size, told.told_s, told.text = one.size, now_s, one.text
        return _event(MORE, told, now_s, one.text, one)

    def _begin(self, key: str, one: Condition, now_s: float, began_s: float) -> Event:
        name = hashlib.sha256(key.encode()).hexdigest()[:12]
        told = self.told[key] = Told(
            f"{name}-{now_s * 1000:.0f}", one.kind, one.board, one.text, began_s, now_s,
            one.wait_s, one.size, one.has_end, one.seen_ms,
        )  # fmt: skip
        return _event(BEGIN, told, now_s, one.text, one)

    def _off(
        self, key: str, now_s: float, steady_s: float, over: Callable[[str, Told], str]
    ) -> Event | None:
        told = self.told[key]
        if not told.has_end:
            if now_s - told.told_s > _FORGOTTEN_S:
                del self.told[key]
            return None
        if steady_s - self._gone.setdefault(key, steady_s) < told.wait_s:
            return None
        del self._gone[key], self.told[key]
        return _event(END, told, now_s, over(key, told))


def _event(state: str, told: Told, now_s: float, text: str, one: Condition | None = None) -> Event:
    made = {
        "id": told.id, "state": state, "kind": told.kind, "board": told.board, "text": text,
        "began": iso(told.began_s), "time": iso(now_s),
    }  # fmt: skip
    if one is not None:
        made |= one.details | ({"todo": one.todo} if one.todo else {})
    return made


def iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
