"""A board's flash for `rig_console.py`: littlefs at `/` on a NOR image file, which outlives the
process.

The chip is `pinned_nor.Chip` in RAM, written through to the file operation by operation.
`orders.json` beside the image may order a power cut: {"cut_at": operation counted from the next
start, "cut_mode": as nor_flash.CUT_MODES}, or a slow flash: {"operation_ms": of each program and
erase}. It is obeyed once, at a start into the raw REPL. MicroPython only. Host files are opened
before littlefs replaces `/`.
"""

import json
import os
import sys
import time

import ffi  # pyright: ignore[reportMissingImports] - the unix port's
import vfs

import fake_bus
from pinned_nor import BLOCK_BYTES, PAGE_BYTES, Chip, Port

POWER_CUT = 137
state = {}
_exit = ffi.open("libc.so.6").func("v", "_exit", "i")


class FileChip(Chip):
    """file: binary, unbuffered, open for reading and writing, whole blocks long."""

    def __init__(self, file):
        image = file.read()
        super().__init__(len(image) // BLOCK_BYTES, image)
        self._file = file
        self._view = memoryview(self.image)

    def change(self, block, offset, buf):
        done = super().change(block, offset, buf)
        at = block * BLOCK_BYTES + offset
        self._file.seek(at)
        self._file.write(self._view[at : at + (BLOCK_BYTES if buf is None else len(buf))])
        if self.is_off:
            _exit(POWER_CUT)
        return done


class Machine:
    """Replaces the module `machine`."""

    def __init__(self, status, wiring):
        self._status = status
        wired = fake_bus.FakeWiredMachine(wiring)
        self.Pin, self.ADC, self.UART = wired.Pin, wired.ADC, wired.UART
        self.I2C, self.SoftI2C = wired.I2C, wired.SoftI2C

    def reset(self):
        _exit(self._status)

    def unique_id(self):
        return b"rig board"


def _wiring():
    """Returns what is wired to the pins, from `wiring.json`: {"bme280": its address, "millivolts":
    {"pin": value}}."""
    found = fake_bus.Wiring()
    try:
        with open("wiring.json") as file:
            orders = json.load(file)
    except OSError:
        return found
    if orders.get("bme280"):
        found.chips[orders["bme280"]] = fake_bus.bme280()
    for pin, millivolts in orders.get("millivolts", {}).items():
        found.millivolts[int(pin)] = millivolts
    return found


def _ordered(chip):
    try:
        with open("orders.json") as file:
            orders = json.load(file)
        os.remove("orders.json")
    except OSError:
        return
    chip.cut_at, chip.cut_mode = orders.get("cut_at", 0), orders.get("cut_mode", "nothing")
    operation_ms = orders.get("operation_ms", 0)
    if operation_ms:
        chip.on_operation = lambda: time.sleep_ms(operation_ms)


def mount(image, reset_status, is_obedient):
    """Mount littlefs at `/`, formatted if the image is erased. The outbox's access to the same chip
    is `state["flash"]`.
    """
    chip = FileChip(open(image, "r+b"))
    wiring = _wiring()
    if is_obedient:
        _ordered(chip)
    device = Port(chip, PAGE_BYTES)
    state["flash"] = Port(chip, PAGE_BYTES, is_outbox=True)
    if chip.image[:PAGE_BYTES] == b"\xff" * PAGE_BYTES:
        vfs.VfsLfs2.mkfs(device, progsize=PAGE_BYTES)
    files = vfs.VfsLfs2(device, progsize=PAGE_BYTES)
    vfs.umount("/")
    vfs.mount(files, "/")
    os.chdir("/")
    sys.path[:] = ["", ".frozen", "/lib"]
    sys.modules["machine"] = Machine(reset_status, wiring)
