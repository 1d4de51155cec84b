#!/usr/bin/env python3
"""What the firmware weighs: .mpy bytes, and heap on 32-bit MicroPython. `make size`; fails above a
budget or the baseline.

    .venv/bin/python host_tests/bench/size_report.py [--write] [--frozen] [--firmware DIR]

--write: make the figures the new baseline, and write README's tables from it.
--frozen (which `make size` sets): measure a build with the firmware frozen in, too.

Measures the .mpy files that `outpost flash` copies, with line numbers, in the 32-bit interpreter
for x86. Heap: what import leaves, with one process per configuration that imports all of it; single
modules are imported in one process in the order of their dependencies, so that each row has what
that module adds. One instance: what its construction leaves, with the buffers that
size_instances.py states, buffers included. The interpreter says which modules belong to a
configuration.

The interpreter keeps names in a pool that doubles when it is full, so a few more names, also the
program's own, can change the bytes in use by up to a kilobyte, up or down (measured: 7,888 to
10,160 bytes for one import). So the figures count the used places: 6 bytes per name and its text.
"raw" is the interpreter's own figure, free places included.

Frozen: the same measurements with an interpreter that has the firmware's source frozen in
(frozen_build.py, built here). Code, names and constants are then in ROM, and the heap holds module
and class dictionaries, functions, instances and buffers.

Not in this heap: the machine code of `native`, `native_checksum` and `native_series` (the unix port
maps it elsewhere; RP2 takes it from the heap, ESP32 from instruction RAM). Its bytes are listed
below the table. Baseline: host_tests/baselines/size.csv.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent.parent
REPOSITORY = HOST_TESTS.parent
BASELINE = HOST_TESTS / "baselines" / "size.csv"

import bench_readme  # noqa: E402 - the path must be set first
import frozen_build  # noqa: E402
from outpost_tools.boards.files import firmware_build  # noqa: E402
from outpost_tools.errors import ToolError  # noqa: E402
from outpost_tools.machine import interpreters  # noqa: E402

ARCHITECTURE = "x86"
TOLERANCE = 1.02  # of the baseline, before the report fails
COLUMNS = ("mpy", "heap_import", "heap_instance", "heap_raw", "frozen")


@dataclass(frozen=True)
class Configuration:
    """modules: what the program imports (the rest follows). instance: the function of
    size_instances.py.

    Budgets and goals: .mpy bytes, and heap of import and instance together.
    """

    title: str
    modules: tuple[str, ...]
    instance: str
    mpy_budget: int
    heap_budget: int
    heap_goal: int
    frozen_goal: int


# Budgets: the measured figures plus 2 %. Goals: the figures to reach.
CLIENT = Configuration(
    "client alone (QoS 0 and 1)",
    ("client", "session", "ram_outbox"),
    "client_alone",
    23_000,
    16_800,
    16_800,
    4_500,
)
ALL = Configuration(
    "with outbox, reconnect and telemetry",
    ("client", "session", "outbox", "clock", "telemetry"),
    "with_all",
    48_500,
    31_200,
    31_200,
    9_000,
)
CONFIGURATIONS = (CLIENT, ALL)
# Every other file has a row "+", on top of ALL. These replace native modules or the outbox instead.
INSTEAD = ("portable", "portable_series", "ram_outbox")
NATIVE = ("native", "native_checksum", "native_series")


@dataclass(frozen=True)
class Row:
    """Bytes; None where a column does not apply."""

    mpy: int
    heap_import: int
    heap_instance: int | None = None
    heap_raw: int | None = None  # import and instance, with the free places in the pool of names
    frozen: int | None = None  # heap of import and instance, when the firmware is frozen

    @property
    def heap(self) -> int:
        return self.heap_import + (self.heap_instance or 0)


# The output of a point: its name and bytes in use, then MicroPython's qstr_info().
_POINT = re.compile(
    r"^(\S+) (\d+)\nqstr pool: n_pool=\d+, n_qstr=(\d+), "
    r"n_str_data_bytes=(\d+), n_total_bytes=(\d+)",
    re.M,
)
_NAME_BYTES = 6  # of a name's entry in the pool, on 32-bit: pointer, hash, length


@dataclass(frozen=True)
class Point:
    """What the interpreter reports at one moment."""

    in_use: int
    names: int
    name_text: int
    names_and_pools: int

    @property
    def heap(self) -> int:
        """Returns the bytes in use, counting the entries of the names instead of the pools."""
        return self.in_use - (self.names_and_pools - self.name_text) + self.names * _NAME_BYTES


def points_of(printed: str) -> dict[str, Point]:
    return {name: Point(*map(int, numbers)) for name, *numbers in _POINT.findall(printed)}


def linked(folder: Path, places: dict[str, Path]) -> str:
    """Returns the path for imports from `places`, bench/ and fakes/, by short names in `folder`, in
    which the interpreter runs.

    Each module keeps its path in the heap, and names are kept in units of 128 bytes and found by
    their hash. With whole names the figures would depend on where the repository is.
    """
    places = places | {"s": HOST_TESTS / "bench", "k": HOST_TESTS / "fakes"}
    for name, place in places.items():
        (folder / name).symlink_to(place.resolve())
    return os.pathsep.join([*places, ".frozen"])


def ask(command: list[str], places: dict[str, Path], module: str, *words: str) -> str:
    """Returns what a module of bench/ prints when MicroPython runs it with the folders `places` to
    import from. Raises ToolError.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, "-m", module, *words],
            env=os.environ | {"MICROPYPATH": linked(Path(folder), places)},
            cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    if done.returncode:
        raise ToolError(f"{module} {' '.join(words)}: {(done.stdout + done.stderr).strip()[-400:]}")
    return done.stdout


