"""The steps of `outpost flash` and `outpost provision`: look, plan, carry out, let the board test
itself, report."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outpost_tools.boards.files import install, inventory, needed, payload, plan
from outpost_tools.boards.flash import first_message, held
from outpost_tools.boards.port import console, kinds
from outpost_tools.boards.port.connection import Board, connected
from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.port.progress import Progress, Silent
from outpost_tools.boards.selftest import selftest, sensor_check
from outpost_tools.boards.settings import sensor_drivers
from outpost_tools.boards.settings.settings_file import Settings, check_module
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import firmware_version, sensor_faults, status_numbers

_MOST_RECORD = 20_000  # characters of a record, or of settings
_MOST_DRIVER = 100_000


@dataclass(frozen=True, slots=True)
class Job:
    """replace: put aside the user's files that are in the way. answer_s: limit of each answer.
    link_s: limit of the link's test; 0: no test. programs: the user's own; what they import is
    copied, too. asked: what becomes of held messages."""

    root: Path
    kind: Kind
    port: str
    settings: Settings | None
    dry_run: bool = False
    replace: bool = False
    answer_s: float = 10.0
    link_s: float = selftest.LINK_S
    progress: Progress = field(default_factory=Silent)
    programs: tuple[Path, ...] = ()
    asked: held.Asked = field(default_factory=held.Asked)


@dataclass
class Report:
    """rows: (what, result). faults: the rows of self-tests that failed; the files are on the board
    in any case."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.faults

    def add(self, name: str, value: str, is_good: bool = True) -> None:
        self.rows.append((name, value))
        if not is_good:
            self.faults.append((name, value))


def flash(job: Job) -> Report:
    """Install or update. Raises ToolError; the old installation is then intact, or the same command
    again completes the new one."""
    report = Report()
    with _connected(job) as board:
        facts = kinds.ask(board)
        kinds.check(job.kind, facts, job.port)
        if job.settings:
            check_module(job.settings, job.kind, facts.machine, job.port)
        report.add("board", f"{job.kind.name}, {facts}, .mpy for {facts.architecture}")
        job.progress.note(f"{facts}; compiling the firmware for {facts.architecture}")
        settings = _settings(job, board)
        programs = _programs(job, board, settings)
        firmware = payload.build(job.root, job.kind, facts.architecture, settings, programs)
        job.progress.note("comparing it with what is on the board")
        found = _look(board, firmware, job.settings)
        job = _settle_held(report, job, board, found)
        final = job.settings.full if job.settings else settings
        if _is_there(needed.SERIES, found):  # its outbox may hold series
            final = final | {"series": True}
        if final != settings:
            firmware = payload.build(job.root, job.kind, facts.architecture, final, programs)
        firmware |= _drivers(job, board, facts.architecture, found)
        todo = _plan_firmware(job, board, firmware, found)
        _tell(report, job, todo)
        if not job.dry_run:
            _carry_out(job, board, todo)
            _test(report, job, board, found)
    return report


def provision(job: Job) -> Report:
    """Write only settings, and the files that they need. Raises ToolError."""
    report = Report()
    settings = _needed(job.settings)
    with _connected(job) as board:
        facts = kinds.ask(board)
        kinds.check(job.kind, facts, job.port)
        check_module(settings, job.kind, facts.machine, job.port)
        report.add("board", f"{job.kind.name}, {facts}")
        wanted = settings.files | sensor_drivers.files(settings.drivers, facts.architecture)
        found = _look(board, {}, settings)
        if f"{inventory.UPDATE}/phase" in found.hashes:
            raise ToolError(
                f"{job.port}: an update over the air is on trial there, with the settings that it "
                "has; try again when that is decided, in some minutes, or end it by `outpost flash`"
            )
        job = _settle_held(report, job, board, found)
        if job.settings is not settings:
            settings = _needed(job.settings)
            wanted = settings.files | sensor_drivers.files(settings.drivers, facts.architecture)
        text = install.read_text(board, plan.RECORD, _MOST_RECORD)
        wanted |= _missing(job, settings, facts.architecture, found, text)
        record = plan.read_record(text)
        todo = plan.make(wanted, found, (inventory.SECRETS, inventory.DRIVERS), record)
        known = plan.known_files(record, found, {})
        plan.respect_users_files(todo, found, wanted, known, job.port, job.replace)
        plan.add_drivers(todo, wanted, found, text)
        plan.check_room(todo, found, 0, job.port)
        _tell(report, job, todo)
        if not job.dry_run:
            _carry_out(job, board, todo)
    return report


