# micropython-only: runs on the emulated chip, as boot.py
"""Says which code moves and checks bytes, and runs test_bytes.py over it."""

import sys
import unittest

from outpost import crc, memory, viper, viper_crc

is_used = memory.fill is viper.fill and crc.crc30 is viper_crc.crc30
print("machine code:", "used" if is_used and "outpost.bytecode" not in sys.modules else "not used")
unittest.run_module("test_bytes")
