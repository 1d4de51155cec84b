"""Cycles and start-up on the emulated RP2040: sections `chip...` of run_bench.py.

Uses the real interpreter (tools/rp2_image.py builds it), the files that `outpost flash` copies, and
umqtt.simple beside them on the same chip. Nothing is random there: a second run has the same
figures. Without the image or a compiler they raise ToolError.
"""

from __future__ import annotations

import random

from outpost_tools.errors import ToolError

BLOCKS = 64
LIMIT_S = 30
FROZEN = "pico-outpost"


def _need_emulator() -> None:
    from rp2040 import core, image

    try:
        core.library()
    except core.NoCompiler as error:
        raise ToolError(str(error)) from None
    if not image.find():
        raise ToolError(f"no MicroPython for the RP2040 in the cache; {image.HINT}")


def cycles() -> dict[str, dict]:
    """Returns {row: cycles, flash_ms, ...}; see rp2040/cycles.py."""
    _need_emulator()
    from rp2040 import cycles as counted

    rows, _ = counted.measure(counted.parse([]))
    print("\nCycles of the RP2040 at 125 MHz, topic 24 and payload 64 bytes, flash time apart:")
    print(counted.table(rows, ""))
    return rows


def series() -> dict[str, dict]:
    """Returns the same for a series of 60 samples of three values, and for a message per sample."""
    _need_emulator()
    from rp2040 import counter
    from rp2040 import cycles as counted

    script = counter.ON_CHIP / "series.py"
    rows, said = counted.measure(counted.parse(["--script", str(script)]))
    if len(rows) < len(counted.PER_VALUE):
        raise ToolError("cycles of series: the script failed on the chip:\n" + "\n".join(said))
    print("\nCycles of the RP2040 at 125 MHz, 60 samples of three values, flash time apart:")
    print(counted.table(rows, ""))
    return rows


def start() -> dict[str, float]:
    """Seconds of the chip from power-on, with 64 blocks pinned beforehand: to the first stored
    message, with an interpreter that has `network` and `socket` built in, as a Pico W's; to
    connection and delivery, with stand-ins for them.

    As files, and frozen into the image: `frozen_` rows.
    """
    _need_emulator()
    from rp2040 import image

    found = {}
    for prefix, names in (("", ("pico-ppp", "pico")), ("frozen_", ("pico-ppp-outpost", FROZEN))):
        if missing := [name for name in names if not image.find(name)]:
            raise ToolError(f"no image {missing[0]} of these sources; {image.HINT}")
        rows = {"stored_s": _stored(names[0])} | _delivered(names[1])
        found |= {f"{prefix}{name}": value for name, value in rows.items()}
    said = ", ".join(f"{name} {value}" for name, value in found.items())
    print(f"\nFrom power on, {BLOCKS} blocks, seconds of the chip: {said}")
    return found


def wake() -> dict[str, dict[str, int]]:
    """Returns {row: {step: ms}}; see chip_wake.py."""
    _need_emulator()
    import chip_wake

    return chip_wake.section()


def _stored(interpreter: str) -> float:
    """There is no Wi-Fi chip: a start ends with a reset at the first call of the link, after the
    first message is stored."""
    from rp2040 import image, installed
    from rp2040.board import Board, flash_image

    files = {} if interpreter.endswith("outpost") else installed.firmware_files()
    settings = {
        "device_id": "b1", "broker_host": "broker.example", "wifi_ssid": "Home",
        "interval_ms": 1000, "outbox_blocks": BLOCKS,
    }  # fmt: skip
    first = Board(flash_image(image.load(image.find(interpreter)), files, settings, {}))
    first.run_for(LIMIT_S, lambda: bool(first.chip.resets))
    again = Board(first.image)
    if not again.run_for(LIMIT_S, lambda: again.chip.flash.counters.programs > 0):
        raise ToolError(f"nothing stored in {LIMIT_S} s of the chip's time:\n{again.text[-1000:]}")
    return round(again.seconds, 3)


def _delivered(interpreter: str) -> dict[str, float]:
    from rp2040 import installed
    from rp2040.board import Board
    from rp2040.memory_link import MemoryLink
    from rp2040.mqtt_peer import Collector

    board = installed.install(interval_ms=1000, blocks=BLOCKS, interpreter=interpreter)
    collector = Collector(random.Random(1))
    again = Board(board.started, link=MemoryLink.to(collector))
    found = {"first_start_s": round(board.first_start_s, 3)}
    again.run_for(LIMIT_S, lambda: again.link.connects > 0)
    found["connected_s"] = round(again.seconds, 3)
    again.run_for(LIMIT_S, lambda: bool(collector.messages))
    found["delivered_s"] = round(again.seconds, 3)
    return found
