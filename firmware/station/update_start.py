"""The part of an update that runs at a start, before anything else is imported: it puts the new
files in place, counts the starts on trial, and takes the files back. The page: UPDATES.md.

    update/phase    one line, replaced by a rename
        files ID WITHIN_S           the next start puts the files in place
        trial ID WITHIN_S STARTS    they are in place; the program has to prove itself
        back ID WHY                 the next start takes them back
        kept ID, failed ID WHY      decided; the program answers, and removes the folder
    update/plan     a line for each file: NUMBER KIND PATH
    update/new-K    packs of new files, until these are in their places
    update/old-K    packs of the files that they replaced, or that were removed
    update/N        the new file of line N by itself, until it is in its place
    update/N.old    the file that it replaced, where a firmware from before packs put it aside

KIND: = replaces, + is new, - is only removed. A path may lie in a folder of the library, which is
made here; one that is empty then is removed when the update is decided. A pack has for each file a
line NUMBER SIZE and its bytes: small files share blocks of the flash, and a pack is removed when
its files are in their places, so one firmware more fits. What is added to a pack is there whole or
not at all, a file comes to its path by a rename, and after a power cut the next start repeats the
steps that it finds undone. The files that a start needs to get here (`main.py`,
`station/__init__.mpy`, this one) are at their paths at every moment.

The new program's code carries out the old program's plan, and the old one's code takes it back: so
it also understands what a firmware from before packs leaves. A small file takes a block of 4,096
bytes for itself, in a pack it does not: 62 files of 130 KB take 76 blocks, and 32 in packs. A pack
has 16 KB at most. While the packs of old files grow, those of new ones go, so the flash needs room
for one firmware in packs and for one pack more.

**Why a power cut hurts nothing.** The writes of an update, in order:

  arriving   a file's parts into update/part; SHA-256; added to a pack, update/new-K. Before that a
             cut sends the file again; nothing of the program was touched.
  command    1 update/plan; 2 note: id, `update`; 3 phase `files`; reset. After 1 the server still
             has the command; after 2 the next start writes 3.
  start      4 for each file: the old one added to a pack, update/old-K; the new one copied and
             renamed to its place. A pack of new files is removed after its last one. After a cut
             the next start does the rest: an old file that is in a pack is not added again, and
             what was put in its place is put there once more.
             5 phase `trial`, 0 starts; reset. After 4 nothing is left to move.
  on trial   6 each start: phase `trial`, one more start; the watchdog. The start counts.
  connected  7 phase `kept`; 8 note: `pending`; 9 the answer in the outbox; 10 the files of update/
             are removed, the phase last. Each step is repeated as it is; the answer has one number
             (command_note.py).
  not in time, or the fourth start
             7 phase `back`; 8 the packs of new files are removed, then for each file: the old one
             copied and renamed to its place, this one last; 9 phase `failed`; reset; then as from 8
             of "connected". After a cut the next start does the rest.

`test_updatable.py` cuts the power at each change of a file, kept and taken back.
`test_update_start.py` runs 4 and 8 on a real littlefs under 32-bit MicroPython, and cuts them at
each program and erase in five ways, and once more in the start after that. `test_update_room.py`
updates every module on a littlefs as large as a Pico W's, beside the default outbox, and cuts
anywhere. `test_updatable_faults.py` lets the flash refuse each step, other commands arrive
meanwhile, and somebody send old lists and forged answers. `system/test_update.py` runs `outpost
update` over mosquitto on a board that runs its own `.mpy` files: good, crashing and mute firmware,
an interrupted transfer, a sleeping board. `test_rp2_update.py` does so on the emulated RP2040,
where the watchdog ends firmware that hangs at its import.

Must not import anything of the program. Allocation: a few kilobytes, at a start with an update.
"""

import os
import sys

from micropython import const

FOLDER = "update"
PLAN_PATH = FOLDER + "/plan"
_PHASE_PATH = FOLDER + "/phase"
_COPY_PATH = FOLDER + "/copy"
_SELF = const("station/update_start.mpy")
_NAMES = const(("list", "list.new", "part", "plan", "plan.new", "phase", "phase.new", "copy"))
_ENOENT = const(2)
_EIO = const(5)
_MOST_STARTS_ON_TRIAL = const(3)
_WATCHDOG_MS = const(8000)
_RESTART_STATUS = const(75)  # exit status of a desktop board: start it again
_COPY_BYTES = const(512)
_PACK_BYTES = const(16_384)
NEW, OLD = "new-", "old-"  # packs


def read_phase():
    """(kind, id, the rest); ("", "", "") where there is no update."""
    try:
        with open(_PHASE_PATH) as file:
            words = file.read().split(" ", 2)
    except (OSError, ValueError):  # none, or no text
        words = []
    return tuple((words + ["", "", ""])[:3])


def write_phase(kind, name, rest=""):
    """Raises OSError; then the phase is unchanged."""
    with open(_PHASE_PATH + ".new", "w") as file:
        file.write(kind + " " + name + " " + rest)
    os.rename(_PHASE_PATH + ".new", _PHASE_PATH)


def own_names():
    """Returns the names of an update's files in its folder, but not of a user's files."""
    try:
        names = os.listdir(FOLDER)
    except OSError:
        return []
    return [name for name in names if name in _NAMES or _number_in(name).isdigit()]


def _number_in(name):
    if name.startswith((NEW, OLD)):
        return name[len(NEW) :]
    return name.replace(".old", "")


def packs(kind):
    """Returns their paths, in the order in which they were made."""
    numbers = [int(name[len(kind) :]) for name in own_names() if name.startswith(kind)]
    return [FOLDER + "/" + kind + str(number) for number in sorted(numbers)]


