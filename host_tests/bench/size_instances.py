"""What size_report.py builds to weigh it: one instance of each configuration, small buffers. Uses
public names only.

Buffers: what a client that only publishes needs to receive; outbox records of 256 bytes; a
telemetry pack of 200; the outbox in RAM has one slot of 128 bytes, for one message in flight as in
the peers.
"""


class Device:
    """A blank flash in RAM: enough for mount() and format()."""

    def __init__(self, blocks):
        self.image = bytearray(b"\xff" * (blocks * 4096))

    def readblocks(self, block, buf, offset=0):
        at = block * 4096 + offset
        buf[:] = self.image[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        at = block * 4096 + offset
        self.image[at : at + len(buf)] = buf

    def ioctl(self, op, arg):
        if op == 4:
            return len(self.image) // 4096
        if op == 6:
            self.image[arg * 4096 : arg * 4096 + 4096] = b"\xff" * 4096
        return 4096 if op == 5 else 0


def no_link():
    return None


def client_alone(device):
    from outpost.client import Client
    from outpost.ram_outbox import RamOutbox
    from outpost.session import Session

    return Client(no_link, Session(RamOutbox(1, 128), b"board-1"))


def with_all(device):
    from outpost.client import Client
    from outpost.outbox import Outbox
    from outpost.session import Session
    from station.clock import Clock
    from station.telemetry import Pack

    outbox = Outbox(device, record_bytes=256)
    outbox.mount()
    outbox.format(b"0123abcd")
    return Client(no_link, Session(outbox, b"board-1")), Clock(0), Pack(b"board-1", 200)
