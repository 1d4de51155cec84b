"""Puts the program together from its settings: the outbox, the session, the station.

The law: what is here runs once, before the loop, and main.py then unloads it. So nothing that stays
may be defined here: a function that something keeps would keep the whole module.
"""

from micropython import const

from outpost import __version__
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from station import flash_wear
from station.about import About, interval_of
from station.clock import Clock
from station.guard import guarded
from station.health import Health
from station.sensor_notices import SensorNotices
from station.station import Station
from station.telemetry import Pack

_OK = const(0)  # outpost.status has them too, and takes an RP2040 21 ms to import
_BLANK = const(-10)
_NEWER = const(-12)
_RECORD_OVERHEAD = const(16)  # bytes of a record besides topic and payload: OUTBOX_FORMAT.md
_MESSAGE_BYTES = const(512)  # length of a message's longest record


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


def holding_series(board, kind, options):
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


def open_outbox(board, settings):
    """The board's outbox, mounted; a blank region is formatted first. Raises ValueError."""
    kind = policy(settings)
    options = {"align": board.align, "page_bytes": board.page_bytes}
    if kind.renumbers:
        options["topics"] = 1  # all messages of a board are on one
    if settings["series"]:
        kind = holding_series(board, kind, options)
    outbox = kind(board.device, **options)  # pyright: ignore[reportCallIssue]
    outbox.settles_later = settings["deep_sleep"]  # each wake stores a reading first
    result = outbox.mount()
    if result == _NEWER and not settings["series"]:  # it may hold series from before
        kind = holding_series(board, kind, options)
        outbox = kind(board.device, **options)  # pyright: ignore[reportCallIssue]
        outbox.settles_later = settings["deep_sleep"]
        result = outbox.mount()
    if result == _BLANK:
        result = outbox.format(board.random_hex())
    if result != _OK:
        refuse(result)
    return outbox


def about(board, settings, notices):
    """Returns the About of the board, without what its sensors report already."""
    names = [sensor.name for sensor in board.sensors]
    of_board = getattr(board, "about", ())  # as for sensor_note
    of_board = [reading for reading in of_board if reading.name not in names]
    return About(notices.outbox, notices, __version__, interval_of(settings), of_board)


def open_commands(board, settings, is_updating):
    """Returns the object that takes commands; None if the settings have no commands."""
    if not settings["commands"]:
        return None
    base = (settings["topic_prefix"] + "/" + settings["device_id"]).encode()
    if settings["update_key"] or is_updating:
        from station.updatable import UpdatableCommands

        return UpdatableCommands(board, base, settings)
    from station.commands import Commands

    return Commands(board, base)


def same(kind):
    """Stands in for level5.over(): the session's class as it is."""
    return kind


def new_session(board, settings, base, outbox, kind, more):
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


def build(board, settings, commands):
    """Put everything together, on an open board. Returns the station, with its client."""
    now_ms = board.ticks_ms()
    base = settings["topic_prefix"] + "/" + settings["device_id"]
    link, outbox = board.link, open_outbox(board, settings)
    kind, make, more = choose(settings, commands)
    session = new_session(board, settings, base, outbox, kind, more)
    client = Client(link, session, board.random_bits)
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
    sensors += flash_wear.sensors(outbox) + [notices, about(board, settings, notices)]
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