def entries(pack):
    """Returns [number of the line, where its bytes begin, how many they are] of each file."""
    found, at, end = [], 0, os.stat(pack)[6]
    with open(pack, "rb") as file:
        while at < end:
            file.seek(at)
            line = file.readline()
            number, size = line.decode().split()
            at += len(line) + int(size)
            if at <= end:  # else the filesystem kept a part of what could not be added
                found.append((number, at - int(size), int(size)))
    return found


def numbers_in(kind):
    """Returns those of all files in packs of this kind."""
    return [number for pack in packs(kind) for number, _, _ in entries(pack)]


def add(kind, number, path):
    """Add a file to the last pack, or to a new one. Raises OSError; then it is in none."""
    size, known = os.stat(path)[6], packs(kind)
    pack = known[-1] if known else FOLDER + "/" + kind + "0"
    if known and os.stat(pack)[6] + size > _PACK_BYTES:
        pack = FOLDER + "/" + kind + str(int(_number_in(pack[len(FOLDER) + 1 :])) + 1)
    with open(path, "rb") as file, open(pack, "ab") as target:
        target.write(("%s %d\n" % (number, size)).encode())
        _copy(file, target, size)


def give_up(why):
    """True when an update is on trial: the next start takes it back. Raises OSError."""
    kind, name, _ = read_phase()
    if kind == "trial":
        write_phase("back", name, why)
    return kind == "trial"


def there(path):
    try:
        os.stat(path)
        return True
    except OSError:
        return False


def start():
    """True: the program runs on trial. Ends in a reset if files were moved."""
    kind, name, rest = read_phase()
    if kind == "files":
        _put_in_place(name, rest)
    elif kind == "trial":
        _watch()
        return _count(name, *rest.split(" "))
    elif kind == "back":
        _take_back(name, rest)
    return False


def _count(name, within_s, starts):
    if int(starts) >= _MOST_STARTS_ON_TRIAL:
        return _take_back(name, "no connection in " + starts + " starts")
    try:
        write_phase("trial", name, within_s + " " + str(int(starts) + 1))
    except OSError as error:  # uncounted, a trial would have no end
        return _take_back(name, "the start cannot be counted: " + str(error))
    return True


def _put_in_place(name, within_s):
    try:
        plan = _plan()
        saved = numbers_in(OLD)
        _unpack(plan, saved)
        for number, kind, path in plan:
            _put(number, kind, path, saved)
        write_phase("trial", name, within_s + " 0")
    except OSError as error:  # the flash is full: what was there is still there
        return _take_back(name, "the files cannot be put in place: " + str(error))
    _reset()


def _take_back(name, why):
    """If it fails, the next start continues: until all other files are back, with this module."""
    write_phase("back", name, why)
    plan = _plan()
    for pack in packs(NEW):
        os.remove(pack)
    _put_back([line for line in plan if line[2] != _SELF])
    _put_back([line for line in plan if line[2] == _SELF])
    write_phase("failed", name, why)
    _reset()


def _plan():
    try:
        with open(PLAN_PATH) as file:
            return [line.split(" ", 2) for line in file.read().split("\n") if line]
    except OSError as error:
        if error.args[0] != _ENOENT:
            raise
        return []  # removed by cable: nothing was moved, or all is settled there


def _unpack(plan, saved):
    """Put the files of each pack in place, then remove it."""
    lines = {number: (kind, path) for number, kind, path in plan}
    for pack in packs(NEW):
        for number, at, size in entries(pack):
            if number in lines:
                kind, path = lines[number]
                _save(number, kind, path, saved)
                _place(pack, at, size, path)
        os.remove(pack)


def _save(number, kind, path, saved):
    """Add what is at the path to the packs of old files, once."""
    if kind != "+" and number not in saved and there(path):
        add(OLD, number, path)


def _place(pack, at, size, path):
    with open(pack, "rb") as file, open(_COPY_PATH, "wb") as target:
        file.seek(at)
        _copy(file, target, size)
    _rename(_COPY_PATH, path)


def _rename(source, path):
    folder = path.rpartition("/")[0]
    if folder and not there(folder):
        os.mkdir(folder)
    os.rename(source, path)


def _put(number, kind, path, saved):
    """What is in no pack: a file by itself, or one to remove."""
    staged = FOLDER + "/" + number
    if kind == "-":
        _save(number, kind, path, saved)
        if there(path):
            os.remove(path)
    elif there(staged):
        _save(number, kind, path, saved)
        _rename(staged, path)


def _put_back(lines):
    paths = {number: path for number, _, path in lines}
    for pack in packs(OLD):
        for number, at, size in entries(pack):
            if number in paths:
                _place(pack, at, size, paths[number])
    for number, kind, path in lines:
        staged = FOLDER + "/" + number
        if there(staged + ".old"):
            os.rename(staged + ".old", path)
        elif kind == "+" and not there(staged) and there(path):
            os.remove(path)


def _copy(source, target, size):
    piece = memoryview(bytearray(_COPY_BYTES))
    while size:
        count = source.readinto(piece[: min(size, _COPY_BYTES)])
        if not count:
            raise OSError(_EIO)
        target.write(piece[:count])
        size -= count


def _watch():
    """A program that does not reach its loop, which feeds the watchdog, is a failed start."""
    try:
        from machine import WDT  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:  # the desktop
        return
    WDT(timeout=_WATCHDOG_MS)


def _reset():
    try:
        from machine import reset  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:  # the desktop
        sys.exit(_RESTART_STATUS)
    reset()
