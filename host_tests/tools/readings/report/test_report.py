# cpython-only: pandas and plotly
"""The page: its words, its order, its series, and that nothing from a message becomes HTML. Its
tables are made without Spark.

How it looks and behaves in a browser: test_report_browser.py.
"""

import base64
import datetime
import gzip
import json
import re
import resource

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    import pandas as pd
    import pyarrow as pa

    import report_fleet
    from outpost_tools.attention import attention
    from outpost_tools.readings.pipeline import health, schemas, tables
    from outpost_tools.readings.report import data, fleet, outages, pack, page
    from outpost_tools.readings.report import reading as reading_
    from outpost_tools.text import words

from outpost_tools import cli
from outpost_tools.errors import ToolError

BEGIN = datetime.datetime(2025, 11, 21, 3, tzinfo=datetime.UTC)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def put(tables_dir, name: str, rows: list[dict], schema: pa.Schema | None = None) -> None:
    report_fleet.put(tables_dir, name, pa.Table.from_pylist(rows, schema=schema))


def reading(
    device: str,
    seq: int,
    name: str = "load",
    unit: str | None = None,
    delay_ms: int = 20,
    **changes,
) -> dict:
    time = BEGIN + datetime.timedelta(seconds=seq)
    row = {
        "device": device,
        "stream": "00000001",
        "seq": seq,
        "record": 0,
        "boot": 1,
        "held": 0,
        "name": name,
    }
    row |= {
        "unit": unit,
        "value": seq / 10,
        "time": time,
        "received": time + datetime.timedelta(milliseconds=delay_ms),
    }
    return row | {"collector": "c", "segment": 0, "offset": seq} | changes


def device_row(device: str, **changes) -> dict:
    row = dict.fromkeys(
        ["readings_without_time", "redelivered", "missing_closed", "missing_open", "last_boot"], 0
    ) | dict.fromkeys((*health.NAMES, "conflicts", "two_boards", "went_back"), 0)
    row |= {
        "device": device,
        "messages": 60,
        "readings": 60,
        "boots": 1,
        "backlog_max": 3,
        "backlog_last": 0,
    }
    return row | {"first_seen": BEGIN, "last_seen": BEGIN, "streams": 1, "received": 60} | changes


def make(tables_dir, devices: list[dict], readings: list[dict], gaps=(), quarantine=()) -> None:
    put(tables_dir, "readings", readings, schemas.READING)
    put(tables_dir, "devices", devices)
    delays = {"count": 60, "p50_ms": 20.0, "p95_ms": 30.0, "p99_ms": 3400.0, "max_ms": 7_200_000.0}
    put(tables_dir, "latency", [{"device": row["device"]} | delays for row in devices])
    kinds = [
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("count", pa.int64()),
        ("state", pa.string()),
    ]
    put(
        tables_dir,
        "gaps",
        list(gaps),
        pa.schema([("device", pa.string()), ("stream", pa.string()), *kinds]),
    )
    put(
        tables_dir,
        "quarantine",
        list(quarantine),
        pa.schema([schemas.FRAME.field(n) for n in schemas.QUARANTINE]),
    )


def refused(reason: str, topic: str, payload: bytes, offset: int = 0) -> dict:
    row = {"reason": reason, "topic": topic, "payload": payload, "received": BEGIN}
    return row | {"collector": "c", "segment": 0, "offset": offset}


@pytest.fixture
def tables_dir(tmp_path):
    readings = [
        reading(f"board-{n}", seq)
        for n in (1, 2)
        for seq in range(60)
        if not (n == 2 and 20 <= seq < 40)
    ]
    gap = {
        "device": "board-2",
        "stream": "00000001",
        "first": 20,
        "last": 39,
        "count": 20,
        "state": "closed",
    }
    devices = [device_row("board-1"), device_row("board-2", missing_closed=20, redelivered=7)]
    bad = [refused("not JSON", "outpost/board-1/data", b"{", n) for n in range(3)]
    make(tmp_path / "tables", devices, readings, [gap], bad)
    return tmp_path / "tables"


