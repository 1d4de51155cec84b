"""The board's files, and the two rules by which a filesystem keeps them over a power cut.

littlefs: what is written is there from close() or flush() on, whole; a rename replaces in one step.
FAT: open(..., "w") empties the file at once, and what is written arrives with close(). The rule
decides verdicts: a counter file that is rewritten is safe on one of them and not on the other.

`content`, {name: bytes}, has this module as its only writer; each change is an effect.
"""

import io
import sys

# MicroPython's json takes what is a stream; CPython's base would close it when it is freed
_STREAM = io.IOBase if sys.implementation.name == "micropython" else object
ENOENT, EEXIST = 2, 17
_FILE_US, _OPEN_US = 20_000, 2_000  # a commit, and opening: littlefs on an RP2040, about


class Files:
    def __init__(self, world):
        self._world = world
        self.content = {
            name.lstrip("/"): bytes.fromhex(data) for name, data in world.scenario["files"].items()
        }

    def open(self, path, mode="r", *_, **__):
        """As the built-in open(). Raises OSError."""
        self._world.pass_us(_OPEN_US)
        return File(self, _plain(path), mode)

    def commit(self, name, data):
        self._world.pass_us(_FILE_US)
        self._world.effect("file", name)
        self.content[name] = data

    def empties_at_open(self):
        return self._world.scenario["filesystem"] == "fat"

    # --- As `os` has them ---

    def stat(self, path):
        name = _plain(path)
        self._world.pass_us(_OPEN_US)
        if name in self.content:
            return (0x8000, 0, 0, 0, 0, 0, len(self.content[name]), 0, 0, 0)
        if not name or [one for one in self.content if one.startswith(name + "/")]:
            return (0x4000,) + (0,) * 9
        raise OSError(ENOENT)

    def remove(self, path):
        name = _plain(path)
        self._have(name)
        self._world.pass_us(_FILE_US)
        self._world.effect("file", name)
        del self.content[name]

    def rename(self, old, new):
        old, new = _plain(old), _plain(new)
        self._have(old)
        self._world.pass_us(_FILE_US)
        self._world.effect("file", new)
        self.content[new] = self.content.pop(old)

    def mkdir(self, path):
        """Folders are in the names alone."""
        self._world.pass_us(_OPEN_US)

    def rmdir(self, path):
        self._world.pass_us(_OPEN_US)

    def listdir(self, path=""):
        self._world.pass_us(_OPEN_US)
        start = _plain(path) + "/" if _plain(path) else ""
        inside = [one[len(start) :] for one in self.content if one.startswith(start)]
        return sorted({one.split("/")[0] for one in inside})

    def _have(self, name):
        if name not in self.content:
            raise OSError(ENOENT)


def _plain(path):
    return str(path).strip("/")


class File(_STREAM):
    """An open file: what both Pythons' files have in common."""

    def __init__(self, files, name, mode):
        self._files, self._name, self._is_text = files, name, "b" not in mode
        old = files.content.get(name)
        if old is None and "r" in mode:
            raise OSError(ENOENT)
        if "x" in mode and old is not None:
            raise OSError(EEXIST)
        self._is_new = "w" in mode or old is None
        self._io = io.BytesIO(b"" if self._is_new else old)
        if "a" in mode:
            self._io.seek(0, 2)
        if self._is_new and files.empties_at_open():
            files.commit(name, b"")

    def read(self, count=-1):
        data = self._io.read() if count is None or count < 0 else self._io.read(count)
        return data.decode() if self._is_text else data

    def readline(self):
        data = self._io.readline()
        return data.decode() if self._is_text else data

    def readlines(self):
        return list(self)

    def __iter__(self):
        return self

    def __next__(self):
        found = self.readline()
        if not found:
            raise StopIteration
        return found

    def readinto(self, buf):
        return self._io.readinto(buf)

    def write(self, data):
        self._is_new = True
        return self._io.write(data.encode() if isinstance(data, str) else bytes(data))

    def seek(self, *where):
        return self._io.seek(*where)

    def tell(self):
        return self._io.tell()

    def flush(self):
        if self._is_new:
            self._is_new = False
            self._files.commit(self._name, self._io.getvalue())

    close = flush

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
