"""Takes the files of an update as they arrive, and makes the plan that a start carries out. Loaded
only while an update arrives. UPDATE_FORMAT.md describes the messages.

    update/list     the files that the firmware is to have, and the signature; checked
    update/part     the file that is arriving
    update/new-K    packs of the files that are whole, their SHA-256 checked: update_start.py

Nothing here replaces a file of the program. Each message may arrive twice, or not at all: the
answer to the next question says what is missing. Allocation: a few kilobytes while an update
arrives.
"""

import binascii
import hashlib
import json
import os
import sys

from micropython import const

from station.command_note import replace
from station.update_record import (
    LIST_PATH,
    RECORD_PATH,
    digest_of,
    folders,
    is_ours_to_write,
    library_folders,
    library_modules,
    read_record,
    signature_of,
)
from station.update_start import (
    FOLDER,
    NEW,
    PLAN_PATH,
    add,
    numbers_in,
    own_names,
    packs,
    there,
)

_PART_PATH = FOLDER + "/part"
_FORM = const(2)  # of lists: for firmware that takes packs back
_TITLE = const("outpost-update")
_MOST_LIST_BYTES = const(24_576)
_MOST_FILES = const(250)
_TAG_DIGITS = const(8)
_MOST_WHY = const(100)
_SIGNATURE_BYTES = const(65)  # 64 hex digits and the end of the line
_PIECE_BYTES = const(512)
_FLASH_BLOCK_BYTES = const(4096)
_UPDATE_SPARE_BLOCKS = const(14)  # a pack and a file twice for a moment; what littlefs needs
_FOLDER_BLOCKS = const(2)


def _blocks(size):
    return (size + _FLASH_BLOCK_BYTES - 1) // _FLASH_BLOCK_BYTES


def _packed():
    """Returns the bytes in packs that have arrived."""
    return sum([os.stat(pack)[6] for pack in packs(NEW)])