@contextmanager
def _connected(job: Job) -> Iterator[Board]:
    console.check_port(job.port)
    job.progress.note(f"{job.port}: stopping the board's program")
    with connected(job.port, job.answer_s) as board:
        yield board
        job.progress.note("restarting the board's program")


def _needed(settings: Settings | None) -> Settings:
    if settings is None:
        raise ToolError("no settings given")
    return settings


def _look(
    board: Board, firmware: dict[str, bytes], settings: Settings | None
) -> inventory.Inventory:
    paths = payload.to_look_at([*firmware, *(settings.files if settings else ())])
    names = [*paths, *(path + plan.STAGED for path in paths), plan.SETTINGS, inventory.OUTBOX_MAP]
    return inventory.take(board, dict.fromkeys(names))


def _settle_held(report: Report, job: Job, board: Board, found: inventory.Inventory) -> Job:
    """Settle what becomes of held messages. Returns the job with the settings that it then has.
    Raises ToolError."""
    has_outbox = found.is_pinned or not job.kind.pins
    if not job.settings or not has_outbox or plan.SETTINGS not in found.hashes:
        return job
    outcome = held.settle(board, job.settings, job.asked, job.progress, dry_run=job.dry_run)
    if outcome.text:
        report.add("held", outcome.text)
    for path in outcome.in_use:
        found.hashes.pop(path, None)  # what the plan does not see stays as it is
    return replace(job, settings=outcome.settings)


def _plan_firmware(
    job: Job, board: Board, firmware: dict[str, bytes], found: inventory.Inventory
) -> plan.Plan:
    wanted = firmware | (job.settings.files if job.settings else {})
    # without settings, drivers stay; an update in progress would move its own files over these
    stale_in = (inventory.UPDATE, inventory.PACKAGE, *inventory.SHARED[:-1])
    if job.settings:
        stale_in = (inventory.UPDATE, *inventory.ROOMS, inventory.SECRETS)
    record = plan.read_record(install.read_text(board, plan.RECORD, _MOST_RECORD))
    todo = plan.make(wanted, found, stale_in, record)
    known = plan.known_files(record, found, payload.sources(job.root, job.kind))
    plan.respect_users_files(todo, found, wanted, known, job.port, job.replace)
    plan.add_record(todo, wanted, found, job.kind.name, record)
    plan.check_room(todo, found, _blocks_to_pin(job, board, found), job.port)
    return todo


def _drivers(
    job: Job, board: Board, architecture: str, found: inventory.Inventory
) -> dict[str, bytes]:
    """The drivers of the sensors in the settings; without new settings, our drivers of the sensors
    on the board."""
    if job.settings:
        return sensor_drivers.files(job.settings.drivers, architecture)
    drivers = sensor_drivers.on_board(_on_board(board).get("sensors"), None)
    own = f"{inventory.DRIVERS}/{{}}.py"  # a file of the user's, which takes precedence
    drivers = {name: drivers[name] for name in drivers if own.format(name) not in found.hashes}
    return sensor_drivers.files(drivers, architecture)


def _blocks_to_pin(job: Job, board: Board, found: inventory.Inventory) -> int:
    """The blocks of the outbox that are still to be pinned. 0 if they are pinned, if this kind pins
    none, or without settings, because the board then does not start."""
    if found.is_pinned or not job.kind.pins:
        return 0
    if job.settings:
        return job.settings.full["outbox_blocks"]
    return _on_board(board).get("outbox_blocks", 0)


