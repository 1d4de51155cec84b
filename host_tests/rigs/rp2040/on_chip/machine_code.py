# micropython-only: runs on the emulated chip, as boot.py
"""Says which code moves and checks bytes, and runs test_bytes.py over it."""

import sys
import unittest

from outpost import checksum, memory, native, native_checksum

is_used = memory.fill is native.fill and checksum.crc30 is native_checksum.crc30
print("machine code:", "used" if is_used and "outpost.portable" not in sys.modules else "not used")
unittest.run_module("test_bytes")
