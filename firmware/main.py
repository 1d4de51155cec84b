"""What a board runs: composition only. `board` is the object of boards/<BOARD>/board.py."""

import sys

from micropython import const

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

    It searches the filesystem before it takes its own, at each import of one: 6 ms each on an
    RP2040. By the name with a `u` it does not, and what sys.modules has is found at once.
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
    """A package of the user's may stand in for one of them, as the rules are."""
    for name in names:
        sys.modules.pop(name, None)


found = find_built_in()

from board import Board
from outpost.client import Client
from outpost.memory import unload
from outpost.outbox import Outbox
from outpost.session import Session
from station import flash_wear
from station.clock import Clock
from station.health import Health
from station.station import Station
from station.telemetry import Pack

_OK = const(0)  # outpost.status has them too, and takes an RP2040 21 ms to import
_BLANK = const(-10)
_RECORD_OVERHEAD = 16  # bytes of a record beside topic and payload: OUTBOX_FORMAT.md

board = Board()


def load_settings():
    """The settings. Their module, 9 KB of heap, is unloaded again. Raises ValueError."""
    from station.settings import load

    try:
        return load("settings.json")
    finally:
        unload("station.settings")


def open_outbox():
    """The board's outbox, mounted; a blank region is formatted first. Raises ValueError."""
    outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
    result = outbox.mount()
    if result == _BLANK:
        result = outbox.format(board.random_hex())
    if result != _OK:
        raise ValueError(
            f"outbox: cannot mount, status {result}; see outpost/status.py. Nothing was changed"
        )
    return outbox


def same(kind):
    """Stands in for level5.over(): the session's class as it is."""
    return kind


def build(settings):
    """Everything put together, on an open board: the station that measures, with its client."""
    now_ms = board.ticks_ms()
    base = settings["topic_prefix"] + "/" + settings["device_id"]
    options = {
        "keep_alive_s": settings["keep_alive_s"],
        "user": settings["user"].encode() or None,
        "password": settings["password"].encode() or None,
        "in_flight_bytes": board.in_flight_bytes,
    }
    options["level"] = settings["level"]
    if settings["level"] == 5:
        from outpost.level5 import over as at_level

        options["aliases"] = ((base + "/data").encode(),)
    else:
        at_level = same
    link, outbox = board.link, open_outbox()
    client_id = settings["device_id"].encode()
    if settings["mode"] == "collector":
        if settings["confirmation"] == "queued":
            from outpost.queued import QueuedSession as Confirmed
        else:
            from outpost.durable import DurableSession as Confirmed

        topic, timeout_ms = (base + "/durable").encode(), settings["confirm_timeout_ms"]
        session = at_level(Confirmed)(outbox, client_id, topic, timeout_ms, **options)
    else:
        session = at_level(Session)(outbox, client_id, **options)
    client = Client(link, session, board.random_bits)
    clock = Clock(now_ms)
    board.set_clock(clock, now_ms)
    topic = (base + "/data").encode()
    pack = Pack(settings["device_id"].encode(), outbox.record_bytes - _RECORD_OVERHEAD - len(topic))
    health = Health(outbox, board.pins_lost)
    sensors = board.sensors + flash_wear.sensors(outbox) + [health]
    station = Station(client, pack, clock, sensors, topic, settings["interval_ms"], now_ms)
    health.station = station
    return station


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
        board.feed_watchdog()
    while not client.is_drained():
        if not client.poll(board.ticks_ms()):
            board.idle(client)
        board.feed_watchdog()
    client.close()
    board.stopped(client)


def main():
    """Settings at fault: one line that names the key. Other faults: the board keeps the reason."""
    board.begin()
    try:
        settings = load_settings()
        board.open(settings)
        station = build(settings)
        forget_built_in(found)
    except ValueError as error:
        print(error, file=sys.stderr)
        return board.give_up()
    if settings["deep_sleep"]:
        from station.deep_sleep import wake

        return wake(station, board, settings)
    return run(station)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        board.release_watchdog()
        raise
    except Exception as error:  # what is stored is in the outbox, which needs no farewell
        board.crashed(error)
