# micropython-only: runs on the emulated chip, as main.py
"""A pinned file is deleted while its outbox is in use, and littlefs gives the block to another
file: what becomes of that file, of the messages, and of the next start. Prints "name value" lines.
"""

import os

import rp2
from machine import unique_id

from outpost.outbox import Outbox
from support import pinned, pinning

BLOCKS = 6


def mounted(device):
    outbox = Outbox(device, align=256, page_bytes=256)
    if outbox.mount():
        outbox.format(b"01234567")
    return outbox


def append(outbox, count):
    bad = 0
    for _ in range(count):
        bad += outbox.append(b"t", b"x" * 200, 200) != 0
        outbox.discard_through(outbox.next_seq - 1)
    return bad


def owner_of(raw, block, text):
    """True when the block has that text: littlefs gave it to the new file."""
    buf = bytearray(len(text))
    raw.readblocks(block, buf, 0)
    return buf == text


def take(raw, block):
    """Files until one of them has the block. Its name."""
    for number in range(400):
        name, text = "/user%d" % number, b"somebody's file %4d" % number
        with open(name, "wb") as file:
            for _ in range(2):  # more than a file that is kept in its folder
                file.write(text + b"." * (512 - len(text)))
        if owner_of(raw, block, text):
            return name
        os.remove(name)


def content(name):
    with open(name, "rb") as file:
        return file.read()


def main():
    raw = rp2.Flash()
    device = pinning.create_first(raw, "/outbox", BLOCKS, b"87654321", unique_id())
    outbox = mounted(device)
    append(outbox, 5)
    while device.watch():
        pass
    number, block, _ = device.entries[outbox._head]
    os.remove(pinned.path_of("/outbox", number))
    name = take(raw, block)
    before = content(name)
    for _ in range(4):  # a minute of the loop's
        device.watch()
    device.guard(outbox)
    print("lost", device.lost, device.fault)
    print("refused", append(outbox, 80))
    print("left_out", outbox.left_out)
    print("untouched", content(name) == before)
    try:
        pinned.open_blocks(raw, "/outbox", unique_id())
    except pinned.PinnedError as error:
        print("start", error)
    for one in os.listdir("/outbox"):
        os.remove("/outbox/" + one)
    try:
        pinning.create_first(raw, "/outbox", BLOCKS, b"87654321", unique_id())
    except pinned.PinnedError as error:
        print("gone", error)


main()
print("end of the run")
