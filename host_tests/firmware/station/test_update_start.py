# micropython-only: CPython has no VfsLfs2
"""The files of an update on a real littlefs, the power cut at each of its writes and erases: every
start has a main.py and what it imports, and in the end one firmware or the other is there whole.
"""

import os
import unittest

from pinned_nor import Chip, Port
from station import update_start

BLOCKS = 64
MODES = ("nothing", "all", "first", "last", "random")
OPTIONS = {"progsize": 256}
OLD = {
    "main.py": b"old main " * 700,
    "outpost/client.mpy": b"old client " * 500,
    "outpost/old/gone.mpy": b"of no more use",
    "station/__init__.mpy": b"old",
    "station/update_start.mpy": b"old start " * 100,
}
NEW = {
    "main.py": b"new main " * 500,
    "outpost/client.mpy": b"new client " * 800,
    "outpost/room/more.mpy": b"a new module",
    "station/__init__.mpy": b"old",
    "station/update_start.mpy": b"new start " * 100,
}
PLAN = (
    "0 = outpost/client.mpy\n1 + outpost/room/more.mpy\n2 = station/update_start.mpy\n3 = main.py\n"
    "4 - outpost/old/gone.mpy\n"
)
NEEDED = ("main.py", "station/__init__.mpy", "station/update_start.mpy")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def files():
    """{path: bytes} of the program."""
    found = {"main.py": read("main.py")}
    folders = ["outpost", "station"]
    for folder in folders:
        for name in os.listdir(folder):
            path = folder + "/" + name
            if os.stat(path)[0] & 0x4000:
                folders.append(path)
            else:
                found[path] = read(path)
    return found


class Mounted:
    """The chip's filesystem, as after power on. cut_at: the operation in which the power goes."""

    def __init__(self, chip, cut_at=0, mode="nothing"):
        self.chip, self._cut_at = chip, cut_at
        chip.is_off, chip.cut_at, chip.cut_mode = False, 0, mode

    def __enter__(self):
        os.mount(os.VfsLfs2(Port(self.chip), **OPTIONS), "/u")
        os.chdir("/u")
        self.chip.cut_at = self._cut_at
        return self

    def __exit__(self, *unused):
        os.chdir("/")
        os.umount("/u")


def made():
    """A chip with the old program, and the new files where an update has put them."""
    chip = Chip(BLOCKS)
    os.VfsLfs2.mkfs(Port(chip), **OPTIONS)
    with Mounted(chip):
        for room in ("outpost", "outpost/old", "station", "update"):
            os.mkdir(room)
        for path in OLD:
            write(path, OLD[path])
        for line in PLAN.split("\n")[:4]:
            number, _, path = line.split(" ")
            write("update/" + number, NEW[path])
            if number != "3":  # one by itself, as a firmware from before packs has them
                update_start.add(update_start.NEW, number, "update/" + number)
                os.remove("update/" + number)
        write("update/plan", PLAN.encode())
        update_start.write_phase("files", "u-1", "300")
    return chip


def start():
    """True when it moved files and then asked for a reset."""
    try:
        update_start.start()
    except SystemExit:
        return True
    return False


class TestUpdateStart(unittest.TestCase):
    def test_put_in_place_and_taken_back(self):
        chip = made()
        with Mounted(chip):
            self.assertTrue(start())
            self.assertEqual(files(), NEW)
            for starts in ("1", "2", "3"):
                self.assertEqual(start(), False)
                self.assertEqual(update_start.read_phase(), ("trial", "u-1", "300 " + starts))
            self.assertTrue(start())
            self.assertEqual(files(), OLD)
            said = ("failed", "u-1", "no connection in 3 starts")
            self.assertEqual(update_start.read_phase(), said)
            self.assertEqual(start(), False)

    def test_a_cut_at_any_operation(self):
        chip = made()
        self._hunt(chip.image, NEW, "trial")
        with Mounted(chip):
            start()
            update_start.write_phase("back", "u-1", "why")
        self._hunt(chip.image, OLD, "failed")

    def _hunt(self, image, wanted, kind):
        """Cut at each operation in each way, and once more on the way of the next start."""
        cuts = cut_at = 0
        is_cut = True
        while is_cut:
            cut_at += 1
            for mode in MODES:
                chip = Chip(BLOCKS, image)
                is_cut = self._start_with_cut(chip, cut_at, mode)
                cuts += is_cut + self._start_with_cut(chip, 1 + cut_at // 3, mode)
                self._look(chip)
                with Mounted(chip):
                    while update_start.read_phase()[0] != kind:
                        self.assertTrue(start())
                    self.assertEqual(files(), wanted)
        print("%s: %d operations, %d cuts" % (kind, cut_at - 1, cuts))
        self.assertTrue(cut_at > 10)

    def _start_with_cut(self, chip, cut_at, mode):
        """False: it had fewer operations."""
        try:
            with Mounted(chip, cut_at, mode):
                start()
        except OSError:
            pass
        return chip.is_off

    def _look(self, chip):
        """What a start needs before it comes to its first line of update_start.py."""
        with Mounted(chip):
            for path in NEEDED:
                self.assertTrue(read(path) in (OLD[path], NEW[path]), path)


if __name__ == "__main__":
    unittest.main()
