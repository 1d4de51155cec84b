"""Checks for an update: SHA-256 of files, the signature, the paths that it may write, and the
record of what `outpost flash` or the last update installed. Loaded as update_take.py is.

Allocation: as JSON and hashes do.
"""

import binascii
import hashlib
import json

from micropython import const

from station.command_note import replace
from station.update_start import FOLDER

RECORD_PATH = "outpost/installed.json"
LIST_PATH = FOLDER + "/list"
_HASHED_BLOCK_BYTES = const(64)
_ROOMS = ("outpost", "station", "support", "sensors")


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
    """True for the program's modules and main.py; not for settings, certificates, the outbox."""
    room, slash, name = path.rpartition("/")
    if path == "main.py" or (room == "sensors" and name.endswith(".py")):
        return True
    return (room in _ROOMS or not slash) and name.endswith(".mpy") and name != ".mpy"


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