def write_events(path, *events: tuple) -> None:
    names = ("time_ms", "kind", "device")
    start = int(BEGIN.timestamp() * 1000)
    path.write_text(
        json.dumps([dict(zip(names, (start + ms, *rest), strict=True)) for ms, *rest in events])
    )


def text_of(html: str) -> str:
    """The page without its packed parts and its script."""
    return html[: html.index('<script type="text/plain"')] if "text/plain" in html else html


def series_of(html: str) -> dict:
    packed = re.search(r'id="series">([^<]*)<', html).group(1)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def rendered(tables_dir, events=None, title="Test") -> str:
    return page.render(data.load(tables_dir, events), title)


def order_of(html: str) -> list[str]:
    return re.findall(r'aria-expanded="false">([^<]*)<', html)


def test_the_first_lines_say_what_to_conclude(tables_dir):
    html = text_of(rendered(tables_dir))
    assert "1 of 2 devices needs attention:</span> <span>✕ lost messages: 1<" in html
    assert (
        "<b>20</b>lost permanently" in html
        and "<b>7</b>sent twice" in html
        and "<b>3</b>quarantined" in html
    )
    assert "Gaps: 20 messages lost in 1 gap, 0 may still come" in html
    assert "Quarantine: 3 payloads for 1 reason" in html
    assert "Delivery latency: half within 20 ms, 99 % within 20 ms, the slowest 20 ms" in html
    assert order_of(html) == ["board-2", "board-1"]  # losses first


def test_what_a_board_says_of_its_flash_needs_attention_and_says_what_to_do(tmp_path):
    rows = [
        device_row("cellar", left_out=2, mended=5),
        device_row("roof", aside=1, not_published=12),
        device_row("pump", pins_lost=1),
        device_row("shed"),
    ]
    readings = [reading(row["device"], seq) for row in rows for seq in range(9)]
    readings += [reading("cellar", 9, name) for name in health.NAMES]
    make(tmp_path / "t", rows, readings)
    html = text_of(rendered(tmp_path / "t"))
    assert "3 of 4 devices need attention:" in html
    for chip in ("▦ 2 flash blocks left out", "⊟ 1 set aside", "⚑ 1 outbox file gone"):
        assert chip in html
    assert order_of(html) == ["pump", "roof", "cellar", "shed"]
    todo = html[html.index("What to do about it") : html.index("</details>")]
    for words in ("replace the board", "outpost outbox aside list", "outpost outbox new", "cellar"):
        assert words in todo
    assert "flipped bits mended" not in todo  # nothing to do about them
    assert "outbox: 5 flipped bits mended" in html
    assert series_of(rendered(tmp_path / "t"))["metrics"] == [["load", ""]]


def test_commands_that_the_page_names_are_there(capsys):
    for kind in attention.KINDS.values():
        for words in re.findall("<code>outpost ([a-z -]*[a-z])", kind.todo):
            with pytest.raises(SystemExit) as ended:
                cli.main([*words.split(" --")[0].split(), "--help"])
            assert ended.value.code == 0, words