class Taking:
    """key: for signatures. feed: callable, feeds the watchdog; hashing all files takes seconds.

    why: what is wrong with the update; "": nothing.
    """

    def __init__(self, key, device, feed):
        self._key, self._device, self._feed = key, device, feed
        self._piece = bytearray(_PIECE_BYTES)
        self._tag = ""  # of the list that is here and checked: first digits of its signature
        self._made = 0  # when the list was made, seconds since 1970
        self._need = bytearray()  # for each line: 1, the file must still arrive
        self._file = None  # the file that is being written: the list, or one of its files
        self._arriving = ""  # its name: "list", or the file's number
        self._at = self._size = 0  # bytes of it that have arrived, and the size of a file
        self._wanted = ""  # SHA-256 that a file must have
        self._digest = None
        self._record = {}  # what `outpost flash`, or the last update, wrote here
        self.why = ""
        if not there(FOLDER):
            os.mkdir(FOLDER)
        if there(LIST_PATH):
            try:
                self._check(LIST_PATH, "")
            except (OSError, ValueError):  # damaged
                self._tag = ""
            if not self._tag:  # or of another key, or older than what was installed by cable since
                self.forget()

    # --- Messages ---

    def take(self, data):
        """Take one message. Returns its answer, or None. Raises ValueError if it is not one."""
        head, _, body = data.partition(b"\n")
        _, tag, what, *numbers = head.decode().split(" ")
        numbers = [int(number) for number in numbers]
        try:
            if what == "list":
                self._take_list(tag, numbers[0], numbers[1], body)
            elif what == "file":
                self._take_file(tag, numbers[0], numbers[1], body)
            elif what == "ask":
                return self._answer(tag, numbers[0])
        except OSError as error:
            self._close()
            self.why = "flash: " + str(error)
        return None

    def _answer(self, tag, asked):
        """Signed, because the sender relies on it. made: of the list that is here, for a sender
        that continues with it."""
        record = self._record or read_record()
        found = {
            "update": tag, "asked": asked, "mpy": getattr(sys.implementation, "_mpy", 0),
            "board": record.get("board", ""), "version": record.get("version", ""),
            "installed": record.get("made", 0), "list": self._tag, "made": self._made,
            "rooms": library_folders(), "form": _FORM,  # a list may name such, and has this form
        }  # fmt: skip
        if self.why:
            found["why"] = self.why[:_MOST_WHY]
        elif tag != self._tag:
            found["need"] = "list"
        else:
            found["need"] = binascii.hexlify(bytes(self._bits())).decode()
        text = json.dumps(found)
        signature = signature_of(self._key, lambda digest: digest.update(text.encode()))
        if self.why:  # reported once; the next attempt starts over
            self.forget()
        return (text + "\n" + signature).encode()

    def _bits(self):
        """The files that must still arrive: line 0 is the lowest bit of the first byte."""
        bits = bytearray((len(self._need) + 7) // 8)
        for number, is_needed in enumerate(self._need):
            bits[number >> 3] |= is_needed << (number & 7)
        return bits

    # --- The list ---

    def _take_list(self, tag, offset, size, body):
        if tag == self._tag and not self.why:
            return
        if not offset:
            self.forget()
            self._open("list", LIST_PATH + ".new")
        if not self._goes_on("list", offset) or not 0 < size <= _MOST_LIST_BYTES:
            return
        self._write(body)
        if self._at >= size:
            self._close()
            self._check(LIST_PATH + ".new", tag)

    def _check(self, path, tag):
        """Check a whole list. tag: as sent by the sender; "": the list was checked before."""
        self.why = ""
        length = os.stat(path)[6] - _SIGNATURE_BYTES
        signature = self._signed(path, length) if length > 0 else ""
        if not signature or (tag and signature[: len(tag)] != tag):
            self.why = "the list is not signed with this board's update_key"
            os.remove(path)
            return
        self._record = read_record()
        with open(path) as file:
            self.why = self._head_fault(file.readline())
        if not self.why:
            os.rename(path, LIST_PATH)
            self._tag = signature[:_TAG_DIGITS]
            self.why = self._look(length)

    def _signed(self, path, length):
        """Returns the signature at its end; "" if it is wrong."""
        with open(path, "rb") as file:
            file.seek(length)
            found = file.read(_SIGNATURE_BYTES - 1).decode()
        return found if found == signature_of(self._key, self._list_of(path, length)) else ""

    def _list_of(self, path, length):
        def feed(digest):
            left = length
            with open(path, "rb") as file:
                while left:
                    count = file.readinto(memoryview(self._piece)[: min(left, len(self._piece))])
                    digest.update(memoryview(self._piece)[:count])
                    left -= count

        return feed

    def _head_fault(self, line):
        """Check FORM DEVICE BOARD VERSION MADE_S. Returns "" or what is wrong."""
        words = line.split()
        if words[:2] != [_TITLE, str(_FORM)] or len(words) != 6:
            return "the list has another form; update this board by cable once"
        if not self._record:
            return "this board was not installed by `outpost flash`; do that once"
        if words[2] != self._device:
            return "the list is for the board " + words[2]
        if words[3] != self._record.get("board"):
            return "the list is for a " + words[3]
        self._made = int(words[5])
        if self._made <= self._record.get("made", 0):
            return "an update that was made later is installed"
        return ""

    def _entries(self):
        """Yields (number, SHA-256, size, flag, path) of each line."""
        with open(LIST_PATH) as file:
            file.readline()
            number = 0
            line = file.readline().split()
            while len(line) == 4:
                yield number, line[0], int(line[1]), line[2], line[3]
                number += 1
                line = file.readline().split()

    def _look(self, length):
        """Find out which files must arrive. Returns "" or what is wrong."""
        self._need, rooms = bytearray(), set()
        arrived = numbers_in(NEW)
        new, old, blocks = 0, 0, _UPDATE_SPARE_BLOCKS  # bytes in packs, then blocks besides them
        for number, digest, size, flag, path in self._entries():
            self._feed()
            present = digest_of(path, self._piece)
            if not is_ours_to_write(path) or number >= _MOST_FILES:
                return path + " is nothing that an update may write"
            is_new = self._is_wanted(flag, path, present) and present != digest
            if is_new and self._is_users(path, present):
                return path + " on this board is not Outpost's; update it by cable"
            self._need.append(is_new and str(number) not in arrived)
            if is_new:
                found = os.stat(path)[6] if present else 0
                old += found
                new += size if self._need[-1] else 0
                blocks += max(_blocks(size) - _blocks(found), 0)
                rooms.add(path.rpartition("/")[0])
        blocks += sum([_FOLDER_BLOCKS for room in rooms if "/" in room and not there(room)])
        return self._room_fault(blocks + _blocks(max(new, old - _packed())))

    def _room_fault(self, blocks):
        if not hasattr(os, "statvfs"):
            return ""
        found = os.statvfs(FOLDER)
        free = found[0] * found[3] // _FLASH_BLOCK_BYTES
        free += _FOLDER_BLOCKS * len(folders())  # MicroPython counts those of a folder twice
        if free >= blocks:
            return ""
        return "%d blocks of flash are free, and the update needs %d" % (free, blocks)

    def _is_wanted(self, flag, path, present):
        """True, unless flag is ?: then only if the file is there already, and is Outpost's; a
        module of the library may be in another folder of it."""
        if flag != "?":
            return True
        if path.startswith("outpost/"):
            name = path[path.rfind("/") :]
            return bool(present) or any([one.endswith(name) for one in library_modules()])
        return bool(present) and self._is_known(path, present)

    def _is_users(self, path, present):
        """True when a user's file would be replaced, or is a source that hides the new module."""
        if path.startswith("outpost/"):
            return False
        source = path[:-4] + ".py"
        if path.endswith(".mpy") and there(source) and not self._is_known(source, ""):
            return True
        return bool(present) and not self._is_known(path, present)

    def _is_known(self, path, present):
        if "/" in path:
            return "/" + path in self._record.get("modules", ())
        return present in self._record.get("files", {}).get("/" + path, ())

    # --- A file ---

    def _take_file(self, tag, number, offset, body):
        if tag != self._tag or self.why or number >= len(self._need) or not self._need[number]:
            return
        if not offset:
            self._open(str(number), _PART_PATH)
            self._wanted, self._size = self._entry(number)
        if not self._goes_on(str(number), offset):
            return
        self._write(body)
        if self._at < self._size:
            return
        found = binascii.hexlify(self._digest.digest()).decode()
        self._close()
        if found == self._wanted:
            add(NEW, str(number), _PART_PATH)
            self._need[number] = 0

    def _entry(self, number):
        """Returns SHA-256 and size of the file on that line."""
        with open(LIST_PATH) as file:
            for _ in range(number + 1):
                file.readline()
            digest, size = file.readline().split()[:2]
            return digest, int(size)

    def _open(self, arriving, path):
        self._close()
        self._file, self._arriving, self._at = open(path, "wb"), arriving, 0
        self._digest = hashlib.sha256()

    def _goes_on(self, arriving, offset):
        return self._file is not None and self._arriving == arriving and self._at == offset

    def _write(self, body):
        self._file.write(body)
        self._digest.update(body)
        self._at += len(body)

    def _close(self):
        if self._file is not None:
            self._file.close()
        self._file = None

    def forget(self):
        """Remove all that arrived. What cannot be removed is overwritten by the next update."""
        self._close()
        self._tag, self._made, self._need, self.why = "", 0, bytearray(), ""
        for name in own_names():
            self._feed()
            try:
                os.remove(FOLDER + "/" + name)
            except OSError:
                pass

    # --- The plan ---

    def plan(self, tag):
        """Write the plan. "" or why not; None: all is there, and what arrived is removed."""
        self._close()
        if self.why:
            return self.why
        if not tag or tag != self._tag:
            return "this update is not on the board"
        if any(self._need):
            return "%d files of this update are missing" % sum(self._need)
        lines = self._changes()
        if not lines:
            self.forget()
            return None
        lines.insert(0, self._new_record(len(self._need)))
        replace(PLAN_PATH, ("\n".join(lines) + "\n").encode())
        return ""

    def _changes(self):
        """Returns a line for each file that changes, and for each that is removed."""
        lines, wanted = [], set()
        for number, digest, _, flag, path in self._entries():
            self._feed()
            wanted.add(path)
            present = digest_of(path, self._piece)
            if self._is_wanted(flag, path, present) and present != digest:
                lines.append("%d %s %s" % (number, "=" if present else "+", path))
        number = len(self._need) + 1  # the record's number is between
        for path in self._stale(wanted):
            lines.append("%d - %s" % (number, path))
            number += 1
        return lines

    def _stale(self, wanted):
        """Returns our files that are no longer needed. Sensor drivers stay."""
        modules = [path[1:] for path in self._record.get("modules", ())]
        found = library_modules()
        found += [path for path in modules if not path.startswith("sensors/") and there(path)]
        return [path for path in found if path not in wanted]

    def _new_record(self, number):
        """Write installed.json for the next `outpost flash`. Returns its line of the plan."""
        record = self._record
        with open(LIST_PATH) as file:
            words = file.readline().split()
        record["version"], record["made"] = words[4], int(words[5])
        files, modules = record.setdefault("files", {}), set(record.get("modules", ()))
        for _, digest, _, flag, path in self._entries():
            if "/" not in path:
                present = digest_of(path, self._piece)
                files["/" + path] = [one for one in (present, digest) if one]  # a cut leaves either
            elif flag != "?" and not path.startswith("outpost/"):
                modules.add("/" + path)
        record["modules"] = sorted(modules)
        with open(FOLDER + "/" + str(number), "w") as file:
            json.dump(record, file)
        return "%d = %s" % (number, RECORD_PATH)
