# micropython-only: CPython has no VfsLfs2
# slow: half a minute and more
"""littlefs and pinned outbox on one chip, the power cut in either: short form. The long one:
host_tests/fuzz/hunt_pinned.py.
"""

import os
import unittest

import pinned_hunt
from power_loss import Violation
from support import pinned, pinning

CUTS = 120


class InPlace:
    """Mutant of `os`: the map is written in place, not under another name and renamed."""

    def __getattr__(self, name):
        return getattr(os, name)

    def rename(self, old, new):
        with open(new, "wb") as file:
            file.write(pinned_hunt.read(old))
        os.remove(old)


def release_files_first(folder, outbox=None, force=False):
    """Mutant of release(): the map goes last."""
    for name in sorted(os.listdir(folder), reverse=True):
        os.remove(folder + "/" + name)
    os.rmdir(folder)


def extend_backwards(device, numbers, random_id, behind, tell):
    """Mutant of _extend: grow() turns the blocks of the ring round.

    New blocks at its end, wherever the head is, lose nothing in format 2: they are used late, as
    test_pinned.py finds.
    """
    device = pinned.PinnedBlocks(device.raw, device.folder, device.board, device.entries[::-1])
    return ORIGINALS["_extend"](device, numbers, random_id, behind, tell)


def begin_in_silence(folder, names, known, tell):
    """Mutant of _begin: no word that the folder is being changed."""
    ORIGINALS["_begin"](folder, names, known, tell)
    os.remove(folder + "/unfinished")
    pinning._save_map = save_map_only


def save_map_only(raw, folder, board, entries):
    with open(folder + "/unfinished", "wb"):
        pass
    ORIGINALS["_save_map"](raw, folder, board, entries)


MUTANTS = (
    ("os", InPlace()),
    ("_extend", extend_backwards),
    ("_begin", begin_in_silence),
    ("release", release_files_first),
)
ORIGINALS = {
    name: getattr(pinning, name) for name in ("os", "_extend", "_begin", "_save_map", "release")
}


def open_and_put_back(raw, folder, board):
    """Mutant of the user and of open_blocks(): a pinned file was put back from a copy, and nothing
    is checked.
    """
    path = folder + "/0001.pin"
    content = pinned_hunt.read(path)
    with open(path, "wb") as file:
        file.write(content)
    return pinned.PinnedBlocks(raw, folder, board, pinned.load_map(raw, folder, board))


class TestPinnedPowerLoss(unittest.TestCase):
    def tearDown(self):
        pinned_hunt.leave_all()

    def test_both_are_sound_after_a_cut_in_either(self):
        cuts, second_cuts, duplicates = pinned_hunt.hunt(CUTS, seed=1)
        print(
            "%d cuts, %d second cuts, at most %d duplicates after one"
            % (cuts, second_cuts, duplicates)
        )
        self.assertTrue(cuts > 3 * CUTS and second_cuts > CUTS // 2)

    def test_each_mutant_is_caught(self):
        for name, mutant in MUTANTS:
            with self.subTest(mutant=name):
                self.assertTrue(self._is_caught(name, mutant))

    def _is_caught(self, name, mutant):
        setattr(pinning, name, mutant)
        try:
            for seed in range(3):
                pinned_hunt.hunt(1, seed, every=4, geometries=pinned_hunt.GEOMETRIES[:1])
        except (Violation, pinned.PinnedError) as fault:
            print("mutant of %s: %s" % (name, fault))
            return True
        finally:
            for attribute, original in ORIGINALS.items():
                setattr(pinning, attribute, original)
        return False

    def test_a_file_put_back_is_caught_when_nothing_checks(self):
        with self.assertRaises(Violation) as context:
            pinned_hunt.hunt(CUTS, 1, opener=open_and_put_back)
        print("put back, not checked: %s" % context.exception)


if __name__ == "__main__":
    unittest.main()