def rows_of(module: str) -> list[dict]:
    """Returns the lines of JSON that a module of bench/ prints under 32-bit MicroPython, with the
    firmware's sources. Raises ToolError.
    """
    boards = REPOSITORY / "boards"
    places = {"f": REPOSITORY / "firmware", "r": boards, "b": boards / "UNIX"}
    command = [*interpreter(), "-X", "heapsize=32M"]
    printed = ask(command, places | {"v": boards / "BENCH"}, module)
    return [json.loads(line) for line in printed.splitlines()]


def interpreter() -> list[str]:
    """Raises ToolError."""
    command = interpreters.find_micropython("i386")
    if command is None:
        raise ToolError("no MicroPython for i386: run `make setup`")
    return command


def _name(path: str) -> str:
    """Returns a file's name in the tables: its module's name, which no other room has; a package's
    own name is its path, and ends in a slash.
    """
    folder, _, file = path.rpartition("/")
    return f"{folder}/" if Path(file).stem == "__init__" else Path(file).stem


def _packages(folder: str) -> set[str]:
    """Returns the names of the packages in which a module of this folder lies: "a/", "a/b/"."""
    parts = folder.split("/")
    return {"/".join(parts[:count]) + "/" for count in range(1, len(parts) + 1)}


class Bench:
    """One firmware, compiled, and the interpreter; `frozen`: one with that firmware frozen in, or
    None.

    sizes: bytes of .mpy by module. folders: of each module, in the firmware.
    """

    def __init__(self, firmware: Path, folder: Path, frozen: list[str] | None = None) -> None:
        self.frozen, self.folder = frozen, folder
        texts = firmware_build.sources(firmware)
        built = firmware_build.compile_all(texts, ARCHITECTURE)
        firmware_build.write(folder, built)
        self.sources = {_name(path): text for path, text in texts.items()}
        self.sizes = {_name(path): len(data) for path, data in built.items()}
        self.folders = {_name(path): Path(path).parent.as_posix() for path in texts}
        self._command = interpreter()

    def run(self, *words: str, frozen: bool = False) -> tuple[dict[str, Point], list[str]]:
        """Returns the points of import_sizes.py by name, and the loaded modules. Raises
        ToolError."""
        command = self.frozen if frozen and self.frozen else self._command
        words = tuple(self.dotted(word) if word in self.folders else word for word in words)
        printed = ask(command, {} if frozen else {"lib": self.folder}, "import_sizes", *words)
        points = {name.rpartition(".")[2]: point for name, point in points_of(printed).items()}
        loaded = [name.rpartition(".")[2] for name in printed.splitlines()[-1].split()[1:]]
        return points, [name for name in loaded if name in self.folders]  # no packages

    def dotted(self, module: str) -> str:
        """Returns the name by which it is imported."""
        return f"{self.folders[module]}/{module}".replace("/", ".")

    def row(self, modules: tuple[str, ...], instance: str = "") -> Row:
        points, loaded = self.run(*modules, *(["=", instance] if instance else []))
        on_board = self._with_passing(loaded)
        packages = {one for module in on_board for one in _packages(self.folders[module])}
        mpy = sum(self.sizes.get(name, 0) for name in [*packages, *on_board])
        start, end = points["=start"], points[modules[-1]]
        frozen = self._frozen_heap(modules, instance)
        if not instance:
            return Row(mpy, end.heap - start.heap, frozen=frozen)
        one = points["=instance"].heap - points["=ready"].heap
        raw = end.in_use - start.in_use + points["=instance"].in_use - points["=ready"].in_use
        return Row(mpy, end.heap - start.heap, one, raw, frozen)

    def _frozen_heap(self, modules: tuple[str, ...], instance: str) -> int | None:
        """Returns the heap of import and instance; None without a frozen build."""
        if not self.frozen:
            return None
        points, _ = self.run(*modules, *(["=", instance] if instance else []), frozen=True)
        heap = points[modules[-1]].heap - points["=start"].heap
        return heap + (points["=instance"].heap - points["=ready"].heap if instance else 0)

    def _with_passing(self, loaded: list[str]) -> list[str]:
        """Adds the modules that are imported in a function, used and unloaded: they are on the
        board, but not in its heap.
        """
        sources = self.sources
        passing = {
            other
            for name in loaded
            for other in _imports(sources[name], everywhere=True) & sources.keys()
        }
        return sorted({*loaded, *passing})

    def in_order(self) -> list[str]:
        """Returns all files, each after those that it imports."""
        wanted = {
            name: _imports(source) & self.sources.keys() for name, source in self.sources.items()
        }
        order: list[str] = []

        def take(name: str) -> None:
            if name not in order:
                for other in sorted(wanted[name] - {name}):
                    take(other)
                order.append(name)

        for name in sorted(wanted):
            take(name)
        return [name for name in order if not name.endswith("/")]


