"""Checks whether sensors fit the board's pins, each other, and deep sleep.

A pin has one user, a controller has one pair of pins, and an address of a bus has one chip. Only
two things are shared: the two lines of an I2C bus, by chips at different addresses, and a 1-Wire
line, by chips that are named by their `rom`.

A driver declares in KEYS how it uses a pin: the fourth word in the rule of that key, one of
pinout.ROLES. The keys i2c, scl, sda, address and uart, tx, rx mean the same in each driver. If a
driver declares nothing for its `pin`, the pin is only compared with the board and with the other
sensors. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outpost_tools.boards.port.pinout import ROLES, Controller, Pinout

_BUS_ROLES = {"i2c": ("scl", "sda"), "uart": ("tx", "rx")}
_TITLES = {"i2c": "I2C", "uart": "UART"}
_SOFTWARE = -1  # the number of an I2C bus without a controller


@dataclass(frozen=True, slots=True)
class Sensor:
    """label: for messages, as `'attic' (bme280)`. options: with defaults. rules: the driver's
    KEYS."""

    label: str
    options: dict[str, Any]
    rules: dict[str, Any]

    def roles(self) -> dict[str, str]:
        """key -> role, for the keys that are pins."""
        return {key: role for key in self.rules if (role := role_of(key, self.rules))}

    def pins(self) -> dict[int, str]:
        """pin -> key, for each of its pins."""
        return {self.options[key]: key for key in self.roles()}

    def bus(self) -> tuple[str, tuple[Any, ...]] | None:
        """Return ("i2c", (number, scl, sda)), or the same for "uart"; None without a bus."""
        for kind, roles in _BUS_ROLES.items():
            if kind in self.rules and all(one in self.rules for one in roles):
                return kind, tuple(self.options[one] for one in (kind, *roles))
        return None

    def lines(self) -> tuple[Any, ...]:
        """Return (kind, number, *pins), which must be equal in another sensor that shares these
        pins; () if no sensor can share them."""
        for key, role in self.roles().items():
            if role == "1-wire":
                return role, None, self.options[key]
        bus = self.bus()
        return (bus[0], *bus[1]) if bus and bus[0] == "i2c" else ()


def role_of(key: str, rules: dict[str, Any]) -> str:
    """One of ROLES; "" if the key is not a pin."""
    rule = rules[key]
    if not isinstance(rule, tuple) or isinstance(rule[0], str):
        return ""
    if len(rule) > 3:
        return rule[3]
    for kind, roles in _BUS_ROLES.items():
        if key in roles and kind in rules:
            return key
    return "pin" if key == "pin" or key.endswith("_pin") else ""


def on_pin(name: str, role: str, pin: int) -> Sensor:
    """A sensor without a driver file: `adc@26`."""
    return Sensor(repr(name), {"pin": pin}, {"pin": (0, pin, None, role)})


def faults(sensors: list[Sensor], board: Pinout | None, *, deep_sleep: bool) -> list[str]:
    """The fault of each sensor or, if there is none, the first conflict between two sensors, as
    texts that follow "has a sensor "; an empty text means no fault. board: None if its pins are not
    known."""
    found = []
    for sensor in sensors:
        others = [one for one in sensors if one is not sensor]
        fault = _fault_alone(sensor, board, others, deep_sleep=deep_sleep)
        found.append(fault and f"{sensor.label}: {fault}")
    return found if any(found) else [_fault_among(sensors, board)]


def psram_fault(sensors: list[Sensor], board: Pinout | None, machine: str) -> str:
    """The fault of a sensor that uses a pin of the PSRAM; "" if there is none. machine: what the
    board reports; the names of MicroPython's builds for PSRAM contain "SPIRAM"."""
    if board is None or "SPIRAM" not in machine.upper():
        return ""
    for sensor in sensors:
        for pin, key in sensor.pins().items():
            if pin in board.psram:
                others = [one for one in sensors if one is not sensor]
                free = _instead(sensor, key, board, others)
                return f"{sensor.label}: key {key!r} is {pin}, which belongs to the PSRAM{free}"
    return ""


# --- One sensor and the board ---


