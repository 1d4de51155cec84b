"""alerts.toml: who receives what. All of it is checked before anything starts.

Raises ToolError: one line with file, table, key and remedy, without secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine import exposure
from outpost_tools.servers.alerts import rules
from outpost_tools.servers.alerts.recipients import READERS, Channel, Service, Webhook
from outpost_tools.servers.alerts.table import Table
from outpost_tools.text import toml_file

FILE = "alerts.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """attention: None if the file has no such table."""

    channels: tuple[Channel, ...]
    readings: tuple[rules.Reading, ...]
    silences: tuple[rules.Silence, ...]
    attention: rules.Attention | None
    most_per_hour: int

    def line(self) -> str:
        """A summary to print, without secrets."""
        rules = len(self.readings) + len(self.silences) + (self.attention is not None)
        return f"{', '.join(one.name for one in self.channels)}; rules: {rules}"


def load(path: Path) -> Settings:
    """Raises ToolError."""
    top = Table(toml_file.load(path, "outpost alerts example"), path.name, path.absolute().parent)
    channels = tuple(
        reader(table) for kind, reader in READERS.items() for table in _tables(top, kind)
    )
    readings = [one for table in _tables(top, "reading") for one in rules.readings(table)]
    silences = [rules.silence(table) for table in _tables(top, "silence")]
    given = top.raw("attention")
    attention = None if given is None else rules.attention(given, top)
    most = top.whole("most_per_hour", 1, 1000, 20)
    top.done()
    made = Settings(channels, tuple(readings), tuple(silences), attention, most)
    _check_whole(made, path)
    return made


def _check_whole(made: Settings, path: Path) -> None:
    if not made.channels:
        raise ToolError(
            f"{path.name}: no channel: add [[webhook]], [[email]], [[command]] or [[apprise]]"
        )
    if not (made.readings or made.silences or made.attention):
        raise ToolError(f"{path.name}: no rule: add [attention], [[silence]] or [[reading]]")
    keys = [one.key for one in made.channels]
    for one in made.channels:
        if keys.count(one.key) > 1:
            raise ToolError(f"{path.name}: {one.name} is there twice; leave one out")
    if any(isinstance(one, Webhook | Service) for one in made.channels):
        exposure.tell(exposure.to_readers(path, "alerts: the URL of a webhook is one;"))


def _tables(top: Table, kind: str) -> list[Table]:
    given = top.tables(kind)
    return [
        Table(one, f"{top.where}: [[{kind}]] {number}", top.folder)
        for number, one in enumerate(given, 1)
    ]