def test_a_restart_that_the_events_explain_is_no_fault(tmp_path):
    """The demo cuts the power of its boards; a crash that nobody made counts."""
    rows = [reading("b", seq) | {"boot": seq // 10} for seq in range(80)]
    make(tmp_path / "t", [device_row("b", boots=8)], rows)
    assert "7 restarts in 24 h" in rendered(tmp_path / "t")
    begin_ms = int(BEGIN.timestamp() * 1000)
    events = [{"time_ms": begin_ms + n, "kind": "power cut", "device": "b"} for n in range(7)]
    (tmp_path / "events.json").write_text(json.dumps(events))
    assert "The one device is fine." in rendered(tmp_path / "t", tmp_path / "events.json")


def test_the_page_opens_with_the_headline(tmp_path):
    make(tmp_path / "t", [device_row("b")], [reading("b", 0)])
    html = page.render(data.load(tmp_path / "t", None), "Test", "EXACT: 5 <b>")
    assert html.index("EXACT: 5 &lt;b&gt;") < html.index("The one device is fine.")


def test_a_fleet_without_trouble_says_so(tmp_path):
    names = ["board-10", "board-9", "board-1"]
    make(
        tmp_path / "t",
        [device_row(n) for n in names],
        [reading(n, seq) for n in names for seq in range(60)],
    )
    html = rendered(tmp_path / "t")
    assert (
        "All 3 devices are fine." in html and "Gaps: none" in html and "Quarantine: empty" in html
    )
    assert order_of(html) == ["board-1", "board-9", "board-10"]
    assert "Flash wear: not reported" in html


def seen(**changes) -> dict:
    times = {
        name: pd.Timestamp(BEGIN) + pd.Timedelta(changes.pop(name, 0), "s")
        for name in ("first_seen", "last_seen")
    }
    return device_row("b", last_seen=times["last_seen"], first_seen=times["first_seen"]) | changes


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, ["fine"]),
        ({"missing_closed": 2}, ["lost"]),
        ({"missing_open": 2, "readings_without_time": 1}, ["open", "noclock"]),
        ({"last_seen": -299}, ["fine"]),
        ({"last_seen": -301}, ["silent"]),  # its usual interval is 1 s, the least is 5 minutes
        ({"backlog_last": 100}, ["behind"]),
        ({"backlog_last": 99}, ["fine"]),
        ({"boots": 500}, ["fine"]),  # deep sleep; what counts is `unwanted`
        ({"left_out": 1}, ["worn"]),
        ({"aside": 1}, ["aside"]),
        ({"aside": 2, "not_passed": 1}, ["notpassed"]),
        ({"not_passed": 1}, ["fine"]),  # all of them were exported or sent
        # a connection that ends at such a message looks like another client with the name
        ({"aside": 1, "takeovers": 9}, ["aside"]),
        ({"aside": 1, "takeovers": 9, "not_passed": 1}, ["notpassed"]),
        ({"unheard": 1}, ["unheard"]),
        ({"pins_lost": 1, "left_out": 1}, ["pins"]),
        ({"pins_lost": 1, "left_out": 2}, ["pins", "worn"]),
        ({"not_published": 1}, ["refused"]),
        ({"mended": 1}, ["mended"]),
        ({"torn": 5, "unreadable": 1}, ["fine"]),
        ({"takeovers": 2}, ["takeover"]),
        ({"cut_short": 1}, ["cut"]),
        ({"conflicts": 2, "went_back": 1, "ahead": 1}, ["restored"]),
        ({"ahead": 1}, ["restored"]),
        ({"conflicts": 9, "two_boards": 1, "went_back": 1, "missing_closed": 1}, ["lost", "twins"]),
    ],
)
def test_what_needs_attention(row, expected):
    frame = pd.DataFrame([seen(**row), seen() | {"device": "newest"}])
    report = data.Report(
        frame, None, {}, pd.DataFrame(), pd.DataFrame(), [], pd.DataFrame(), intervals_s={"b": 1.0}
    )
    found = {
        row["device"]: [finding.key for finding in findings]
        for row, findings in data.findings(report)
    }
    assert found["b"] == expected and found["newest"] == ["fine"]


def test_a_board_that_seldom_sends_is_not_silent():
    frame = pd.DataFrame([seen(last_seen=-3600 * 20 + 1), seen() | {"device": "newest"}])
    report = data.Report(
        frame,
        None,
        {},
        pd.DataFrame(),
        pd.DataFrame(),
        [],
        pd.DataFrame(),
        intervals_s={"b": 3600.0},
    )
    assert {findings[0].key for _, findings in data.findings(report)} == {"fine"}


def test_damage_in_the_log_needs_attention_though_every_device_is_fine():
    fine = [({"device": "b"}, [attention.Finding("fine", "fine")])]
    lost = [({"device": "c"}, [attention.Finding("lost", "3 lost")])]
    assert attention.verdict(fine, 2) == [
        "The collector's log needs attention:",
        "☒ damaged pieces of the collector's log: 2",
    ]
    assert attention.verdict(fine + lost, 1)[0] == (
        "1 of 2 devices and the collector's log need attention:"
    )
    assert [kind.key for kind, _ in attention.advice(fine + lost, 1)] == ["damaged", "lost"]


