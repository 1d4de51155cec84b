"""Checks for an update: SHA-256 of files, the signature, the paths that it may write, and the
record of what `outpost flash` or the last update installed. Loaded as update_take.py is.

Allocation: as JSON and hashes do.
"""

import binascii
import hashlib
import json
import os

from micropython import const

from station.command_note import replace
from station.update_start import FOLDER

RECORD_PATH = "outpost/installed.json"
LIST_PATH = FOLDER + "/list"
_HASHED_BLOCK_BYTES = const(64)
_ROOMS = const(("outpost", "station", "support", "sensors"))
_IS_FOLDER = const(0x4000)  # in the mode of os.stat()


def digest_of(path, piece):
    """Returns the SHA-256 in hex; "" if there is no such file."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            count = file.readinto(piece)
            while count:
                digest.update(memoryview(piece)[:count])
                count = file.readinto(piece)
    except OSError:
        return ""
    return binascii.hexlify(digest.digest()).decode()


def signature_of(key, feed):
    """HMAC-SHA256 (RFC 2104), in hex. feed: callable, passes what is signed to the hash it gets."""
    key = key + bytes(_HASHED_BLOCK_BYTES - len(key))
    inner = hashlib.sha256(bytes([byte ^ 0x36 for byte in key]))
    feed(inner)
    outer = hashlib.sha256(bytes([byte ^ 0x5C for byte in key]))
    outer.update(inner.digest())
    return binascii.hexlify(outer.digest()).decode()


def is_ours_to_write(path):
    """True for the program's modules and main.py, and for modules in a folder of the library; not
    for settings, certificates, the outbox."""
    room, slash, name = path.rpartition("/")
    if path == "main.py" or (room == "sensors" and name.endswith(".py")):
        return True
    if room.startswith("outpost/"):
        is_ours = "." not in room and "/" not in room[len("outpost/") :] and room != "outpost/"
    else:
        is_ours = room in _ROOMS or not slash
    return is_ours and name.endswith(".mpy") and name != ".mpy"


def folders(room=""):
    """Returns the paths of all folders in that one, with theirs."""
    paths = [room + name for name in os.listdir(room or ".")]
    found = [path for path in paths if os.stat(path)[0] & _IS_FOLDER]
    return found + [path for one in found for path in folders(one + "/")]


def library_modules(folder="outpost"):
    """Returns the paths of all modules of the library, those in its folders included."""
    found = []
    for name in os.listdir(folder):
        path = folder + "/" + name
        if name.endswith((".py", ".mpy")):
            found.append(path)
        elif os.stat(path)[0] & _IS_FOLDER:
            found += library_modules(path)
    return found


def library_folders(is_removed=False):
    """Returns how many there are. is_removed: first remove those from which an update took the last
    module. Raises OSError."""
    count = 0
    for name in os.listdir("outpost"):
        path = "outpost/" + name
        if os.stat(path)[0] & _IS_FOLDER:
            if is_removed and not os.listdir(path):
                os.rmdir(path)  # on littlefs it would remove a file, too
            else:
                count += 1
    return count


def refuse_again():
    """An update was taken back: from now on, refuse it and those made before it."""
    record = read_record()
    try:
        with open(LIST_PATH) as file:
            made = int(file.readline().split()[5])
    except (OSError, ValueError, IndexError):
        return
    if record and made > record.get("made", 0):
        record["made"] = made
        replace(RECORD_PATH, json.dumps(record).encode())


def read_record():
    """Returns the record; {}: this board was not installed by `outpost flash`."""
    try:
        with open(RECORD_PATH) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
