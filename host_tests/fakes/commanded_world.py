"""firmware/main.py as a board that takes commands, in virtual time: a server that keeps them, flash
and files that survive, and power cuts at any operation of either. CPython only.

Each life is main.main() from its start to a reset, a sleep, a cut or a time of quiet.
"""

import importlib.util
import json
import os
import sys
import types

import series_samples
from fake_flash import PowerCut, flash_in_ram
from paths import REPOSITORY
from scripted_server import decode, encode
from station.command_note import NOTE_PATH, Note

BASE = "outpost/board-1"
_DAY, _MS = 20_500, 1000
_CHANGES = ("rename", "remove", "mkdir", "rmdir")  # of files; the power may go before each
NOW_S = _DAY * 86_400 + 1


class Reset(BaseException):
    """The board resets, or sleeps."""


class Server:
    """A broker with one persistent session. offers: the commands that it keeps, [payload, whether
    it was sent before, flags]; messages: what arrived on /data; told: what arrived on /answer."""

    def __init__(self):
        self.offers, self.messages, self.told, self.told_raw = [], [], [], []
        self.has_session = False
        self.acknowledges = True  # messages with QoS 1
        self.kill_in = 0  # at this write of a client, counted from now, the broker is killed
        self.kills = 0
        self.on_kill = None

    def killed(self):
        """Count a write. True: the broker is killed now; on_kill decides what it loses."""
        self.kill_in -= 1
        if self.kill_in:
            return False
        self.kills += 1
        if self.on_kill:
            self.on_kill(self)
        return True

    def send(self, command, **flags):
        data = command if isinstance(command, bytes) else json.dumps(command).encode()
        self.offers.append([data, False, flags])


class Stream:
    """The stream of one connection."""

    def __init__(self, server):
        self._server, self._up, self._down = server, b"", b""
        self._flying = {}  # packet identifier: offer
        self._next_id = 1
        self._is_open = self._is_dead = False

    def write(self, buf, offset, length):
        if not self._is_dead and self._server.killed():
            self._is_dead = True
        if self._is_dead:
            raise OSError(104)
        self._up += bytes(buf[offset : offset + length])
        while (found := decode(self._up)) is not None:
            kind, fields, self._up = found
            getattr(self, "_on_" + kind.lower())(fields)
        self._offer()
        return length

    def readinto(self, buf):
        if self._is_open:
            self._offer()
        count = min(len(buf), len(self._down))
        buf[:count] = self._down[:count]
        self._down = self._down[count:]
        return count or None

    def close(self):
        self._is_open = False

    def _on_connect(self, fields):
        self._is_open = True
        self._down += encode("CONNACK", session_present=int(self._server.has_session))

    def _on_subscribe(self, fields):
        self._server.has_session = True
        codes = [qos for _, qos in fields["filters"]]
        self._down += encode("SUBACK", packet_id=fields["packet_id"], codes=codes)

    def _on_publish(self, fields):
        where = fields["topic"].decode().rsplit("/", 1)[1]
        if where == "answer":
            self._server.told_raw.append(fields["payload"])
            self._server.told.append(json.loads(fields["payload"].split(b"\n")[0]))
        else:
            self._server.messages.append(records_of(fields["payload"]))
        if fields["qos"] and self._server.acknowledges:
            self._down += encode("PUBACK", packet_id=fields["packet_id"])

    def _on_puback(self, fields):
        offer = self._flying.pop(fields["packet_id"])
        if offer in self._server.offers:  # else it was lost in a kill
            self._server.offers.remove(offer)

    def _on_pingreq(self, fields):
        self._down += encode("PINGRESP")

    def _on_disconnect(self, fields):
        self._is_open = False

    def _offer(self):
        flying = [id(one) for one in self._flying.values()]
        for offer in self._server.offers if self._server.has_session and self._is_open else ():
            if id(offer) in flying:
                continue
            number, self._next_id = self._next_id, self._next_id + 1
            self._flying[number] = offer
            self._down += encode(
                "PUBLISH", topic=f"{BASE}/command".encode(), payload=offer[0], qos=1,
                packet_id=number, dup=offer[1], **offer[2],
            )  # fmt: skip
            offer[1] = True


def records_of(payload):
    """Returns the records of a payload; for a series, its key and samples."""
    if payload[0] != 0xF5:
        return json.loads(payload)
    found = series_samples.read(payload)
    return [{"sid": found["stream"], "seq": found["seq"], "samples": found["samples"]}]


class Sensor:
    name, unit, exponent = b"load", b"", -2

    def read(self):
        return 42


