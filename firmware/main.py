"""The program that a board runs: composition only. `board` is boards/<BOARD>/board.py's object."""

import os
import sys

from micropython import const


def is_updating():
    try:
        os.stat("update/phase")
        return True
    except OSError:
        return False


def settle_update():
    """Put the files of an update in place, or back, before one of them is imported. True: the
    program runs on trial. A fault here does not stop the board: it runs with the files it has."""
    if not is_updating():
        return False
    try:
        from station import update_start

        return update_start.start()
    except Exception as error:
        print("update:", repr(error), file=sys.stderr)
        return False


# Not for the tools, which import this module to test a board.
on_trial = settle_update() if __name__ == "__main__" else False

_BUILT_IN = (
    "array",
    "binascii",
    "errno",
    "io",
    "json",
    "machine",
    "os",
    "random",
    "select",
    "struct",
    "time",
)


def find_built_in():
    """Put MicroPython's own modules into sys.modules until all is imported. Returns the names that
    were not there.

    MicroPython searches the filesystem first at each import of one: 6 ms each on an RP2040. With a
    `u` before the name it does not, and what sys.modules has is found at once.
    """
    found = []
    for name in _BUILT_IN:
        try:
            if name not in sys.modules:
                sys.modules[name] = __import__("u" + name)
                found.append(name)
        except ImportError:  # another port, or CPython
            pass
    return found


def forget_built_in(names):
    """Afterwards a user's package may replace one of them, as MicroPython's rules allow."""
    for name in names:
        sys.modules.pop(name, None)


found = find_built_in()

from board import Board
from outpost import __version__
from outpost.client import Client
from outpost.memory import unload
from outpost.outbox import Outbox
from outpost.session import Session
from station import flash_wear
from station.about import About
from station.clock import Clock
from station.guard import guarded
from station.health import Health
from station.sensor_notices import SensorNotices
from station.station import Station
from station.telemetry import Pack

_OK = const(0)  # outpost.status has them too, and takes an RP2040 21 ms to import
_BLANK = const(-10)
_NEWER = const(-12)
_RECORD_OVERHEAD = 16  # bytes of a record besides topic and payload: OUTBOX_FORMAT.md
_MESSAGE_BYTES = 512  # length of a message's longest record

board = Board()


def load_settings(path="settings.json"):
    """The settings. Their module, 9 KB of heap, is unloaded again. Raises ValueError."""
    from station.settings import load

    try:
        return load(path)
    finally:
        unload("station.settings")


def policy(settings):
    """Returns the class of outbox that does what the settings say when it is full."""
    when_full = settings["when_full"]
    if when_full == "refuse":
        return Outbox
    from outpost import policies

    return policies.DropOldest if when_full == "drop_oldest" else policies.NewestPerTopic


def series_parts():
    """Returns the module for series; a board without them never loads it. Raises ValueError."""
    try:
        from station import series_station
    except ImportError:
        raise ValueError(
            "series: the modules for it are not on this board; `outpost flash` copies them where "
            "the settings have 'series': true"
        )
    return series_station


def holding_series(kind, options):
    """Returns a subclass of `kind` that holds series, with records of their length."""
    parts = series_parts()
    options["record_bytes"] = parts.RECORD_BYTES
    return parts.over(kind, getattr(board, "reprograms", False))  # as for sensor_note


_REASONS = {
    -15: " (messages longer than this program's record_bytes: those of 'series')",
    -16: " ('outbox_blocks' is smaller than the outbox, or some of its blocks are gone)",
}


def refuse(result):
    """Raises ValueError: the outbox cannot be mounted, with this status."""
    raise ValueError(
        f"outbox: cannot mount, status {result}{_REASONS.get(result, '')}; "
        "see outpost/status.py. Nothing was changed"
    )


def open_outbox(settings):
    """The board's outbox, mounted; a blank region is formatted first. Raises ValueError."""
    kind = policy(settings)
    options = {"align": board.align, "page_bytes": board.page_bytes}
    if kind.renumbers:
        options["topics"] = 1  # all messages of a board are on one
    if settings["series"]:
        kind = holding_series(kind, options)
    outbox = kind(board.device, **options)  # pyright: ignore[reportCallIssue]
    outbox.settles_later = settings["deep_sleep"]  # each wake stores a reading first
    result = outbox.mount()
    if result == _NEWER and not settings["series"]:  # it may hold series from before
        kind = holding_series(kind, options)
        outbox = kind(board.device, **options)  # pyright: ignore[reportCallIssue]
        outbox.settles_later = settings["deep_sleep"]
        result = outbox.mount()
    if result == _BLANK:
        result = outbox.format(board.random_hex())
    if result != _OK:
        refuse(result)
    return outbox


