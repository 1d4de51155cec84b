"""The part of an update that runs at a start, before anything else is imported: it puts the new
files in place, counts the starts on trial, and takes the files back. The page: UPDATES.md.

    update/phase    one line, replaced by a rename
        files ID WITHIN_S           the next start puts the files in place
        trial ID WITHIN_S STARTS    they are in place; the program has to prove itself
        back ID WHY                 the next start takes them back
        kept ID, failed ID WHY      decided; the program answers, and removes the folder
    update/plan     a line for each file: NUMBER KIND PATH
    update/N        the new file of line N, until it is in its place
    update/N.old    the file that it replaced

KIND: = replaces, + is new, - is only removed. A path may lie in a folder of the library, which is
made here; one that is empty then is removed when the update is decided. Each step is a rename, and
after a power cut the next start repeats the steps that it finds undone. The files that a start
needs to get here are at their paths at every moment: they are copied before they are replaced.

Must not import anything of the program. Allocation: a few kilobytes, at a start with an update.
"""

import os
import sys

from micropython import const

FOLDER = "update"
PLAN_PATH = FOLDER + "/plan"
_PHASE_PATH = FOLDER + "/phase"
_COPY_PATH = FOLDER + "/copy"
_NAMES = ("list", "list.new", "part", "plan", "plan.new", "phase", "phase.new", "copy")
_ENOENT = const(2)
_MOST_STARTS_ON_TRIAL = const(3)
_WATCHDOG_MS = const(8000)
_RESTART_STATUS = const(75)  # exit status of a desktop board: start it again
_COPY_BYTES = const(512)
_NEEDED_AT_START = ("main.py", "station/__init__.mpy", "station/update_start.mpy")


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
    return [name for name in names if name in _NAMES or name.replace(".old", "").isdigit()]


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
        for number, kind, path in _plan():
            _put(FOLDER + "/" + number, kind, path)
        write_phase("trial", name, within_s + " 0")
    except OSError as error:  # the flash is full: what was there is still there
        return _take_back(name, "the files cannot be put in place: " + str(error))
    _reset()


def _take_back(name, why):
    """If it fails, the next start continues."""
    write_phase("back", name, why)
    for number, kind, path in _plan():
        _put_back(FOLDER + "/" + number, kind, path)
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


def _put(staged, kind, path):
    old = staged + ".old"
    if kind != "+" and not there(old):
        if path in _NEEDED_AT_START:
            _copy(path, _COPY_PATH)
            os.rename(_COPY_PATH, old)
        else:
            os.rename(path, old)
    if kind != "-" and there(staged):
        folder = path.rpartition("/")[0]
        if "/" in folder and not there(folder):
            os.mkdir(folder)
        os.rename(staged, path)


def _put_back(staged, kind, path):
    if kind == "+":
        if not there(staged) and there(path):
            os.remove(path)
    elif there(staged + ".old"):
        os.rename(staged + ".old", path)


def _copy(source, target):
    piece = bytearray(_COPY_BYTES)
    with open(source, "rb") as from_file, open(target, "wb") as to_file:
        count = from_file.readinto(piece)
        while count:
            to_file.write(memoryview(piece)[:count])
            count = from_file.readinto(piece)


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
