"""Measures a wake: what each step from the import to the acknowledgement takes, in ms on the board,
and in mAs according to the data sheet.

The board runs the script in a fresh interpreter, with its own program and settings: it stores one
reading and sends it. `outpost selftest` runs it on a real board, `make bench` on the emulated
RP2040.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from outpost_tools.boards.port.connection import Board

# In order. Without TLS, the time arrives during other steps. A board without Wi-Fi has "link" for
# all steps from "radio" to "TLS".
STEPS = (
    "import", "mount", "measure", "store", "radio", "join", "time", "name", "TCP", "TLS", "link",
    "connect", "publish", "acknowledge",
)  # fmt: skip
_WITHOUT_RADIO = STEPS[:4]
# mA: the processor alone, and with the radio receiving. ESP32 Series data sheet, "Current
# consumption": modem-sleep at 160 MHz, which MicroPython sets (27 to 44), and RX (95 to 100). For
# the other kinds, no data sheet that we have states both.
CURRENTS_MA = {"ESP32_GENERIC": (44, 100)}

SCRIPT = """
import time

def since(start):
    return time.ticks_diff(time.ticks_ms(), start)

class Ledger:
    def __init__(self):
        self.start = time.ticks_ms()
        self.stored = 0

    def lap(self, name):
        print("W", name, since(self.start))
        self.start = time.ticks_ms()

    def timed(self, function):
        def call(*arguments, **named):
            start = time.ticks_ms()
            result = function(*arguments, **named)
            self.stored += since(start)
            return result
        return call

    def measure(self, station):
        client, series = station.client, getattr(station, "series", None)
        client.publish = self.timed(client.publish)
        if series:
            series.add = self.timed(series.add)
        if station.measure():
            while station.publish_rest():
                pass
        getattr(station, "close_record", int)()
        print("W measure", since(self.start) - self.stored)
        print("W store", self.stored)
        self.start = time.ticks_ms()

def steps(board, client, is_secure):
    session = client.session
    wifi = getattr(board, "_wifi", 0)
    if wifi == 0:
        found = [("link", lambda: client._stream)]
    else:
        def link():
            return getattr(board, "_wifi_link", None)
        found = [
            ("radio", lambda: board._wifi and board._wifi.joins),
            ("join", lambda: board._wifi.is_up),
        ]
        if is_secure:
            found.append(("time", lambda: board._net_time and board._net_time.is_set))
        found.append(("name", lambda: link() and link()._tcp))
        found.append(("TCP", lambda: link()._is_connected))
        if is_secure:
            found.append(("TLS", lambda: client._stream))
    return found + [
        ("connect", client.is_connected),
        ("publish", lambda: session.sent),
        ("acknowledge", lambda: session.acknowledged),
    ]

def is_over(due, client):
    # the link has given its socket away before that was seen
    return due[0][1]() or due[0][0] in ("name", "TCP") and client._stream

def wake(limit_ms):
    ledger = Ledger()
    import main
    try:
        from station import assembly
    except ImportError:
        pass
    board, settings = main.board, main.load_settings()
    ledger.lap("import")
    board.open(settings)
    station = main.build(settings)
    ledger.lap("mount")
    ledger.measure(station)
    client = station.client
    due = steps(board, client, settings["tls"])
    board.started(client)
    begun = time.ticks_ms()
    while due and since(begun) < limit_ms:
        now = board.ticks_ms()
        board.keep_time(station.clock, now)
        if not client.poll(now):
            board.idle(client)
        board.feed_watchdog()
        while due and is_over(due, client):
            ledger.lap(due.pop(0)[0])
    print("W end", len(due))
    client.close()
    board.stopped(client)
    board.release_watchdog()
"""


@dataclass(frozen=True, slots=True)
class Ledger:
    """ms: step -> milliseconds. is_whole: whether the wake reached the acknowledgement."""

    ms: dict[str, int] = field(default_factory=dict)
    is_whole: bool = False

    def mas(self, kind: str) -> float | None:
        """mAs according to the data sheet; None if it has no figures for this kind."""
        if kind not in CURRENTS_MA:
            return None
        alone, with_radio = CURRENTS_MA[kind]
        used = {step: alone if step in _WITHOUT_RADIO else with_radio for step in self.ms}
        return sum(ms * used[step] for step, ms in self.ms.items()) / 1000

    def text(self, kind: str = "") -> str:
        parts = ", ".join(f"{step} {ms:,}" for step, ms in self.ms.items())
        mas = self.mas(kind)
        charge = "" if mas is None else f"; {mas:.0f} mAs by the data sheet"
        return f"{sum(self.ms.values()):,} ms: {parts}{charge}"


def run(board: Board, limit_s: float) -> Ledger:
    """Raises ToolError."""
    board.renew()
    lines = board.run(f"{SCRIPT}\nwake({int(limit_s * 1000)})", answer_s=limit_s + 60)
    board.renew()
    return parse(lines)


def parse(lines: list[str]) -> Ledger:
    """Parse the script's lines. The board's program may print others in between."""
    found: dict[str, int] = {}
    left = -1
    for line in lines:
        if match := re.fullmatch(r"W (\w+) (-?\d+)", line.strip()):
            if match[1] == "end":
                left = int(match[2])
            elif match[1] in STEPS:
                found[match[1]] = int(match[2])
    return Ledger(found, left == 0)
