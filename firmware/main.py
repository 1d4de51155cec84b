"""What a board runs: composition only. `board` is the board's own module, boards/<BOARD>/board.py."""

import sys

import board
from outpost import status
from outpost.client import Client
from outpost.clock import Clock
from outpost.durable import Durable
from outpost.outbox import Outbox
from outpost.sectors import OVERHEAD_BYTES
from outpost.session import Session
from outpost.settings import SettingsError, load
from outpost.station import Station
from outpost.telemetry import Pack


def open_outbox(settings):
    """The board's outbox, mounted; made on a blank region. Stops the program when the region holds something else."""
    outbox = Outbox(board.outbox_device(settings), align=board.ALIGN, page_bytes=board.PAGE_BYTES)
    result = outbox.mount()
    if result == status.BLANK:
        result = outbox.format(board.random_hex())
    if result != status.OK:
        raise SettingsError(f"outbox: cannot mount, status {result}; see outpost/status.py. Nothing was changed")
    return outbox


def build(settings):
    """Everything put together: the station that measures, with its client."""
    now_ms = board.ticks_ms()
    base = settings["topic_prefix"] + "/" + settings["device_id"]
    session = Session(
        settings["device_id"].encode(),
        keep_alive_s=settings["keep_alive_s"],
        user=settings["user"].encode() or None,
        password=settings["password"].encode() or None,
    )
    outbox = open_outbox(settings)
    durable = None
    if settings["mode"] == "collector":
        durable = Durable((base + "/durable").encode(), settings["confirm_timeout_ms"])
    client = Client(board.link(settings), session, outbox, durable, random=board.random_bits)
    clock = Clock(now_ms)
    board.set_clock(clock, now_ms)
    topic = (base + "/data").encode()
    pack = Pack(settings["device_id"].encode(), outbox.record_bytes - OVERHEAD_BYTES - len(topic))
    return Station(client, pack, clock, board.sensors(settings), topic, settings["interval_ms"], now_ms)


def run(station):
    """Measure and send until the board says stop; then send what is left."""
    client = station.client
    board.started(client)
    while not board.stopping():
        now_ms = board.ticks_ms()
        if station.step(now_ms):
            board.published(station)
        if not client.poll(now_ms):
            board.idle(client)
        board.feed_watchdog()
    while not client.is_drained:
        if not client.poll(board.ticks_ms()):
            board.idle(client)
        board.feed_watchdog()
    client.close()
    board.stopped(client)


if __name__ == "__main__":
    try:
        run(build(load("settings.json")))
    except ValueError as error:  # a fault in the settings: one line that names the key
        print(error, file=sys.stderr)
        sys.exit(1)
