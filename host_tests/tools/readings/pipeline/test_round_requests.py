# cpython-only: Arrow, Delta Lake and a real S3 server
"""What a round asks a bucket for may not grow: LIST and PUT cost most, and every table's log is
asked for what is new and no more."""

from collections import Counter

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    import round_requests
    from outpost_tools.readings.pipeline import tables

BOARDS = 3  # in buckets of their own
COLUMNS = ("LIST", "PUT", "GET", "HEAD", "DELETE")
# Each board's bucket has a file of its own in eight tables, and most replace one that is read.
BUDGET = {
    "waiting": (2, 0, 6, 1, 0),
    "continuous": (2, 10 + 8 * BOARDS, 12 + 5 * BOARDS, 1, 0),
    "idle": (2, 2, 83, 2, 1),
    "call": (2, 12 + 8 * BOARDS, 76 + 6 * BOARDS, 2, 1),
    "checkpoint": (2, 2, 34, 1, 0),
}

pytestmark = pytest.mark.long  # half a minute: a thousand boards in a bucket


@pytest.fixture(scope="module")
def found(object_server, tmp_path_factory):
    import faulty_store

    folder = tmp_path_factory.mktemp("requests")
    with pytest.MonkeyPatch.context() as patch, faulty_store.FaultyStore(object_server.port) as one:
        for name, text in one.environment.items():
            patch.setenv(name, text)
        yield round_requests.measure(object_server, one, folder, BOARDS)


@pytest.mark.parametrize("name", BUDGET)
def test_a_call_asks_for_no_more_than_it_did(found, name):
    counts = round_requests.by_kind(found[name])
    limits = dict(zip(COLUMNS, BUDGET[name], strict=True))
    over = {kind: (counts[kind], limits[kind]) for kind in COLUMNS if counts[kind] > limits[kind]}
    assert not over and {*counts} <= {*COLUMNS}, (over, round_requests.detail(found[name]))


def test_a_round_asks_each_tables_log_once_and_writes_it_once(found):
    """But for the state of the streams, whose commit ends the round."""
    seen = Counter(
        (round_requests.purpose(path), kind)
        for kind, path in found["continuous"]
        if "_delta_log" in path
    )
    for name in tables.ALL:
        place = f"log of {name}"
        assert seen[place, "PUT"] == 1 and seen[place, "LIST"] == 0
        assert seen[place, "GET"] == (2 if name == "streams" else 1), name


def test_a_round_lists_the_log_and_nothing_else(found):
    for name in ("waiting", "continuous", "idle", "call", "more"):
        listed = [path for kind, path in found[name] if kind == "LIST"]
        assert [round_requests.purpose(path) for path in listed] == 2 * ["the collectors' log"]
