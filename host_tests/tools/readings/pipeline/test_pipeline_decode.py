# cpython-only: Arrow
"""The fast reader of segments returns the exact reader's rows, whatever is in the log."""

import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ground_truth import SEED
from message_samples import BAD_BYTES, BAD_LABELS, CBOR, HEAD, SENML, SENML_REFUSED, cbor_pack, pack
from optional_packages import needed
from outpost_tools.log import collector_notes, segments

with needed("the pipeline's packages"):
    import fuzz_messages
    from outpost_tools.readings.pipeline import decode, exact, schemas

TOPIC = b"outpost/board-1/data"
REASON = schemas.FRAME.get_field_index("reason")


def segment(
    *payloads: bytes, topic: bytes = TOPIC, retain: bool = False, received_ms: int = 1000
) -> bytes:
    """Received, unless told otherwise, by a collector whose clock was not set."""
    frames = [
        segments.encode_frame(received_ms + n, topic, content, retain=retain)
        for n, content in enumerate(payloads)
    ]
    return segments.sealed_bytes(frames)


def fast(data: bytes) -> list[tuple]:
    batches = list(decode.segment_batches(data, "c", 3))
    assert all(batch.schema == schemas.FRAME for batch in batches)
    names = [name for name in schemas.FRAME.names if name not in ("time", "received")]
    rows = []
    for batch in batches:
        columns = {name: batch[name].to_pylist() for name in names}
        columns |= {name: batch[name].cast("int64").to_pylist() for name in ("time", "received")}
        rows += list(zip(*(columns[name] for name in schemas.FRAME.names), strict=True))
    return rows


def assert_same(data: bytes) -> list[tuple]:
    """Both readers' rows, compared as text: 0.0 is not -0.0, 1 is not 1.0."""
    found, expected = fast(data), list(exact.segment_rows(data, "c", 3))
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    return found