def test_a_collector_whose_id_another_client_uses_needs_attention():
    fine = [({"device": "kitchen"}, [attention.Finding("fine", "fine")])]
    assert attention.verdict(fine, 0, 2) == [
        "The collector needs attention:",
        "⇆ times the collector met another client with its id: 2",
    ]
    (kind, names), *others = attention.advice(fine, 0, 2)
    assert (kind, names, others) == (attention.TAKEN_OVER, [], []) and "--id" in kind.todo


def test_every_state_has_a_sign_of_its_own():
    of_collectors = (attention.DAMAGED, attention.TAKEN_OVER)
    signs = [kind.sign for kind in (*attention.KINDS.values(), *of_collectors)]
    assert len(set(signs)) == len(signs) and all(len(sign) == 1 for sign in signs)


def test_a_silence_is_a_hole_in_series_and_strip(tables_dir):
    report = data.load(tables_dir, None)
    series = series_of(page.render(report, "Test"))
    assert series["metrics"] == [["load", ""]]
    first, mean, low, high = series["values"]["0"]["0"]  # board-2 is the first row
    hole = [at for at, value in enumerate(mean) if value is None]
    assert (
        first == 0
        and hole
        and hole == list(range(hole[0], hole[-1] + 1))
        and low.count(None) == high.count(None) == len(hole)
    )
    assert None not in series["values"]["1"]["0"][1]
    assert (mean[0], low[0], high[0]) == (0.2, 0, 0.4)  # five readings in the first 5 s
    assert [len(runs) for _, runs in sorted(fleet._runs(report.binned).items())] == [1, 2]


def test_a_metric_in_two_units_has_two_charts(tmp_path):
    """One of two boards, and one whose unit changed: 20 degrees Celsius are not 20 Fahrenheit."""
    cel = [reading("kitchen", seq, "t", "Cel", value=20.0 + seq) for seq in range(3)]
    degf = [reading("attic", seq, "t", "degF", value=68.0) for seq in range(2)]
    none = [reading("kitchen", 5, "t", value=1.0)]
    make(tmp_path / "t", [device_row("attic"), device_row("kitchen")], [*cel, *degf, *none])
    html = rendered(tmp_path / "t")
    series, devices = series_of(html), order_of(html)
    assert [name for name, _ in series["metrics"]] == ["t", "t", "t"]
    units = [unit for _, unit in series["metrics"]]
    own = {name: series["values"][str(place)] for place, name in enumerate(devices)}
    assert units == [words.unit_text(unit) for unit in ("Cel", "degF", "")]
    assert {name: sorted(found) for name, found in own.items()} == {
        "kitchen": ["0", "2"], "attic": ["1"],
    }  # fmt: skip


def test_values_keep_what_a_chart_can_show():
    assert pack._step(1000) == 1 and pack._step(5) == 0.001 and pack._step(0) == 0
    assert pack._rounded(pd.Series([101325.12345, None, 7.0]), 0.01) == [101325.12, None, 7]


def test_many_devices_get_fewer_bins():
    many = data.bin_width(86_400, 1, bins=48)
    assert (
        many == 1800 and data.bin_width(86_400, 1) == 600 and data.bin_width(86_400, 3600) == 10_800
    )


def test_wear_from_a_counter_that_begins_anew_at_a_boot():
    values = [("a", 0, 5.0), ("a", 43_200, 9.0), ("a", 86_400, 3.0), ("b", 0, 7.0)]
    rows = [
        {"device": d, "name": "erases", "value": v, "time": BEGIN + datetime.timedelta(seconds=s)}
        for d, s, v in values
    ]
    rows.append(rows[0] | {"name": "outbox_blocks", "value": 16.0})
    found = data.wear(pa.Table.from_pylist(rows)).to_dict("records")
    # b: one word tells no rate
    assert found == [{"device": "a", "erases": 7.0, "seconds": 86_400.0, "blocks": 16.0}]