def _fault_alone(
    sensor: Sensor, board: Pinout | None, others: list[Sensor], *, deep_sleep: bool
) -> str:
    """others: the other sensors, whose pins are not free."""
    found = _twice(sensor, board, others)
    if not found and board:
        found = _controller_fault(sensor, board, others) or _pin_fault(sensor, board, others)
    if not found and deep_sleep and "counter" in sensor.roles().values():
        return (
            "it counts nothing in deep sleep, and reads 0 at each wake; leave out 'deep_sleep', or "
            "the sensor"
        )
    return found


def _twice(sensor: Sensor, board: Pinout | None, others: list[Sensor]) -> str:
    roles = sensor.roles()
    for key in roles:
        other = sensor.pins()[sensor.options[key]]
        if other != key:
            fault = f"key {key!r} is {sensor.options[key]}, as {other!r} is"
            return fault + _instead(sensor, key, board, others)
    return ""


def _pin_fault(sensor: Sensor, board: Pinout, others: list[Sensor]) -> str:
    pull = sensor.options.get("pull", "none")
    for key, role in sensor.roles().items():
        pin = sensor.options[key]
        if fault := board.fault(pin, role, pull):
            return f"key {key!r} is {pin}, {fault}{_instead(sensor, key, board, others)}"
    return ""


def _controller_fault(sensor: Sensor, board: Pinout, others: list[Sensor]) -> str:
    """The fault of the number of its I2C or UART, or of a pin that this controller cannot use."""
    bus = sensor.bus()
    if bus is None or bus[1][0] == _SOFTWARE:
        return ""
    kind, (number, *pins) = bus
    controllers: tuple[Controller | str, ...] = getattr(board, kind)
    if number >= len(controllers) or isinstance(controllers[number], str):
        what = "the board does not have"
        if number < len(controllers):
            what = f"belongs to {controllers[number]}"
        return f"key {kind!r} is {number}, which {what}; {_other_bus(kind, board, others, number)}"
    reaches = controllers[number]
    for key, pin in zip(_BUS_ROLES[kind], pins, strict=True):
        is_ours = pin in board.gpio and pin not in board.owners  # else: _pin_fault() says more
        if isinstance(reaches, dict) and reaches and is_ours and pin not in reaches[key]:
            return _unreached(sensor, key, board, others)
    return ""


def _unreached(sensor: Sensor, key: str, board: Pinout, others: list[Sensor]) -> str:
    """The fault of a key whose pin the controller cannot use."""
    kind, (number, *pins) = sensor.bus() or ("", ())
    roles, controllers = _BUS_ROLES[kind], getattr(board, kind)
    fault = f"key {key!r} is {sensor.options[key]}, which {_TITLES[kind]} {number} cannot use as "
    fault += key
    if _reach(controllers[number], roles, pins[::-1]):
        return f"{fault}; exchange {roles[0]!r} and {roles[1]!r}"
    for other, reaches in enumerate(controllers):
        if _reach(reaches, roles, pins):
            return f"{fault}; {kind} {other} has these pins"
    return fault + _instead(sensor, key, board, others)


def _reach(reaches: Controller | str, roles: tuple[str, str], pins: list[int]) -> bool:
    return isinstance(reaches, dict) and all(
        pin in reaches[role] for role, pin in zip(roles, pins, strict=True)
    )


def _instead(sensor: Sensor, key: str, board: Pinout | None, others: list[Sensor]) -> str:
    """The end of a message: a pin that would do."""
    if board is None:
        return "; use another pin"
    used = {*_used(others), *sensor.pins()}
    among: list[int] = []
    bus = sensor.bus()
    if bus and 0 <= bus[1][0] < len(getattr(board, bus[0])):
        reaches = getattr(board, bus[0])[bus[1][0]]
        among = reaches.get(key, []) if isinstance(reaches, dict) else []
    role = role_of(key, sensor.rules)
    pin = board.free(role, used, sensor.options.get("pull", "none"), among)
    return "; no other pin is free for it" if pin is None else f"; pin {pin} would do"


def _other_bus(kind: str, board: Pinout | None, others: list[Sensor], number: int) -> str:
    """The end of a message: a controller that is free, with pins for it."""
    if board is None:
        return "use another one"
    used = _used(others)
    taken = {number} | {bus[1][0] for one in others if (bus := one.bus()) and bus[0] == kind}
    for other, reaches in enumerate(getattr(board, kind)):
        if other in taken or isinstance(reaches, str):
            continue
        pins: list[int] = []
        for role in _BUS_ROLES[kind]:
            pin = board.free(role, {*used, *pins}, among=reaches.get(role, ()))
            pins += [] if pin is None else [pin]
        if len(pins) == len(_BUS_ROLES[kind]):
            named = zip(_BUS_ROLES[kind], pins, strict=True)
            return f"{kind} {other} with {' and '.join(f'{k} {pin}' for k, pin in named)} would do"
    if kind == "i2c":
        return "i2c -1 would do: a bus in software, on any two pins"
    return "this board has no other one"


