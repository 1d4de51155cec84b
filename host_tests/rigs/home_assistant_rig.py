"""Runs Home Assistant at a broker, in a separate process, and records what its entities show.

Needs what `make home-assistant` fetches.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).parent / "home_assistant"))

import install
from outpost_tools.machine import children
from outpost_tools.mqtt.credentials import Credentials

CORE = Path(__file__).parent / "home_assistant" / "core_with_mqtt.py"


def _entry(found: Credentials) -> dict:
    """Returns what the dialogue "add MQTT" would leave in its storage."""
    login = dict(zip(("username", "password"), found.login, strict=True))
    data = {"broker": found.host, "port": found.port, **login, "certificate": found.ca,
            "client_id": found.client_id, "discovery": True}  # fmt: skip
    then = "2025-01-01T00:00:00+00:00"
    return {
        "created_at": then, "modified_at": then, "data": data, "disabled_by": None,
        "discovery_keys": {}, "domain": "mqtt", "entry_id": "1", "minor_version": 2,
        "options": {}, "pref_disable_new_entities": False, "pref_disable_polling": False,
        "source": "user", "title": "mqtt", "unique_id": None, "version": 1,
    }  # fmt: skip


class HomeAssistant:
    """states: present state of each entity; None: it was removed. seen: (entity, state), in
    order."""

    def __init__(self, folder: Path, found: Credentials) -> None:
        self._folder, self.log = folder, folder / "log.txt"
        self.states: dict[str, str | None] = {}
        self.attributes: dict[str, dict] = {}
        self.seen: list[tuple[str, str | None]] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        storage = folder / ".storage"
        storage.mkdir(parents=True)
        (folder / "configuration.yaml").touch()
        entries = {"version": 1, "minor_version": 4, "key": "core.config_entries",
                   "data": {"entries": [_entry(found)]}}  # fmt: skip
        (storage / "core.config_entries").write_text(json.dumps(entries))

    def __enter__(self) -> Self:
        environment = children.tools_environment() | {
            "PYTHONPATH": str(install.packages()),
            "PYTHONDONTWRITEBYTECODE": "",
            "TMPDIR": str(self._folder),  # it writes the certificate there, under a fixed name
        }
        port = str(children.free_port())
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [install.python(), CORE, self._folder, port], env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            children.kill(self._process)
            self._reader.join()

    def take(self) -> None:
        """Read what it has printed since the last call."""
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        while not self._lines.empty():
            found = json.loads(self._lines.get())
            self.seen.append((found["id"], found["state"]))
            self.states[found["id"]] = found["state"]
            self.attributes[found["id"]] = found["attributes"]

    def described(self) -> str:
        """Returns text for the message of a failing test."""
        return f"{self.states}\n{self.log.read_text()[-4000:]}"

    def complaints(self) -> list[str]:
        """Returns warnings and errors of its MQTT integration and of its entities."""
        return [
            line
            for line in self.log.read_text().splitlines()
            if line.startswith(("WARNING", "ERROR"))
            and any(part in line for part in ("components.mqtt", "sensor", "helpers.entity"))
        ]
