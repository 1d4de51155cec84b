"""The measurements of a client (peer_clients.py) that MicroPython and CPython share: publishes/s,
reconnects/s, writes.

main() is the command line of peer_cells.py (MicroPython) and peer_cells_cpython.py, which print
JSON lines:

    one PORT NAME COUNT                    one client, by that file's one(): heap, writes …
    rates PORT ROUNDS COUNT SLOW NAME...   publishes and reconnects/s, in turns

SLOW: how many messages are sent where Nagle waits.
"""

import gc
import json
import sys
import time

import peer_clients

RECONNECTS = 20

if sys.implementation.name == "micropython":
    ticks_us, ticks_diff = time.ticks_us, time.ticks_diff
else:

    def ticks_us():
        # only CPython has it
        return time.perf_counter_ns() // 1000  # pyright: ignore[reportAttributeAccessIssue]

    def ticks_diff(end, start):
        return end - start


class Counting:
    """A socket that counts writes (MiniMQTT's are send()), and passes everything else on."""

    writes = 0

    def __init__(self, stream):
        self.stream = stream
        for name in ("read", "readinto", "recv_into", "close", "setblocking"):
            if hasattr(stream, name):
                setattr(self, name, getattr(stream, name))

    def write(self, *args):
        Counting.writes += 1
        return self.stream.write(*args)

    def send(self, data):
        Counting.writes += 1
        return self.stream.send(data)


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
    start = ticks_us()
    publish(client, qos, count)
    if not qos:
        client.publish(1)
    if hasattr(client, "drain"):
        client.drain()
    return (count + (not qos)) * 1_000_000 / max(1, ticks_diff(ticks_us(), start))


def reconnects(client, count):
    start = ticks_us()
    for _ in range(count):
        client.reconnect()
    return count * 1_000_000 / max(1, ticks_diff(ticks_us(), start))


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


def main(one):
    if sys.argv[1] == "one":
        one(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        rates(*[int(argument) for argument in sys.argv[2:6]], sys.argv[6:])
