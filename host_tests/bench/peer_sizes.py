"""Heap that a peer takes on import and for one instance: run by host_tests/bench/peers.py; prints
as import_sizes.py does.
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