def _used(sensors: list[Sensor]) -> set[int]:
    return {pin for one in sensors for pin in one.pins()}


# --- Sensors among each other ---


def _fault_among(sensors: list[Sensor], board: Pinout | None) -> str:
    """The first conflict between two sensors; "" if there is none."""
    for number, sensor in enumerate(sensors):
        others = [one for one in sensors if one is not sensor]
        for earlier in sensors[:number]:
            if fault := _clash(sensor, earlier, board, others):
                return f"{sensor.label}: {fault}"
    return ""


def _clash(sensor: Sensor, earlier: Sensor, board: Pinout | None, others: list[Sensor]) -> str:
    lines = sensor.lines()
    if not lines or lines != earlier.lines():
        fault, shared = _bus_clash(sensor, earlier, board, others), []
    else:
        fault, shared = _shared_fault(sensor, earlier, board, others), lines[2:]
    return fault or _pin_clash(sensor, earlier, board, others, shared)


def _shared_fault(
    sensor: Sensor, earlier: Sensor, board: Pinout | None, others: list[Sensor]
) -> str:
    """The fault of two sensors at the same I2C bus or 1-Wire line."""
    if sensor.lines()[0] == "1-wire":
        key = sensor.pins()[sensor.lines()[2]]
        fault = _rom_clash(sensor, earlier, key)
        return fault and fault + _instead(sensor, key, board, others)
    address = sensor.options.get("address")
    if address is None or address != earlier.options.get("address"):
        return ""
    fault = (
        f"key 'address' is {address} (0x{address:02x}), as that of {earlier.label}, on the same "
    )
    taken = {one.options.get("address") for one in others if one.lines() == sensor.lines()}
    least, most = sensor.rules["address"][:2]
    free = [one for one in (least, most, *range(least, most)) if one not in taken]
    if free:
        return f"{fault}bus; if the chip has it, address {free[0]} (0x{free[0]:02x}) would do"
    return f"{fault}bus; {_other_bus('i2c', board, others, sensor.options['i2c'])}"


def _rom_clash(sensor: Sensor, earlier: Sensor, key: str) -> str:
    roms = [one.options.get("rom", "").lower() for one in (sensor, earlier)]
    if not all(roms):
        return (
            f"key {key!r} is {sensor.options[key]}, as that of {earlier.label}; without a 'rom' "
            "of 16 hex digits in each, both read the same chip"
        )
    same = f"key 'rom' is that of {earlier.label}, at the same pin: two names of one chip"
    return same if roms[0] == roms[1] else ""


def _bus_clash(sensor: Sensor, earlier: Sensor, board: Pinout | None, others: list[Sensor]) -> str:
    """The fault of two sensors at one controller with different pins, or at one UART."""
    bus, other = sensor.bus(), earlier.bus()
    if not bus or not other or bus[0] != other[0] or bus[1][0] != other[1][0]:
        return ""
    kind, (number, *pins) = other
    if number == _SOFTWARE:
        return ""
    named = zip(_BUS_ROLES[kind], pins, strict=True)
    where = " and ".join(f"{key} {pin}" for key, pin in named)
    same = "use these pins too, or others: " if kind == "i2c" else ""
    more = same + _other_bus(kind, board, others, number)
    return f"key {kind!r} is {number}, which {earlier.label} has with {where}; {more}"


def _pin_clash(
    sensor: Sensor, earlier: Sensor, board: Pinout | None, others: list[Sensor], shared: Any
) -> str:
    """shared: pins that both may use."""
    theirs = earlier.pins()
    for pin, key in sensor.pins().items():
        if pin in theirs and pin not in shared:
            return (
                f"key {key!r} is {pin}, which {earlier.label} has as {theirs[pin]!r}"
                f"{_instead(sensor, key, board, others)}"
            )
    return ""


def is_role(word: Any) -> bool:
    """Whether a driver may declare this word."""
    return isinstance(word, str) and word in ROLES
