"""Run by host_tests/bench/peers_cpython.py under CPython, with a broker, as peer_runs.py says;
prints JSON lines.

one: heap per publish, and writes.
net: what tracemalloc still holds after a publish that it did not hold before; peak: the most that
it held during the publish, beyond that. The median over the publishes, each measured separately.
CPython does not count all bytes allocated, and keeps freed floats, tuples and frames for itself,
which tracemalloc does not see again; it makes an object of every integer above 256. So these are
not comparable with the bytes of peer_cells.py.
"""

import gc
import json
import tracemalloc

import peer_clients
from peer_runs import cell, main, publish, writes

# More than the outbox has slots (16): before counting, each slot has its own integers of times,
# which the counted messages then replace.
_WARM = 20


def heap(client, qos, count):
    """Returns (net, peak) bytes per publish, with the collector off."""
    net, peak = [0] * count, [0] * count
    gc.collect()
    gc.disable()
    tracemalloc.start()
    publish(client, qos, _WARM)
    for at in range(count):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        client.publish(qos)
        after, highest = tracemalloc.get_traced_memory()
        net[at], peak[at] = after - before, highest - before
    tracemalloc.stop()
    gc.enable()
    return sorted(net)[count // 2], sorted(peak)[count // 2]


def one(port, name, count):
    row = {"name": name}
    # A new client each time, because the server disconnects the previous one with the same client
    # id.
    for qos in (0, 1):
        cell(row, "qos%d_heap" % qos, heap, peer_clients.make(name, port), qos, count)
        cell(row, "qos%d_writes" % qos, writes, name, port, qos, count)
    print(json.dumps(row))


if __name__ == "__main__":
    main(one)
