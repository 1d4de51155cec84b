"""Heap that modules take on import, in the order given, then one instance: for
host_tests/bench/size_report.py.

    import_sizes.py MODULE... [= BUILDER]

MODULE is a name as in `import`, BUILDER a function of size_instances.py.

Prints `name bytes-in-use` at `=start`, after each import, and with a builder at `=ready` and
`=instance`, after each what the interpreter says of its names; last `=modules` and which modules of
ours are loaded.
"""

import gc
import sys

import micropython


def point(name):
    gc.collect()
    gc.collect()
    print(name, gc.mem_alloc())
    micropython.qstr_info()


names = sys.argv[1:]
builder = None
if len(names) > 2 and names[-2] == "=":
    builder = names.pop()
    names.pop()
point("=start")
for name in names:
    __import__(name)
    point(name)
if builder:
    instances = __import__("size_instances")
    device, made = instances.Device(2), None
    make = getattr(instances, builder)
    point("=ready")
    made = make(device)
    point("=instance")
print(
    "=modules",
    *[
        name
        for name in sys.modules
        if name.partition(".")[0] in ("outpost", "station", "support") and "." in name
    ],
)
