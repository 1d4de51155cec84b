# cpython-only: runs a desktop tool as a process, against real mosquitto
"""Collectors, and the broker, killed with SIGKILL at random moments: nothing acknowledged is lost,
nothing confirmed that is in no log.

`make kills` runs the long form, 60 moments each; OUTPOST_COLLECT_KILLS and OUTPOST_COLLECT_MESSAGES
are its numbers, OUTPOST_COLLECT_SEED its moments.
"""

import contextlib
import os
import random
import time

import pytest

from collector_boards import Boards
from collector_process import Process, mosquitto, wait_until
from outpost_tools.log import segments
from outpost_tools.messages.message import key_of

KILLS = int(os.environ.get("OUTPOST_COLLECT_KILLS", "6"))
MESSAGES = int(os.environ.get("OUTPOST_COLLECT_MESSAGES", "12000"))
SEED = int(os.environ.get("OUTPOST_COLLECT_SEED", "1"))
PAUSE_S = 0.5
LONG_S = 900

_ = mosquitto  # a fixture
pytestmark = pytest.mark.timeout(LONG_S)


def stored(collectors):
    """device -> numbers, and highest `held`; all payloads; how many frames. A sealed segment must
    be whole.
    """
    numbers, held, payloads, count = {}, {}, set(), 0
    for collector in collectors:
        for path in segments.sealed_segments(collector.directory) + segments.open_segments(
            collector.directory
        ):
            if path.stat().st_size < len(segments.MAGIC):
                continue
            found = segments.contents(path)
            for frame in found.frames():
                key, count = key_of(frame.topic, frame.payload), count + 1
                numbers.setdefault(key.device, set()).add(key.seq)
                held[key.device] = max(held.get(key.device, 0), key.held)
                payloads.add(frame.payload)
            assert path.suffix == ".open" or found.damage == []
    return numbers, held, payloads, count


def check_words(boards, collectors):
    """While no collector runs: each word that any board has heard stands on a log."""
    for collector in collectors:
        collector.kill()
    words = boards.words()
    numbers, held, _, _ = stored(collectors)
    for device, word in words.items():
        missing = [
            n for n in range(held.get(device, 0), word + 1) if n not in numbers.get(device, ())
        ]
        assert not missing, (
            f"{device} received confirmation {word}, but {missing[:5]} are in no log"
        )
    return max(words.values())


def restart(collectors, rng):
    """With an rng: most of them will be killed at work, some before they are connected."""
    before = [collector.text().count("subscribed to") for collector in collectors]
    for collector in collectors:
        collector.start()
    if rng is None or rng.random() < 0.85:
        wait_until(
            lambda: all(c.text().count("subscribed to") > n for c, n in zip(collectors, before))
        )


@contextlib.contextmanager
def at_work(tmp_path, broker, names=("c1",), options=()):
    """(collectors, boards)."""
    print(f"seed {SEED}, {KILLS} kills, {MESSAGES} messages")
    options = [*options, "--segment-bytes", "200000", "--segment-seconds", "0.5"]
    made = [Process(tmp_path, broker.port, options=options, name=name) for name in names]
    with contextlib.ExitStack() as stack:
        collectors = [stack.enter_context(one) for one in made]
        wait_until(
            lambda: all(c.output.exists() and "subscribed to" in c.text() for c in collectors)
        )
        boards = Boards(broker.port, count=100, messages=MESSAGES, seed=SEED)
        yield collectors, stack.enter_context(boards)


def moments(boards, rng):
    """The number of each kill, at a moment when messages are on their way."""
    for kill in range(KILLS):
        boards.allowed = MESSAGES * (kill + 1) // KILLS
        time.sleep(rng.uniform(0.02, PAUSE_S))
        if kill % 3 == 2:  # words are compared: on a busy machine there may be none yet
            wait_until(lambda: max(boards.words().values()) > 0)
        yield kill
        assert boards.failure is None


def play(boards, collectors, rng):
    """Kills, one at a time; each third time all at once, to compare words and logs. The highest
    word.
    """
    highest = -1
    for kill in moments(boards, rng):
        victim = rng.choice(collectors)
        victim.kill()
        if kill % 3 == 2:
            highest = max(highest, check_words(boards, collectors))
            restart(collectors, rng)
        else:
            restart([victim], rng)
    return highest


def finish(boards, collectors):
    wait_until(lambda: not boards.is_publishing, LONG_S / 3)
    wait_until(lambda: boards.unconfirmed() == 0, LONG_S / 3)
    for collector in collectors:  # the last one restarted may not yet be able to take SIGTERM
        collector.kill()
    restart(collectors, None)
    assert [collector.terminate() for collector in collectors] == [0] * len(collectors)
    _, _, payloads, count = stored(collectors)
    assert payloads == boards.payloads()
    assert sum(map(len, boards.sent.values())) == MESSAGES
    assert all(segments.open_segments(collector.directory) == [] for collector in collectors)
    return count


def show(boards, count):
    print(
        f"{boards.published} published, {count} stored, {boards.resent} sent again by boards; "
        f"a device heard {boards.words_seen / len(boards.devices):.0f} words "
        f"of {boards.word_bytes / max(boards.words_seen, 1):.0f} bytes"
    )


@pytest.mark.long
def test_one_collector_killed_at_random_moments(tmp_path, mosquitto):
    with at_work(tmp_path, mosquitto) as (collectors, boards):
        highest = play(boards, collectors, random.Random(SEED))
        count = finish(boards, collectors)
    assert highest > 0
    show(boards, count)


@pytest.mark.long
def test_the_broker_killed_at_random_moments(tmp_path, mosquitto):
    """It forgets what it queued, and may forget that we subscribed: the boards send again what was
    not confirmed."""
    rng, highest = random.Random(SEED), -1
    with at_work(tmp_path, mosquitto) as (collectors, boards):
        for kill in moments(boards, rng):
            mosquitto.kill()
            if kill % 3 == 2:
                highest = max(highest, check_words(boards, collectors))
            mosquitto.start()
            if kill % 3 == 2:
                restart(collectors, rng)
            assert collectors[0].alive
        count = finish(boards, collectors)
    assert highest > 0
    show(boards, count)


@pytest.mark.long
def test_three_collectors_of_a_group_killed_at_random_moments(tmp_path, mosquitto):
    names, options = ("c1", "c2", "c3"), ("--share", "fleet")
    with at_work(tmp_path, mosquitto, names, options) as (collectors, boards):
        highest = play(boards, collectors, random.Random(SEED))
        count = finish(boards, collectors)
    assert highest > 0
    # each had its share
    assert all(len(stored([collector])[2]) > MESSAGES / 10 for collector in collectors)
    show(boards, count)
