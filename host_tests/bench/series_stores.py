"""What a user would do with samples on littlefs: a file per sample, and a line appended and
flushed. Measures erases per sample, and how many samples fit into a filesystem of 256 KiB; uses the
stores and the chip of littlefs_bench.py. MicroPython only; one JSON object per line.

The stores are favoured: a sample is a line of text of 32 bytes with its time, and nothing checks
it; full filesystems keep no reserve; files of the line store hold 400 samples.
"""

import gc
import json

import littlefs_bench as bench


class Lines(bench.Segments):
    """A file has far more samples than in the bench of messages."""

    count = 400


STORES = (("file per sample", bench.FilePerMessage), ("append + flush", Lines))


def filled(kind):
    """Returns how many samples fit."""
    store = kind(bench.UNIT_BYTES)
    seq = 0
    try:
        while True:
            store.put(seq)
            seq += 1
    except OSError:
        pass
    bench.leave()
    return seq


def main():
    bench.TOPIC, bench.PAYLOAD = b"", b"1763694000.123,21.50,45.12,101325\n"[:32]
    for name, kind in STORES:
        erases = bench.measure(kind, bench.UNIT_BYTES)["erases"]
        gc.collect()
        row = {"store": name, "erases": erases, "samples": filled(kind), "blocks": bench.BLOCKS}
        print(json.dumps(row))


if __name__ == "__main__":
    main()