def reads_fast(data: bytes, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the exact reader is not asked."""
    with monkeypatch.context() as patch:
        patch.setattr(exact, "frame_rows", lambda *_: pytest.fail("asked the exact reader"))
        try:
            fast(data)
        except pytest.fail.Exception:
            return False
    return True


TIMES = [
    {"t": -1.5},
    {"t": 1e300},
    {"t": -1e300},
    {"t": None},
    {"bt": None, "up": 1.5, "t": 2},
    {"bt": None},
    {"bt": None, "t": 9e99},
    {"up": 1 << 30},
    {"up": (1 << 30) + 1},
    {"v": -1e38},
]
ODD = [
    b'[{"n":"a","v":1,"v":2}]',
    pack(n="°C \U0001f600"),
    pack().replace(b"load", "°".encode()),
    pack(n="\x00"),
    pack(extra=1),
    pack({"n": "a", "v": 1, "seq": "x"}),
    pack({"n": "", "v": 1}),
    pack({"n": "a", "v": 1, "u": ""}),
    pack().replace(b'"v": 0.42', b'"v": 1, "v": 0.42'),
    pack().replace(b'"v": 0.42', b'"v": 1.5, "v": null'),
    pack().replace(b'"v": 0.42', b'"v": -0.0, "t": -0.0'),
    pack().replace(b'"v": 0.42', b'"v": -0'),
    pack().replace(b'"v": 0.42', b'"v": 01'),
    pack().replace(b'"v": 0.42', b'"v": 1e-400'),
    pack().replace(b'"v": 0.42', b'"v": 0.' + b"1" * 900),
    pack().replace(b'"v": 0.42', b'"v": 9007199254740993'),
    pack().replace(b'"seq": 1234', b'"seq": 1.234e3'),
    pack().replace(b'"seq": 1234', b'"seq": 1234, "seq": 5e0'),
    b" \n\t" + pack() + b"\r\n ",
    pack() + b"\x0b",
    pack(**{"": 1}),
    b'[{"x":' + b"[" * 5000 + b"]" * 5000 + b"}]",
    pack()[:-1] + b',{"n":"a","v":1,"x":' + b'{"x":' * 300 + b"1" + b"}" * 300 + b"}]",
    b"\xef\xbb\xbf" + pack(),
]
CORPUS = (
    [b for b, _ in BAD_BYTES]
    + [pack(**c) for c, _ in BAD_LABELS]
    + ODD
    + [pack(**c) for c in TIMES]
    + [c for c, _ in CBOR]
    + [pack(*records, **changes) for records, changes, _ in SENML + SENML_REFUSED]
)


@pytest.mark.parametrize("content", CORPUS, ids=range(len(CORPUS)))
def test_each_odd_message_alone_and_between_good_ones(content):
    assert_same(segment(content))
    assert_same(segment(pack(), content, pack(seq=1235)))


DAY_MS = 86_400_000
BT_MS = round(HEAD["bt"] * 1000)


@pytest.mark.parametrize("days", [-32, -31, -30, 0, 5 * 365 - 1, 5 * 365, 5 * 365 + 1])
@pytest.mark.parametrize("edge_ms", [-1, 0, 1])
def test_times_far_from_the_arrival(days, edge_ms):
    contents = [pack(), *(pack({"n": "a", "v": 1}, **change) for change in TIMES)]
    contents += [pack({"n": "a", "v": 1, "t": t * 86_400 + edge_ms / 1000}) for t in (-31, 31)]
    assert_same(segment(*contents, received_ms=BT_MS + days * DAY_MS + edge_ms))


def test_all_odd_messages_together_in_more_chunks_than_one(monkeypatch):
    monkeypatch.setattr(decode, "_FRAMES_PER_BATCH", 7)
    contents = [pack(seq=2000 + n) for n in range(100)] + CORPUS
    random.Random(SEED).shuffle(contents)
    rows = assert_same(segment(*contents))
    assert sum(row[REASON] is None for row in rows) >= 100


@pytest.mark.parametrize(
    "topic",
    [
        b"outpost/board-2/data",
        b"data",
        b"",
        b"a/b/board-1/x",
        b"\xff/board-1/data",
        b"../board-1/data",
    ],
)
def test_topics(topic):
    assert_same(segment(pack(), pack(seq=1235), topic=topic))


def test_a_collectors_note_about_itself_has_its_reason():
    """Among messages; the report counts it by this reason."""
    notes = segment(
        collector_notes.payload(collector_notes.TAKEN_OVER, 3),
        b"[]",
        topic=collector_notes.topic("outpost", "c"),
    )
    reasons = [row[REASON] for row in assert_same(notes)]
    assert reasons == [
        collector_notes.REASONS[collector_notes.TAKEN_OVER],
        "collector: a note of another version",
    ]


def test_retained_and_cut_frames():
    assert_same(segment(pack(), retain=True))
    assert_same(segment(pack() + b" " * 70_000, pack()))
    assert_same(
        segment(pack() + b" " * (16_384 - len(pack())), pack() + b" " * (16_385 - len(pack())))
    )


def test_real_messages_are_read_fast_and_cbor_and_trouble_are_not(monkeypatch):
    head = (
        b'{"bn":"board-1/","ver":1,"sid":"e0601a09","seq":0,"held":0,"boot":1,"bt":1795235136.075'
    )
    real = b"[" + head + b',"n":"load","v":0.34},{"n":"memory","u":"KiB","v":24184548}]'
    assert reads_fast(
        segment(real, real.replace(b'"bt":1795235136.075', b'"up":3.250'), pack(n="°")), monkeypatch
    )
    assert not reads_fast(segment(real, b"x"), monkeypatch)
    assert not reads_fast(segment(cbor_pack()), monkeypatch)


@pytest.mark.parametrize("cut", [0, 4, 8, 9, 20, 150, -1])
def test_torn_and_foreign_files(cut):
    assert_same(segment(pack(), pack(seq=1235))[:cut] if cut else b"PAR1 is no segment")


def test_flipped_bits():
    whole, chance = segment(pack(), b"junk", pack(seq=1235)), random.Random(SEED)
    for _ in range(200):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        assert_same(bytes(data))


_LABELS = st.sampled_from([*HEAD, "n", "u", "v", "t", "up", "x"])
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
)
_CHANGES = st.dictionaries(_LABELS, _VALUES | st.lists(_VALUES, max_size=2), max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(_CHANGES, st.lists(_CHANGES, max_size=2)), max_size=5))
@example([({"bt": 1 << 28, "t": -0.1}, [])])
def test_any_labels_give_the_same_rows(packs):
    assert_same(
        segment(
            *(
                json.dumps([HEAD | {"n": "load", "v": 1} | first, *rest]).encode()
                for first, rest in packs
            )
        )
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4), st.integers(0, 10**6), st.integers(0, 255))
def test_any_bytes_and_any_changed_byte_give_the_same_rows(junk, place, value):
    changed = bytearray(pack({"n": "a", "v": 1.5}))
    changed[place % len(changed)] = value
    assert_same(segment(pack(), bytes(changed), *junk))


def test_hostile_messages_read_the_same_and_stay_within_the_bounds():
    """The short form of `make fuzz`."""
    outcomes = fuzz_messages.fuzz(5000, SEED)
    assert outcomes["taken in"] > 1000
    assert len(outcomes) > 50


def test_a_sensor_that_is_left_out_shifts_no_other_one(monkeypatch):
    """Names tell sensors apart, places do not: the firmware leaves out what failed, because a null
    in its place would refuse the whole pack."""
    head = {"bn": "board-1/", "ver": 1, "sid": "3fa9c1d2", "held": 0, "boot": 1, "bt": 1.0e9}
    sensors = [{"n": "load", "v": 1}, {"n": "attic", "u": "Cel", "v": 21.5}, {"n": "door", "v": 0}]
    without = [sensors[0], {"n": "door", "v": 0}, {"n": "attic.fault", "v": 1}]
    packs = [
        json.dumps([head | {"seq": seq} | one[0], *one[1:]]).encode()
        for seq, one in enumerate((sensors, without))
    ]
    data = segment(*packs, received_ms=1_000_000_001_000)
    assert reads_fast(data, monkeypatch)
    names = ("seq", "name", "value", "reason")
    places = [schemas.FRAME.get_field_index(name) for name in names]
    rows = [[row[place] for place in places] for row in assert_same(data)]
    for name, value in (("load", 1.0), ("door", 0.0)):
        assert [row for row in rows if row[1] == name] == [[n, name, value, None] for n in (0, 1)]
    null = json.dumps([head | {"seq": 0} | sensors[0], {"n": "attic", "v": None}]).encode()
    refused = assert_same(segment(null, received_ms=1_000_000_001_000))
    assert [row[REASON] for row in refused] == ["record 1: no value"]
