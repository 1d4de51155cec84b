"""Keeps a board's commands across a reset, in one small file that is replaced as a whole.

    crc:8 hex digits   of all that follows
    [at, doing, pending]   JSON, one line
    ring               64 entries of 8 bytes: the commands taken last

An entry is the CRC-30 of a command's id, and the CRC-30 of its bytes with the result in the two
upper bits. `doing` is a command that ends after a reset, [kind, id, ...], see `commands.py`.
`pending` is an answer and its number in the outbox, which shows after a cut if it is stored.

The file is replaced by a rename, which littlefs does whole or not at all: a power cut leaves the
old note or the new one. A file that does not fit its CRC counts as none. Allocation: bounded by the
file.

**Done once and answered once.** Four things survive a reset: the outbox, `settings.json`,
`trial.json` and the note. A record of the outbox is whole or absent too, so a power cut falls
between two of these writes, never inside one (N: the outbox's next number):

  report, stay_awake, refused
      1 note: id, `pending` N; 2 outbox: the answer (of report: with the readings) as message N.
      Before 1 nothing was done, and the server still has the command. After 1 the next start sees
      that the next number is still N, and stores the answer. After 2 it is above N, so the answer
      is stored; readings that did not fit into it may be lost.
  restart
      1 note: id, `doing`; 2 note: `pending` N, no `doing`; 3 outbox. Whatever ends this run counts
      as the restart; the next start continues with 2.
  set interval_ms
      1 trial.json; 2 note: id, `adopt`; 3 rename to settings.json; 4 note: `pending` N; 5 outbox.
      After 1 nothing points to the file; after 2 the next start renames it; after 3 nothing is left
      to rename.
  set with held
      1 trial.json; 2 note: id, `drain`; 3 note: `trial` (then as below), or `pending` N and 4
      outbox: refused. After 2 the next start answers "refused".
  set, other keys
      1 trial.json; 2 note: id, `trial`; reset; each start: note, one start more; 3 note: `adopt`
      (then as above), or `failed`, also after three starts: the board starts with the old settings
      and answers. Each step is repeated as it is.

Two rules make this safe. The command is acknowledged only after its first note: before that, the
server repeats it; afterwards, its id is known. And nothing but the answer takes number N: while an
answer waits, the board stores no measurement and takes no other command. Numbers are never reused,
so comparing them tells whether the answer is stored.

A repeated command with DUP comes from the server, and is acknowledged silently. One without DUP
comes from the sender, who is asking for the result. That also covers a broker that was killed and
lost the command.

`test_commands.py` cuts the power at each change of a file, awake and asleep, and at each flash
operation in five ways, and compares with the run without a cut. `make commands`: each reset must be
one that a command asked for, and each command must be done once.
"""

import json
import os
import struct

from micropython import const

from outpost.checksum import crc30

_ENTRIES = const(64)
_RING_ENTRY_BYTES = const(8)
_CRC_BYTES = const(8)
_KEY_BITS = const(30)
_KEY_MASK = const(0x3FFFFFFF)
NOTE_PATH = "commands.bin"
SETTINGS_PATH = "settings.json"
TRIAL_PATH = "trial.json"
_UNKNOWN = const(-1)
_OTHER = const(-2)


def crc_of(data):
    return crc30(0, data, 0, len(data))


def read(path):
    """Returns the file's bytes; None if it does not exist."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def replace(path, data):
    """Replace the file's content by data. Raises OSError, and the file has what it had."""
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


class Note:
    """doing, pending: lists, or None. ring: see above; `at` is the entry that is used next."""

    def __init__(self, path):
        self._path = path
        self.ring = bytearray(_ENTRIES * _RING_ENTRY_BYTES)
        self.load()

    def load(self):
        """Read the note from flash."""
        self.at, self.doing, self.pending = 0, None, None
        self.ring[:] = bytes(len(self.ring))
        data = read(self._path) or b""
        head = data[_CRC_BYTES : -len(self.ring) - 1]
        try:
            if int(data[:_CRC_BYTES].decode(), 16) == crc_of(data[_CRC_BYTES:]):
                self.at, self.doing, self.pending = json.loads(head)
                self.ring[:] = data[-len(self.ring) :]
        except (ValueError, TypeError):  # none, or damaged
            pass

    def save(self):
        """Write the note. Raises OSError, and flash has the old one."""
        head = json.dumps([self.at, self.doing, self.pending]).encode()
        body = head + b"\n" + self.ring
        replace(self._path, b"%08x" % crc_of(body) + body)

    def find(self, command_id, content):
        """Returns the result of this command; -1: not known; -2: the id is another command's."""
        found = _UNKNOWN
        for at in range(0, len(self.ring), _RING_ENTRY_BYTES):
            key, word = struct.unpack_from("<II", self.ring, at)
            if key == self._key(command_id):
                if word & _KEY_MASK == content:
                    return word >> _KEY_BITS
                found = _OTHER
        return found

    def add(self, command_id, content, result):
        at = self.at * _RING_ENTRY_BYTES
        word = content | result << _KEY_BITS
        struct.pack_into("<II", self.ring, at, self._key(command_id), word)
        self.at = (self.at + 1) % _ENTRIES

    def set_result(self, command_id, result):
        """Set the result of the entry that was added last with this id."""
        for back in range(1, _ENTRIES + 1):
            at = (self.at - back) % _ENTRIES * _RING_ENTRY_BYTES
            key, word = struct.unpack_from("<II", self.ring, at)
            if key == self._key(command_id):
                word = word & _KEY_MASK | result << _KEY_BITS
                struct.pack_into("<I", self.ring, at + 4, word)
                return

    def _key(self, command_id):
        return crc_of(command_id.encode()) or 1  # 0 is an entry that was never used
