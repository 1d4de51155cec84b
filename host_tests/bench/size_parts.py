#!/usr/bin/env python3
"""The parts of the heap of size_report.py's two configurations, and how much of it single features
take.

    .venv/bin/python host_tests/bench/size_parts.py [--write]

Bytecode, code info and functions are counted as the 32-bit interpreter compiles the sources
(`micropython -v -v`), names as it counts them itself; "the rest" is everything else in its heap. A
feature's figure: the functions that serve only this feature, code and objects. Its lines in other
functions, its fields and its names are not included, so this is the least that the feature costs.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import bench_readme
import size_report
from outpost_tools.errors import ToolError

FIRMWARE = size_report.REPOSITORY / "firmware"
BASELINE = size_report.BASELINE.with_name("size_parts.csv")
_BLOCK = 16  # bytes: the allocation unit of the heap, and the size of a function's object
_CODE = re.compile(
    r"^File (\S+), code block '(\S+)'.*\n"
    r"Raw bytecode \(code_info_size=(\d+), bytecode_size=(\d+)\)",
    re.M,
)
# Features added after commit 4dc0c3b, in modules that stay loaded: set-up code is unloaded, and
# suspects.py and shelf.py are loaded together with what needs them.
FEATURES = {
    "deadlines of every exchange, progress by bytes": (
        "session: _see _waited _moved_on _on_late _overdue part_written _on_pong"
    ),
    "messages that a server does not take are set aside": (
        "session: _on_lost _load_suspects _on_unexpected; ram_outbox: shelf; outbox: shelf"
    ),
    "backoff by progress, takeovers, errors of links": (
        "client: _reported __exit__; session: has_progress"
    ),
    "topics checked before they are stored": "session: _is_topic; text: is_topic",
    "blocks that fail are left out": "ring: _leave_out _note_failure _clear _is_cleared",
    "headers survive a flipped bit": "ring: _mend_header _load_copy _copy_at",
    "torn records never read as whole later": "ring: _resume; outbox: _prove",
    "records after damage, numbers lost": "ring: _count_erased; outbox: _search _advance",
}


@dataclass(frozen=True)
class Function:
    """A function that stays in the heap. Bytes of its code info (names of arguments, line numbers)
    and of its bytecode."""

    module: str
    name: str
    info: int
    bytecode: int

    @property
    def heap(self) -> int:
        """Its code, in whole blocks, and its object."""
        return -(-(self.info + self.bytecode) // _BLOCK) * _BLOCK + _BLOCK


def functions(loaded: list[str]) -> list[Function]:
    """Returns the functions of these modules ("outpost.client"), without code that runs once:
    modules and classes."""
    imports = "\n".join(f"import {name}" for name in loaded)
    done = subprocess.run(
        [*size_report.interpreter(), "-v", "-v", "-c", imports],
        env=os.environ | {"MICROPYPATH": str(FIRMWARE)}, capture_output=True, check=False,
    )  # fmt: skip
    once = {"<module>", "<listcomp>"}
    for name in loaded:
        tree = ast.parse((FIRMWARE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
        once |= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    modules = {name.rpartition(".")[2] for name in loaded}
    return [
        Function(Path(file).stem, name, int(info), int(code))
        for file, name, info, code in _CODE.findall(done.stdout.decode(errors="replace"))
        if name not in once and Path(file).stem in modules
    ]


def parts(
    bench: size_report.Bench, configuration: size_report.Configuration
) -> tuple[dict[str, int], list[Function]]:
    """Returns bytes by part, and the functions."""
    points, loaded = bench.run(*configuration.modules, "=", configuration.instance)
    row = bench.row(configuration.modules, configuration.instance)
    names = []
    for start, end in (("=start", configuration.modules[-1]), ("=ready", "=instance")):
        first, last = points[start], points[end]
        names.append(6 * (last.names - first.names) + last.name_text - first.name_text)
    code = functions([bench.dotted(name) for name in loaded])
    info, bytecode = sum(one.info for one in code), sum(one.bytecode for one in code)
    found = {
        "bytecode of functions": bytecode,
        "names of their arguments, line numbers": info,
        "their objects, and the rest of their last blocks of 16 bytes": (
            sum(one.heap for one in code) - info - bytecode
        ),
        "text and places of names": names[0],
        "names that set-up code leaves behind": names[1],
        "one instance: buffers, fields": (row.heap_instance or 0) - names[1],
    }
    rest = row.heap - sum(found.values())
    return {**found, "dictionaries, classes, tables and constants of modules": rest}, code


def cost(code: list[Function], serving: str) -> int:
    """Returns the bytes of the functions that a line of FEATURES names, as far as the configuration
    has them. Raises ToolError for a function that does not exist."""
    wanted = {
        (module.strip(), name)
        for module, names in (part.split(":") for part in serving.split(";"))
        for name in names.split()
    }
    missing = {
        (module, name)
        for module, name in wanted
        if f"def {name}(" not in paths.library_module(module).read_text(encoding="utf-8")
    }
    if missing:
        raise ToolError(f"FEATURES: no function {', '.join(map('.'.join, sorted(missing)))}")
    return sum(one.heap for one in code if (one.module, one.name) in wanted)


def measured() -> list[tuple[str, str, int, int]]:
    """Returns (table, title, bytes of client alone, with outbox). Raises ToolError."""
    with tempfile.TemporaryDirectory() as folder:
        bench = size_report.Bench(FIRMWARE, Path(folder))
        (alone, code), (whole, more) = [parts(bench, one) for one in size_report.CONFIGURATIONS]
    rows = [("parts", title, alone[title], whole[title]) for title in alone]
    rows += [
        ("features", title, cost(code, serving), cost(more, serving))
        for title, serving in FEATURES.items()
    ]
    for table in ("parts", "features"):
        sums = [sum(row[column] for row in rows if row[0] == table) for column in (2, 3)]
        rows.append((table, "**together**", *sums))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="to the baseline, and to README.md")
    args = parser.parse_args()
    try:
        rows = measured()
    except ToolError as error:
        print(f"size: {error}", file=sys.stderr)
        return 2
    for _, title, alone, whole in rows:
        print(f"{title:<66}{alone:>8,}{whole:>8,}")
    if args.write:
        with BASELINE.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerows([("table", "title", "alone", "whole"), *rows])
        bench_readme.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
