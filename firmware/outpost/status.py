"""Status numbers of the hot path: OK is 0, a failure is negative. For users and tests.

The modules repeat the values as private constants, because a private `const` costs no RAM on a board and an
imported name does; `test_status.py` holds the two together.
"""

from micropython import const

OK = const(0)
FULL = const(-1)  # outbox full: refused, nothing stored; drain it, or wait for acknowledgements
TOO_BIG = const(-2)  # topic or message longer than a buffer: raise record_bytes / tx_bytes, or send less
BUSY = const(-3)  # called again from inside itself, or the transmit buffer still holds a packet: try later
OFFLINE = const(-4)  # QoS 0 without a connection: not sent, not stored
STORAGE = const(-5)  # the flash did not take the record, twice: nothing promised; see counters
BAD_TOPIC = const(-6)  # empty, or with a wildcard or NUL [MQTT-3.3.2-2]
EMPTY = const(-7)  # no further record
BAD_QOS = const(-8)  # QoS must be 0 or 1
BLANK = const(-10)  # mount: the region is erased; format() makes it an outbox
FOREIGN = const(-11)  # mount: neither blank nor an outbox; format(force=True) destroys what is there
NEWER = const(-12)  # mount: written by a newer format version; update the firmware
GEOMETRY = const(-13)  # mount: formatted with another `align`; mount it with that one
