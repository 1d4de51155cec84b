"""Prints the heap that a peer takes on import and for one instance, in the form of import_sizes.py:
run by host_tests/bench/peers.py.
"""

import gc
import sys

import micropython


def point(name):
    gc.collect()
    gc.collect()
    print(name, gc.mem_alloc())
    micropython.qstr_info()


name = sys.argv[1]
made = None
point("=start")
module = getattr(__import__("umqtt." + name), name)
point(name)
made = module.MQTTClient(b"board-1", "127.0.0.1")
point("=instance")
