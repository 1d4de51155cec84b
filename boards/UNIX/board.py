"""The UNIX board: a desktop process as a board. Flash is an image file under NOR rules, the stream a socket, the sensors /proc.

The same names as every board's `board.py`; what a real board has no use for (the simulator's orders, the journal of ground
truth, the power cut) is behind them. Files of the current folder: `simulation.json` (orders, optional), `flash.img`,
`journal.txt` (a line per published message, written after publish() returned), `counters.json`.
"""

import errno
import json
import os
import random
import socket
import sys
import time

import host_sensors
from nor_flash import BLOCK_BYTES, NorFlash, new_image
from support import crash_log

ALIGN = 4
PAGE_BYTES = 256
IN_FLIGHT_BYTES = 0  # no bound: the send buffer is large, and write() returns when it is full

ASLEEP_STATUS = 75

_IDLE_MS = 5
_CONNECT_MS = 3000
_COUNTERS_MS = 500
_ORDERS = {
    "image": "flash.img",
    "page_bytes": 256,
    "seed": 0,
    "cut_at_operation": 0,
    "cut_mode": "nothing",
    "stop_file": "",
    "sleeps": True,  # false: sleep() takes no time
    "clock_file": "",  # the clock is not set as long as this file, if one is named, is not there
}

_orders = dict(_ORDERS)
_state = {"journal": None, "flash": None, "counters_ms": 0, "begin_ms": 0}

if sys.implementation.name == "micropython":
    ticks_ms, _sleep_ms = time.ticks_ms, time.sleep_ms
else:

    def _cpython_ticks_ms():
        return int(time.monotonic() * 1000) & 0x3FFFFFFF  # pyright: ignore[reportAttributeAccessIssue] - CPython only

    def _cpython_sleep_ms(ms):
        time.sleep(ms / 1000)

    ticks_ms, _sleep_ms = _cpython_ticks_ms, _cpython_sleep_ms


def _exit_now(code):
    """Leave as a power cut does: nothing is flushed, no handler runs."""
    if hasattr(os, "_exit"):
        os._exit(code)  # pyright: ignore[reportAttributeAccessIssue] - CPython only
    import ffi

    ffi.open("libc.so.6").func("v", "_exit", "i")(code)


def outbox_device(settings):
    """The flash image as block device; a new image is erased flash."""
    try:
        with open("simulation.json") as file:
            _orders.update(json.load(file))
    except OSError:
        pass
    random.seed(_orders["seed"] or None)
    blocks = settings["outbox_blocks"]
    try:
        size = os.stat(_orders["image"])[6]
    except OSError:
        new_image(_orders["image"], blocks)
        size = blocks * BLOCK_BYTES
    if size != blocks * BLOCK_BYTES:
        raise ValueError(
            f"outbox_blocks: {blocks}, but {_orders['image']} has {size // BLOCK_BYTES} blocks; remove it or set that"
        )
    flash = NorFlash(_open_unbuffered(_orders["image"]), blocks, _orders["page_bytes"])
    flash.cut_at, flash.cut_mode, flash.on_cut = _orders["cut_at_operation"], _orders["cut_mode"], _power_cut
    _state["flash"] = flash
    _state["journal"] = open("journal.txt", "ab")
    return flash


def _open_unbuffered(path):
    return open(path, "r+b") if sys.implementation.name == "micropython" else open(path, "r+b", buffering=0)


def _journal(line):
    _state["journal"].write(line)
    _state["journal"].flush()


def _power_cut(operation, mode):
    _journal(b"cut %d %s\n" % (operation, mode.encode()))
    _exit_now(137)


def random_bits():
    """16 random bits, for the jitter of the reconnect delay."""
    return random.getrandbits(16)


def random_hex():
    """8 hex digits, for the stream id: from the system, not from the seed, because a reformatted board must not repeat it."""
    with open("/dev/urandom", "rb") as file:
        return ("%02x%02x%02x%02x" % tuple(file.read(4))).encode()


def link(settings):
    """The callable that the client opens its stream with."""
    host, port = settings["broker_host"], settings["broker_port"]

    def open_socket():
        address = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)[0]
        sock = socket.socket(address[0], address[1])
        try:
            sock.settimeout(_CONNECT_MS / 1000)
            sock.connect(address[-1])
            sock.setsockopt(6, 1, 1)  # TCP_NODELAY: a packet is one write, and should not wait for the last one's ACK
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        return sock

    if settings.get("tls"):
        return _tls_link(settings, open_socket)
    return open_socket if sys.implementation.name == "micropython" else lambda: _CPythonStream(open_socket())