def test_wear_in_years_on_the_page(tmp_path):
    day = 86_400
    reported = [
        reading("board-1", seq, name="erases", value=value, record=1)
        for seq, value in ((0, 0.0), (day, 16.0))
    ]
    reported += [reading("board-1", 0, name="outbox_blocks", value=16.0, record=2)]
    make(
        tmp_path / "t",
        [device_row("board-1")],
        [reading("board-1", 0), reading("board-1", day), *reported],
    )
    # an erase of each block a day
    assert "Flash wear: the first board in 273.8 years" in rendered(tmp_path / "t")


def test_wear_of_a_few_minutes_tells_no_years(tmp_path):
    told = [reading("b", n * 60, name="erases", value=float(n), record=1) for n in range(9)]
    told += [reading("b", 0, name="outbox_blocks", value=16.0, record=2)]
    make(tmp_path / "t", [device_row("b")], [reading("b", 0), *told])
    assert "Flash wear: too short a time to tell" in rendered(tmp_path / "t")


def test_the_page_needs_no_other_file(tables_dir):
    html = rendered(tables_dir)
    assert "src=" not in text_of(html) and re.findall(r'href="([^"]*)"', text_of(html)) == [
        "data:,"
    ]
    assert "viewport" in html[:400]


def test_nothing_from_a_message_becomes_html(tmp_path):
    readings = [reading("board-1", seq, name=HOSTILE, unit=HOSTILE) for seq in range(5)]
    bad = [refused(HOSTILE, HOSTILE, HOSTILE.encode())]
    gap = {
        "device": HOSTILE,
        "stream": HOSTILE,
        "first": 20,
        "last": 39,
        "count": 20,
        "state": "open",
    }
    make(tmp_path / "tables", [device_row(HOSTILE)], readings, [gap], quarantine=bad)
    write_events(
        tmp_path / "events.json",
        (1, HOSTILE, HOSTILE),
        (2, HOSTILE, None),
        (3, "power cut", "board-1"),
    )
    html = rendered(tmp_path / "tables", tmp_path / "events.json", HOSTILE)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;img" in html


def test_begin_and_end_of_an_outage_are_paired(tmp_path):
    path = tmp_path / "events.json"
    events = [(0, "broker killed", None), (500, "link cut", "board-1"), (900, "broker up", None)]
    write_events(path, *events, (950, "power cut", "board-2"), (2000, "collector up", None))
    found = [
        (o.kind, o.device, (o.end - o.begin) / pd.Timedelta("1ms"))
        for o in outages.load_events(path)
    ]
    assert found == [
        ("broker killed", None, 900),
        ("link cut", "board-1", 1500),
        ("power cut", "board-2", 0),
    ]


def test_outages_are_on_the_page(tables_dir, tmp_path):
    write_events(
        tmp_path / "e.json",
        (0, "broker killed", None),
        (3000, "broker up", None),
        (9000, "power cut", "board-1"),
    )
    html = rendered(tables_dir, tmp_path / "e.json")
    assert (
        "B broker killed" in html
        and "Marks: B broker killed, on the charts of a device ▼ power cut." in html
        and "3 s" in html
        and "Events: 2" in html
    )
    start = int(BEGIN.timestamp() * 1000)
    assert series_of(html)["outages"] == [
        [start, start + 3000, "B", "broker killed", -1],
        [start + 9000, start + 9000, "▼", "power cut", 1],
    ]


def test_devices_that_only_one_table_knows(tmp_path):
    """Silver may be a batch ahead of gold while a run goes on, and a device may have no reading
    with a time.
    """
    make(
        tmp_path / "t",
        [device_row("old"), device_row("board-1")],
        [reading("board-1", 0), reading("new", 1)],
    )
    html = rendered(tmp_path / "t")
    assert order_of(html) == ["board-1", "old"]
    assert set(series_of(html)["values"]["0"]) == {"0"} and series_of(html)["values"]["1"] == {}


def test_columns_that_older_tables_lack_are_no_reason_to_fail(tmp_path):
    make(
        tmp_path / "t",
        [{"device": "b", "first_seen": BEGIN, "last_seen": BEGIN}],
        [reading("b", 0)],
    )
    assert "The one device is fine." in rendered(tmp_path / "t")