def _on_board(board: Board) -> dict[str, Any]:
    """The settings on the board; {} if it has none, or invalid ones, which the board reports
    later."""
    old = held.on_board(board)
    return old.full if old else {}


def _settings(job: Job, board: Board) -> dict[str, Any]:
    """The settings that the board will have; the defaults if there are none yet."""
    return job.settings.full if job.settings else _on_board(board) or needed.defaults()


def _programs(job: Job, board: Board, settings: dict[str, Any]) -> list[str]:
    """The sources, besides the board's own program, whose imports the board needs. Raises
    ToolError."""
    found = [_text(path) for path in job.programs]
    if job.settings:
        return found + [driver.source for driver in job.settings.drivers.values()]
    ours = sensor_drivers.on_board(settings["sensors"], None)
    for name in {one["driver"] for one in settings["sensors"] or () if isinstance(one, dict)}:
        own = install.read_text(board, f"{inventory.DRIVERS}/{name}.py", _MOST_DRIVER)
        found += [own] if own else [ours[name].source] if name in ours else []
    return [source for source in found if _is_python(source)]


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
        return True
    except (ValueError, SyntaxError):
        return False


def _text(path: Path) -> str:
    """The text of a user's program. Raises ToolError."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ToolError(f"--for {path}: {error}") from None
    if not _is_python(source):
        raise ToolError(f"--for {path}: is not a Python program")
    return source


def _is_there(module: str, found: inventory.Inventory) -> bool:
    """Whether the module is on the board, as source or compiled."""
    path = f"/{module.replace('.', '/')}"
    return any(f"{path}{ending}" in found.hashes for ending in (".py", ".mpy"))


def _missing(
    job: Job, settings: Settings, architecture: str, found: inventory.Inventory, record: str
) -> dict[str, bytes]:
    """The modules that the settings need and the files on the board lack.

    record: its text on the board. Raises ToolError if modules are lacking and the firmware there is
    of another version.
    """
    if not _is_there("station.station", found):
        return {}
    if f'"version": "{firmware_version()}"' not in record:
        lacking = [one for one in needed.used(settings.full) if not _is_there(one.module, found)]
        if lacking:
            raise ToolError(
                f"{job.port}: key {lacking[0].key!r} needs modules that the firmware on this "
                "board, which is of another version, does not have; run `outpost flash --board "
                f"{job.kind.name} --port {job.port}` with these settings"
            )
        return {}
    known = {_place(path) for path in found.hashes}
    programs = [driver.source for driver in settings.drivers.values()]
    built = payload.build(job.root, job.kind, architecture, settings.full, programs)
    modules = {path: data for path, data in built.items() if path.count("/") > 1}
    return {path: data for path, data in modules.items() if _place(path) not in known}


def _place(path: str) -> tuple[str, str]:
    """Return (package, module): the same in all rooms, and for source and compiled file."""
    parts = path.strip("/").split("/")
    return parts[0], parts[-1].partition(".")[0]


def _tell(report: Report, job: Job, todo: plan.Plan) -> None:
    """Report what is about to be done, or would be done."""
    code = [path for path in todo.renames if not _is_settings(path) and path != plan.RECORD]
    same = [path for path in todo.unchanged if not _is_settings(path)]
    size = sum(len(todo.copy.get(path, b"")) for path in code)
    if code or same:
        moved = f"{len(code)} {'to copy' if job.dry_run else 'copied'} ({size:,} bytes)"
        gone = (
            f", {len(todo.remove)} old ones {'to remove' if job.dry_run else 'removed'}"
            if todo.remove
            else ""
        )
        report.add("files", f"{moved}, {len(same)} unchanged{gone}")
    if todo.aside:
        report.add("kept", ", ".join(f"{path} as {path}{plan.KEPT}" for path in todo.aside))
    if job.settings:
        changed = [path for path in todo.renames if _is_settings(path)]
        verb = "to write" if job.dry_run else "written"
        report.add("settings", f"{verb}: {', '.join(changed)}" if changed else "unchanged")
    if job.dry_run:
        report.rows += [
            ("", f"copy {path}, {len(data):,} bytes") for path, data in todo.copy.items()
        ]
        report.rows += [("", f"remove {path}") for path in todo.remove]
        report.add(
            "dry run", "nothing was changed; the board's program was interrupted, and restarts"
        )


def _is_settings(path: str) -> bool:
    return path == plan.SETTINGS or path.startswith(inventory.SECRETS + "/")


def _carry_out(job: Job, board: Board, todo: plan.Plan) -> None:
    if todo.is_empty:
        return
    total = todo.bytes_to_copy
    job.progress.note(f"copying {len(todo.copy)} files, {total:,} bytes")
    if len(todo.parts) > 1:
        job.progress.note(
            "the flash has no room for the old files beside the new ones: they are replaced in "
            f"{len(todo.parts)} parts; if that is interrupted, flash again"
        )
    with job.progress.bar("copying", "B") as show:
        gone = 0

        def add(count: int) -> None:
            nonlocal gone
            gone += count
            show(gone, total)

        install.carry_out(board, todo, add)


# --- The board's self-test ---


def _test(report: Report, job: Job, board: Board, found: inventory.Inventory) -> None:
    job.progress.note("self-test: heap and outbox; a first start pins blocks for about 10 s")
    report.add("heap", selftest.heap_free(board))
    if not job.settings and plan.SETTINGS not in found.hashes:
        report.add(
            "settings", f"none yet: outpost provision --board {job.kind.name} --port {job.port}"
        )
        return
    with job.progress.bar("pinning the outbox's blocks", " steps") as show:
        outbox = selftest.outbox(board, show)
    if isinstance(outbox, str):
        report.add("outbox", f"failed: {outbox}", False)
        return
    report.add("outbox", _about(outbox, job, board, found))
    if not _read_sensors(report, job, board):
        return
    if job.link_s:
        job.progress.note(f"waiting until the broker lets the board in, at most {job.link_s:g} s")
        is_up, text = selftest.link(
            board, job.link_s, lambda state: job.progress.note(f"not accepted yet: {state}")
        )
        report.add("link", text if is_up else f"failed: {text}", is_up)
        if is_up:
            _test_first_message(report, job, board)


def _test_first_message(report: Report, job: Job, board: Board) -> None:
    job.progress.note(f"sending a first message: is it taken within {job.link_s:g} s?")
    is_good, text = first_message.check(board, job.link_s)
    report.add("message", text if is_good else f"failed: {text}", is_good)


def _read_sensors(report: Report, job: Job, board: Board) -> bool:
    """Read each sensor once. Returns False if the board hangs in one of them."""
    job.progress.note("self-test: each sensor is read once")
    try:
        found = sensor_check.run(board)
    except ToolError as error:
        report.add("sensor", f"failed: {error}", False)
        return False
    for sensor in found:
        report.add("sensor", sensor.text(sensor_faults()), sensor.is_good)
    return True


def _about(outbox: selftest.Outbox, job: Job, board: Board, found: inventory.Inventory) -> str:
    where = "in its place"
    if inventory.take(board, [inventory.OUTBOX_MAP], ()).is_pinned:
        where = "pinned before, left as they were" if found.is_pinned else "pinned now"
    held = "empty" if outbox.status == status_numbers().BLANK else f"{outbox.held} messages held"
    text = f"{outbox.blocks} blocks, {where}; {held}{outbox.troubles}"
    asked = job.settings.full["outbox_blocks"] if job.settings else outbox.blocks
    return text if asked == outbox.blocks else f"{text} (the settings ask for {asked}: not changed)"
