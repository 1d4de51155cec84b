"""The board of `rig_console.py`: outbox in pinned blocks of its own littlefs, a counter as its
sensor.

Prints a line when it is connected, as a board's program may.
"""

import os
import random
import socket
import sys
import time

import machine

import rig
from support import crash_log
from support.pinned import NotPinned, open_blocks
from support.sensor_file import SensorFile

_IDLE_MS = 5


class Counter:
    """A reading that cannot be confused with another one."""

    name, unit, exponent = b"count", b"", 0

    def __init__(self):
        self.count = 0

    def read(self):
        self.count += 1
        return self.count


class Board:
    align = page_bytes = 256
    reprograms = True
    in_flight_bytes = 0

    def __init__(self):
        self.ticks_ms = time.ticks_ms
        self._has_told = False

    def open(self, settings):
        self.link = _link(settings, self.ticks_ms)
        given = settings.get("sensors") or ()
        files = [SensorFile(one) for one in given if isinstance(one, dict)]
        self.sensors, self.about = [Counter()] + files, []
        self.flash = rig.state["flash"]
        self.device = self._pins = _device(settings)
        return self

    def set_clock(self, clock, now_ms):
        seconds = int(time.time())
        clock.set(seconds // 86400, seconds % 86400 * 1000, now_ms)

    def keep_time(self, clock, now_ms):
        pass

    def random_bits(self):
        return random.getrandbits(16)

    def random_hex(self):
        return ("%02x%02x%02x%02x" % tuple(os.urandom(4))).encode()

    def idle(self, client):
        if client.is_connected() and not self._has_told:
            self._has_told = True
            print("connected", client.session.connects)
        time.sleep_ms(_IDLE_MS)

    def sensor_note(self, number=None):
        """No watchdog here resets what hangs."""
        return 0

    def pins_lost(self):
        return self._pins.lost

    def begin(self):
        pass

    def feed_watchdog(self):
        pass

    def release_watchdog(self):
        pass

    def give_up(self):
        pass

    def restart(self):
        sys.exit(75)

    def stopping(self):
        return False

    def started(self, client):
        print("started, boot", client.session.outbox.boot)

    def published(self, station):
        pass

    def stopped(self, client):
        pass

    def crashed(self, error):
        text = crash_log.text_of(error)
        print(text)
        crash_log.keep("crash.txt", text)
        sys.exit(1)

    def sleep(self, ms):
        machine.reset()


def _device(settings):
    board = machine.unique_id()
    try:
        return open_blocks(rig.state["flash"], "/outbox", board)
    except NotPinned:
        from support.pinning import create_first, say

        blocks = settings["outbox_blocks"]
        return create_first(rig.state["flash"], "/outbox", blocks, os.urandom(8), board, say)


def _link(settings, ticks_ms):
    def open_socket():
        where = settings["broker_host"], settings["broker_port"]
        # as a board's port does: for AF_INET only
        address = socket.getaddrinfo(*where, socket.AF_INET, socket.SOCK_STREAM)[0]
        sock = socket.socket()
        try:
            sock.connect(address[-1])
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        return sock

    if not settings["tls"]:
        return open_socket
    from support.tls_link import TlsLink, client_context

    name = settings["server_name"]
    return TlsLink(open_socket, client_context(settings), name, lambda: True, ticks_ms)
