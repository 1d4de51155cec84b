"""Heap that each module takes on import, in the order given: names as arguments. Run by host_tests/bench/size_report.py."""

import gc
import sys


def cost(name):
    gc.collect()
    before = gc.mem_alloc()
    __import__("outpost." + name)
    gc.collect()
    return gc.mem_alloc() - before


for name in sys.argv[1:]:
    print(name, cost(name))
