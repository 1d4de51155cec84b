# cpython-only: mosquitto, and a board as a process of 32-bit MicroPython with the files of its own
"""`outpost update` as a user runs it: a board that runs the files that `outpost flash` copies gets
others over a real broker, runs them, and takes back those that do not do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from collector_process import wait_until
from moved_module import MODULE, ROOM, into_room
from outpost_tools import cli
from outpost_tools.boards.files import needed, payload
from outpost_tools.boards.port import kinds
from outpost_tools.boards.update.transfer import Transfer
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import firmware, source_tree
from outpost_tools.machine.interpreters import find_mosquitto
from paths import REPOSITORY
from real_broker import Observer, micropython
from updated_board import KEY, checkout, record_of

NAME = "kitchen"
SETTINGS = {
    "device_id": NAME,
    "broker_host": "127.0.0.1",
    "mode": "broker",
    "say_state": True,
    "interval_ms": 100,
    "commands": True,
    "update_key": KEY,
    "sensors": ["uptime"],
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    with Broker("mosquitto", tmp_path_factory.mktemp("broker")) as running:
        yield running


def built(root: Path, *, is_flat: bool = False, **settings) -> dict[str, bytes]:
    kind, full = kinds.load(root, "UNIX"), needed.defaults() | SETTINGS | settings
    return payload.build(root, kind, "x86", full, is_flat=is_flat)


def installed(
    folder: Path, root: Path, port: int, files: dict[str, bytes] | None = None, **settings
) -> Path:
    """What `outpost flash` leaves on a board, as far as files go."""
    files = files or built(root, **settings)
    for path, data in files.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    (folder / "outpost/installed.json").write_text(json.dumps(record_of("UNIX", files)))
    found = SETTINGS | {"broker_port": port} | settings
    (folder / "settings.json").write_text(json.dumps(found))
    lines = [f"{key} = {json.dumps(value)}" for key, value in found.items()]
    (folder / "settings.toml").write_text("\n".join(lines) + "\n")
    return folder


class Running:
    """The board: its interpreter is started again whenever it ends, as a reset does. ends: its exit
    statuses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ends = folder, []
        self._command = [*micropython("i386"), "main.py"]
        self._process: subprocess.Popen[bytes] | None = None
        self._is_off = False
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_off = True
        if self._process:
            self._process.kill()
        self._thread.join(60)

    def cut(self) -> None:
        if self._process:
            self._process.kill()

    def _live(self) -> None:
        while not self._is_off:
            with (self.folder / "console.txt").open("ab") as console:
                self._process = subprocess.Popen(
                    self._command, cwd=self.folder, stdout=console, stderr=console,
                    env=os.environ | {"MICROPYPATH": ".frozen"},
                )  # fmt: skip
                self.ends.append(self._process.wait())

    def console(self) -> str:
        path = self.folder / "console.txt"
        return path.read_text(errors="replace") if path.exists() else ""


class Heard(Observer):
    """What the board publishes."""

    def __init__(self, broker: Broker) -> None:
        Observer.__init__(self, broker.port, "heard", (f"outpost/{NAME}/data", 1))

    def wait_more(self, count: int) -> None:
        self.wait(len(self.messages) + count)

    def packs(self) -> list[list[dict]]:
        return [json.loads(message.payload) for message in self.messages]

    def versions(self) -> list[str]:
        return [one["vs"] for pack in self.packs() for one in pack if one.get("n") == "version"]

    def is_without_gap(self) -> bool:
        """First copies, from the first that was heard on."""
        seqs = list(dict.fromkeys(pack[0]["seq"] for pack in self.packs()))
        return seqs == list(range(seqs[0], seqs[0] + len(seqs)))


def update(broker: Broker, folder: Path, *words: str) -> int:
    return cli.main(
        ["update", "--broker", f"127.0.0.1:{broker.port}", *words, str(folder / "settings.toml")]
    )


def code_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.suffix in (".mpy", ".py") and "update" not in path.relative_to(folder).parts
    }


@pytest.fixture
def from_checkout(monkeypatch):
    """The tools take firmware and boards from there."""

    def use(root: Path) -> None:
        monkeypatch.setattr(source_tree, "repository", lambda: root)
        firmware.constants.cache_clear()

    yield use
    firmware.constants.cache_clear()


