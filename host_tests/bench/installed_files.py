#!/usr/bin/env python3
"""Which files `outpost flash` installs on a Pico W, by its settings: how many, their bytes, and the
blocks of flash that they take on a real littlefs. `make size` prints it.

    .venv/bin/python host_tests/bench/installed_files.py [--write]

--write: write the table of boards/PORTING.md, which a test compares with it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paths import ALL, BENCH_BOARD, BOARDS, FAKES, FIRMWARE, REPOSITORY, UNIX_BOARD, joined

sys.path[:0] = ALL

import marked_table  # noqa: E402
from outpost_tools.boards.files import firmware_build, needed, payload  # noqa: E402
from outpost_tools.boards.port import kinds  # noqa: E402
from outpost_tools.boards.settings import sensor_drivers  # noqa: E402
from outpost_tools.machine.interpreters import find_micropython  # noqa: E402

PAGE = BOARDS / "PORTING.md"
MEASURE = Path(__file__).with_name("installed_blocks.py")
KIND, ARCHITECTURE = "RPI_PICO_W", "armv6m"
_REST = {"settings.json": 600, "tls/ca-01234567.der": 500, "outpost/installed.json": 4000}

_COLLECTOR = {"mode": "collector", "say_state": True}
_TLS = _COLLECTOR | {"tls": True}
_UPDATES = _TLS | {"commands": True, "update_key": "5a" * 32}
_EVERYTHING = _UPDATES | {
    "level": 5, "series": True, "encoding": "cbor", "deep_sleep": True,
    "when_full": "drop_oldest", "wifi_networks": [{"ssid": "Home"}],
    "sensors": [{"driver": "bme280"}, {"driver": "pms5003"}, "ds18b20@2"],
}  # fmt: skip
ROWS = (
    ('mode = "broker"', {"mode": "broker", "say_state": True}),
    ('mode = "collector"', _COLLECTOR),
    ("the same with tls", _TLS),
    ("and with commands, update_key", _UPDATES),
    ("and with series", _UPDATES | {"series": True}),
    ("the same with level = 5 in place of series", _UPDATES | {"level": 5}),
    ("all at once, and two driver files", _EVERYTHING),
)


def installed(settings: dict) -> dict[str, bytes]:
    full = needed.defaults() | settings
    drivers = sensor_drivers.on_board(full["sensors"], None)
    programs = [driver.source for driver in drivers.values()]
    kind = kinds.load(REPOSITORY, KIND)
    found = payload.build(REPOSITORY, kind, ARCHITECTURE, full, programs)
    return found | sensor_drivers.files(drivers, ARCHITECTURE)


def every_module() -> dict[str, bytes]:
    """What there is for any board."""
    kind = kinds.load(REPOSITORY, KIND)
    texts = firmware_build.sources(FIRMWARE) | firmware_build.board_sources(kind.folder)
    files = firmware_build.compile_all(texts, ARCHITECTURE)
    return {f"/{path}": data for path, data in files.items()} | {
        "/main.py": (FIRMWARE / "main.py").read_bytes()
    }


def rows() -> list[tuple[str, int, int, int, int]]:
    """(settings, files, bytes, blocks taken, blocks free with the default outbox)."""
    found = [(title, installed(settings)) for title, settings in ROWS]
    found.append(("every module that there is, without drivers", every_module()))
    sizes = [
        {path.lstrip("/"): len(data) for path, data in files.items()} | _REST for _, files in found
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list.json"
        path.write_text(json.dumps(sizes))
        command = [*(find_micropython("i386") or ()), "-X", "heapsize=8M", str(MEASURE), str(path)]
        environment = os.environ | {"MICROPYPATH": joined(FAKES, UNIX_BOARD, BENCH_BOARD)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [
        (title, len(files), sum(map(len, files.values())), taken, free)
        for (title, files), (taken, free) in zip(found, json.loads(done.stdout), strict=True)
    ]


def table() -> str:
    lines = [
        "| settings | files | bytes | blocks | free of 212 |",
        "|---|---:|---:|---:|---:|",
        *(f"| {row[0]} | {row[1]} | {row[2]:,} | {row[3]} | {row[4]} |" for row in rows()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true")
    text = table()
    if parser.parse_args().write:
        marked_table.write(PAGE, "installed", text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
