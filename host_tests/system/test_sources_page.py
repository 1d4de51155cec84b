# cpython-only: Arrow and Delta Lake, and real mosquitto
"""The lines of the page about other people's messages, read from it and typed as they are printed,
by a newcomer at a real mosquitto with traffic of all eight kinds: from the broker to a Parquet
file, and a mapping that was wrong. Afterwards the values are those that were sent.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from optional_packages import needed
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from page_lines import sections
from paths import REPOSITORY
from person import Lines, Person
from real_broker import need_mosquitto, wait_for

with needed("the pipeline's packages"):
    import pyarrow.parquet as pq

    import foreign_meaning
    from foreign_traffic import KINDS, Publisher, Sent
    from outpost_tools.log import segments
    from outpost_tools.readings.pipeline import quarantine, tables
    from outpost_tools.readings.sources import file

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
PAGE = Path("tools/outpost_tools/readings/sources/README.md")
FIRST, WRONG = (PAGE, "Other people's messages"), (PAGE, "When a mapping was wrong")
REPLACEMENTS = ((r"127\.0\.0\.1:1883", "127.0.0.1:{mqtt}"),)
NOT_TYPED = {"pip install": "fetches packages"}
READING_S = 300  # of ten minutes, for the person's own reading


class Traffic:
    """A round of all kinds each second, while it is on."""

    def __init__(self, port: int) -> None:
        self._publisher = Publisher("127.0.0.1", port)
        self._is_on, self._is_over = threading.Event(), threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._is_on.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._publisher.close()

    def _run(self) -> None:
        while not self._is_over.wait(1):
            with self._turn:
                if self._is_on.is_set():
                    self._publisher.publish()

    def pause(self) -> int:
        """How many messages were sent, and acknowledged by the broker."""
        self._is_on.clear()
        with self._turn:
            return len(self.sent)

    def resume(self) -> None:
        self._is_on.set()

    @property
    def sent(self) -> list[Sent]:
        return self._publisher.sent


def meant(sent: list[Sent]) -> Counter:
    return Counter(one for message in sent for one in foreign_meaning.of(message))


def found(rows: list[dict], wanted: Counter) -> Counter:
    """As `wanted` says it. The time of an arrival is missing if this machine's clock may be wrong:
    no board confirms it here."""
    by_arrival = {(device, name) for device, name, _, time in wanted if time is None}
    counted = Counter()
    for row in rows:
        time = row["time"] and round(row["time"].timestamp() * 1_000_000)
        if (row["device"], row["name"]) in by_arrival:
            assert row["time"] in (None, row["received"])
            time = None
        counted[row["device"], row["name"], row["value"], time] += 1
    return counted


@pytest.fixture
def lines() -> Lines:
    return Lines(REPOSITORY, [FIRST, WRONG])


@pytest.fixture
def traffic(tmp_path) -> Iterator[Traffic]:
    need_mosquitto()
    with Broker("mosquitto", tmp_path / "broker") as broker, Traffic(broker.port) as traffic:
        traffic.port = broker.port
        yield traffic


@pytest.fixture
def person(tmp_path, lines, traffic) -> Person:
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    around = children.tools_environment(PATH=programs)
    made = Person("newcomer", tmp_path / "newcomer", lines, around, REPLACEMENTS)
    made.here["mqtt"] = traffic.port
    return made


def frames(log: Path) -> list[segments.Frame]:
    """What is in segments, sealed or not."""
    with contextlib.suppress(FileNotFoundError):  # one is being sealed
        paths = [*log.glob("*/*.seg"), *log.glob("*/*.open")]
        return [f for one in paths if one.stat().st_size for f in segments.read_segment(one)]
    return []


def collected(person: Person, traffic: Traffic) -> list[Sent]:
    """What was sent while the collector ran. The broker is quiet while it subscribes, so that all
    of it is to be stored."""
    before = traffic.pause()
    text = (person.folder / "sources.toml").read_text()
    filters = 1 + len(file.parse(text, "draft").topics)

    def is_up(said: str) -> bool:
        return said.count("subscribed to") == filters

    with person.leaves(FIRST, "outpost collect", is_up):
        traffic.resume()
        wait_for(lambda: len(traffic.sent) > before + 100, "some rounds")
        end = traffic.pause()
        last = traffic.sent[-1].payload
        wait_for(
            lambda: last in [one.payload for one in frames(person.folder / "log")], "all of it"
        )
    return traffic.sent[before:end]


def test_a_newcomer_gets_from_a_broker_to_a_parquet_file(person, traffic, lines):
    """And mends a mapping afterwards. No line is left that nobody types."""
    person.types(FIRST, "outpost sources learn", said="listening at")
    person.types(FIRST, "outpost sources check sources.toml  ", said="as they must be")
    person.types(FIRST, "outpost sources check sources.toml --broker", said="once by identifier")
    sent = collected(person, traffic)
    assert {one.kind for one in sent} == {*KINDS}
    person.types(FIRST, "outpost export", said="readings to readings.parquet")
    seconds = sum(one.seconds for one in person.steps)
    wanted = meant(sent)
    rows = pq.read_table(person.folder / "readings.parquet").to_pylist()
    assert found(rows, wanted) == wanted
    print(f"from a broker to a Parquet file: {seconds:.0f} s, without reading and typing")
    assert "ten minutes" not in sections(REPOSITORY / PAGE)[FIRST[1]] or seconds < READING_S
    person.types(FIRST, "outpost sources ready", said="Tasmota")
    person.types(FIRST, "outpost sources --help", said="no_value")
    mend(person, wanted)
    assert lines.left(NOT_TYPED) == []


def mend(person: Person, wanted: Counter) -> None:
    """A source refuses its messages, another one has a wrong scale; both are mended, one by one."""
    right = (person.folder / "sources.toml").read_text()
    refuses = right.replace('    "UptimeSec",\n', "").replace('    "POWER",\n', "")
    scaled = right.replace('"params.*.apower"', '"params.*.apower", scale = 1000')
    assert refuses != right != scaled and right.count('name = "tasmota-state"') == 1
    wrong = refuses.replace('"params.*.apower"', '"params.*.apower", scale = 1000')
    edited(person, wrong)
    person.types(WRONG, "outpost pipeline run")
    refused = quarantine.reasons(person.folder / "tables")
    assert {one.partition(":")[0] for one in refused} == {"tasmota-state"}
    edited(person, scaled)
    said = person.types(WRONG, "outpost pipeline replay --tables tables --reason")
    assert said.startswith(f"{refused.total()} frames leave quarantine")
    person.types(WRONG, "outpost pipeline run")
    assert not quarantine.reasons(person.folder / "tables")
    assert {*in_tables(person, wanted)} - {*wanted}, "the values are still wrong"
    edited(person, right)
    person.types(WRONG, "outpost pipeline replay --tables tables --log", said="are read again")
    person.types(WRONG, "outpost pipeline run")
    assert in_tables(person, wanted) == wanted


def edited(person: Person, text: str) -> None:
    person.does("edits sources.toml", lambda: (person.folder / "sources.toml").write_text(text))


def in_tables(person: Person, wanted: Counter) -> Counter:
    columns = ["device", "name", "value", "time", "received"]
    rows = tables.read_table(person.folder / "tables", "readings", columns).to_pylist()
    return found(rows, wanted)
