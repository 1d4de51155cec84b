# cpython-only: runs a desktop tool as a process, against real mosquitto and a real S3 server
"""Collectors without a disk, killed with SIGKILL at random moments, PUTs under way among them: what
was acknowledged is in the bucket, and no board was told of more than is there.

`make kills-store` runs the long form; OUTPOST_STORE_KILLS is its number of kills, each of which is
followed by a comparison, OUTPOST_COLLECT_SEED its moments.
"""

import os
import random
import threading
import time

import pytest

from collector_boards import Boards
from collector_load import Publisher
from collector_process import Process, mosquitto, payload, wait_until
from outpost_tools.log import segments
from outpost_tools.messages.message import key_of
from outpost_tools.store import at

KILLS = int(os.environ.get("OUTPOST_STORE_KILLS", "3"))
SEED = int(os.environ.get("OUTPOST_COLLECT_SEED", "1"))
A_KILL = 1500  # messages of boards, which send again what is not confirmed
ONCE = 300  # messages sent once: after the broker's PUBACK, it and the collector have them alone
LONG_S = 60 + 30 * KILLS

_ = mosquitto  # a fixture
pytestmark = pytest.mark.timeout(LONG_S)


class Bucket:
    """What is in the log, read once: objects never change."""

    def __init__(self, folder):
        self._folder, self._read = folder, set()
        self.numbers, self.held, self.payloads, self.count = {}, {}, set(), 0

    def read(self):
        for segment in segments.sealed_segments(self._folder):
            if segment.name in self._read:
                continue
            self._read.add(segment.name)
            found = segments.contents(segment)
            for frame in found.frames():
                key, self.count = key_of(frame.topic, frame.payload), self.count + 1
                self.numbers.setdefault(key.device, set()).add(key.seq)
                self.held[key.device] = max(self.held.get(key.device, 0), key.held)
                self.payloads.add(frame.payload)
            assert found.damage == []
        return self

    @property
    def segments(self):
        return len(self._read)


def check_words(boards, bucket):
    """While no collector runs: all that any board was told is durable is in the bucket. Returns how
    many numbers were compared."""
    words = boards.words()
    bucket.read()
    compared = 0
    for device, word in words.items():
        wanted = range(bucket.held.get(device, 0), word + 1)
        missing = [n for n in wanted if n not in bucket.numbers.get(device, ())]
        assert not missing, f"{device} was told {word}, but {missing[:5]} are in no segment"
        compared += len(wanted)
    return compared


class Moments:
    """Kills of a collector at any moment, or (has_put) while a PUT is held on its way. That one
    arrives before the next start, or after it has looked."""

    def __init__(self, collector, boards, faults, rng):
        self._collector, self._boards, self._faults, self._rng = collector, boards, faults, rng
        self._held = None
        self.with_put = 0

    def kill(self, allowed, *, has_put):
        if not has_put:
            self._boards.allowed = allowed
            time.sleep(self._rng.uniform(0.05, 1.0))
        else:
            self._held = threading.Event()
            puts = self._faults.counts["PUT"]
            self._faults.hold(self._held, kinds={"PUT"}, times=1, part="segment-")
            self._boards.allowed = allowed
            wait_until(lambda: self._faults.counts["PUT"] > puts, 30)
            self.with_put += 1
        self._collector.kill()
        if self._held is not None and self._rng.random() < 0.5:
            self.release()

    def release(self):
        """The PUT arrives, if one is held."""
        if self._held is not None:
            self._held.set()
            self._held = None

    def start(self):
        said = self._collector.text().count("subscribed to")
        self._collector.start()
        wait_until(lambda: self._collector.text().count("subscribed to") > said)
        self.release()


def test_a_collector_without_a_disk_killed_at_random_moments(
    tmp_path, mosquitto, bucket_url, faulty_store
):
    rng, compared, messages = random.Random(SEED), 0, A_KILL * KILLS
    log = at.at(f"{bucket_url}/log")
    collector = Process(tmp_path, mosquitto.port, log=log, options=["--segment-seconds", "0.3"])
    bucket = Bucket(log / "c1")
    boards = Boards(mosquitto.port, count=100, messages=messages, seed=SEED)
    moments = Moments(collector, boards, faulty_store, rng)
    once = [payload(seq, device="plain") for seq in range(ONCE * KILLS)]
    with collector:
        collector.wait_subscribed()
        publisher = Publisher(mosquitto.port, "once")
        with boards:
            for kill in range(KILLS):
                some = once[ONCE * kill : ONCE * (kill + 1)]
                publisher.publish([(b"outpost/plain/data", data) for data in some])
                moments.kill(messages * (kill + 1) // KILLS, has_put=kill % 2 == 1)
                compared += check_words(boards, bucket)
                if rng.random() < 0.2:  # a start without a snapshot
                    (log / "c1").delete(["state.json"])
                moments.start()
                assert boards.failure is None
            wait_until(lambda: not boards.is_publishing, LONG_S / 3)
            wait_until(lambda: boards.unconfirmed() == 0, LONG_S / 3)
            wait_until(lambda: len(Bucket(log / "c1").read().payloads & {*once}) == len(once), 60)
        publisher.close()
        assert collector.terminate() == 0
    compared += check_words(boards, bucket)
    assert bucket.payloads == boards.payloads() | {*once}
    assert sum(map(len, boards.sent.values())) == messages and compared > 0
    print(
        f"{KILLS} kills, {moments.with_put} with a PUT under way: {messages} messages, "
        f"{len(once)} more that nobody sends again, {bucket.count} frames in "
        f"{bucket.segments} segments, 0 missing; {compared} confirmed numbers compared"
    )
