#!/usr/bin/env python3
"""What the heap of size_report.py's two configurations consists of, and what single features take
of it.

    .venv/bin/python host_tests/bench/size_parts.py

Bytecode, code info and functions are counted as the 32-bit interpreter compiles the sources
(`micropython -v -v`), names as it counts them itself; "the rest" is what its heap holds besides.
A feature's figure: the heap without the functions that serve it alone. Their names, and the lines
for it in other functions, stay: it is the least that the feature costs.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import size_report
from outpost_tools.common import interpreters
from outpost_tools.common.errors import ToolError

FIRMWARE = size_report.REPOSITORY / "firmware"
_BLOCK = 16  # bytes: what the heap is given out by, and a function's object
_CODE = re.compile(
    r"^File (\S+), code block '(\S+)'.*\n"
    r"Raw bytecode \(code_info_size=(\d+), bytecode_size=(\d+)\)",
    re.M,
)
# Of the modules that stay: set-up code is unloaded, or loaded with what needs it.
FEATURES = {
    "deadlines of every exchange, progress by bytes": (
        "session_base: _see _waited _moved_on _on_late _overdue part_written; session: _on_pong"
    ),
    "messages that a server does not take are set aside": (
        "session_base: _on_lost _load_suspects; session: _on_unexpected; ram_outbox: shelf; "
        "outbox: shelf"
    ),
    "backoff by progress, takeovers, errors of links": (
        "client: backoff_ms _judge __exit__; session: has_progress"
    ),
    "topics checked before they are stored": "session_base: _is_topic; reader: is_topic",
    "QoS 0": "session_base: _publish_now",
    "acknowledgements saved, blocks erased when idle": (
        "session_base: settle _tidy; ring: erase_ahead _clear_free; outbox: save_state unsaved"
    ),
    "blocks that fail are left out": "ring: _leave_out _note_failure _clear _is_cleared",
    "headers survive a flipped bit": "sectors: _mend_header _load_copy _copy_at",
    "torn records never read as whole later": "ring: _resume; outbox: _prove",
    "records after damage, numbers lost": (
        "sectors: _count_erased; outbox: _search _seek _advance discard_through"
    ),
}


def functions(configuration: size_report.Configuration, loaded: list[str]) -> list[tuple[int, int]]:
    """(code info, bytecode) in bytes of each function that stays; modules and classes only run
    once."""
    command = interpreters.find_micropython("i386")
    if command is None:
        raise ToolError("no MicroPython for i386: run `make setup`")
    done = subprocess.run(
        [*command, "-v", "-v", "-c", "\n".join(f"import {name}" for name in loaded)],
        env=os.environ | {"MICROPYPATH": str(FIRMWARE)}, capture_output=True, check=False,
    )  # fmt: skip
    once = {"<module>", "<listcomp>"}
    for name in loaded:
        tree = ast.parse((FIRMWARE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
        once |= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    files = {f"{name.replace('.', '/')}.py" for name in loaded}
    return [
        (int(info), int(code))
        for file, name, info, code in _CODE.findall(done.stdout.decode(errors="replace"))
        if name not in once and any(file.endswith(one) for one in files)
    ]


def parts(
    bench: size_report.Bench, configuration: size_report.Configuration
) -> list[tuple[str, int]]:
    """(part, bytes), the whole last."""
    points, loaded = bench.run(*configuration.modules, "=", configuration.instance)
    row = bench.row(configuration.modules, configuration.instance)
    spans = (("=start", configuration.modules[-1]), ("=ready", "=instance"))
    counts = [points[end].names - points[start].names for start, end in spans]
    texts = [points[end].name_text - points[start].name_text for start, end in spans]
    names = [6 * count + text for count, text in zip(counts, texts, strict=True)]
    code = functions(configuration, [f"{bench.rooms[name]}.{name}" for name in loaded])
    info, bytecode = (sum(column) for column in zip(*code, strict=True))
    rounded = sum(-(-sum(one) // _BLOCK) * _BLOCK for one in code) - info - bytecode
    found = [
        (f"bytecode of {len(code)} functions", bytecode),
        ("their names of arguments and line numbers", info),
        ("their blocks rounded up to 16 bytes, and their objects", rounded + _BLOCK * len(code)),
        (f"{sum(counts)} names, of which the set-up code's {counts[1]}", sum(names)),
        ("one instance: buffers, fields", (row.heap_instance or 0) - names[1]),
    ]
    found.append(
        (f"{len(loaded)} modules, their classes and tables", row.heap - sum(n for _, n in found))
    )
    return [*found, ("**together**", row.heap)]


def without(serving: str, folder: Path) -> Path:
    """A copy of the firmware in `folder` in which None stands in place of these functions."""
    firmware = folder / "firmware"
    shutil.copytree(FIRMWARE, firmware)
    shutil.copytree(FIRMWARE.parent / "boards", folder / "boards")
    for module, names in (part.split(":") for part in serving.split(";")):
        path = firmware / "outpost" / f"{module.strip()}.py"
        text = path.read_text(encoding="utf-8")
        lines, wanted = text.splitlines(), set(names.split())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name in wanted:
                wanted.remove(node.name)
                blank = [""] * ((node.end_lineno or node.lineno) - node.lineno)
                placeholder = " " * node.col_offset + f"{node.name} = None"
                lines[node.lineno - 1 : node.end_lineno] = [placeholder, *blank]
        if wanted:
            raise ToolError(f"{module}.py has no {', '.join(sorted(wanted))}: see FEATURES")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return firmware


def main() -> int:
    try:
        with tempfile.TemporaryDirectory() as folder:
            bench = size_report.Bench(FIRMWARE, Path(folder) / "whole")
            for configuration in size_report.CONFIGURATIONS:
                print(f"\n| {configuration.title} | bytes |\n|---|---:|")
                for title, count in parts(bench, configuration):
                    print(f"| {title} | {count:,} |")
            whole = [bench.row(one.modules).heap for one in size_report.CONFIGURATIONS]
            print("\n| feature | client alone | with outbox |\n|---|---:|---:|")
            together = "; ".join(FEATURES.values())
            for number, (title, serving) in enumerate(
                [*FEATURES.items(), ("**together**", together)]
            ):
                place = Path(folder) / str(number)
                less = size_report.Bench(without(serving, place), place / "lib")
                heaps = [less.row(one.modules).heap for one in size_report.CONFIGURATIONS]
                saved = [a - b for a, b in zip(whole, heaps, strict=True)]
                print(f"| {title} | {saved[0]:,} | {saved[1]:,} |")
    except ToolError as error:
        print(f"size: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
