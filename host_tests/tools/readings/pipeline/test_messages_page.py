# cpython-only: reads a page
"""tools/MESSAGES.md has each column with its type, each label, and an example that is a message."""

import re

import pyarrow as pa
import pytest

from outpost_tools.messages import labels
from outpost_tools.messages.message import decode
from outpost_tools.readings.pipeline import gold_schemas, schemas
from paths import REPOSITORY

PAGE = (REPOSITORY / "tools" / "MESSAGES.md").read_text(encoding="utf-8")
TABLES = {
    "readings": schemas.READING,
    "quarantine": schemas.QUARANTINE_TABLE,
    "windows": gold_schemas.WINDOWS,
    "gaps": gold_schemas.GAPS,
    "latency": gold_schemas.LATENCY,
}


def columns(table: str) -> list[tuple[str, str]]:
    section = PAGE.split(f"\n### {table}\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]+) \|", section, re.MULTILINE)
    return [(name, kind) for names, kind in rows for name in re.findall(r"`(\w+)`", names)]


@pytest.mark.parametrize("table", TABLES)
def test_each_column_is_there_with_its_type(table):
    assert columns(table) == [(one.name, str(one.type)) for one in TABLES[table]]


def test_each_label_is_there():
    section = PAGE.split("| label |")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", section))
    wanted = {*labels.TEXTS, *labels.NUMBERS, *labels.INTEGERS}
    assert wanted <= named


def test_the_example_is_a_message_of_two_readings():
    text = PAGE.split("```json\n")[1].split("```")[0]
    message = decode("outpost/kitchen/data", text.encode())
    assert (message.device, message.seq, len(message.readings)) == ("kitchen", 1234, 2)
    assert f"{labels.MAX_PAYLOAD_BYTES:,}" in PAGE and f"{labels.MAX_SEQ:,}" in PAGE


def test_arrow_writes_types_as_the_page_does():
    assert str(pa.timestamp("us", "UTC")) == "timestamp[us, tz=UTC]"
