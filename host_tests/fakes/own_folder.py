"""A folder of a test's own, under CPython and MicroPython: two runs side by side do not meet, and
one that was killed leaves nothing in the next one's way.
"""

import os
import time


class OwnFolder:
    """`with OwnFolder() as path`: an absolute path. Removed with all that is in it."""

    def __enter__(self):
        self._path = "%s/outpost-test-%d" % (os.getenv("TMPDIR") or "/tmp", time.time_ns())
        os.mkdir(self._path)
        return self._path

    def __exit__(self, *error):
        remove(self._path)


def remove(path):
    """A file, or a folder with all that is in it."""
    try:
        names = os.listdir(path)
    except OSError:
        os.remove(path)
        return
    for name in names:
        remove(path + "/" + name)
    os.rmdir(path)