def _imports(source: str, everywhere: bool = False) -> set[str]:
    """Returns names among which are the modules of ours that a module imports: when it is imported
    itself, or everywhere, also in its functions.
    """
    found: set[str] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree) if everywhere else tree.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        parts = (node.module or "").split(".")
        if parts[0] in firmware_build.ROOMS:  # a name that is no module is left out by the caller
            found |= {*parts[1:], *(alias.name for alias in node.names)}
    return found


def measure(bench: Bench) -> dict[str, Row]:
    """Returns a row per file; `= ` per configuration; `+ ` what a further file costs, with
    everything that it imports.
    """
    order = bench.in_order()
    points, _ = bench.run(*order)
    heaps = [points[name].heap for name in ("=start", *order)]
    rows = {
        module: Row(bench.sizes[module], heaps[at + 1] - heaps[at])
        for at, module in enumerate(order)
    }
    if bench.frozen:
        points, _ = bench.run(*order, frozen=True)
        heaps = [points[name].heap for name in ("=start", *order)]
        rows = {
            module: replace(rows[module], frozen=heaps[at + 1] - heaps[at])
            for at, module in enumerate(order)
        }
    for configuration in CONFIGURATIONS:
        present = tuple(module for module in configuration.modules if module in bench.sizes)
        whole = present == configuration.modules
        rows[f"= {configuration.title}"] = bench.row(
            present, configuration.instance if whole else ""
        )
    base, (_, loaded) = rows[f"= {ALL.title}"], bench.run(*ALL.modules)
    bare = bench._frozen_heap(ALL.modules, "")
    for feature in order:
        if feature not in (*loaded, *INSTEAD):
            more = bench.row((*ALL.modules, feature))
            mpy, heap = more.mpy - base.mpy, more.heap_import - base.heap_import
            frozen = None if more.frozen is None or bare is None else more.frozen - bare
            rows[f"+ {feature}"] = Row(mpy, heap, frozen=frozen)
    return rows


def show(rows: dict[str, Row], known: dict[str, Row]) -> list[str]:
    """Prints the table, with the change from the baseline; returns what has grown."""
    print(f"{'file':<40}{'.mpy':>16}{'heap, import':>16}{'one instance':>14}{'frozen, both':>14}")
    grown = []
    for name, row in rows.items():
        old = known.get(name, row)
        changes = [
            f"{now} ({now - before:+})" if now != before else str(now)
            for now, before in _pairs(row, old)
        ]
        instance = "" if row.heap_instance is None else str(row.heap_instance)
        frozen = "" if row.frozen is None else str(row.frozen)
        print(f"{name:<40}{changes[0]:>16}{changes[1]:>16}{instance:>14}{frozen:>14}")
        if name.startswith("=") and (
            row.mpy > old.mpy * TOLERANCE or row.heap > old.heap * TOLERANCE
        ):
            grown.append(
                f"{name[2:]}: grown by more than 2 %: make it smaller, "
                "or take it as the baseline with --write and say why"
            )
    return grown


