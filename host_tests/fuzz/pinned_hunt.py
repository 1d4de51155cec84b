"""littlefs and an outbox on one chip, both busy: cuts the power in every operation of either, in
five ways, and mounts both.

The load runs undisturbed on one chip. The chip's operations are recorded for each step (a message
in, some out, a file written, extended or removed). Then each operation is cut on a copy, and the
copy is checked:
- littlefs mounts, and every file closed before the step has its content; the file of the step has
  the old or the new one;
- each pinned block still belongs to its file: open_blocks() and own() say so, and for some a proof:
  programmed raw, the data is read through the file;
- the outbox keeps its promise (power_loss.Model).
Some copies continue, are cut a second time at a random operation, and are checked again.

The long form: host_tests/fuzz/hunt_pinned.py.
"""

import os
import random

import vfs

from fake_flash import PowerCut
from nor_flash import CUT_MODES
from outpost.outbox import Outbox
from pinned_nor import Chip, Port
from power_loss import Model, Violation
from support import pinned, pinning

BOARD = b"board-1"
BLOCKS = 36
# littlefs' program unit; the outbox's alignment and page
GEOMETRIES = ((256, 4, 256), (32, 4, 32), (256, 256, 256))
NOISE = bytes((i * 7 + (i >> 8) * 31) & 0xFF for i in range(12000))
SIZES = (0, 30, 400, 900, 3000, 4096, 9000)


def rand(n):
    return random.getrandbits(24) % n


class Drive:
    """littlefs on a chip, mounted at its own place."""

    def __init__(self, chip, unit_bytes, place, make=False):
        self.port = Port(chip, unit_bytes)
        self.place = place
        if make:
            vfs.VfsLfs2.mkfs(self.port, progsize=unit_bytes)
        vfs.mount(vfs.VfsLfs2(self.port, progsize=unit_bytes), place)

    def leave(self):
        vfs.umount(self.place)