class World:
    """folder: the board's files. A power cut: file_cut, before the n-th change of a file, or
    flash.cut_at and flash.cut_mode; 0: none. power_ms: after this time of a life the power goes.
    quiet_ms: after this time without an event the life ends by itself."""

    quiet_ms, ends_by_itself = 1500, True
    power_ms = 1 << 40

    def __init__(self, folder, **settings):
        self.folder, self.server = folder, Server()
        self.flash = flash_in_ram(8)
        self.now_ms, self.resets, self.starts = 0, 0, 0
        self.file_operations = self.file_cut = 0
        self.is_reachable = True
        self.has_clock = True
        self.ends, self.left_doing = [], []  # of each life; Note.doing at its end
        given = {
            "device_id": "board-1", "broker_host": "good", "mode": "broker", "outbox_blocks": 8,
            "interval_ms": 60_000, "commands": True, **settings,
        }  # fmt: skip
        (folder / "settings.json").write_text(json.dumps(given))

    # --- Power ---

    def _touch(self):
        self.file_operations += 1
        if self.file_operations == self.file_cut:
            raise PowerCut

    def _changing(self, change):
        def wrapped(*arguments):
            self._touch()
            change(*arguments)

        return wrapped

    def live(self):
        """Run one life. Returns how it ended: "reset", "asleep", "cut", or what main() returned."""
        saved = {name: getattr(os, name) for name in _CHANGES}
        before = os.getcwd()
        os.chdir(self.folder)
        for name in _CHANGES:
            setattr(os, name, self._changing(saved[name]))
        try:
            end = self._main()
        except PowerCut:
            end = "cut"
            self.file_cut = self.flash.cut_at = 0
        except Reset as reset:
            end = str(reset)
            self.resets += end == "reset"
        finally:
            for name in _CHANGES:
                setattr(os, name, saved[name])
            os.chdir(before)
        self.ends.append(end)
        self.left_doing.append(Note(str(self.folder / NOTE_PATH)).doing)
        self.starts += 1
        self.now_ms += 1000
        return end

    def live_on(self, most=20):
        """Run lives until one ends by itself, or asleep with nothing left to do."""
        for _ in range(most):
            end = self.live()
            if end == "over" or (end == "asleep" and not self.server.offers):
                return
        raise AssertionError(self.ends)

    def load(self):
        """Import main.py as a module."""
        stand_in = types.ModuleType("board")
        stand_in.Board = lambda: Board(self)
        sys.modules["board"] = stand_in
        try:
            spec = importlib.util.spec_from_file_location(
                "main_of_board", REPOSITORY / "firmware" / "main.py"
            )
            main = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(main)
            return main
        finally:
            sys.modules.pop("board")

    def _main(self):
        main = self.load()
        main.on_trial = main.settle_update()
        return main.main() or "over"

    # --- Results ---

    def interrupted(self):
        """Returns {(what, id): how the lives ended that were interrupted in it}. AssertionError for
        a reset that no command requested, or a second one for the same command: the first end of a
        life must be the reset, or a cut in its place, and any later end a cut."""
        found = {}
        for end, doing in zip(self.ends, self.left_doing, strict=True):
            if doing:
                found.setdefault(tuple(doing[:2]), []).append(end)
            else:
                assert end != "reset", "a reset that no command asked for"
        for (what, name), ends in found.items():
            first = ("cut",) if what == "adopt" else ("cut", "reset")
            assert ends[0] in first and set(ends[1:]) <= {"cut"}, (what, name, ends)
        return found

    def settings(self):
        return json.loads((self.folder / "settings.json").read_text())

    def answers(self):
        """Returns {id: [(result, what, why)]}, counting each message number once."""
        found, seen = {}, {}
        for records in self.server.messages:
            head = records[0]
            key = head["sid"], head["seq"]
            assert seen.setdefault(key, records) == records, "two messages of one number"
            if seen[key] is records and "cmd" in head:
                one = head["v"], head["what"], head.get("why", "")
                found.setdefault(head["cmd"], []).append(one)
        return found


class Board:
    """The board contract over a World."""

    align, page_bytes, in_flight_bytes = 4, 256, 0

    def __init__(self, world):
        self._world, self.device = world, world.flash
        self._quiet_since_ms = self._began_ms = world.now_ms
        self._known = None
        self.sensors = [Sensor()]

    def __getattr__(self, name):
        """The methods that do nothing here."""
        if name in (
            "begin", "started", "feed_watchdog", "published", "stopped", "keep_time",
            "release_watchdog",
        ):  # fmt: skip
            return lambda *_: None
        raise AttributeError(name)

    def open(self, settings):
        self._host = settings["broker_host"]
        if self._host == "absurd":
            raise ValueError("settings: key 'broker_host' is absurd")
        return self

    def link(self):
        if self._host != "good" or not self._world.is_reachable:
            raise OSError(113)
        return Stream(self._world.server)

    def ticks_ms(self):
        return self._world.now_ms & 0x3FFFFFFF

    def random_bits(self):
        return 0

    def random_hex(self):
        return b"0badcafe"

    def pins_lost(self):
        return 0

    def sensor_note(self, number=None):
        return number or 0

    def set_clock(self, clock, now_ms):
        if self._world.has_clock:
            clock.set(_DAY, _MS, now_ms)

    def idle(self, client):
        """Time passes only here."""
        state = len(self._world.server.offers)
        if state != self._known:
            self._known, self._quiet_since_ms = state, self._world.now_ms
        self._world.now_ms += 100
        if self._world.now_ms - self._began_ms > self._world.power_ms:
            raise PowerCut

    def stopping(self):
        is_quiet = self._world.now_ms - self._quiet_since_ms > self._world.quiet_ms
        return self._world.ends_by_itself and is_quiet

    def give_up(self):
        return "gave up"

    def restart(self):
        raise Reset("reset")

    def sleep(self, ms):
        self._world.now_ms += ms
        raise Reset("asleep")

    def crashed(self, error):
        raise error
