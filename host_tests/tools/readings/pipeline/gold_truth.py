"""Gold, recomputed plainly by pandas from what silver holds."""

from __future__ import annotations

import pandas

from outpost_tools.readings.pipeline import tables


def assert_gold_is_a_plain_recomputation(tables_dir: object) -> None:
    rows = tables.read_table(tables_dir, "readings").to_pandas()
    timed = rows[rows["time"].notna()].sort_values(["time", "stream", "seq", "record"])
    key = ["device", "name", "unit", "start"]
    groups = timed.assign(start=timed["time"].dt.floor("10s")).groupby(key, dropna=False)["value"]
    expected = groups.agg(["count", "min", "max", "mean", "last"]).reset_index()
    found = tables.read_table(tables_dir, "windows").to_pandas()
    pandas.testing.assert_frame_equal(
        *(
            frame.sort_values(key, ignore_index=True)[expected.columns]
            for frame in (expected, found)
        ),
        check_dtype=False,
    )
    devices = tables.read_table(tables_dir, "devices").to_pandas().set_index("device")
    assert devices["readings"].to_dict() == rows.groupby("device").size().to_dict()
    messages = rows[rows["record"] == 0]
    assert devices["messages"].to_dict() == messages.groupby("device").size().to_dict()
    assert devices["last_seen"].to_dict() == rows.groupby("device")["received"].max().to_dict()
    messages = messages[messages["time"].notna()]
    delay = ((messages["received"] - messages["time"]).dt.total_seconds() * 1000).round()
    latency = tables.read_table(tables_dir, "latency").to_pandas().set_index("device")
    assert latency["max_ms"].to_dict() == delay.groupby(messages["device"]).max().to_dict()
    for part in (50, 95, 99):
        plain = delay.groupby(messages["device"]).quantile(part / 100)
        assert ((latency[f"p{part}_ms"] - plain).abs() <= plain * 0.006 + 1).all()