def test_a_board_gets_new_firmware_and_takes_bad_one_back(broker, tmp_path, from_checkout, capsys):
    folder = installed(tmp_path / "board", REPOSITORY, broker.port)
    good = checkout(tmp_path / "good", "9.9.9")
    bad = checkout(tmp_path / "bad", "9.9.10", station_station='raise RuntimeError("a mistake")')
    mute = checkout(
        tmp_path / "mute", "9.9.11", outpost_client="Client._connect = lambda self, session: False"
    )
    with Heard(broker) as heard, Running(folder) as board:
        heard.wait_more(3)
        from_checkout(good)
        assert update(broker, folder, "--dry-run") == 0
        assert "would take 1 of" in capsys.readouterr().out
        assert update(broker, folder) == 0, (capsys.readouterr(), board.console())
        assert f"{NAME}: done" in capsys.readouterr().out
        wanted = built(good)
        assert code_of(folder) == {path.lstrip("/"): data for path, data in wanted.items()}
        assert board.ends == [75, 75]
        assert update(broker, folder) == 0
        assert "done: nothing to change" in capsys.readouterr().out

        from_checkout(bad)
        assert update(broker, folder) == 1
        assert "taken back: no connection in 3 starts" in capsys.readouterr().err
        assert board.console().count("RuntimeError: a mistake") == 3
        from_checkout(mute)
        assert update(broker, folder, "--within", "3s") == 1
        assert "taken back: no connection within 3 s" in capsys.readouterr().err
        assert code_of(folder) == {path.lstrip("/"): data for path, data in wanted.items()}
        heard.wait_more(3)
        assert heard.is_without_gap()
    assert json.loads((folder / "outpost/installed.json").read_text())["version"] == "9.9.9"


def test_what_was_interrupted_goes_on_and_power_cuts_hurt_nothing(
    broker, tmp_path, from_checkout, capsys, monkeypatch
):
    """All files differ; the sender is stopped in the middle, the power of the board cut, and the
    broker restarted."""
    folder = installed(tmp_path / "board", REPOSITORY, broker.port)
    good = checkout(tmp_path / "good", "9.9.9")
    for path in [*(good / "firmware").glob("*/**/*.py"), *(good / "boards/support").glob("*.py")]:
        path.write_text(path.read_text() + "\n_ADDED = 1\n")
    from_checkout(good)
    send, sent = Transfer._send, []

    def stopped(self, messages):
        if sum(sent) > 60:
            raise KeyboardInterrupt
        sent.append(len(messages[:40]))
        send(self, messages[:40])

    with Running(folder) as board:
        monkeypatch.setattr(Transfer, "_send", stopped)
        assert update(broker, folder) == 130
        monkeypatch.setattr(Transfer, "_send", send)
        board.cut()
        broker.kill()
        broker.start()
        capsys.readouterr()
        assert update(broker, folder, "--dry-run") == 0
        left, files = map(int, re.search(r"take (\d+) of (\d+)", capsys.readouterr().out).groups())
        assert 0 < left < files
        assert update(broker, folder) == 0, (capsys.readouterr(), board.console())
    wanted = built(good)
    assert code_of(folder) == {path.lstrip("/"): data for path, data in wanted.items()}


# What update_record.py and update_take.py were before the library had rooms.
_OLD_RECORD = """
def is_ours_to_write(path):
    room, slash, name = path.rpartition("/")
    if path == "main.py" or (room == "sensors" and name.endswith(".py")):
        return True
    return (room in _ROOMS or not slash) and name.endswith(".mpy") and name != ".mpy"
"""
_OLD_TAKE = """
def _answer(self, tag, asked, answer=Taking._answer):
    said = answer(self, tag, asked)
    text = said.rpartition(b"\\n")[0]
    later = ("rooms", "form")
    text = json.dumps({key: one for key, one in json.loads(text).items() if key not in later})
    text = text.encode()
    signature = signature_of(self._key, lambda digest: digest.update(text))
    return text + b"\\n" + signature.encode()

def _head_fault(self, line, fault=Taking._head_fault):
    return fault(self, line.replace("outpost-update 1 ", "outpost-update 2 "))

Taking._answer, Taking._head_fault = _answer, _head_fault
"""


def test_a_board_from_before_there_were_rooms_gets_them(broker, tmp_path, from_checkout, capsys):
    """First the new firmware in the layout that its updater takes, and with that one the rooms."""
    flat = tmp_path / "old"
    checkout(flat, "0.0.1", station_update_record=_OLD_RECORD, station_update_take=_OLD_TAKE)
    files = built(flat, is_flat=True)
    folder = installed(tmp_path / "board", flat, broker.port, files=files)
    new = checkout(tmp_path / "new", "9.9.9")
    into_room(new)
    from_checkout(new)
    in_room = f"outpost/{ROOM}/{MODULE}.mpy"
    with Heard(broker) as heard, Running(folder) as board:
        for is_flat in (True, False):
            assert update(broker, folder) == 0, (capsys.readouterr(), board.console())
            wanted = built(new, is_flat=is_flat)
            assert code_of(folder) == {path.lstrip("/"): data for path, data in wanted.items()}
            assert (folder / in_room).exists() is not is_flat
        assert "nothing to change" not in capsys.readouterr().out
        assert update(broker, folder) == 0
        assert "nothing to change" in capsys.readouterr().out
        from_checkout(checkout(tmp_path / "back", "9.9.10"))
        assert update(broker, folder) == 0, (capsys.readouterr(), board.console())
        wait_until(lambda: not (folder / "outpost" / ROOM).exists())
        heard.wait_more(3)
        assert heard.is_without_gap()


