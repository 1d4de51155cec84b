# cpython-only: pandas and plotly
"""The page: its figures, its marks, and that nothing from a message becomes HTML. Its tables are made without Spark."""

import datetime
import json
import os

import pytest

try:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    from outpost_tools.pipeline import schemas, tables
    from outpost_tools.report import charts, data, page
except ImportError as problem:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip(f"needs the pipeline's packages: {problem}", allow_module_level=True)

from outpost_tools import cli

BEGIN = datetime.datetime(2025, 11, 21, 3, tzinfo=datetime.UTC)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def put(tables_dir, name: str, rows: list[dict], schema: pa.Schema | None = None) -> None:
    directory = tables.batch_directory(tables_dir, name, 0)
    if name == "readings":
        directory = directory / "day=2025-11-21"
    directory.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), directory / "part-0.parquet")
    (tables.batch_directory(tables_dir, name, 0) / "_SUCCESS").touch()


def reading(device: str, seq: int, name: str = "load", unit: str | None = None, delay_ms: int = 20, **changes) -> dict:
    time = BEGIN + datetime.timedelta(seconds=seq)
    row = {"device": device, "stream": "00000001", "seq": seq, "record": 0, "boot": 1, "held": 0, "name": name}
    row |= {"unit": unit, "value": seq / 10, "time": time, "received": time + datetime.timedelta(milliseconds=delay_ms)}
    return row | {"collector": "c", "segment": 0, "offset": seq} | changes


def device_row(device: str, **changes) -> dict:
    row = dict.fromkeys(["readings_without_time", "redelivered", "missing_closed", "missing_open", "last_boot"], 0)
    row |= {"device": device, "messages": 60, "readings": 60, "boots": 1, "backlog_max": 3, "backlog_last": 0}
    return row | {"first_seen": BEGIN, "last_seen": BEGIN, "streams": 1, "received": 60} | changes


def make(tables_dir, devices: list[dict], readings: list[dict], gaps=(), quarantine=()) -> None:
    put(tables_dir, "readings", readings, schemas.READING)
    put(tables_dir, "devices", devices)
    delays = {"count": 60, "p50_ms": 20.0, "p95_ms": 30.0, "p99_ms": 3400.0, "max_ms": 7_200_000.0}
    put(tables_dir, "latency", [{"device": row["device"]} | delays for row in devices])
    kinds = [("first", pa.int64()), ("last", pa.int64()), ("count", pa.int64()), ("state", pa.string())]
    put(tables_dir, "gaps", list(gaps), pa.schema([("device", pa.string()), ("stream", pa.string()), *kinds]))
    put(tables_dir, "quarantine", list(quarantine), pa.schema([schemas.FRAME.field(n) for n in schemas.QUARANTINE]))


def refused(reason: str, topic: str, payload: bytes, offset: int = 0) -> dict:
    row = {"reason": reason, "topic": topic, "payload": payload, "received": BEGIN}
    return row | {"collector": "c", "segment": 0, "offset": offset}


@pytest.fixture
def tables_dir(tmp_path):
    readings = [reading(f"board-{n}", seq) for n in (1, 2) for seq in range(60) if not (n == 2 and 20 <= seq < 40)]
    gap = {"device": "board-2", "stream": "00000001", "first": 20, "last": 39, "count": 20, "state": "closed"}
    devices = [device_row("board-1"), device_row("board-2", missing_closed=20, redelivered=7)]
    bad = [refused("not JSON", "outpost/board-1/data", b"{", n) for n in range(3)]
    make(tmp_path / "tables", devices, readings, [gap], bad)
    return tmp_path / "tables"


def write_events(path, *events: tuple) -> None:
    names = ("time_ms", "kind", "device")
    start = int(BEGIN.timestamp() * 1000)
    path.write_text(json.dumps([dict(zip(names, (start + ms, *rest), strict=True)) for ms, *rest in events]))


def text_of(html: str) -> str:
    """The page without plotly's own 5 MB."""
    return html[html.rindex("</script></head>") :]


def test_summary_names_devices_losses_redelivered_and_quarantine(tables_dir):
    html = text_of(page.render(data.load(tables_dir, None), "Test"))
    assert "<b>20</b>lost for good" in html
    assert "<b>7</b>redelivered" in html
    assert "<b>3</b>quarantined" in html
    assert html.index("<td>board-2") < html.index("<td>board-1")  # losses first
    assert "3.4 s" in html and "2 h" in html


def test_the_page_needs_no_other_file(tables_dir):
    html = text_of(page.render(data.load(tables_dir, None), "Test"))
    assert "src=" not in html and "href=" not in html
    assert "viewport" in page.render(data.load(tables_dir, None), "Test")[:400]


