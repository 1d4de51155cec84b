"""Run by host_tests/bench/peers.py under MicroPython, with a broker, as peer_runs.py says; prints
JSON lines.

one: heap per publish, writes, idle garbage, reconnect, heap lock.
net: heap that a publish leaves as garbage (gc off, whole heap blocks); gross: all bytes allocated.
"""

import gc
import json
import time

import micropython

import peer_clients
from peer_runs import cell, main, publish, writes

IDLE_CALLS = 50
IDLE_MS = 10  # an application that polls every 10 ms


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


main(one)
