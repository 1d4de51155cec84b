# cpython-only: tests a desktop tool
"""`outpost outbox` reads series out of images that the firmware wrote: what a board would send,
sample for sample, from closed records and open ones; damage costs what it hit, and is told.
"""

import csv
import json
import os
import random
import subprocess

import pytest

import power_loss  # noqa: F401 - gives the firmware zlib's CRC
import series_image
from fake_flash import PowerCut, flash_in_ram, image_of
from nor_flash import CUT_MODES
from outpost.outbox import Outbox
from outpost.series_outbox import over
from outpost_tools import cli
from outpost_tools.boards.outbox.faults import examine
from outpost_tools.boards.outbox.image import Status, board_view, read_image
from outpost_tools.log import segments
from outpost_tools.machine.interpreters import REQUIRED_ARCHITECTURES, find_micropython
from outpost_tools.messages import series
from paths import FAKES, PRODUCT, joined
from series_image import ALARM, DAY, PERIOD_MS, SAMPLES, made, values_at
from series_samples import DAY_MS, read

START_MS = DAY * DAY_MS


@pytest.fixture(scope="module")
def image():
    return image_of(made()[0])


@pytest.fixture
def here(image, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flash.img").write_bytes(image)
    return tmp_path


def outbox(capsys, *words):
    status = cli.main(["outbox", *words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def firmware_reads(data):
    """Number and payload of each message, as the firmware's own load() gives them."""
    found = over(Outbox)(flash_in_ram(len(data) // 4096, image=data))
    assert found.mount() == 0
    messages, seq = [], found.oldest_seq
    while found.load(seq) == 0:
        at = found.topic_at + found.topic_length
        payload = bytes(found.buffer[at : at + found.payload_length])
        messages.append((found.loaded_seq, payload))
        seq = found.loaded_seq + 1
    return messages


def tool_reads(data):
    return [(one.seq, one.record.payload) for one in read_image(data).held]


def samples_in(payloads):
    return [sample for one in payloads if series.is_series(one) for sample in read(one)["samples"]]


def expected(places):
    return [(START_MS + PERIOD_MS * (place + 1), values_at(place)) for place in places]


def all_expected():
    """The last two were taken a period earlier than their places say."""
    last = range(SAMPLES, SAMPLES + 2)
    earlier = [(START_MS + PERIOD_MS * place, values_at(place)) for place in last]
    return expected(range(SAMPLES)) + earlier


def test_the_image_has_what_the_tests_are_about(image):
    found = read_image(image)
    records = [one.record for one in found.held]
    assert sum(one.series is not None for one in records) > 8
    assert sum(one.series is None for one in records) == 7
    assert len(found.chain) > 2
    assert found.head.walk.records[-1].kind == 2  # the state in the open record


def test_every_sample_is_read_as_the_firmware_reads_it_also_of_the_open_record(image):
    assert tool_reads(image) == firmware_reads(image)
    assert samples_in([payload for _, payload in tool_reads(image)]) == all_expected()
    assert examine(image, read_image(image), 4) == ([], [])
    assert board_view(image).held == read_image(image).held


def test_after_the_board_is_restarted_and_goes_on_nothing_is_doubled_or_lost(image):
    flash, *_ = made()
    found = over(Outbox)(flash)
    assert found.mount() == 0
    found.append(b"t", b"later", 5)
    after = tool_reads(image_of(flash))
    assert after[:-1] == tool_reads(image) and after[-1][1] == b"later"


def test_released_series_are_shown_as_freed():
    flash, box, _ = made(SAMPLES, released=4)
    found = read_image(image_of(flash))
    assert [one.seq for one in found.held] == list(range(box.oldest_seq, box.next_seq + 1))
    assert firmware_reads(image_of(flash)) == tool_reads(image_of(flash))


@pytest.mark.parametrize("architecture", REQUIRED_ARCHITECTURES)
def test_an_image_of_micropython_is_the_same_and_reads_the_same(architecture, image):
    command = find_micropython(architecture)
    if command is None:
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    env = {**os.environ, "MICROPYPATH": joined(*PRODUCT, FAKES)}
    text = subprocess.run(
        [*command, "-X", "heapsize=16M", series_image.__file__],
        env=env, check=True, capture_output=True, text=True, timeout=120,
    ).stdout  # fmt: skip
    written = bytes.fromhex(text)
    assert samples_in([payload for _, payload in tool_reads(written)]) == all_expected()
    assert written == image


def test_after_power_cuts_in_every_way_the_tool_reads_what_the_firmware_reads():
    rng, cut_samples, noted = random.Random(7), 0, 0
    for mode in CUT_MODES * 12:
        flash, _, one = made(rng.randrange(150))
        clock = series_image.Clock(DAY + 1, 0)
        flash.cut_at, flash.cut_mode = flash.operations + rng.randrange(1, 40), mode
        try:
            while True:
                clock.pass_ms(PERIOD_MS)
                one.add(clock, values_at(rng.randrange(1000)))
        except PowerCut:
            flash.cut_at = 0
        data = image_of(flash)
        assert tool_reads(data) == firmware_reads(data)
        findings = examine(data, read_image(data), 4)
        assert not findings.faults
        cut_samples += any(
            m.record.series and m.record.series.bad_bytes for m in read_image(data).held
        )
        noted += any("are not a sample: one torn" in text for text in findings.notes)
    assert cut_samples == noted > 5


def room_of(image, which):
    """(address, used bytes) of the room of a series in an image."""
    found = [one for one in read_image(image).held if one.record.series][which]
    gathered = found.record.series
    end = found.block * 4096 + found.record.offset + found.record.size_bytes
    return found, end - gathered.room_bytes, gathered.used_bytes


def test_no_flipped_bit_in_a_room_is_unnoticed_or_invents_a_sample(image):
    found, at, used = room_of(image, 2)
    good = read(found.record.payload)["samples"]
    others = [one for one in tool_reads(image) if one[0] != found.seq]
    for place in range(at, at + used, 3):
        damaged = bytearray(image)
        damaged[place] ^= 1 << place % 8
        after = read_image(bytes(damaged))
        one = next(m for m in after.held if m.seq == found.seq)
        samples = read(one.record.payload)["samples"]
        assert samples == good[: len(samples)] and len(samples) < len(good), place
        assert [(m.seq, m.record.payload) for m in after.held if m.seq != found.seq] == others
        findings = examine(bytes(damaged), after, 4)
        gathered = one.record.series
        assert gathered.lost + gathered.samples in (len(good) - 1, len(good) - 2), place
        assert bool(findings.faults) == (gathered.lost > 0) and findings.faults + findings.notes
        assert tool_reads(bytes(damaged)) == firmware_reads(bytes(damaged))


def test_a_damaged_record_is_told_and_what_follows_it_is_read(image):
    found, _, _ = room_of(image, 2)
    record_at = found.block * 4096 + found.record.offset
    damaged = image[: record_at + 40] + bytes(4) + image[record_at + 44 :]
    after = read_image(damaged)
    assert [one.seq for one in after.held] == [
        one.seq for one in read_image(image).held if one.seq != found.seq
    ]
    assert any("skipped, continuing" in text for text in examine(damaged, after, 4).faults)


def test_noise_in_an_image_invents_no_sample(image):
    good, rng = set(all_expected()), random.Random(3)
    for _ in range(25):
        damaged = bytearray(image)
        at, length = rng.randrange(4096 * 4), rng.randrange(1, 900)
        damaged[at : at + length] = rng.randbytes(length)
        payloads = [payload for _, payload in tool_reads(bytes(damaged))]
        assert set(samples_in(payloads)) <= good


def test_show_says_what_a_series_is(here, capsys):
    status, out, _ = outbox(capsys, "show", "flash.img", "--records")
    lines = [line for line in out.splitlines() if " series " in line and " held " in line]
    assert status == 0 and sum("; 1 sample" not in line for line in lines) > 8
    assert "samples of t Cel e-2, h %RH e-2, p Pa; 2025-11-21T00:00:10.000Z to " in lines[0]
    assert ["open, or closed last" in line for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1].endswith(" bytes of room used") and "T04:01:50.000Z; " in lines[-1]
    count = f"{len(lines)} of them series, with {SAMPLES + 2} samples"
    assert count in out.splitlines()[-1]
    assert sum(" alarm " in line for line in out.splitlines()) == 7


def test_show_for_programs(here, capsys):
    _, out, _ = outbox(capsys, "show", "flash.img", "--records", "--json")
    records = [r for sector in json.loads(out)["sectors"] for r in sector.get("records", [])]
    found = [one["series"] for one in records if "series" in one]
    assert sum(one["samples"] for one in found) == SAMPLES + 2
    assert [one["may_be_open"] for one in found] == [False] * (len(found) - 1) + [True]
    assert found[0]["columns"][0] == {"name": "t", "unit": "Cel", "exponent": -2}
    assert found[0]["first_time"] == "2025-11-21T00:00:10.000Z" and found[0]["clock_set"]


def test_of_a_board_without_a_clock_the_times_are_since_its_start(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flash.img").write_bytes(image_of(made(20, clock_is_set=False)[0]))
    _, out, _ = outbox(capsys, "show", "flash.img", "--records")
    assert "p Pa; 10 s to 210 s after boot 1; " in out
    outbox(capsys, "export", "flash.img", "--readings", "rows.csv")
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert (rows[0]["time"], rows[0]["boot"], rows[0]["uptime_s"]) == ("", "1", "10.000")
    assert rows[-1]["uptime_s"] == "210.000"


def test_the_readings_are_exported_each_once_and_the_alarms_are_named(here, capsys):
    status, _, err = outbox(capsys, "export", "flash.img", "--readings", "rows.csv")
    rows = list(csv.DictReader((here / "rows.csv").open()))
    wanted = []
    for time_ms, values in all_expected():
        second, ms = divmod(time_ms - START_MS, 1000)
        moment = f"2025-11-21T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{ms:03}Z"
        for name, value, scale in zip("thp", values, (100, 100, 1), strict=True):
            if value is not None:
                wanted.append((moment, "board-1", name, value / scale))
    assert [(r["time"], r["device"], r["name"], float(r["value"])) for r in rows] == wanted
    keys = {(r["stream"], r["seq"], r["record"]) for r in rows}
    assert len(keys) == len(rows) == len(wanted)
    assert status == 1 and err.count("has no readings: not JSON; --json-lines has it") == 7
    assert outbox(capsys, "export", "flash.img", "--readings", "rows.csv")[0] == 2  # it is there


def test_json_lines_and_segments_lose_nothing(here, image, capsys):
    status, out, _ = outbox(capsys, "export", "flash.img", "--json-lines", "-")
    lines = [json.loads(line) for line in out.splitlines()]
    texts = [
        bytes.fromhex(one["payload_hex"]) if "payload_hex" in one else one["payload"].encode()
        for one in lines
    ]
    assert status == 0 and texts == [payload for _, payload in firmware_reads(image)]
    assert ALARM % 199 in texts
    assert outbox(capsys, "export", "flash.img", "--segments", "log", "--id", "rescue-1")[0] == 0
    (path,) = segments.sealed_segments(here / "log" / "rescue-1")
    assert [frame.payload for frame in segments.read_segment(path)] == texts
    out = here / "rows.csv"
    cli.main(["export", "--log", "log", "--out", str(out), "--columns", "time,name,value"])
    assert len(out.read_text().splitlines()) == 1 + sum(
        value is not None for _, values in all_expected() for value in values
    )


def test_a_newer_bit_in_a_header_is_not_taken_for_series(image):
    """Bit 4 says series; bit 5 nothing that this version knows."""
    from outpost_tools.boards.outbox import layout

    for bit, kind in ((0x10, Status.OUTBOX), (0x20, Status.FOREIGN)):
        data = bytearray(b"\xff" * 8192)
        header = bytearray(image[:28])
        header[3] = 2 | bit
        data[:32] = header + layout.crc30(bytes(header), 0).to_bytes(4, "little")
        assert read_image(bytes(data)).status is kind