def test_a_silence_breaks_the_line(tables_dir):
    report = data.load(tables_dir, None)
    lines = [trace for trace in charts.metric(report, "load").data if trace.mode == "lines+markers"]
    assert [pd.isna(list(trace.y)).any() for trace in lines] == [False, True]


def test_nothing_from_a_message_becomes_html(tmp_path):
    readings = [reading("board-1", seq, name=HOSTILE, unit=HOSTILE) for seq in range(5)]
    bad = [refused(HOSTILE, HOSTILE, HOSTILE.encode())]
    make(tmp_path / "tables", [device_row(HOSTILE)], readings, quarantine=bad)
    write_events(tmp_path / "events.json", (1, HOSTILE, HOSTILE), (2, HOSTILE, None), (3, "power cut", "board-1"))
    html = text_of(page.render(data.load(tmp_path / "tables", tmp_path / "events.json"), HOSTILE))
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;img" in html


def test_begin_and_end_of_an_outage_are_paired(tmp_path):
    path = tmp_path / "events.json"
    events = [(0, "broker killed", None), (500, "link cut", "board-1"), (900, "broker up", None)]
    write_events(path, *events, (950, "power cut", "board-2"), (2000, "collector up", None))
    found = [(o.kind, o.device, (o.end - o.begin) / pd.Timedelta("1ms")) for o in data.load_events(path)]
    assert found == [("broker killed", None, 900), ("link cut", "board-1", 1500), ("power cut", "board-2", 0)]


def test_outages_are_on_the_page(tables_dir, tmp_path):
    write_events(tmp_path / "e.json", (0, "broker killed", None), (3000, "broker up", None), (9000, "power cut", "board-1"))
    report = data.load(tables_dir, tmp_path / "e.json")
    html = text_of(page.render(report, "Test"))
    assert "broker killed" in html and "▼ power cut" in html and "3 s" in html
    assert len(charts.fleet(report).layout.shapes) == 1


def test_many_devices_are_all_in_the_fleet_picture_and_some_in_the_multiples(tmp_path):
    names = [f"board-{n}" for n in range(100)]
    make(tmp_path / "t", [device_row(n) for n in names], [reading(n, seq) for n in names for seq in range(3)])
    report = data.load(tmp_path / "t", None)
    assert charts.fleet(report).data[0].z.shape[0] == 100
    lines = [trace for trace in charts.metric(report, "load").data if trace.mode == "lines+markers"]
    assert len(lines) == charts.DEVICES_SHOWN


def test_readings_without_any_time_give_a_page_without_charts(tmp_path):
    make(
        tmp_path / "t",
        [device_row("board-1", readings_without_time=2)],
        [reading("board-1", n, time=None) for n in (0, 1)],
    )
    assert "no charts" in page.render(data.load(tmp_path / "t", None), "Test")


def test_empty_tables_give_a_page(tmp_path):
    make(tmp_path / "t", [device_row("x")], [], quarantine=[refused("empty", "t", b"")])
    frame = tables.read_table(tmp_path / "t", "devices").slice(0, 0)
    pq.write_table(frame, tables.batch_directory(tmp_path / "t", "devices", 0) / "part-0.parquet")
    assert "<b>0</b>devices" in page.render(data.load(tmp_path / "t", None), "Test")


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1]", '[{"kind": "x"}]', '[{"time_ms": "now", "kind": "x"}]'])
def test_a_bad_events_file_is_named(tables_dir, tmp_path, capsys, content):
    path = tmp_path / "events.json"
    path.write_text(content)
    line = ["report", "--tables", str(tables_dir), "--out", str(tmp_path / "r.html"), "--events", str(path)]
    assert cli.main(line) == 2
    assert capsys.readouterr().err.startswith(f"outpost: {path}: not a JSON list")


def test_missing_tables_are_named(tmp_path, capsys):
    assert cli.main(["report", "--tables", str(tmp_path), "--out", str(tmp_path / "r.html")]) == 2
    assert "run `outpost pipeline run` first" in capsys.readouterr().err


def test_the_command_writes_the_page(tables_dir, tmp_path):
    out = tmp_path / "new" / "report.html"
    assert cli.main(["report", "--tables", str(tables_dir), "--out", str(out), "--title", "A & B"]) == 0
    assert "<title>A &amp; B</title>" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.4, "0 ms"),
        (999, "999 ms"),
        (3400, "3.4 s"),
        (90_000, "1.5 min"),
        (7.2e6, "2 h"),
        (6.048e8, "7 days"),
        (None, "-"),
    ],
)
def test_durations_are_in_the_unit_a_person_would_use(milliseconds, text):
    assert page.duration(milliseconds) == text