def test_readings_without_any_time_give_a_page_without_charts(tmp_path):
    make(
        tmp_path / "t",
        [device_row("board-1", readings_without_time=2)],
        [reading("board-1", n, time=None) for n in (0, 1)],
    )
    html = rendered(tmp_path / "t")
    assert (
        "No reading has a time." in html and "text/plain" not in html and "? 2 without time" in html
    )


def test_empty_tables_give_a_page(tmp_path):
    make(tmp_path / "t", [device_row("x")], [], quarantine=[refused("empty", "t", b"")])
    frame = tables.read_table(tmp_path / "t", "devices").slice(0, 0)
    report_fleet.put(tmp_path / "t", "devices", frame)
    html = rendered(tmp_path / "t")
    assert "<b>0</b>devices" in html and "No device has sent anything yet." in html


@pytest.mark.parametrize(
    "content",
    ["{", '{"a": 1}', "[1]", '[{"kind": "x"}]', '[{"time_ms": "now", "kind": "x"}]']
    + [f'[{{"time_ms": {time}, "kind": "x"}}]' for time in ("1e30", "1763690400000000", "Infinity")]
    + [f'[{{"time_ms": 1, "kind": "x", "device": {name}}}]' for name in ("5", '["a"]')],
)
def test_a_bad_events_file_is_named(tables_dir, tmp_path, capsys, content):
    path = tmp_path / "events.json"
    path.write_text(content)
    line = [
        "report",
        "--tables",
        str(tables_dir),
        "--out",
        str(tmp_path / "r.html"),
        "--events",
        str(path),
    ]
    assert cli.main(line) == 2
    assert capsys.readouterr().err.startswith(f"outpost: {path}: not a JSON list")


def test_missing_tables_are_named(tmp_path, capsys):
    assert cli.main(["report", "--tables", str(tmp_path), "--out", str(tmp_path / "r.html")]) == 2
    assert "run `outpost pipeline run` first" in capsys.readouterr().err


def test_a_full_disk_leaves_the_page_that_was_there(tmp_path):
    """`outpost run` makes it again each 15 minutes, and browsers read it meanwhile."""
    target, out = tmp_path / "kept" / "report.html", tmp_path / "report.html"
    page.write(target, "mine")
    target.chmod(0o640)
    out.symlink_to(target)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ToolError, match="cannot write the page: File too large"):
            page.write(out, "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert target.read_text() == "mine" and list(target.parent.iterdir()) == [target]
    page.write(out, "x" * 2000)
    assert out.is_symlink() and target.read_text() == "x" * 2000
    assert target.stat().st_mode & 0o777 == 0o640


def test_the_command_writes_the_page(tables_dir, tmp_path):
    out = tmp_path / "new" / "report.html"
    assert (
        cli.main(["report", "--tables", str(tables_dir), "--out", str(out), "--title", "A & B"])
        == 0
    )
    assert "<title>A &amp; B</title>" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.4, "0 ms"),
        (999, "999 ms"),
        (3400, "3.4 s"),
        (61_200, "1 min"),
        (90_000, "1.5 min"),
        (900_000, "15 min"),
        (7.2e6, "2 h"),
        (6.048e8, "7 days"),
        (None, "-"),
    ],
)
def test_durations_are_in_the_unit_a_person_would_use(milliseconds, text):
    assert words.duration(milliseconds) == text


def test_a_clock_that_is_ahead_makes_no_delivery_in_less_than_no_time():
    moment = pd.Timestamp("2026-11-22T10:00:00Z")
    times = [moment, moment + pd.Timedelta(seconds=5)]
    rows = pa.table(
        {
            "device": ["a", "b"],
            "record": [0, 0],
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "received": pa.array([moment + pd.Timedelta("2s")] * 2, pa.timestamp("us", "UTC")),
            "clock_unset": pa.nulls(2, pa.bool_()),
        }
    )
    assert data._messages(rows)["delay"].to_pylist() == [2000.0, 0.0]
    known = {name: [-3000.0] for name in data._DELAYS}
    latency = pd.DataFrame({"device": ["b"], **known})
    made = data._devices(pd.DataFrame({"device": ["b"]}), latency)
    assert made["p50_ms"].tolist() == [0.0] and made["max_ms"].tolist() == [0.0]


