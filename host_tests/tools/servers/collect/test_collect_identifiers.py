# cpython-only: tests a desktop tool
"""The packet identifiers of other people's messages beside a log on disk."""

import pytest

from outpost_tools.log import segments
from outpost_tools.servers.collect.batch import Entry
from outpost_tools.servers.collect.identifiers import IdentifierFile, digest

TOPIC, NOW_MS = b"plugs/a", 1_768_478_400_000
EARLIER, ONE, TWO, LATER = b"\0\7", b"\0\1", b"\0\2", b"\0\x08"


def entry(packet_id, data, ms=NOW_MS):
    return Entry(0, packet_id, digest(TOPIC, data), ms)


def store(kept, *entries):
    kept.announce(entries)
    kept.stored(entries)


def log_of(folder, *messages):
    """Seals a segment with these (topic, payload, arrival)."""
    writer = segments.SegmentWriter(folder, max_bytes=1 << 20)
    for topic, data, ms in messages:
        writer.append(segments.encode_frame(ms, topic, data))
    writer.commit()
    writer.seal()


@pytest.mark.parametrize(
    ("in_log", "known"),
    [
        ([(TOPIC, b"2", NOW_MS)], {ONE}),
        ([], set()),
        ([(TOPIC, b"2", NOW_MS), (TOPIC, b"2", NOW_MS)], {ONE, TWO}),
        ([(TOPIC, b"2", NOW_MS - 1)], set()),
        ([(b"plugs/b", b"2", NOW_MS)], set()),
    ],
)
def test_of_the_last_batch_only_what_is_in_the_log_is_believed(tmp_path, in_log, known):
    """Two equal messages, announced; the process ended before or while they were stored."""
    kept = IdentifierFile(tmp_path)
    store(kept, entry(EARLIER, b"earlier", NOW_MS - 9))
    kept.announce([entry(ONE, b"2"), entry(TWO, b"2")])
    log_of(tmp_path, (TOPIC, b"earlier", NOW_MS - 9), *in_log)
    for turn in range(2):
        kept = IdentifierFile(tmp_path)
        assert kept.load().keys() - {LATER} == {EARLIER, *known}
        store(kept, entry(LATER, b"%d" % turn))
    assert kept.load()[EARLIER] == digest(TOPIC, b"earlier")


def test_a_torn_end_of_the_file_costs_nothing_else(tmp_path):
    store(IdentifierFile(tmp_path), entry(ONE, b"1"))
    log_of(tmp_path, (TOPIC, b"1", NOW_MS), (TOPIC, b"2", NOW_MS))
    with (tmp_path / "foreign.ids").open("ab") as torn:
        torn.write(b"\0\1\2")
    for _ in range(2):
        kept = IdentifierFile(tmp_path)
        assert kept.load()[ONE] == digest(TOPIC, b"1")
        store(kept, entry(TWO, b"2"))
    assert (tmp_path / "foreign.ids").stat().st_size % 18 == 0


def test_the_file_stays_bounded(tmp_path):
    kept = IdentifierFile(tmp_path)
    for turn in range(7):
        hashed = b"%08d" % turn
        ids = (n.to_bytes(2, "big") for n in range(1, 65_536))
        store(kept, *[Entry(0, one, hashed, NOW_MS) for one in ids])
    assert (tmp_path / "foreign.ids").stat().st_size <= 5 * 18 * 65_536


def test_a_lost_session_deletes_the_file(tmp_path):
    kept = IdentifierFile(tmp_path)
    store(kept, entry(ONE, b"1"))
    log_of(tmp_path, (TOPIC, b"1", NOW_MS))
    kept.forget()
    assert IdentifierFile(tmp_path).load() == {}
