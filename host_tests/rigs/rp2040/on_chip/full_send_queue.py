# micropython-only: runs on the emulated chip, as main.py
"""What a non-blocking write to lwIP does while the path is silent.

For each of SIZES: connect, open the congestion window, tell the host that the path shall go silent,
write packets until the stack takes no more, tell it that the path is back, wait until all arrived.
With BOUND_BYTES it stops before that many, counting OVERHEAD_BYTES more a packet; MOST_PACKETS
bounds their number. Prints what the stack said that it took, and the longest write.
"""

import socket
import time

import ppp_wlan
from case import BOUND_BYTES, MOST_PACKETS, OVERHEAD_BYTES, SIZES  # a file of the test

PORT = 1883
WARM_UP_PACKETS = 25
RECOVERY_MS = 15_000  # lwIP waits up to 12 s before it sends again


def wait_ms(ms):
    start = time.ticks_ms()
    while time.ticks_diff(time.ticks_ms(), start) < ms:
        time.sleep_ms(5)


def connected():
    stream = socket.socket()
    stream.connect(socket.getaddrinfo("10.0.0.1", PORT)[0][-1])
    stream.setsockopt(6, socket.TCP_NODELAY, 1)
    stream.setblocking(False)
    return stream


def timed_write(stream, packet):
    """(bytes that the stack said it took, milliseconds)"""
    start = time.ticks_us()
    try:
        taken = stream.write(packet) or 0
    except OSError as error:
        print("error", error.errno)
        taken = 0
    return taken, time.ticks_diff(time.ticks_us(), start) // 1000


def fill(stream, packet):
    """(bytes that the stack said it took, longest write in ms)"""
    taken_bytes = longest_ms = count = 0
    while count < MOST_PACKETS:
        wanted = taken_bytes + len(packet) + OVERHEAD_BYTES * (count + 1)
        if BOUND_BYTES and wanted > BOUND_BYTES:
            break
        taken, ms = timed_write(stream, packet)
        taken_bytes += taken
        longest_ms = max(longest_ms, ms)
        count += 1
        if taken < len(packet) or ms > 1000:
            break
        wait_ms(5)
    return taken_bytes, longest_ms, count


def run(size):
    stream = connected()
    packet = bytes(size)
    for _ in range(WARM_UP_PACKETS):
        stream.write(packet)
        wait_ms(20)
    print("path silent")
    taken_bytes, longest_ms, count = fill(stream, packet)
    print("path back")
    wait_ms(RECOVERY_MS)
    stream.close()
    print("size", size, "packets", count, "bytes", taken_bytes, "longest_ms", longest_ms)


radio = ppp_wlan.WLAN(ppp_wlan.STA_IF)
radio.active(True)
radio.connect("any", "any")
while not radio.isconnected():
    wait_ms(5)
for size in SIZES:
    run(size)
print("end of the run")
