"""The UNIX board: a desktop process as a board.

The flash is an image file under NOR rules, the stream is a socket, the sensors are /proc. The parts
that a real board does not need (the simulator's orders, the journal of ground truth, the power cut)
hide behind the names that every board has. Files of the current folder: `simulation.json` (orders,
optional), `flash.img`, `journal.txt` (a line per published message, written after publish()
returned), `counters.json`, `crash.txt`. Writing the journal allocates; idle() and everything else
that the loop calls while nothing happens does not.
"""

import binascii
import errno
import json
import os
import random
import sys
import time

import host_clock
import host_sensors
from nor_flash import BLOCK_BYTES, NorFlash, new_image
from socket_link import open_link
from support import crash_log

ASLEEP_STATUS = 75

_BLOCKS = 64  # for programs without station/settings.py, which has the same default
_IDLE_MS = 5
_COUNTERS_MS = 500
_ORDERS = {
    "image": "flash.img",
    "page_bytes": 256,
    "seed": 0,
    "cut_at_operation": 0,
    "cut_mode": "nothing",
    "stop_file": "",
    "sleeps": True,  # false: sleep() takes no time
    "clock_file": "",  # if one is named, the clock is not set until this file exists
}


class Board:
    """The board contract (`boards/PORTING.md`) on a desktop."""

    device: "Anything"
    link: "Anything"
    sensors: "Anything"
    align = 4
    page_bytes = 256
    reprograms = False  # irrelevant with align 4
    in_flight_bytes = 0  # unlimited: the send buffer is large, and write() returns when it is full
    _journal_file: "Anything"

    def __init__(self):
        self.ticks_ms = host_clock.ticks_ms
        self.device = self.link = self.sensors = None  # open() sets them
        self.about = []  # a process has neither a radio nor a reset cause
        self._orders = _ORDERS.copy()
        self._journal_file = None
        self._begin_ms = self._counters_ms = 0

    def open(self, settings):
        """Set everything up from the settings. Returns itself. Raises ValueError: names the key."""
        self._read_orders()
        random.seed(self._orders["seed"] or None)
        self.link = open_link(settings, self._time_is_set)
        self.sensors = host_sensors.choose(settings.get("sensors"))
        self.device = self._open_flash(settings.get("outbox_blocks", _BLOCKS))
        self._journal_file = open("journal.txt", "ab")
        return self

    def _read_orders(self):
        try:
            with open("simulation.json") as file:
                orders = json.load(file)
        except OSError:
            return
        except ValueError:
            raise ValueError("simulation.json: not JSON")
        if not isinstance(orders, dict):
            raise ValueError("simulation.json: must be an object")
        for key, value in orders.items():
            if key in _ORDERS and type(value) is not type(_ORDERS[key]):
                raise ValueError(f"simulation.json: key '{key}' must be like {_ORDERS[key]!r}")
        self._orders.update(orders)

    def _open_flash(self, blocks):
        """The flash image as a block device; a new image is erased flash."""
        orders = self._orders
        image = orders["image"]
        try:
            size = os.stat(image)[6]
        except OSError:
            new_image(image, blocks)
            size = blocks * BLOCK_BYTES
        if size != blocks * BLOCK_BYTES:
            found = f"{image} has {size // BLOCK_BYTES} blocks"
            raise ValueError(f"outbox_blocks: {blocks}, but {found}; remove it or set that")
        flash = NorFlash(_open_unbuffered(image), blocks, orders["page_bytes"])
        flash.cut_at, flash.cut_mode = orders["cut_at_operation"], orders["cut_mode"]
        flash.on_cut = self._power_cut
        return flash

    def _power_cut(self, operation, mode):
        self._journal(b"cut %d %s\n" % (operation, mode.encode()))
        _exit_now(137)

    # --- Start and end ---

    def begin(self):
        """Whoever starts the process decides how often it may restart."""
        self._begin_ms = self.ticks_ms()

    def give_up(self):
        sys.exit(1)

    def crashed(self, error):
        """Keep the reason in crash.txt, and end with status 1."""
        text = crash_log.text_of(error)
        crash_log.keep("crash.txt", text)
        print(text, file=sys.stderr)
        sys.exit(1)

    def sleep(self, ms):
        """Waking from deep sleep is like a reset: the process waits, and ends with a status that
        requests another start.
        """
        self._journal(b"sleep %d\n" % ms)
        if self._orders["sleeps"]:
            host_clock.sleep_ms(ms)
        sys.exit(ASLEEP_STATUS)

    def restart(self):
        """Like the end of a sleep."""
        if self._journal_file:
            self._journal(b"sleep 0\n")
        sys.exit(ASLEEP_STATUS)

    # --- Time ---

    def _time_is_set(self):
        """The host's clock is right, unless the simulator says otherwise."""
        return not self._orders["clock_file"] or _exists(self._orders["clock_file"])

    def set_clock(self, clock, now_ms):
        if not self._time_is_set():
            return
        seconds = time.time()
        day = int(seconds // 86400)
        clock.set(day, int((seconds - day * 86400) * 1000), now_ms)

    def keep_time(self, clock, now_ms):
        """Nothing to do: the host's clock is set, or it is not."""

    # --- The loop ---

    def idle(self, client):
        host_clock.sleep_ms(_IDLE_MS)

    def sensor_note(self, number=None):
        """No watchdog resets this board, so no sensor is noted."""
        return 0

    hung_note = sensor_note

    def pins_lost(self):
        return 0

    def feed_watchdog(self):
        pass

    def release_watchdog(self):
        pass

    def random_bits(self):
        """16 random bits, for the jitter of the reconnect delay."""
        return random.getrandbits(16)

    def random_hex(self):
        """8 hex digits for the stream id, from the system and not from the seed: a board that is
        formatted again must not repeat its id.
        """
        with open("/dev/urandom", "rb") as file:
            return ("%02x%02x%02x%02x" % tuple(file.read(4))).encode()

    def stopping(self):
        """True once the simulator has created the stop file."""
        return self._orders["stop_file"] and _exists(self._orders["stop_file"])

    # --- The ground truth, outside the simulated flash ---

    def started(self, client):
        outbox = client.session.outbox
        self._journal(b"boot %d %s\n" % (outbox.boot, outbox.stream))

    def published(self, station):
        """Called after publish() returned, or a sample was stored."""
        if station.sample_seq >= 0:
            self._journal(_sample_line(station))
        elif station.status == 0:
            pack, seq = station.pack, station.client.session.outbox.next_seq - 1
            payload = bytes(pack.buffer[: pack.length])
            if payload[:1] == b"[":
                self._journal(b"ok %d %s\n" % (seq, payload))
            else:
                self._journal(b"cbor %d %s\n" % (seq, binascii.hexlify(payload)))
        else:
            self._journal(b"refused %d\n" % station.status)
        now_ms = self.ticks_ms()
        if (now_ms - self._counters_ms) & 0x3FFFFFFF >= _COUNTERS_MS:
            self._counters_ms = now_ms
            self._write_counters(station.client)

    def stopped(self, client):
        self._write_counters(client)

    def _journal(self, line):
        self._journal_file.write(line)
        self._journal_file.flush()

    def _write_counters(self, client):
        counters = _counters_of(client, self.device)
        counters["awake_ms"] = (self.ticks_ms() - self._begin_ms) & 0x3FFFFFFF
        with open("counters.new", "w") as file:
            json.dump(counters, file)
        os.rename("counters.new", "counters.json")


def _counters_of(client, flash):
    session = client.session
    outbox = session.outbox
    counters = {
        "boot": outbox.boot,
        "stream": outbox.stream.decode(),
        "next_seq": outbox.next_seq,
        "held": outbox.oldest_seq,
        "refused": outbox.refused,
        "sent": session.sent,
        "acknowledged": session.acknowledged,
        "redelivered": session.redelivered,
        "connects": session.connects,
        "last_error": client.last_error,
        "longest_outage_ms": session.longest_outage_ms,
        "programs": flash.programs,
        "erases": flash.erases,
        "reads": flash.reads,
        "bytes_programmed": flash.bytes_programmed,
    }
    if hasattr(session, "replays"):
        counters.update({"confirmations": session.confirmations, "replays": session.replays})
    return counters


def _sample_line(station):
    """The number of the record, the unit of its time in ms, its time (day, ms; since boot if the
    clock is not set), and the readings. The clock still has the time of the sample."""
    clock, series = station.clock, station.series
    day, ms = (clock.day, clock.ms) if clock.is_set else (clock.up_day, clock.up_ms)
    readings = [
        [one.name.decode(), one.unit.decode(), value, one.exponent]
        for one, value in zip(station.sensors, station.values)
        if value is not None
    ]
    facts = [int(clock.is_set), day, ms, series.step_ms, readings]
    return b"sample %d %s\n" % (station.sample_seq, json.dumps(facts).encode())


def _open_unbuffered(path):
    if sys.implementation.name == "micropython":
        return open(path, "r+b")
    return open(path, "r+b", buffering=0)


def _exists(path):
    try:
        os.stat(path)
        return True
    except OSError as error:
        if error.args[0] != errno.ENOENT:
            raise
        return False


def _exit_now(code):
    """End as in a power cut: nothing is flushed, and no handler runs."""
    if hasattr(os, "_exit"):
        os._exit(code)  # pyright: ignore[reportAttributeAccessIssue] - CPython only
    import ffi

    ffi.open("libc.so.6").func("v", "_exit", "i")(code)
