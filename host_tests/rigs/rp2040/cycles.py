#!/usr/bin/env python3
"""Cycles of the RP2040 (125 MHz) that Outpost's calls take, beside umqtt.simple, on the emulated
chip with the real interpreter.

    .venv/bin/python host_tests/rigs/rp2040/cycles.py                       this checkout
    .venv/bin/python host_tests/rigs/rp2040/cycles.py --firmware CHECKOUT   another one
    .venv/bin/python host_tests/rigs/rp2040/cycles.py --script my.py        like on_chip/cycles.py

Writes build/cycles.json. A span's figure is the median of its repetitions, without the empty pair
of markers, without the code in the replaced stream, and without the time in which the flash chip is
busy, which has its own column. The emulator counts instructions as rp2040py does; misses of the XIP
cache cost nothing there, so a real chip takes longer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import paths

sys.path.extend(paths.ALL)

import fetch_peers
from outpost_tools.errors import ToolError
from rp2040 import compiled, counter, image
from rp2040.clock import CYCLES_PER_MS

SUMS = {  # rows that are sums of others
    "RAM QoS 1, all three": ("RAM publish", "RAM send", "RAM PUBACK"),
    "stored QoS 1, all three": ("stored publish", "stored send", "stored PUBACK"),
}
# Rows of the total for a number of values: (spans, the span of which there is one per message,
# values per message).
PER_VALUE = {
    "series, a value": (
        ("series add", "series add, which begins a record", "series close", "series send",
         "series PUBACK"),
        "series PUBACK",
        180,
    ),
    "message of three, a value": (
        ("message publish", "message send", "message PUBACK"), "message PUBACK", 3
    ),
}  # fmt: skip


def files(checkout: Path, optimize: int) -> dict[str, bytes]:
    board = compiled.packages(checkout, optimize)
    peer = fetch_peers.fetch("micropython-umqtt.simple")
    if peer.folder is None:
        print(f"cycles: without umqtt.simple: {peer.reason}", file=sys.stderr)
        return board
    for source in sorted(peer.folder.glob("**/umqtt/*.py")):
        board[f"/lib/umqtt/{source.stem}.mpy"] = compiled.compile_one(
            source, f"umqtt/{source.name}", optimize
        )
    board["/lib/usocket.py"] = b"# its connect() is not called\n"
    return board


_NOT_ROWS = ("empty", "call of the peer", "call of nothing")


def summary(spans: list[counter.Span]) -> dict[str, dict]:
    """Returns, by name: median, least and most cycles, flash time in ms, programs and erases."""
    raw: dict[str, list[counter.Span]] = {}
    for span in spans:
        raw.setdefault(span.name, []).append(span)
    rows = {name: _row(found, _net(found, raw)) for name, found in raw.items()}
    rows = {name: row for name, row in rows.items() if name not in _NOT_ROWS}
    for name, parts in SUMS.items():
        if all(part in rows for part in parts):
            rows[name] = {
                key: round(sum(rows[part][key] for part in parts), 2)
                for key in rows[parts[0]]
                if key != "times"
            }
    for name, (parts, last, values) in PER_VALUE.items():
        if last in raw:
            spent = [span for part in parts for span in raw[part]]
            rows[name] = _a_value(spent, sum(_net(spent, raw)), values * len(raw[last]))
    return rows


def _net(found: list[counter.Span], raw: dict[str, list[counter.Span]]) -> list[int]:
    """Returns the cycles of each, minus those of the markers."""

    def middle(name: str) -> int:
        return round(statistics.median(span.cycles for span in raw[name])) if name in raw else 0

    per_call = max(0, middle("call of the peer") - middle("call of nothing"))
    return [span.cycles - middle("empty") - span.skips * per_call for span in found]


def _row(found: list[counter.Span], cycles: list[int]) -> dict:
    busy = statistics.median(span.flash_cycles for span in found)
    return {
        "cycles": round(statistics.median(cycles)),
        "least": min(cycles),
        "most": max(cycles),
        "times": len(found),
        "flash_ms": round(busy / CYCLES_PER_MS, 2),
        "programs": statistics.median(span.programs for span in found),
        "erases": statistics.median(span.erases for span in found),
    }


def _a_value(spent: list[counter.Span], cycles: int, values: int) -> dict:
    """Returns the row of all these spans, divided by the number of values."""
    each = round(cycles / values)
    flash_ms = sum(span.flash_cycles for span in spent) / CYCLES_PER_MS / values
    return {
        "cycles": each,
        "least": each,
        "most": each,
        "times": values,
        "flash_ms": round(flash_ms, 2),
        "programs": round(sum(span.programs for span in spent) / values, 3),
        "erases": round(sum(span.erases for span in spent) / values, 4),
    }


def table(rows: dict[str, dict], pattern: str) -> str:
    heads = f"{'cycles':>12}{'least':>12}{'most':>12}{'flash ms':>10}{'programs':>9}{'erases':>7}"
    lines = [f"{'':<38}{heads}"]
    for name, row in rows.items():
        if pattern in name:
            figures = f"{row['cycles']:>12,}{row['least']:>12,}{row['most']:>12,}"
            lines.append(
                f"{name:<38}{figures}{row['flash_ms']:>10,}{row['programs']:>9g}{row['erases']:>7g}"
            )
    return "\n".join(lines)


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--firmware",
        type=Path,
        default=paths.REPOSITORY,
        metavar="CHECKOUT",
        help="folder that holds firmware/",
    )
    parser.add_argument(
        "--script",
        type=Path,
        default=counter.ON_CHIP / "cycles.py",
        help="runs on the chip as main.py",
    )
    parser.add_argument(
        "--image", type=Path, help="the interpreter (.bin or .uf2) in place of the cache's"
    )
    parser.add_argument(
        "--optimize", type=int, default=compiled.OPTIMIZE, help="mpy-cross -O (2: as it ships)"
    )
    parser.add_argument(
        "-k", dest="pattern", default="", help="show the rows with this in their name"
    )
    parser.add_argument("--json", type=Path, default=paths.REPOSITORY / "build" / "cycles.json")
    parser.add_argument("--verbose", action="store_true", help="show what the script prints")
    return parser.parse_args(words)


def measure(options: argparse.Namespace) -> tuple[dict[str, dict], list[str]]:
    """Returns the rows, and what the script printed."""
    echo = (lambda line: print(f"  {line}", file=sys.stderr)) if options.verbose else None
    board = files(options.firmware, options.optimize)
    done = counter.run(image.load(options.image), board, options.script.read_bytes(), echo=echo)
    return summary(done.spans), [line for line in done.lines if line != counter.LAST_LINE]


def report(options: argparse.Namespace) -> int:
    began = time.monotonic()
    rows, said = measure(options)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"firmware": options.firmware.name, "rows": rows, "said": said}, indent=1) + "\n"
    )
    print(table(rows, options.pattern))
    print("\n".join(said))
    print(f"{time.monotonic() - began:.1f} s; all of it in {options.json}")
    return 1 if any("Traceback" in line for line in said) else 0


if __name__ == "__main__":
    try:
        sys.exit(report(parse()))
    except (ToolError, counter.NotFinished, OSError) as error:
        sys.exit(f"cycles: {error}")
