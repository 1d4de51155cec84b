# micropython-only: run by littlefs.py
"""Makes and reads images of the board's file system, as the port makes and mounts them. Arguments:
make|read, image, manifest.

manifest: JSON list of [path on the board, file on the host]. make: writes the image with these
files. read: mounts the image, copies each of its files into a file beside the manifest (0, 1, ...)
and writes the list of them into the manifest.
"""

import json
import sys

import vfs

BLOCK_BYTES = 4096
PROGRAM_BYTES = 256  # as ports/rp2/modules/_boot.py


class Ram:
    def __init__(self, image):
        self._image = memoryview(image)
        self._blocks = len(image) // BLOCK_BYTES

    def readblocks(self, block, buf, offset=0):
        at = block * BLOCK_BYTES + offset
        buf[:] = self._image[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=None):
        at = block * BLOCK_BYTES + (offset or 0)
        self._image[at : at + len(buf)] = buf

    def ioctl(self, op, arg):
        if op == 4:
            return self._blocks
        if op == 5:
            return BLOCK_BYTES
        if op == 6:
            self._image[arg * BLOCK_BYTES : (arg + 1) * BLOCK_BYTES] = b"\xff" * BLOCK_BYTES
            return 0


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def make(image, files):
    image[:] = b"\xff" * len(image)
    device = Ram(image)
    vfs.VfsLfs2.mkfs(device, progsize=PROGRAM_BYTES)
    system = vfs.VfsLfs2(device, progsize=PROGRAM_BYTES)
    made = set()
    for path, data in files:
        parts = path.strip("/").split("/")[:-1]
        for n in range(len(parts)):
            folder = "/" + "/".join(parts[: n + 1])
            if folder not in made:
                system.mkdir(folder)
                made.add(folder)
        with system.open(path, "wb") as file:
            file.write(data)


def walk(system, folder):
    for entry in system.ilistdir(folder or "/"):
        path = folder + "/" + entry[0]
        if entry[1] & 0x4000:
            yield from walk(system, path)
        else:
            yield path


def main(job, image_path, manifest_path):
    with open(manifest_path) as file:
        manifest = json.load(file)
    image = bytearray(read_file(image_path))
    if job == "make":
        make(image, [(path, read_file(source)) for path, source in manifest])
        with open(image_path, "wb") as file:
            file.write(image)
        return
    system = vfs.VfsLfs2(Ram(image), progsize=PROGRAM_BYTES)
    found = []
    for path in walk(system, ""):
        found.append([path, manifest_path + "." + str(len(found))])
        with system.open(path, "rb") as source, open(found[-1][1], "wb") as target:
            target.write(source.read())
    with open(manifest_path, "w") as file:
        json.dump(found, file)


main(*sys.argv[1:])
