# micropython-only: runs on the emulated chip, as boot.py
"""Says which code moves and checks bytes and puts samples, and runs the tests of both over it."""

import os
import sys
import unittest

if "started" not in os.listdir("/"):  # no console yet, while boot.py runs for the first time
    open("/started", "w").close()
    raise SystemExit

from outpost import checksum, memory, native, native_checksum, native_series
from outpost.series_codec import series_bits

is_used = memory.fill is native.fill and checksum.crc30 is native_checksum.crc30
is_used = is_used and series_bits.take is native_series.take
names = ("outpost.portable", "outpost.portable_series")
is_used = is_used and not [name for name in names if name in sys.modules]
print("machine code:", "used" if is_used else "not used")
for name in ("test_bytes", "test_series_bits"):
    try:
        unittest.run_module(name)
    except SystemExit:
        pass
print("end of the tests")
raise SystemExit
