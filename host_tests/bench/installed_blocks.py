"""What installed files take on a littlefs as large as a Pico W's. MicroPython only.

    micropython installed_blocks.py LIST

LIST: JSON, for each row the sizes of files by path. Prints for each the blocks that they take, and
the blocks that are free with an outbox of 64 blocks beside them. os.statvfs() counts the two blocks
of each folder twice; this counts them once.
"""

import json
import os
import sys

from pinned_nor import Chip, Port

BLOCKS = 212
OUTBOX_BLOCKS = 64
OPTIONS = {"progsize": 256}


def free(folder="/f"):
    """Blocks. It calls itself for folders in the folder."""
    count = os.statvfs("/f")[3] if folder == "/f" else 2
    for name in os.listdir(folder):
        if os.stat(folder + "/" + name)[0] & 0x4000:
            count += free(folder + "/" + name)
    return count


def put(path, size):
    at = path.find("/")
    while at >= 0:
        try:
            os.mkdir("/f/" + path[:at])
        except OSError:
            pass
        at = path.find("/", at + 1)
    with open("/f/" + path, "wb") as file:
        file.write(bytes(size))


def measured(files):
    chip = Chip(BLOCKS)
    os.VfsLfs2.mkfs(Port(chip), **OPTIONS)
    os.mount(os.VfsLfs2(Port(chip), **OPTIONS), "/f")
    try:
        before = free()
        for path in sorted(files):
            put(path, files[path])
        taken = before - free()
        for number in range(OUTBOX_BLOCKS):
            put(f"outbox/b{number:03d}", 4096)
        put("outbox/map", 300)
        return taken, free()
    finally:
        os.umount("/f")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        rows = json.load(file)
    print(json.dumps([measured(files) for files in rows]))
