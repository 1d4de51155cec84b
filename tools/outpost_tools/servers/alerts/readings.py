"""Which rules the newest readings break. A value that is already old when it arrives neither breaks
a rule nor ends a problem; servers/republish/newest.py decides which values are current. Pure; the
time is an argument.

A device of a mapping has the identifier of readings/sources/idents.py in keys. Rules and texts have
its own name, so a rule for a name is one for the board and the device of that name.
"""

from __future__ import annotations

from collections.abc import Iterable

from outpost_tools.messages.message import Message
from outpost_tools.readings.sources.idents import shown
from outpost_tools.servers.alerts.ledger import Condition
from outpost_tools.servers.alerts.rules import Reading
from outpost_tools.servers.republish.newest import Newest, Value
from outpost_tools.text.words import with_unit

_MOST_PAIRS = 20_000  # pairs of a board and a sensor


def key_of(rule: Reading, board: str, sensor: str) -> str:
    """board: what identifies it."""
    return f"{rule.id}/{board}/{sensor}"


class Readings:
    """broken: current problems, by key. passed: ended problems that the caller has not taken yet,
    of rules without a waiting time, so that even a short one is reported. well: by key, the text
    that reports the end of a problem."""

    def __init__(self, rules: Iterable[Reading], told: Iterable[str]) -> None:
        """told: keys of problems reported before the start; they persist until a reading shows
        otherwise."""
        self._rules = tuple(rules)
        self._newest = Newest()
        self._was_broken = set(told)
        self._of_pair: dict[tuple[str, str], tuple[Reading, ...]] = {}
        self.broken: dict[str, Condition] = {}
        self.passed: dict[str, Condition] = {}
        self.well: dict[str, str] = {}

    def take(self, message: Message, received_s: float) -> None:
        self._newest.take(message, received_s)
        self._judge(message.device)

    def tick(self, now_s: float) -> None:
        self._newest.tick(now_s)
        for name in self._newest.boards:
            self._judge(name)

    def clock_set(self, by_s: float, now_s: float) -> None:
        self._newest.clock_set(by_s, now_s)

    def _judge(self, name: str) -> None:
        board = self._newest.boards.get(name)
        if board is None or not board.changed:
            return
        for sensor in board.changed:
            for rule in self._rules_of(name, sensor):
                self._apply(rule, name, sensor, board.values[sensor])
        board.changed.clear()

    def _rules_of(self, board: str, sensor: str) -> tuple[Reading, ...]:
        pair = board, sensor
        if pair not in self._of_pair:
            if len(self._of_pair) >= _MOST_PAIRS:
                self._of_pair.clear()
            self._of_pair[pair] = tuple(
                one for one in self._rules if one.is_of(shown(board), sensor)
            )
        return self._of_pair[pair]

    def _apply(self, rule: Reading, board: str, sensor: str, value: Value) -> None:
        key = key_of(rule, board, sensor)
        was_broken = key in self.broken or key in self._was_broken
        self._was_broken.discard(key)
        side = "above" if rule.is_above else "below"
        unit = value.unit or ""
        name = shown(board)
        text = f"{name}: {sensor} {with_unit(value.value, unit)}, "
        bound = with_unit(rule.bound, unit)
        if _is_broken(rule, value.value, was_broken=was_broken):
            self.well.pop(key, None)
            details = {"sensor": sensor, "value": value.value, "unit": unit, "bound": rule.bound}
            self.broken[key] = Condition(
                "reading", name, f"{text}{side} {bound}", wait_s=rule.wait_s, details=details
            )
        elif was_broken:
            gone = self.broken.pop(key, None)
            if gone is not None and not gone.wait_s:
                self.passed[key] = gone
            self.well[key] = f"{text}no longer {side} {bound}"


def _is_broken(rule: Reading, value: float, *, was_broken: bool) -> bool:
    """Whether the value breaks the rule. A rule that was broken stays broken until the value is
    back by the hysteresis."""
    room = rule.hysteresis if was_broken else 0.0
    return value > rule.bound - room if rule.is_above else value < rule.bound + room
