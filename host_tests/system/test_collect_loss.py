# cpython-only: runs desktop tools as processes, boards under MicroPython, against real mosquitto
"""A broker killed with SIGKILL: collector mode loses nothing, plain mode loses, and the loss is
seen as gaps.
"""

import argparse
import asyncio

import hunt_collector_loss
from real_broker import micropython, need_mosquitto


def test_collector_mode_loses_nothing_and_the_loss_of_plain_mode_is_seen(tmp_path):
    need_mosquitto()
    micropython("amd64")
    args = argparse.Namespace(boards=2, seconds=5.0, seed=1)
    collector, plain = asyncio.run(hunt_collector_loss.run(tmp_path, args))
    assert collector["published"] > 100 and collector["lost"] == 0 and collector["gaps"] == {}
    assert plain["lost"] > 10 and plain["lost_seen_as_gaps"] == plain["lost"]