_FULL = (
    """
def _room_fault(self, blocks):
    return "1 blocks of flash are free, and the update needs 2" if self.has_rooms else ""

def _look(self, length, look=Taking._look):
    with open(LIST_PATH) as file:
        self.has_rooms = "/%s/" in file.read()
    return look(self, length)

Taking._room_fault, Taking._look = _room_fault, _look
"""
    % ROOM
)


def test_a_board_without_flash_for_rooms_gets_all_in_one_folder(
    broker, tmp_path, from_checkout, capsys
):
    full = checkout(tmp_path / "full", "0.0.1", station_update_take=_FULL)
    files = built(full, is_flat=True)
    folder = installed(tmp_path / "board", full, broker.port, files=files)
    new = checkout(tmp_path / "new", "9.9.9")
    into_room(new)
    from_checkout(new)
    with Running(folder) as board:
        assert update(broker, folder) == 0, (capsys.readouterr(), board.console())
    wanted = built(new, is_flat=True)
    assert code_of(folder) == {path.lstrip("/"): data for path, data in wanted.items()}


def send(broker: Broker, *words: str) -> int:
    return cli.main(["send", "--broker", f"127.0.0.1:{broker.port}", NAME, *words])


def test_settings_whose_modules_are_not_there_are_taken_back_until_an_update_brings_them(
    broker, tmp_path, capsys
):
    folder = installed(tmp_path / "board", REPOSITORY, broker.port)
    toml = folder / "settings.toml"
    with Heard(broker) as heard, Running(folder) as board:
        heard.wait_more(3)
        assert send(broker, "set", "level=5") == 1
        said = capsys.readouterr().out
        assert "taken back: they do not start: no module named 'outpost.level5'" in said
        assert "`outpost update` or `flash` brings it" in said
        heard.wait_more(3)
        toml.write_text(toml.read_text() + "level = 5\n")
        assert update(broker, folder) == 0, (capsys.readouterr(), board.console())
        assert (folder / "outpost/mqtt5/level5_session.mpy").exists()
        assert send(broker, "set", "level=5") == 0, (capsys.readouterr(), board.console())
        heard.wait_more(3)
        assert heard.is_without_gap()
    assert not (folder / "crash.txt").exists()


def test_a_sleeping_board_takes_it_at_its_connections(broker, tmp_path, from_checkout, capsys):
    folder = installed(
        tmp_path / "board", REPOSITORY, broker.port, deep_sleep=True, interval_ms=1000,
        connect_every=2, device_id=NAME,
    )  # fmt: skip
    from_checkout(checkout(tmp_path / "good", "9.9.9"))
    with Running(folder) as board:
        wait_until(lambda: len(board.ends) > 2)
        assert update(broker, folder) == 0, (capsys.readouterr(), board.console())
        assert '"9.9.9"' in (folder / "outpost/installed.json").read_text()


def test_another_key_and_no_answer(broker, tmp_path, capsys):
    folder = installed(tmp_path / "board", REPOSITORY, broker.port)
    (folder / "settings.json").write_text(
        (folder / "settings.json").read_text().replace(KEY, "6b" * 32)
    )
    with Running(folder):
        assert update(broker, folder) == 1
        assert "not signed with the update_key of these settings" in capsys.readouterr().err
    assert update(broker, folder, "--timeout", "1") == 3
    assert "no answer within 1 s" in capsys.readouterr().err


def test_settings_without_a_key(tmp_path, capsys):
    path = tmp_path / "settings.toml"
    path.write_text('device_id = "a"\nbroker_host = "b"\nmode = "broker"\ncommands = true\n')
    assert cli.main(["update", "--broker", "127.0.0.1:1", str(path)]) == 2
    assert "no key 'update_key'" in capsys.readouterr().err
    assert cli.main(["update", str(path)]) == 2
    assert cli.main(["update", "--new-key"]) == 0
    assert re.fullmatch(r'update_key = "[0-9a-f]{64}"\n', capsys.readouterr().out)
