# cpython-only: Spark
"""A flipped bit in a sealed segment, from `outpost pipeline run` to the page: what is told."""

import html

import pytest

import outpost_command
from message_samples import pack
from optional_packages import needed
from outpost_tools.log import segments

with needed("the pipeline's packages"):
    from outpost_tools.readings.pipeline import tables

COUNT = 100


def outpost(*words):
    return outpost_command.run(*words)


@pytest.mark.long
def test_one_message_is_missing_and_everybody_is_told(tmp_path):
    writer = segments.SegmentWriter(tmp_path / "log" / "c1")
    for seq in range(COUNT):
        content = pack(seq=seq, held=0)
        writer.append(
            segments.encode_frame(1_795_235_136_000 + seq, b"outpost/board-1/data", content)
        )
    path = writer.seal()
    frame = list(segments.read_segment(path))[COUNT // 2]
    data = bytearray(path.read_bytes())
    data[frame.end - 5] ^= 1
    path.write_bytes(data)
    places = ("--tables", tmp_path / "tables")
    words = ("pipeline", "run", "--log", tmp_path / "log", *places, "--master", "local[1]")
    done = outpost(*words)
    assert done.returncode == 1 and "1 damaged pieces of segments" in done.stderr, done.stderr
    numbers = tables.read_table(tmp_path / "tables", "readings", ["seq"])["seq"].to_pylist()
    assert sorted(set(numbers)) == [seq for seq in range(COUNT) if seq != COUNT // 2]
    (row,) = tables.read_table(tmp_path / "tables", "quarantine").to_pylist()
    assert row["payload"] == data[frame.offset : frame.end]
    assert "1 message" in outpost("pipeline", "status", "--log", tmp_path / "log", *places).stdout
    assert outpost("report", *places, "--out", tmp_path / "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text()
    verdict = html.unescape(page[page.index('<p class="verdict">') :][:400])
    assert "collector's log" in verdict and "need" in verdict and "damaged pieces" in verdict
