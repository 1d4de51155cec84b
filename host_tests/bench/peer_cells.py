"""Run by host_tests/bench/peers.py under MicroPython, with a broker; prints JSON lines.

    one PORT NAME COUNT                    one client: heap per publish, writes, idle, reconnect
    rates PORT ROUNDS COUNT SLOW NAME...   publishes and reconnects/s, in turns

SLOW: how many messages are sent where Nagle waits. net: heap that a publish leaves as garbage (gc
off, whole heap blocks); gross: all bytes allocated.
"""

import gc
import json
import sys
import time

import micropython

import peer_clients

RECONNECTS = 20
IDLE_CALLS = 50
IDLE_MS = 10  # an application that polls every 10 ms


class Counting:
    """A socket that counts writes, and passes everything else on."""

    writes = 0

    def __init__(self, stream):
        self.stream = stream
        for name in ("read", "readinto", "close", "setblocking"):
            if hasattr(stream, name):
                setattr(self, name, getattr(stream, name))

    def write(self, *args):
        Counting.writes += 1
        return self.stream.write(*args)


def publish(client, qos, count):
    for _ in range(count):
        client.publish(qos)


def writes(name, port, qos, count):
    client = peer_clients.make(name, port)
    client.wrap(Counting)
    Counting.writes = 0
    publish(client, qos, count)
    return Counting.writes / count


def cell(row, name, measure, *args):
    """A cell that cannot be measured stays empty, with the reason."""
    try:
        row[name] = measure(*args)
    except Exception as error:
        row[name] = None
        row["why"] = "%s: %r" % (name, error)


def rate(client, qos, count):
    """Returns publishes/s; those of QoS 0 are done when the server answers a QoS 1 publish after
    them."""
    start = time.ticks_us()
    publish(client, qos, count)
    if not qos:
        client.publish(1)
    if hasattr(client, "drain"):
        client.drain()
    return (count + (not qos)) * 1_000_000 / max(1, time.ticks_diff(time.ticks_us(), start))


def reconnects(client, count):
    start = time.ticks_us()
    for _ in range(count):
        client.reconnect()
    return count * 1_000_000 / max(1, time.ticks_diff(time.ticks_us(), start))


def tell(name, kind, value):
    print(json.dumps({"name": name, "kind": kind, "rate": value}))


def rates(port, rounds, count, slow, names):
    clients = [(name, peer_clients.make(name, port)) for name in names]
    for _ in range(rounds):
        for qos in (0, 1):
            for name, client in clients:
                waits = qos and not (name[-1] == "+" or name[:3] == "raw" or name[:7] == "outpost")
                gc.collect()
                tell(name, "qos%d" % qos, rate(client, qos, slow if waits else count))
        for name, client in clients:
            gc.collect()
            tell(name, "reconnect", reconnects(client, RECONNECTS))


def idle(client, _, count):
    for _ in range(count):
        client.idle()
        time.sleep_ms(IDLE_MS)


def reconnect(client, _, count):
    for _ in range(count):
        client.reconnect()


def heap(action, client, qos, count):
    """Returns (net, gross) bytes per repetition, with the collector off."""
    action(client, qos, 3)
    gc.collect()
    gc.disable()
    gross = micropython.mem_total()
    net = gc.mem_alloc()
    action(client, qos, count)
    net = gc.mem_alloc() - net
    gross = micropython.mem_total() - gross
    gc.enable()
    return net / count, gross / count


def locked(client, qos):
    """Returns whether a publish succeeds with the heap locked."""
    publish(client, qos, 2)
    micropython.heap_lock()
    try:
        client.publish(qos)
        return True
    except MemoryError:
        return False
    finally:
        micropython.heap_unlock()


def reconnect_ms(client, times=5):
    spent = []
    for _ in range(times):
        start = time.ticks_us()
        client.reconnect()
        spent.append(time.ticks_diff(time.ticks_us(), start) / 1000)
    return sorted(spent)[times // 2]


def one(port, name, count):
    row = {"name": name}
    client = peer_clients.make(name, port)
    for qos in (0, 1):
        cell(row, "qos%d_heap" % qos, heap, publish, client, qos, count)
    client.publish(1)
    cell(row, "idle_heap", heap, idle, client, 0, IDLE_CALLS)
    cell(row, "reconnect_ms", reconnect_ms, client)
    cell(row, "reconnect_heap", heap, reconnect, client, 0, 5)
    # A new client each time, because the server disconnects the previous one with the same client
    # id.
    for qos in (0, 1):
        cell(row, "qos%d_writes" % qos, writes, name, port, qos, count)
        client = peer_clients.make(name, port)
        cell(row, "qos%d_locked" % qos, locked, client, qos)
    print(json.dumps(row))


if sys.argv[1] == "one":
    one(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
else:
    rates(*[int(argument) for argument in sys.argv[2:6]], sys.argv[6:])
