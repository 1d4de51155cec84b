"""What the page can ask for: what is plugged in, a check of settings, work on a board, a settings
file. Knows no HTTP. All input from the page is checked here: the page can name only the kinds of
boards, ports and files that it was offered.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpost_tools.boards.flash import held
from outpost_tools.boards.monitor import plugged_in
from outpost_tools.boards.port import console
from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.settings import answers, ask, broker_part, sensor_drivers, settings_file
from outpost_tools.boards.settings.settings_file import Settings
from outpost_tools.boards.setup import fields, form
from outpost_tools.boards.setup.jobs import Jobs
from outpost_tools.boards.setup.places import HomeBroker, SettingsFolder
from outpost_tools.errors import ToolError
from outpost_tools.machine import exposure, files
from outpost_tools.machine.firmware import settings_rules

TASKS = ("check", "flash", "provision", "kind")
_NO_FILE = "choose one of the files in {}; put it there first"


class Faulty(Exception):
    """faults: by field; "" for a fault that belongs to no field."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__(faults)
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Checked:
    """Settings without a fault. ca: the authority's certificate, if the broker is that of `outpost
    run`. notes: defaults that were chosen, and warnings."""

    settings: Settings
    ca: bytes | None
    notes: list[str]


class Desk:
    """kinds: by their name on the page and for `--board`. ports: offered beside the USB ports."""

    def __init__(
        self,
        kinds: dict[str, Kind],
        ports: list[str],
        files: SettingsFolder,
        home: HomeBroker | None,
        jobs: Jobs,
    ) -> None:
        self.kinds, self.files, self.home, self.jobs = kinds, files, home, jobs
        self._more_ports = ports

    @property
    def left_out(self) -> tuple[str, ...]:
        """Keys that come from the broker of `outpost run`."""
        return broker_part.KEYS if self.home else ()

    # --- What there is ---

    def state(self) -> dict[str, Any]:
        newest = self.jobs.newest()
        return {
            "ports": self._ports(),
            "none": plugged_in.NOTHING,
            "files": self.files.names(),
            "certificates": self.files.certificates(),
            "job": newest.number if newest else "",
        }

    def _ports(self) -> list[dict[str, str]]:
        """trouble: why the port cannot be used, and what to do; "" if it can."""
        found = dict(plugged_in.rows(None))
        listed = found | {port: "as given by --port" for port in self._more_ports}
        return [
            {"port": port, "text": text, "trouble": _trouble(port)} for port, text in listed.items()
        ]

    # --- Settings ---

    def check(self, posted: dict[str, Any]) -> Checked:
        """Raises Faulty, ToolError."""
        kind, folder = self._kind(posted), self.files.folder
        old = self.files.load(posted["file"]) if posted.get("file") else {}
        given = form.settings(_form(posted), kind, folder, old)
        given = {key: value for key, value in given.items() if key not in self.left_out}
        faults = self._file_faults(given)
        whole, ca = {key: value for key, value in given.items() if key not in faults}, None
        try:
            whole, ca = self.home.completed(whole) if self.home else (whole, None)
        except ToolError as error:  # a user of the broker cannot have this name
            faults["device_id"] = str(error)
            whole |= {"device_id": "board", "broker_host": "broker"}
        found = form.at_fields(answers.faults(whole, folder, kind, ca), whole)
        faults |= {key: text for key, text in found.items() if not _names(text, faults)}
        if faults:
            raise Faulty(faults)
        settings = answers.check(whole, "", folder, kind, ca)
        return Checked(settings, ca, _notes(settings, whole))

    def _file_faults(self, given: dict[str, Any]) -> dict[str, str]:
        names = self.files.certificates()
        text = _NO_FILE.format(self.files.folder.absolute())
        return {key: text for key in fields.FILES if key in given and given[key] not in names}

    def _kind(self, posted: dict[str, Any]) -> Kind:
        """Raises Faulty."""
        kind = self.kinds.get(str(posted.get("board")))
        if kind is None:
            raise Faulty({"board": "choose the kind of board"})
        return kind

    def load(self, posted: dict[str, Any]) -> dict[str, Any]:
        """Raises Faulty, ToolError."""
        kind, name = self._kind(posted), str(posted.get("name"))
        given = self.files.load(name)
        shown = form.shown(
            {key: value for key, value in given.items() if key not in self.left_out}, kind
        )
        return {"file": name, "note": " ".join(self._remarks(name, given, shown)), "form": shown}

    def _remarks(self, name: str, given: dict[str, Any], shown: dict[str, Any]) -> list[str]:
        """What the page does not show of a file, and whether others can read it."""
        unused = ", ".join(key for key in given if key in self.left_out)
        drivers = {one.get("driver", "") for one in shown["sensors"]} - {*self.drivers()}
        unknown = {*given} - {*settings_rules()}
        warning = exposure.to_readers(self.files.folder / name, "settings")
        found = [
            unused and f"Not used, since the broker is that of `outpost run`: {unused}.",
            unknown and f"Left out, because no board knows it: {', '.join(sorted(unknown))}.",
            drivers and f"Left out, because the driver is missing: {', '.join(sorted(drivers))}.",
            warning and form.has_secret(given) and f"Warning: {warning}.",
        ]
        return [text for text in found if text]

    def drivers(self) -> list[str]:
        """The drivers of sensors, the user's own first."""
        own = sensor_drivers.own_names(self.files.folder)
        return [*dict.fromkeys([*own, *sensor_drivers.names()])]

    def save(self, posted: dict[str, Any]) -> dict[str, str]:
        """Raises Faulty, places.Exists, ToolError."""
        checked = self.check(posted)
        replace = posted.get("overwrite") is True
        path = self.files.save(checked.settings, self.left_out, replace=replace)
        return {"file": path.name, "saved": f"{path}", "command": self._command(posted, path)}

    def _command(self, posted: dict[str, Any], path: Path) -> str:
        """The command that continues from here in a terminal."""
        words = ["outpost", "flash", "--board", str(posted["board"])]
        words += ["--port", str(posted.get("port") or "/dev/ttyACM0")]
        words += ["--settings", files.operand(path)]
        if not self.home:
            return shlex.join(words)
        flash = shlex.join([*words, "--credentials", f"{self.home.path}"])
        if self.home.has(path.stem):
            return flash
        # without "--", such a name would be taken for an option
        name = ["--", path.stem] if path.stem.startswith("-") else [path.stem]
        add = shlex.join(["outpost", "broker", "add", f"{self.home.path}", *name])
        return f"{add} && {flash}"

    # --- Work ---

    def start(self, posted: dict[str, Any]) -> dict[str, str]:
        """Raises Faulty, ToolError."""
        task = posted.get("task")
        if task not in TASKS:
            raise ToolError(form.BAD)
        port, faults = self._port(posted)
        checked = self._checked(posted if task != "kind" else None, faults)
        self.jobs.check_free(port)
        if checked is None:
            order = {"task": task, "port": port, "boards": [*self.kinds]}
            return {"job": self.jobs.start(task, port, order, []).number}
        first = checked.notes
        if self.home and task != "check":
            first.append(self.home.add(checked.settings.full["device_id"]))
            checked = self.check(posted)  # with the password that the broker knows
        order = self._order(task, port, posted, checked)
        return {"job": self.jobs.start(task, port, order, first).number}

    def _checked(self, posted: dict[str, Any] | None, faults: dict[str, str]) -> Checked | None:
        """posted: None if no settings are needed. faults: those already known. Raises Faulty with
        all of them, ToolError."""
        try:
            checked = self.check(posted) if posted is not None else None
        except Faulty as error:
            faults = faults | error.faults
        if faults:
            raise Faulty(faults)
        return checked

    def _order(
        self, task: str, port: str, posted: dict[str, Any], checked: Checked
    ) -> dict[str, Any]:
        """The order for worker.py."""
        return {
            "task": "provision" if task == "provision" else "flash",
            "dry_run": task == "check",
            "board": posted["board"],
            "port": port,
            "given": checked.settings.given,
            "ca": checked.ca.decode() if checked.ca else "",
            "folder": f"{self.files.folder.absolute()}",
            "replace": posted.get("replace") is True,
            "held": posted["held"] if posted.get("held") in held.CHOICES else "",
        }

    def _port(self, posted: dict[str, Any]) -> tuple[str, dict[str, str]]:
        """The port, and what is wrong with it."""
        for one in self._ports():
            if one["port"] == posted.get("port"):
                return one["port"], {"port": one["trouble"]} if one["trouble"] else {}
        return "", {"port": "choose the port that the board is plugged in at"}


def _notes(settings: Settings, given: dict[str, Any]) -> list[str]:
    is_ours = "series" in settings.given and "series" not in given
    warning = settings_file.warning(settings)
    return [*([ask.SERIES] if is_ours else []), *([f"warning: {warning}"] if warning else [])]


def _names(text: str, faults: dict[str, str]) -> bool:
    """Whether the fault only follows from another one."""
    return any(f"'{key}'" in text for key in faults)


def _form(posted: dict[str, Any]) -> dict[str, Any]:
    found = posted.get("form")
    if not isinstance(found, dict):
        raise ToolError(form.BAD)
    return found


def _trouble(port: str) -> str:
    try:
        console.check_port(port)
    except ToolError as error:
        return str(error)
    return ""
