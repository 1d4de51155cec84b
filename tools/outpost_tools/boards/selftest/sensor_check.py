"""Reads each sensor once on the board, and reports its values with their units, or its fault and
what to do.

It runs after `selftest.outbox()`, which opens the board. It reads as main.py does, through
`station/guard.py`. A sensor that needs time to settle, or that has no values at first, is read
again after that time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from outpost_tools.boards.port.connection import Board
from outpost_tools.errors import ToolError

_SILENCE_S = 60.0  # for one reading
_MOST_ADDRESSES = 100  # if more seem to answer, none does: a line is held down
_SCRIPT = """
import time

from station.guard import FAULTS, guarded

def scan(sensor):
    options = getattr(sensor, "options", {})
    if "scl" in options:
        try:
            from support.sensor_bus import i2c
            found = i2c(options).scan()
        except Exception:
            found = ()
        print("I", options.get("address", 0), *found)
    elif "rx" in options:
        print("U", options["tx"], options["rx"])
    elif "pin" in options:
        print("P", options["pin"])

def check(sensor):
    guards, channels = guarded([sensor], board.ticks_ms, board.feed_watchdog)
    guard = guards[0]
    print("T", str(sensor.name, "utf-8"))
    guard.measure()
    if guard.settle_ms or not guard.has_values():
        time.sleep_ms(guard.settle_ms)
        guard.measure()
    for channel in channels:
        value = channel.guard.values[channel._index]
        if value is not None:
            unit = str(channel.unit, "utf-8") or "-"
            print("V", str(channel.name, "utf-8"), unit, channel.exponent, value)
    has_failed = guard.fault or not (guard.has_values() or guard.may_fail_silently())
    print("F", guard.fault or (3 if has_failed else 0), guard.detail)
    if has_failed:
        scan(sensor)

if settings:
    for sensor in board.sensors:
        check(sensor)
print("D" if settings else "X")
"""


@dataclass
class Sensor:
    """values: (name, value with its unit). fault: index into guard.FAULTS, 0 if there is none.
    answers: addresses that answer on its bus; None if it has no bus. uart: the board's tx and rx
    pins."""

    name: str
    values: list[tuple[str, str]] = field(default_factory=list)
    fault: int = 0
    detail: str = ""
    address: int = 0
    answers: list[int] | None = None
    pin: int | None = None
    uart: tuple[int, int] | None = None

    @property
    def is_good(self) -> bool:
        return self.fault == 0

    def text(self, words: tuple[str, ...]) -> str:
        """A text for the report. words: guard.FAULTS."""
        values = [f"{text}" if name == self.name else f"{name.removeprefix(self.name + '_')} {text}"
                  for name, text in self.values]  # fmt: skip
        if self.is_good:
            return f"{self.name}: {', '.join(values) or 'no reading now'}"
        word = words[self.fault] if self.fault < len(words) else "failed"
        detail = f" ({self.detail})" if self.detail else ""
        seen = f"; it gave {', '.join(values)}" if values else ""
        return f"{self.name}: failed: {word}{detail}{seen}; {self._hint(word)}"

    def _hint(self, word: str) -> str:
        if word == "not usable":
            return "mend its settings or its file, and flash again"
        if word == "slow":
            return "its readings are taken less often"
        if self.answers is not None:
            return self._bus_hint(self.answers)
        if self.uart is not None:
            tx, rx = self.uart
            return f"check its power, and that its tx goes to pin {rx} and its rx to pin {tx}"
        if self.pin is not None:
            return f"check its power, ground, and the wire to pin {self.pin}"
        return "boards/sensors/README.md says what that is"

    def _bus_hint(self, answers: list[int]) -> str:
        if not answers:
            return "nothing answers on its bus: check power, ground, and whether scl and sda "\
                "are swapped"  # fmt: skip
        if len(answers) > _MOST_ADDRESSES:
            return "every address of its bus answers: scl or sda has no pull-up, or is held down"
        if self.address in answers:
            return f"a chip answers at {self.address}: another kind, or wires that are too long"
        found = ", ".join(f"{one} (0x{one:02x})" for one in answers)
        return f"nothing answers at {self.address}, but at {found}: is that it? Set 'address'"


def run(board: Board) -> list[Sensor]:
    """Read each sensor; [] if the board did not open. Raises ToolError; if a driver did not return,
    it names the sensor, and the board accepts no other script."""
    found: list[Sensor] = []

    def take(line: str) -> None:
        letter, _, rest = line.partition(" ")
        if letter == "T":
            found.append(Sensor(rest))
        elif found:
            _take(found[-1], letter, rest)

    silence_s = board.answer_s + _SILENCE_S
    try:
        lines = board.run(_SCRIPT, take, silence_s)
    except TimeoutError:
        if not found:
            raise
        raise ToolError(
            f"{found[-1].name} did not return within {silence_s:g} s: its driver seems "
            "to wait for ever; fix it, and flash again"
        ) from None
    if lines[-1:] == ["X"]:
        return []
    if lines[-1:] != ["D"]:
        raise ToolError(f"{board.port}: the sensors were not read to the end")
    return found


def _take(sensor: Sensor, letter: str, rest: str) -> None:
    """Take one line that the board printed. Drivers may print other lines in between."""
    words = rest.split()
    if letter == "V" and len(words) == 4:
        value = Decimal(words[3]).scaleb(int(words[2]))
        unit = "" if words[1] == "-" else f" {words[1]}"
        sensor.values.append((words[0], f"{value:f}{unit}"))
    elif letter == "F" and words:
        sensor.fault, sensor.detail = int(words[0]), rest.partition(" ")[2]
    elif letter == "I" and words:
        sensor.address, sensor.answers = int(words[0]), [int(one) for one in words[1:]]
    elif letter == "U" and len(words) == 2:
        sensor.uart = int(words[0]), int(words[1])
    elif letter == "P" and words:
        sensor.pin = int(words[0])
