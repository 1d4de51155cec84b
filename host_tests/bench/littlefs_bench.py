"""The outbox beside what a user would do on littlefs, on the same counting chip: a message in,
acknowledged eight messages later.

MicroPython only (VfsLfs2). main() prints one JSON object per line for
host_tests/bench/run_bench.py. Figures are per message in the steady state; `worst_block`: total
erases of the most erased block; net: heap that a message leaves as garbage (gc off, in whole heap
blocks); gross: all bytes allocated. The stores on littlefs are favoured: they have no checksum, do
not check their content after a restart, and the segments do not record what is acknowledged within
one.
"""

import gc
import json
import os

import micropython
import vfs

from outpost.outbox import Outbox
from pinned_nor import Chip, Port

BLOCKS = 64
UNIT_BYTES = 256  # of a program, as RP2's
WARM_UP = 78
MESSAGES = 780  # 20 sectors of 39
BEHIND = 8
TOPIC = b"outpost/board-00001/data"
PAYLOAD = b'[{"n":"load","v":0.42},{"n":"memory","u":"KiB","v":123456}]     '
PLACE = "/bench"


class InOutbox:
    """The outbox in a separate region."""

    name = "Outbox"

    def __init__(self, unit_bytes):
        self.ports = [Port(Chip(BLOCKS), unit_bytes, is_outbox=True)]
        self.outbox = Outbox(self.ports[0], page_bytes=unit_bytes)
        self.outbox.mount()
        self.outbox.format(b"01234567")

    def put(self, seq):
        if self.outbox.append(TOPIC, PAYLOAD, 64) != 0:
            raise AssertionError("not stored")

    def ack(self, seq):
        self.outbox.discard(seq)


class OnLittlefs:
    """The filesystem as the port mounts it: program unit 256 on RP2, 32 on ESP32."""

    def __init__(self, unit_bytes):
        self.ports = [Port(Chip(BLOCKS), unit_bytes)]
        vfs.VfsLfs2.mkfs(self.ports[0], progsize=unit_bytes)
        vfs.mount(vfs.VfsLfs2(self.ports[0], progsize=unit_bytes), PLACE)
        self.begin(unit_bytes)

    def begin(self, unit_bytes):
        os.mkdir(PLACE + "/q")


class FilePerMessage(OnLittlefs):
    name = "file per message, removed on ack"

    def put(self, seq):
        with open("%s/q/%08d" % (PLACE, seq), "wb") as file:
            file.write(TOPIC)
            file.write(PAYLOAD)

    def ack(self, seq):
        os.remove("%s/q/%08d" % (PLACE, seq))


class Segments(OnLittlefs):
    """Files of 40 messages, flushed after each, removed when all are acknowledged."""

    name = "append + flush, segment files"
    count = 40

    def put(self, seq):
        if seq % self.count == 0:
            if seq:
                self.file.close()
            self.file = open(self._path(seq), "ab")
        self.file.write(TOPIC)
        self.file.write(PAYLOAD)
        self.file.flush()

    def ack(self, seq):
        if seq % self.count == self.count - 1:
            os.remove(self._path(seq))

    def _path(self, seq):
        return "%s/q/%08d" % (PLACE, seq // self.count)


class JsonList(OnLittlefs):
    """One file with everything that is held, rewritten at each change."""

    name = "JSON list, rewritten"

    def begin(self, unit_bytes):
        self.held = []

    def put(self, seq):
        self.held.append([TOPIC.decode(), PAYLOAD.decode()])
        self._save()

    def ack(self, seq):
        self.held.pop(0)
        self._save()

    def _save(self):
        with open(PLACE + "/queue.json", "w") as file:
            json.dump(self.held, file)


STORES = (InOutbox, FilePerMessage, Segments, JsonList)


def run(store, first, last):
    seq = first
    while seq < last:
        store.put(seq)
        if seq >= BEHIND:
            store.ack(seq - BEHIND)
        seq += 1


def measure(kind, unit_bytes):
    """Returns one row of the table."""
    store = kind(unit_bytes)
    run(store, 0, WARM_UP)
    before = counts(store)
    worn = worn_blocks(store)
    gc.collect()
    gc.disable()
    net, gross = gc.mem_alloc(), micropython.mem_total()
    run(store, WARM_UP, WARM_UP + MESSAGES)
    net, gross = gc.mem_alloc() - net, micropython.mem_total() - gross
    gc.enable()
    row = {
        name: round((after - old) / MESSAGES, 4)
        for name, after, old in zip(NAMES, counts(store), before)
    }
    row["worst_block"] = max([after - old for after, old in zip(worn_blocks(store), worn)])
    row["heap_net"], row["heap_gross"] = round(net / MESSAGES, 1), round(gross / MESSAGES, 1)
    row["store"], row["unit_bytes"] = kind.name, unit_bytes
    leave()
    return row


NAMES = ("bytes_programmed", "programs", "erases", "reads", "bytes_read")


def counts(store):
    return [sum([getattr(port, name) for port in store.ports]) for name in NAMES]


def worn_blocks(store):
    return [sum([port.block_erases[block] for port in store.ports]) for block in range(BLOCKS)]


def leave():
    try:
        vfs.umount(PLACE)
    except OSError:
        pass


def main():
    for kind in STORES:
        print(json.dumps(measure(kind, UNIT_BYTES)))
        gc.collect()


if __name__ == "__main__":
    main()
