# cpython-only: runs a desktop tool as a process, against real mosquitto
"""A collector on a restored or new disk under an old id: refused, because the pipeline would skip
numbers given twice.
"""

import shutil

import pytest

from collector_process import (
    LIMIT_S,
    TOPIC,
    Process,
    Watcher,
    disconnect,
    mosquitto,
    payload,
    wait_until,
)
from outpost_tools.errors import ToolError
from outpost_tools.servers.collect.place import check, topic_of
from test_collect_robust import session_is_present

_ = mosquitto  # a fixture
EACH_SEALS = ["--segment-bytes", "1"]


@pytest.mark.parametrize(
    ("stored_through", "remembered", "outcome"),
    [
        (-1, None, "well"),  # the first start
        (4, None, "warned"),  # the broker lost it
        (4, 4, "well"),
        (5, 4, "well"),  # killed before it was confirmed
        (4, 5, "refused"),
        (-1, 0, "refused"),
    ],
)
def test_what_a_memory_means(stored_through, remembered, outcome):
    if outcome == "refused":
        with pytest.raises(
            ToolError, match=f"segment {remembered} was written under this id.*new --id"
        ):
            check("log/c1", stored_through, remembered)
    else:
        assert (check("log/c1", stored_through, remembered) is not None) == (outcome == "warned")


def send(watcher, numbers):
    """One after the other, so that each is a group and a segment, until its word to the board."""
    for seq in numbers:
        watcher.client.publish(TOPIC, payload(seq), qos=1)
        wait_until(lambda seq=seq: watcher.numbers("b1")[-1:] == [seq])


@pytest.fixture
def collector(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port, options=EACH_SEALS) as collector:
        collector.wait_subscribed()
        yield collector


@pytest.fixture
def board(mosquitto):
    """Publishes, and receives the confirmations."""
    watcher = Watcher(mosquitto)
    yield watcher
    disconnect(watcher.client)


def test_an_old_copy_of_the_disk_is_refused_and_a_new_id_goes_on(
    tmp_path, mosquitto, collector, board
):
    send(board, range(3))
    shutil.copytree(collector.directory, tmp_path / "backup")
    send(board, range(3, 6))
    collector.kill()
    lost = collector.directory.rename(tmp_path / "lost")
    shutil.copytree(tmp_path / "backup", collector.directory)
    before = sorted(path.name for path in collector.directory.glob("*.seg"))

    board.client.publish(TOPIC, payload(6), qos=1).wait_for_publish(LIMIT_S)
    collector.start()
    wait_until(lambda: not collector.alive)
    assert collector.status == 2
    complaint = collector.text().splitlines()[-1]
    assert (
        "ends at segment 2, but segment 5 was written under this id" in complaint
        and "new --id" in complaint
    )
    # nothing was taken
    assert sorted(path.name for path in collector.directory.glob("*.seg")) == before
    assert not session_is_present(mosquitto.port, b"c1~place")

    # the right disk comes back: all is well, and what waited is taken
    shutil.rmtree(collector.directory)
    lost.rename(collector.directory)
    collector.start()
    wait_until(lambda: payload(6) in collector.payloads())

    with Process(tmp_path, mosquitto.port, options=EACH_SEALS, name="c2") as other:
        other.wait_subscribed()


def test_an_empty_disk_is_refused_unless_on_purpose(tmp_path, mosquitto, collector, board):
    send(board, range(2))
    assert collector.terminate() == 0
    shutil.rmtree(collector.directory)
    collector.start()
    wait_until(lambda: not collector.alive)
    assert collector.status == 2 and "has no segment, but segment 1" in collector.text()

    recreated = Process(tmp_path, mosquitto.port, options=[*EACH_SEALS, "--new-log"])
    with recreated:
        recreated.wait_subscribed(2)
        send(board, [0])
    collector.start()  # from now on the broker remembers the new log
    collector.wait_subscribed(3)


def test_the_same_disk_comes_back_after_kills_at_any_moment(collector, board):
    for n in range(6):
        board.client.publish(TOPIC, payload(n), qos=1)
        collector.kill()
        collector.start()
    wait_until(lambda: {payload(n) for n in range(6)} <= set(collector.payloads()))
    assert collector.alive


def test_a_broker_that_remembers_nothing_is_told_of(mosquitto, collector, board):
    send(board, range(2))
    collector.kill()
    forgotten = board.client.publish(topic_of("outpost", "c1"), b"", qos=1, retain=True)
    forgotten.wait_for_publish(LIMIT_S)
    collector.start()
    collector.wait_subscribed(2)
    assert "does not remember how far" in collector.text() and "new --id" in collector.text()
    collector.kill()
    collector.start()
    collector.wait_subscribed(3)
    assert collector.text().count("does not remember") == 1


def test_the_open_segment_counts_before_it_is_sealed(tmp_path, mosquitto, board):
    """It becomes visible to readers without another word from the collector: by the next start's
    recovery.
    """
    with Process(tmp_path, mosquitto.port) as collector:
        collector.wait_subscribed()
        send(board, [0])
        assert list(collector.directory.glob("*.open"))
        collector.kill()
        shutil.rmtree(collector.directory)
        collector.start()
        wait_until(lambda: not collector.alive)
        assert "segment 0 was written" in collector.text()