# --- The time range ---

DAYS = 30


@pytest.fixture
def month(tmp_path):
    """A reading a day, a refused payload a day; the newest on day 29."""
    day = 86_400
    rows = [reading("board-1", n * day) for n in range(DAYS)]
    bad = [
        refused("not JSON", f"outpost/{n}/data", b"{", n)
        | {"received": BEGIN + datetime.timedelta(days=n)}
        for n in range(DAYS)
    ]
    last = BEGIN + datetime.timedelta(days=DAYS - 1)
    make(tmp_path / "t", [device_row("board-1", last_seen=last)], rows, quarantine=bad)
    return tmp_path / "t"


def shown(month, **options) -> tuple[int, int, int]:
    """Days to the first and past the last reading, and how many payloads were refused."""
    report = data.load(month, None, reading_.wish(**options))
    ends = [(one - pd.Timestamp(BEGIN)).days for one in (report.begin, report.end)]
    return *ends, int(report.quarantine["count"].sum())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (22, 29, 8)),
        ({"last": "48h"}, (27, 29, 3)),
        ({"last": "all"}, (0, 29, 30)),
        ({"since": "2025-12-01"}, (10, 29, 20)),
        ({"until": "2025-12-01T04:00:00+01:00"}, (3, 9, 7)),
        ({"until": "2025-12-01", "last": "48h"}, (8, 9, 2)),
        ({"since": "2025-11-21T03:00:00", "until": "2025-11-22T03:00"}, (0, 0, 1)),
        ({"since": "0001-01-01", "until": "9999-12-31T23:59:59.999999"}, (0, 29, 30)),
        ({"until": "9999-12-31", "last": "all"}, (0, 29, 30)),
    ],
)
def test_the_range_is_the_newest_week_or_what_was_asked_for(month, options, expected):
    assert shown(month, **options) == expected


def test_only_files_of_the_range_are_read(month):
    """All others could be missing."""
    for path in month.glob("readings/day=*/*.parquet"):
        if path.parent.name < "day=2025-12-13":
            path.unlink()
    assert shown(month)[:2] == (22, 29)
    with pytest.raises(ToolError, match="day=2025"):
        shown(month, last="all")


def test_files_of_other_days_are_not_even_looked_at(month, monkeypatch):
    """A list of years of files would cost more than what is read."""
    counts = {}

    def opened(folder, name, where=None):
        found = tables.open_dataset(folder, name, where)
        counts[name] = len(found.files)
        return found

    monkeypatch.setattr(reading_, "open_dataset", opened)
    shown(month)
    assert counts["readings"] == 8
    shown(month, until="2025-11-24")
    assert counts["readings"] == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--last", "24"], "--last 24: not a duration; write 90m, 24h or 7d, or `all`"),
        (["--since", "yesterday"], "--since yesterday: not a date or time"),
        (["--until", "2025-13-01"], "--until 2025-13-01: not a date or time"),
        (["--since", "2025-11-21", "--last", "7d"], "--last and --since: give one of them"),
        (["--since", "2025-11-21", "--until", "2025-11-21"], "--until is not after --since"),
    ],
)
def test_a_bad_range_is_named(month, tmp_path, capsys, options, words):
    line = ["report", "--tables", str(month), "--out", str(tmp_path / "r.html"), *options]
    assert cli.main(line) == 2
    assert capsys.readouterr().err.startswith(f"outpost: {words}")
    assert not (tmp_path / "r.html").exists()


def test_a_range_without_readings_says_so(month, tmp_path, capsys):
    line = ["report", "--tables", str(month), "--out", str(tmp_path / "r.html")]
    assert cli.main([*line, "--since", "2026-01-01"]) == 0
    assert "no reading in that time; --last all" in capsys.readouterr().err
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "No reading has a time at 2026-01-01 00:00:00 UTC or later." in html
    assert order_of(html) == ["board-1"]