def _pairs(row: Row, old: Row) -> list[tuple[int, int]]:
    return [(row.mpy, old.mpy), (row.heap_import, old.heap_import)]


def budgets(rows: dict[str, Row]) -> list[str]:
    """Prints figures, budgets and goals; returns what exceeds its budget."""
    heads = (".mpy", "budget", "heap", "budget", "goal", "raw", "frozen", "goal")
    print(f"\n{'':<38}" + "".join(f"{head:>9}" for head in heads))
    over = []
    for c in CONFIGURATIONS:
        row = rows[f"= {c.title}"]
        cells = (
            row.mpy,
            c.mpy_budget,
            row.heap,
            c.heap_budget,
            c.heap_goal,
            row.heap_raw or "",
            row.frozen or "",
            c.frozen_goal,
        )
        print(f"{c.title:<38}" + "".join(f"{cell:>9}" for cell in cells))
        for what, is_, budget in (
            ("bytes of .mpy", row.mpy, c.mpy_budget),
            ("bytes of heap", row.heap, c.heap_budget),
        ):
            if is_ > budget:
                over.append(f"{c.title}: {is_} {what}, the budget is {budget}")
        if row.heap_instance is None:
            over.append(
                f"{c.title}: no instance measured, a module of {', '.join(c.modules)} is not there"
            )
    return over


def read_baseline() -> dict[str, Row]:
    if not BASELINE.exists():
        return {}
    with BASELINE.open() as file:
        lines = list(csv.DictReader(file))
    if lines and "mpy" not in lines[0]:
        return {}
    return {
        line["name"]: Row(*(int(line[column]) if line.get(column) else None for column in COLUMNS))
        for line in lines
    }


def write_baseline(rows: dict[str, Row]) -> None:
    with BASELINE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["name", *COLUMNS])
        table.writerows(
            [name, *(getattr(row, column) for column in COLUMNS)] for name, row in rows.items()
        )


def frozen_interpreter(firmware: Path) -> list[str] | None:
    """Returns None if it cannot be built; the report then says so, and has no such column."""
    try:
        return frozen_build.interpreter(firmware)
    except frozen_build.Unobtainable as error:
        print(f"size: no frozen build: {error}", file=sys.stderr)
        return None


def native_sizes(bench: Bench, architecture: str) -> list[int]:
    texts = {f"{bench.folders[name]}/{name}.py": bench.sources[name] for name in NATIVE}
    return [len(data) for data in firmware_build.compile_all(texts, architecture).values()]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="take the figures as the new baseline")
    parser.add_argument(
        "--firmware",
        type=Path,
        default=REPOSITORY / "firmware",
        help="measure another copy of firmware/",
    )
    parser.add_argument(
        "--frozen",
        action="store_true",
        help="measure a frozen build too: builds MicroPython, about 2 minutes once",
    )
    return parser.parse_args()


def main() -> int:
    args = arguments()
    try:
        frozen = frozen_interpreter(args.firmware) if args.frozen else None
        if args.write and not frozen:
            raise ToolError("--write needs a frozen build (--frozen): else its column is lost")
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(args.firmware, Path(folder), frozen)
            rows = measure(bench)
        code = {arch: native_sizes(bench, arch) for arch in ("armv6m", "xtensawin")}
    except ToolError as error:
        print(f"size: {error}", file=sys.stderr)
        return 2
    if args.write:
        write_baseline(rows)
        bench_readme.write()
    known = read_baseline()
    faults = (
        show(rows, known)
        if known
        else [
            *show(rows, rows),
            f"{BASELINE.name}: no baseline in this form: take one with --write",
        ]
    )
    print(
        f"{' and '.join(NATIVE)}: mostly machine code, outside this heap: "
        + ", ".join(
            f"{' + '.join(map(str, sizes))} bytes on {arch}" for arch, sizes in code.items()
        )
    )
    faults += budgets(rows)
    print(*[f"size: {fault}" for fault in faults], sep="\n", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