class Files:
    """What the files must contain. busy: (name, contents that it may have, None = not there) for
    the present step.
    """

    def __init__(self, contents=None, busy=None):
        self.contents = dict(contents or {})
        self.busy = busy

    def copy(self):
        return Files(self.contents, self.busy)

    def step(self, place):
        name = "f%d" % rand(6)
        old = self.contents.get(name)
        kind = rand(4)
        if kind == 0 and old is not None:
            self._change(place, name, old, None, None)
        elif kind == 1 and old is not None and len(old) < 9000:
            self._change(place, name, old, old + self._noise(700), "ab")
        else:
            self._change(place, name, old, self._noise(SIZES[rand(len(SIZES))]), "wb")

    def _noise(self, size):
        start = rand(len(NOISE) - size)
        return NOISE[start : start + size]

    def _change(self, place, name, old, new, mode):
        path = place + "/" + name
        # littlefs first creates a new file empty
        self.busy = (name, (old, new, b"" if old is None else new))
        if new is None:
            os.remove(path)
            del self.contents[name]
        else:
            with open(path, mode) as file:
                file.write(new if mode == "wb" else new[len(old) :])
            self.contents[name] = new
        self.busy = None

    def check(self, place):
        """Compare, and accept what was found of the step's file."""
        there = [name for name in os.listdir(place) if name != "outbox"]
        if self.busy:
            self._take(place, there)
        if sorted(there) != sorted(self.contents):
            raise Violation("files", "%s, should be %s" % (sorted(there), sorted(self.contents)))
        for name, content in self.contents.items():
            if read(place + "/" + name) != content:
                raise Violation("files", "%s has another content" % name)

    def _take(self, place, there):
        name, allowed = self.busy
        found = read(place + "/" + name) if name in there else None
        if found not in allowed:
            raise Violation("files", "%s is neither old nor new" % name)
        self.contents.pop(name, None)
        if found is not None:
            self.contents[name] = found
        self.busy = None


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Hunt:
    """One load on one geometry. cuts, second_cuts, most_duplicates: the results."""

    def __init__(self, geometry, seed, count=4, opener=pinned.open_blocks):
        random.seed(seed)
        self.geometry, self.opener = geometry, opener
        self.cuts = self.second_cuts = self.most_duplicates = 0
        self.chip, self.twin = Chip(BLOCKS), Chip(BLOCKS)
        self.before = Chip(BLOCKS)  # the chip before the operation that is cut
        self.drive = Drive(self.chip, geometry[0], "/main", make=True)
        self.port = Port(self.chip, geometry[2], is_outbox=True)
        self.files, self.model = Files(), Model()
        self.seen = None
        for _ in range(4):
            self.files.step("/main")
        device = pinning.create(self.port, "/main/outbox", count, b"%08x" % rand(1 << 24), BOARD)
        self.guard(device)
        self.outbox = self.mounted(device, make=True)

    def guard(self, device):
        """From now on neither user may change the other's blocks."""
        self.drive.port.forbidden = device.blocks
        self.port.forbidden = [block for block in range(BLOCKS) if block not in device.blocks]

    def mounted(self, device, make=False):
        outbox = Outbox(device, align=self.geometry[1], page_bytes=self.geometry[2])
        status = outbox.format(b"0badcafe") if make else outbox.mount()
        if status != 0:
            raise Violation("mounts", "status %d" % status)
        return outbox

    # --- The load ---

    def step(self, files, model, outbox, place):
        if rand(3) == 0:
            files.step(place)
        elif rand(8) == 0:
            model.save(outbox) if rand(2) else outbox.erase_ahead()
        elif rand(16) < 9 or not model.held:
            model.store(outbox, b"%d:%d:" % (model.next_seq, rand(1 << 24)) + b"x" * rand(400))
        else:
            model.free(outbox)

    def run(self, cuts):
        while self.cuts < cuts:
            self.noted(lambda: self.step(self.files, self.model, self.outbox, "/main"))
            self.fork_all(self.check)

    def noted(self, action):
        """Run the action and record the chip's operations, and what was promised at the first of
        them."""
        self.before.set_image(self.chip.image)
        self.chip.log, self.seen = [], None
        self.chip.on_operation = self._see
        action()
        self.chip.on_operation = None

    def _see(self):
        if self.seen is None:
            self.seen = self.files.copy(), self.model.copy()

    # --- The cuts ---

    def fork_all(self, check, every=1):
        """Cut each (or each `every`-th) of the recorded operations in each way, and check."""
        log, self.chip.log = self.chip.log, None
        for number, operation in enumerate(log):
            for mode in CUT_MODES if number % every == 0 else ():
                self.twin.set_image(self.before.image)
                self.twin.cut(operation[0], operation[1], operation[2], mode)
                self.twin.is_off = False
                self.cuts += 1
                check(self.seen[0].copy(), self.seen[1].copy())
            self.before.change(operation[0], operation[1], operation[2])

    def check(self, files, model):
        """Mount both on the copy and check; then let some continue into a second cut."""
        outbox, drive = self.check_once(files, model)
        if rand(3) == 0:
            self.second_cut(files, model, outbox)
            drive.leave()
            outbox, drive = self.check_once(files, model)
        self.check_files(outbox._device, len(outbox._device.blocks))
        if rand(2):
            self.prove(outbox._device)
        drive.leave()

    def check_once(self, files, model):
        drive = Drive(self.twin, self.geometry[0], "/twin")
        files.check("/twin")
        outbox = self.mounted(self.opened(drive))
        self.most_duplicates = max(self.most_duplicates, model.check(outbox))
        return outbox, drive

    def opened(self, drive):
        port = Port(self.twin, self.geometry[2], is_outbox=True)
        try:
            device = self.opener(port, "/twin/outbox", BOARD)
        except pinned.PinnedError as fault:
            raise Violation("pins", str(fault))
        drive.port.forbidden = device.blocks
        port.forbidden = [block for block in range(BLOCKS) if block not in device.blocks]
        # check the others before their first erase
        self.check_files(device, rand(len(device.blocks) + 1))
        return device

    def check_files(self, device, count):
        try:
            for index in range(count):
                device.own(index)
        except pinned.PinnedError as fault:
            raise Violation("pins", str(fault))

    def second_cut(self, files, model, outbox):
        self.twin.cut_at = 1 + rand(16)
        self.twin.cut_mode = CUT_MODES[rand(5)]
        try:
            for _ in range(16):
                self.step(files, model, outbox, "/twin")
        except PowerCut:
            pass
        except OSError:
            if not self.twin.is_off:
                raise
        self.second_cuts += self.twin.is_off
        self.twin.is_off = False
        self.twin.cut_at = 0

    def prove(self, device):
        """What is programmed raw is read through the file, so each block belongs to its file. (The
        copy is unusable afterwards.)
        """
        for index in range(len(device.blocks)):
            device.ioctl(6, index)
            device.writeblocks(index, b"proof %02d " % index * 256, 0)
        for index, (number, _, _) in enumerate(device.entries):
            found = read("%s/%04d.pin" % (device.folder, number))
            if found[:2304] != b"proof %02d " % index * 256 or len(found) != 4096:
                raise Violation("pins", "block %d is not of file %d" % (index, number))

    # --- Cuts while the folder is changed ---

    def hunt_changes(self, every):
        """grow(), release() and create() on a chip with files and messages, cut in each
        operation."""
        # the held messages reach around the end of the ring
        while self.outbox._tail <= self.outbox._head:
            self.step(self.files, self.model, self.outbox, "/main")
        self.drive.port.forbidden = self.port.forbidden = ()
        device = self.outbox._device
        self.noted(lambda: pinning.grow(device, 3, b"grow"))
        self.fork_all(self.check_grow, every)
        self.noted(lambda: pinning.release("/main/outbox", force=True))
        self.fork_all(self.check_release, every)
        self.noted(lambda: pinning.create(self.port, "/main/outbox", 3, b"again", BOARD))
        self.fork_all(self.check_release, every)

    def check_grow(self, files, model):
        """The ring must be the old one or the new one, and it must be possible to grow it again."""
        outbox, drive = self.check_once(files, model)
        size = outbox.blocks
        if size not in (4, 7):
            raise Violation("pins", "grown to %d blocks" % size)
        drive.port.forbidden = outbox._device.raw.forbidden = ()
        device = pinning.grow(outbox._device, 2, b"once more")
        outbox = self.mounted(device)
        model.check(outbox)
        for _ in range(24):
            self.step(files, model, outbox, "/twin")
        drive.leave()
        outbox, drive = self.check_once(files, model)
        self.prove(outbox._device)
        drive.leave()

    def check_release(self, files, model):
        """All must still be there, or nothing, and then create() can start over."""
        drive = Drive(self.twin, self.geometry[0], "/twin")
        files.check("/twin")
        port = Port(self.twin, self.geometry[2], is_outbox=True)
        try:
            device = pinned.open_blocks(port, "/twin/outbox", BOARD)
        except pinned.NotPinned:
            device = pinning.create(port, "/twin/outbox", 4, b"anew", BOARD)
        if len(device.blocks) == 7:
            model.check(self.mounted(device))
        else:
            self.mounted(device, make=True)
        self.prove(device)
        drive.leave()


def hunt(cuts, seed, every=7, opener=pinned.open_blocks, geometries=GEOMETRIES):
    """Run each geometry: that many cuts in the load, then each `every`-th operation of grow(),
    release() and create() in five ways.

    Returns (cuts, second cuts, most duplicates after one). Raises Violation, which names geometry
    and cut.
    """
    done = [0, 0, 0]
    for geometry in geometries:
        for changes in (False, True):
            one = Hunt(geometry, seed, opener=opener)
            try:
                one.hunt_changes(every * 4 if geometry[0] == 32 else every) if changes else one.run(
                    cuts
                )
            except Violation as fault:
                raise Violation(
                    fault.name,
                    "geometry %s seed %d changes %s cut %d: %s"
                    % (geometry, seed, changes, one.cuts, fault),
                )
            finally:
                leave_all()
            done = [
                done[0] + one.cuts,
                done[1] + one.second_cuts,
                max(done[2], one.most_duplicates),
            ]
    return tuple(done)


def leave_all():
    for place in ("/main", "/twin"):
        try:
            vfs.umount(place)
        except OSError:
            pass


def main(cuts, seed, every):
    print("CUTS %d %d %d" % hunt(cuts, seed, every))