def _tls_link(settings, open_socket):
    from support.tls_link import TlsLink, client_context

    if sys.implementation.name == "micropython":
        context = client_context(settings)
    else:
        from cpython_tls import client_context as cpython_context

        context = cpython_context(settings)
    return TlsLink(open_socket, context, settings["server_name"], _time_is_set, ticks_ms)


def _time_is_set():
    """The host's clock is right, unless the simulator says otherwise."""
    return not _orders["clock_file"] or _exists(_orders["clock_file"])


def _exists(path):
    try:
        os.stat(path)
        return True
    except OSError as error:
        if error.args[0] != errno.ENOENT:
            raise
        return False


class _CPythonStream:
    """A CPython socket with the stream methods of a MicroPython one."""

    def __init__(self, sock):
        self._socket = sock

    def write(self, buf, offset, length):
        try:
            return self._socket.send(memoryview(buf)[offset : offset + length])
        except BlockingIOError:
            return None

    def readinto(self, buf):
        try:
            return self._socket.recv_into(buf)
        except BlockingIOError:
            return None

    def close(self):
        self._socket.close()


def set_clock(clock, now_ms):
    if not _time_is_set():
        return
    seconds = time.time()
    day = int(seconds // 86400)
    clock.set(day, int((seconds - day * 86400) * 1000), now_ms)


def sensors(settings):
    return host_sensors.choose(settings["sensors"])


def keep_time(clock, now_ms):
    """The host's clock is set, or it is not."""


def feed_watchdog():
    pass


def release_watchdog():
    pass


def begin():
    """A process that ends too often is its starter's business."""
    _state["begin_ms"] = ticks_ms()


def give_up():
    sys.exit(1)


def crashed(error):
    """Keep the reason in crash.txt, and end with status 1."""
    text = crash_log.text_of(error)
    crash_log.keep("crash.txt", text)
    print(text, file=sys.stderr)
    sys.exit(1)


def sleep(ms):
    """A board wakes from deep sleep as from a reset: the process waits, and ends with a status that asks to be started again."""
    _journal(b"sleep %d\n" % ms)
    if _orders["sleeps"]:
        _sleep_ms(ms)
    sys.exit(ASLEEP_STATUS)


def idle(client):
    _sleep_ms(_IDLE_MS)


def started(client):
    outbox = client.outbox
    _journal(b"boot %d %s\n" % (outbox.boot, outbox.stream))


def published(station):
    """Called after publish() returned: the ground truth, outside the simulated flash."""
    if station.status == 0:
        pack = station.pack
        _journal(b"ok %d %s\n" % (station.client.outbox.next_seq - 1, bytes(pack.buffer[: pack.length])))
    else:
        _journal(b"refused %d\n" % station.status)
    now_ms = ticks_ms()
    if (now_ms - _state["counters_ms"]) & 0x3FFFFFFF >= _COUNTERS_MS:
        _state["counters_ms"] = now_ms
        _write_counters(station.client)


def stopping():
    """True when the simulator has put the stop file there."""
    return _orders["stop_file"] and _exists(_orders["stop_file"])


def stopped(client):
    _write_counters(client)


def _write_counters(client):
    outbox, flash = client.outbox, _state["flash"]
    counters = {
        "boot": outbox.boot,
        "stream": outbox.stream.decode(),
        "next_seq": outbox.next_seq,
        "held": outbox.oldest_seq,
        "appended": outbox.appended,
        "refused": outbox.refused,
        "sent": client.sent,
        "acknowledged": client.acknowledged,
        "redelivered": client.redelivered,
        "connects": client.connects,
        "last_error": client.last_error,
        "longest_outage_ms": client.longest_outage_ms,
        "programs": flash.programs,
        "erases": flash.erases,
        "reads": flash.reads,
        "bytes_programmed": flash.bytes_programmed,
        "awake_ms": (ticks_ms() - _state["begin_ms"]) & 0x3FFFFFFF,
    }
    if hasattr(client, "replays"):
        counters.update({"confirmations": client.confirmations, "replays": client.replays})
    with open("counters.new", "w") as file:
        json.dump(counters, file)
    os.rename("counters.new", "counters.json")