def about(settings, notices):
    """Returns the About of the board, without what its sensors report already."""
    names = [sensor.name for sensor in board.sensors]
    of_board = getattr(board, "about", ())  # as for sensor_note
    of_board = [reading for reading in of_board if reading.name not in names]

    def report_s():
        """Seconds; a command may change the interval."""
        found = -(-settings["interval_ms"] * settings["connect_every"] // 1000)
        if settings["series"] and not settings["deep_sleep"]:
            found = max(found, settings["series_age_s"])
        return found

    return About(notices.outbox, notices, __version__, report_s, of_board)


def open_commands(settings):
    """Returns the object that takes commands; None if the settings have no commands."""
    if not settings["commands"]:
        return None
    base = (settings["topic_prefix"] + "/" + settings["device_id"]).encode()
    if settings["update_key"] or is_updating():
        from station.updatable import UpdatableCommands

        return UpdatableCommands(board, base, settings)
    from station.commands import Commands

    return Commands(board, base)


def same(kind):
    """Stands in for level5.over(): the session's class as it is."""
    return kind


def new_session(settings, base, outbox, kind, more):
    """Returns the session that the mode requires. base: of the topics. kind: its class without a
    collector. more: options."""
    options = {
        "keep_alive_s": settings["keep_alive_s"],
        "user": settings["user"].encode() or None,
        "password": settings["password"].encode() or None,
        "in_flight_bytes": board.in_flight_bytes,
    }
    if settings["say_state"] and not settings["deep_sleep"]:  # asleep is not offline
        options["will"] = (base + "/state").encode(), b"offline", 1, True
    options.update(more)
    options["level"] = settings["level"]
    if settings["level"] == 5:
        from outpost.level5 import over as at_level

        options["aliases"] = ((base + "/data").encode(),)
    else:
        at_level = same
    client_id = settings["device_id"].encode()
    if settings["mode"] == "collector":
        if settings["confirmation"] == "queued":
            from outpost.queued import QueuedSession as Confirmed
        else:
            from outpost.durable import DurableSession as Confirmed

        topic, timeout_ms = (base + "/durable").encode(), settings["confirm_timeout_ms"]
        return at_level(Confirmed)(outbox, client_id, topic, timeout_ms, **options)
    return at_level(kind)(outbox, client_id, **options)


def pack_class(settings):
    if settings["encoding"] == "json":
        return Pack
    from station.telemetry_cbor import CborPack

    return CborPack


def choose(settings, commands):
    """Classes of session and station, and more options of the session. Raises ValueError."""
    make = series_parts().SeriesStation if settings["series"] else Station
    return commands.parts(make) if commands else (Session, make, {})


def build(settings, commands=None):
    """Put everything together, on an open board. Returns the station, with its client."""
    now_ms = board.ticks_ms()
    base = settings["topic_prefix"] + "/" + settings["device_id"]
    link, outbox = board.link, open_outbox(settings)
    kind, make, more = choose(settings, commands)
    client = Client(link, new_session(settings, base, outbox, kind, more), board.random_bits)
    clock = Clock(now_ms)
    board.set_clock(clock, now_ms)
    topic = (base + "/data").encode()
    room = min(outbox.record_bytes, _MESSAGE_BYTES) - _RECORD_OVERHEAD - len(topic)
    pack = pack_class(settings)(settings["device_id"].encode(), room)
    health = Health(outbox, board.pins_lost)
    note = getattr(board, "sensor_note", None)  # a user's own board.py may be older
    kept = getattr(board, "hung_note", None)
    guards, sensors = guarded(board.sensors, board.ticks_ms, board.feed_watchdog, note, kept)
    notices, columns = SensorNotices(outbox, guards, health), len(sensors)
    sensors += flash_wear.sensors(outbox) + [notices, about(settings, notices)]
    if commands:
        sensors.append(commands)
    station = make(client, pack, clock, sensors, topic, settings["interval_ms"], now_ms)
    health.station = station
    if settings["series"]:
        station.start(settings, columns, guards, health)
    if settings["mode"] == "collector" and not settings["deep_sleep"]:
        from station.unheard import Unheard

        health.unheard = Unheard(client, clock)
    if settings["say_state"]:
        say_state(settings, station, base)
    if commands:
        commands.attach(station, settings)
    return station


def say_state(settings, station, base):
    from station.state import State

    word = b"asleep" if settings["deep_sleep"] else b"online"
    station.state = State(station.client, (base + "/state").encode(), word)


def run(station):
    """Measure and send until the board says stop; then send what is left."""
    client = station.client
    board.started(client)
    while not board.stopping():
        now_ms = board.ticks_ms()
        board.keep_time(station.clock, now_ms)
        if station.step(now_ms):
            board.published(station)
        if not client.poll(now_ms):
            board.idle(client)
        station.tell_state()
        board.feed_watchdog()
    station.close_record()
    while not client.is_drained():
        if not client.poll(board.ticks_ms()):
            board.idle(client)
        board.feed_watchdog()
    if station.state:
        station.state.leave()
        client.poll(board.ticks_ms())
    client.close()
    board.stopped(client)


def take_back(commands, error):
    """True when settings or an update are on trial: the next start has the old ones."""
    if commands or not on_trial:
        return commands and commands.take_back(error)
    from station.update_start import give_up

    return give_up("it does not take the settings: " + str(error))


def main():
    """Faulty settings: one line that names the key. Other faults: the board keeps the reason."""
    if not on_trial:  # a trial counts its starts itself, with the watchdog on, and may not pause
        board.begin()
    commands = None
    try:
        settings = load_settings()
        commands = open_commands(settings)
        if commands:
            settings = commands.choose(settings, load_settings)
        board.open(settings)
        station = build(settings, commands)
        forget_built_in(found)
        if settings["deep_sleep"]:
            from station.deep_sleep import wake
        else:
            wake = None
    except (ValueError, ImportError) as error:
        if isinstance(error, ImportError):  # a module of settings that came another way
            error = "%s: `outpost update` or `flash` brings it" % error
        print(error, file=sys.stderr)
        if take_back(commands, error):
            return board.restart()
        return board.give_up()
    if wake:
        return wake(station, board, settings)
    return run(station)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        board.release_watchdog()
        raise
    except Exception as error:  # stored messages are safe in the outbox
        board.crashed(error)
