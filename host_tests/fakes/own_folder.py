"""A folder for one test, under CPython and MicroPython: parallel runs do not collide, and a killed
run leaves nothing that the next one would find.
"""

import os
import time


class OwnFolder:
    """`with OwnFolder() as path`: an absolute path. The folder and all in it are removed at the
    end."""

    def __enter__(self):
        self._path = "%s/outpost-test-%d" % (os.getenv("TMPDIR") or "/tmp", time.time_ns())
        os.mkdir(self._path)
        return self._path

    def __exit__(self, *error):
        remove(self._path)


def remove(path):
    """Remove a file, or a folder with everything in it."""
    try:
        names = os.listdir(path)
    except OSError:
        os.remove(path)
        return
    for name in names:
        remove(path + "/" + name)
    os.rmdir(path)