def test_a_board_that_sends_once_in_a_long_time_is_not_silent(tmp_path):
    """No two of its messages are in the range."""
    day = 86_400
    rows = [reading("slow", n * 10 * day) for n in range(3)] + [reading("b", 30 * day)]
    times = [BEGIN + datetime.timedelta(days=n) for n in (0, 20, 30)]
    devices = [
        device_row("slow", messages=3, last_seen=times[1]),
        device_row("b", last_seen=times[2]),
    ]
    make(tmp_path / "t", devices, rows)
    report = data.load(tmp_path / "t", None, reading_.wish())
    assert {one[0].key for _, one in data.findings(report)} == {"fine"}


# --- Newest values, clocks, sensors, events ---


def test_newest_values_are_on_the_page(tmp_path):
    rows = [reading("b", n, "temperature", "Cel") for n in range(60)]
    rows += [reading("b", n, "humidity", "%RH", record=1, value=40.25) for n in range(30)]
    notes = ("erases", "mended", "report_s", "firmware")
    rows += [reading("b", 59, name, record=2 + n, value=7) for n, name in enumerate(notes)]
    make(tmp_path / "t", [device_row("b")], rows)
    html = rendered(tmp_path / "t")
    assert (
        '<div class="newest"><span>humidity <b>40.25 %</b></span> '
        "<span>temperature <b>5.9 °C</b></span> "
        "<span>firmware <b>7</b></span> </div>" in html
    )
    assert "at 2025-11-21 03:00:59: temperature 5.9 \\u00b0C, firmware 7&#34;" in html


def test_a_clock_that_is_ahead_is_named_and_does_not_draw_out_the_page(tmp_path):
    rows = [reading("a", n) for n in range(60)]
    rows += [reading("b", n, delay_ms=-3000) for n in range(60)]
    rows += [reading("c", 9 * 86_400, delay_ms=-9 * 86_400_000)]
    make(tmp_path / "t", [device_row(name) for name in "abc"], rows)
    report = data.load(tmp_path / "t", None)
    html = page.render(report, "Test")
    assert "◷ clock ahead 3 s" in html and "◷ clocks ahead: 2" in html
    assert "ntp_host" in html and "◷ clock ahead 9 days" in html
    assert (report.end - report.begin).total_seconds() < 60


def test_a_sensor_that_fails_needs_attention(tmp_path):
    rows = [reading("b", n) for n in range(60)] + [reading("c", n) for n in range(60)]
    notes = {"soil.fault": (6, 1), "air.fault": (1, 0), "soil.faults": (0, 7), "x.fault": (0, 77)}
    for record, (name, values) in enumerate(notes.items(), 1):
        for seq, value in zip((10, 20), values, strict=True):
            rows.append(reading("b", seq, name, record=record, value=float(value)))
    make(tmp_path / "t", [device_row("b"), device_row("c")], rows)
    html = rendered(tmp_path / "t")
    assert order_of(html) == ["b", "c"] and "⌁ soil: no answer<" in html
    assert "⌁ sensors that fail: 1" in html and "check the wires" in html
    assert series_of(html)["metrics"] == [["load", ""]]


def test_events_of_one_kind_soon_after_each_other_are_one_line(tables_dir, tmp_path):
    cuts = [(ms, "link cut", f"board-{ms % 2}") for ms in range(0, 10_000, 1000)]
    write_events(
        tmp_path / "e.json",
        *cuts,
        (5000, "power cut", "board-1"),
        (55_000, "link cut", "board-2"),
        (58_000, "link up", "board-2"),
    )
    html = rendered(tables_dir, tmp_path / "e.json")
    part = html[html.index("<h2>Events: 12</h2>") :]
    rows = part[part.index("<tbody>") : part.index("</tbody>")].split("<tr>")[1:]
    assert [re.sub("<[^>]*>", " ", row).split()[2:6] for row in rows] == [
        ["L", "link", "cut", "board-2"],
        ["▼", "power", "cut", "board-1"],
        ["to", "03:00:58", "L", "link"],
    ]
    assert "link cut, 10 times" in rows[2] and "board-0" in rows[2]
