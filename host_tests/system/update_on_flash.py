"""An update of every module on a flash as a Pico W has it: littlefs of 212 blocks, 64 of them the
outbox's. MicroPython only.

    micropython update_on_flash.py FOLDER CUTS SEED

FOLDER holds old/ and new/, the files of the program before and after, and list, the signed list of
the new ones. The board's own modules take the messages, put the files in place and take them back.
The power goes CUTS times, each in a run of its own, at any write or erase between the first message
and the end. Prints what came of it as JSON.
"""

import json
import os
import random
import sys

from pinned_nor import Chip, Port
from station import update_start
from station.updatable import UpdatableCommands
from station.update_take import Taking

BLOCKS = 212
OUTBOX_BLOCKS = 64
OPTIONS = {"progsize": 256}
MODES = ("nothing", "all", "first", "last", "random")
PART_BYTES = 460
KEY, DEVICE = bytes(range(32)), "board-1"
RECORD = "outpost/installed.json"
_FOLDER = 0x4000


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tree(folder):
    """{path below the folder: bytes}."""
    found, todo = {}, [""]
    while todo:
        room = todo.pop()
        for name in os.listdir(folder + "/" + room):
            path = room + name
            if os.stat(folder + "/" + path)[0] & _FOLDER:
                todo.append(path + "/")
            else:
                found[path] = read(folder + "/" + path)
    return found


def put(path, data):
    at = path.find("/")
    while at >= 0:
        try:
            os.mkdir(path[:at])
        except OSError:
            pass
        at = path.find("/", at + 1)
    with open(path, "wb") as file:
        file.write(data)


class Mounted:
    def __init__(self, chip):
        self.chip = chip

    def __enter__(self):
        os.mount(os.VfsLfs2(Port(self.chip), **OPTIONS), "/u")
        os.chdir("/u")

    def __exit__(self, *unused):
        os.chdir("/")
        os.umount("/u")


def installed(old):
    chip = Chip(BLOCKS)
    os.VfsLfs2.mkfs(Port(chip), **OPTIONS)
    with Mounted(chip):
        for path in old:
            put(path, old[path])
        for number in range(OUTBOX_BLOCKS):
            put(f"outbox/b{number:03d}", bytes(4096))
        put("outbox/map", bytes(300))
    return chip


class Tidying(UpdatableCommands):
    """What the program does with the folder of a decided update."""

    def __init__(self):
        self.work = 32

    def run(self):
        while self.work:
            self._tidy()


class Run:
    """One update, started again after each cut. is_good: the program connects."""

    def __init__(self, chip, new, text, is_good):
        self.chip, self.new, self.text, self.is_good = chip, new, text, is_good
        self.paths = [line.split(" ")[3] for line in text.decode().split("\n")[1:-2]]
        self.tag = text[-65:-57].decode()
        self.free = BLOCKS

    def live(self):
        """One life of the board. Returns "" or how the update ended."""
        kind = update_start.read_phase()[0]
        if kind in ("files", "trial", "back"):
            try:
                update_start.start()
            except SystemExit:
                return ""
        if kind == "trial":
            self.note_free()
            if self.is_good:
                update_start.write_phase("kept", "u-1")
            else:
                update_start.give_up("no connection")
            return ""
        if kind in ("kept", "failed"):
            Tidying().run()
            return kind
        return self.bring()

    def bring(self):
        taking = Taking(KEY, DEVICE, lambda: None)
        self.send(taking, "list", self.text, True)
        for _ in range(2):
            answer = taking.take(b"update %s ask 1" % self.tag)
            if answer is None:
                return taking.why
            answer = json.loads(answer.split(b"\n")[0])
            if "why" in answer:
                return answer["why"]
            need = answer["need"]
            bits = [int(need[at : at + 2], 16) for at in range(0, len(need), 2)]
            for number, path in enumerate(self.paths):
                if bits[number >> 3] >> (number & 7) & 1:
                    self.send(taking, f"file {number}", self.new[path], False)
        self.note_free()
        fault = taking.plan(self.tag)
        if fault is None:
            return "kept"
        if fault:
            return fault
        update_start.write_phase("files", "u-1", "300")
        return ""

    def send(self, taking, what, data, is_list):
        for at in range(0, max(len(data), 1), PART_BYTES):
            head = f"update {self.tag} {what} {at}"
            if is_list:
                head += f" {len(data)}"
            taking.take(head.encode() + b"\n" + data[at : at + PART_BYTES])

    def note_free(self):
        found = os.statvfs("/u")
        self.free = min(self.free, found[3])

    def until_done(self):
        """Lives, however often the power goes."""
        lives = 0
        while True:
            lives += 1
            if lives > 60:
                raise ValueError("it does not end")
            self.chip.is_off = False
            try:
                with Mounted(self.chip):
                    ended = self.live()
            except OSError:
                if not self.chip.is_off:
                    raise
                ended = ""
            if ended and not self.chip.is_off:
                return ended


def program(old, new):
    """ "old" or "new", whichever is there whole."""
    found = tree("/u")
    outbox = [path for path in found if path.startswith("outbox/b")]
    if len(outbox) != OUTBOX_BLOCKS:
        return "an outbox that lost files"
    for name, files in (("old", old), ("new", new)):
        if all([found.get(path) == files[path] for path in files if path != RECORD]):
            known = list(files) + [RECORD]
            extra = [path for path in found if path not in known and "outbox/" not in path]
            return name if not extra else "more: " + ", ".join(extra)
    return "neither"


def count(chip, run):
    """Operations of a run that nothing interrupts, and how it ended."""
    operations = [0]

    def add():
        operations[0] += 1

    chip.on_operation = add
    ended = run.until_done()
    chip.on_operation = None
    return operations[0], ended


def main(folder, cuts, seed):
    old, new, text = tree(folder + "/old"), tree(folder + "/new"), read(folder + "/list")
    first = installed(old)
    with Mounted(first):
        found = os.statvfs("/u")[3]
    told = {"free": found, "ends": {}}
    totals = {}
    for is_good in (True, False):
        chip = Chip(BLOCKS, first.image)
        run = Run(chip, new, text, is_good)
        totals[is_good], told["ended"] = count(chip, run)
        told["least"] = min(told.get("least", BLOCKS), run.free)
        if told["ended"] not in ("kept", "failed"):
            break
    random.seed(seed)
    for number in range(cuts if len(totals) == 2 else 0):
        is_good = number % 3 > 0
        chip.set_image(first.image)
        chip.cut_at = 1 + random.getrandbits(20) % totals[is_good]
        chip.cut_mode = MODES[number % len(MODES)]
        at = chip.cut_at
        ended = Run(chip, new, text, is_good).until_done()
        with Mounted(chip):
            there = program(old, new)
        result = f"{ended}: {there}"
        if ("kept" == ended) != (there == "new") or (there != "new" and there != "old"):
            result += f", cut in operation {at} of {totals[is_good]}"
        told["ends"][result] = told["ends"].get(result, 0) + 1
    told["operations"] = [totals[key] for key in (True, False) if key in totals]
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
