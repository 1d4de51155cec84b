"""The folder of settings files, and the broker of `outpost run`, at which this module makes users
as `outpost broker add` does. The page can name only the files that are listed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outpost_tools.boards.broker import members
from outpost_tools.boards.broker.folder import Folder
from outpost_tools.boards.settings import ask, broker_part, settings_file
from outpost_tools.boards.settings.settings_file import Settings
from outpost_tools.errors import ToolError
from outpost_tools.machine import files
from outpost_tools.mqtt.credentials import Credentials

_CERTIFICATES = (".pem", ".crt", ".cer", ".der", ".key")
_TOML = ".toml"


class Exists(ToolError):
    """A file of that name exists, and the user has not agreed to replace it."""


class SettingsFolder:
    """folder: contains settings files, certificates and the user's own drivers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """The names of settings files."""
        return self._listed(_TOML)

    def certificates(self) -> list[str]:
        return self._listed(*_CERTIFICATES)

    def _listed(self, *endings: str) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(
            one.name
            for one in self.folder.iterdir()
            if one.suffix in endings and not one.name.startswith(".") and one.is_file()
        )

    def load(self, name: str) -> dict[str, Any]:
        """Raises ToolError."""
        if name not in self.names():
            raise ToolError(f"{name!r}: no such settings file in {self.folder}")
        return settings_file.parsed(self.folder / name)

    def save(self, settings: Settings, left_out: tuple[str, ...], *, replace: bool) -> Path:
        """Writes a file named after the board, which only its owner can read. Raises Exists,
        ToolError."""
        path = self.folder / f"{settings.full['device_id']}{_TOML}"
        if path.name.startswith("."):
            raise ToolError("key 'device_id' must not begin with a full stop: a file has its name")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists():
                if not replace:
                    raise Exists(f"{path.name} is there already")
                files.replace_text(path, ask.toml(settings, left_out), is_private=True)
            else:
                ask.save(path, settings, left_out)
        except OSError as error:
            raise ToolError(f"{error.filename or path}: {error.strerror}") from None
        return path


class HomeBroker:
    """The broker in the folder of `outpost run`."""

    def __init__(self, home: Path) -> None:
        """Raises ToolError."""
        self.path = home / "broker"
        self._folder = Folder(self.path)
        if not self._folder.is_made:
            raise ToolError(
                f"{home}: no broker there yet: start `outpost run {home}` in another terminal, "
                "which makes it. With a broker of your own, leave out the folder"
            )
        about = self._folder.about()
        self.address = f"{about.hosts[0]}:{about.port}"

    def completed(self, given: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The settings with the broker's part, and the authority's certificate. This makes no user:
        if there is none yet, the password is a placeholder. Raises ToolError."""
        found = self._credentials(str(given.get("device_id", "")))
        return broker_part.with_credentials(given, found, ""), found.ca.encode()

    def _credentials(self, name: str) -> Credentials:
        members.check_free(self._folder, "board", name)
        if self.has(name):
            return self._folder.load("board", name)
        return self._folder.new_credentials("board", name, self._folder.about())

    def has(self, name: str) -> bool:
        return self._folder.has("board", name)

    def add(self, name: str) -> str:
        """Makes the board's user and rights if there are none yet. Returns what was done. Raises
        ToolError."""
        return members.add(self._folder, "board", name)
