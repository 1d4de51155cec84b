"""A module that was needed once leaves the heap, at whatever depth it lies.

The bytes that memory.py moves are in test_bytes.py.
"""

import sys
import unittest

from outpost import memory

unload = memory.unload
if hasattr(sys, "gettrace"):  # CPython, where the provers replace it for the whole process
    found = {"__name__": "memory"}
    with open(memory.__file__) as file:
        exec(file.read(), found)
    unload = found["unload"]

MODULES = ("unloaded.first", "unloaded.room.second")


class TestUnload(unittest.TestCase):
    def test_it_is_loaded_again_at_its_next_use(self):
        for name in MODULES:
            package, module = name.rsplit(".", 1)
            first = __import__(name, None, None, (module,))
            unload(name)
            self.assertFalse(name in sys.modules)
            self.assertFalse(hasattr(sys.modules[package], module))
            self.assertFalse(__import__(name, None, None, (module,)) is first)

    def test_one_that_is_not_loaded_is_no_mistake(self):
        __import__(MODULES[1])
        for _ in range(2):
            unload(MODULES[1])
