"""More of the ways of growth_ways.py: those that end in a Delta table, and then take one more file.

Each is a function of (source, target, phases). `source/log` and `source/lines` have the messages;
if there is `source/more`, its files come after the first round, in a round of their own (phase
"more"): Outpost reads them as its next segments, and the others look for each message among the
keys of all that they have stored.

The ways beside Outpost are what a data engineer writes in an afternoon. They read JSON lines, which
are not checked; they have no quarantine, no conflicts, no times of late clocks, no gaps, and what a
kill leaves half done, nobody mends.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_KEY = ["device", "stream", "seq"]


# --- Outpost ---


def outpost_spark(source: Path, target: Path, phases: Any) -> None:
    from outpost_tools.readings.pipeline import session
    from outpost_tools.readings.pipeline.spark import Spark

    spark = session.start("local[2]", target / "spark.log")
    phases.end("start")
    _outpost(Spark(spark), source, target, phases)
    spark.stop()


def outpost_local(source: Path, target: Path, phases: Any) -> None:
    from outpost_tools.readings.pipeline import engines

    with engines.local(2) as engine:
        phases.end("start")
        _outpost(engine, source, target, phases)


def _outpost(engine: Any, source: Path, target: Path, phases: Any) -> None:
    from outpost_tools.readings.pipeline import job

    log = target / "log"
    shutil.copytree(source / "log", log, copy_function=os.link)
    for name in _rounds(source):

        def progress(text: str, name: str = name) -> None:
            print(text, file=sys.stderr, flush=True)
            if text.startswith("computing "):
                phases.end(name)

        if name == "more":
            for path in (source / "more").glob("*.seg"):
                os.link(path, log / "collector-1" / path.name)
        job.run(engine, log, target, progress=progress)
        phases.end("gold" if name == "silver" else "more_gold")


def _rounds(source: Path) -> Iterator[str]:
    yield "silver"
    if (source / "more").exists():
        yield "more"


def _lines(source: Path, name: str) -> list[str]:
    folder = source / ("lines" if name == "silver" else "more")
    return [str(path) for path in sorted(folder.glob("*.json"))]


# --- The others ---


def spark_delta(source: Path, target: Path, phases: Any) -> None:
    import deltalake
    from deltalake.transaction import AddAction, create_table_with_add_actions

    import growth_ways

    spark, place = growth_ways._spark(target), target / "silver"
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    phases.end("start")
    for name in _rounds(source):
        rows = growth_ways._readings(spark.read.text(_lines(source, name)))
        if name == "more":
            rows = rows.join(spark.read.parquet(str(place)).select(_KEY).distinct(), _KEY, "anti")
        before = set(place.rglob("*.parquet"))
        rows.write.mode("append").partitionBy("day").parquet(str(place))
        added = [
            AddAction(
                str(path.relative_to(place)), path.stat().st_size,
                {"day": path.parent.name.removeprefix("day=")}, int(time.time() * 1000), True, "{}",
            )
            for path in set(place.rglob("*.parquet")) - before
        ]  # fmt: skip
        schema = deltalake.Schema.from_json(rows.schema.json())
        if name == "silver":
            create_table_with_add_actions(str(place), schema, added, partition_by=["day"])
        else:
            table = deltalake.DeltaTable(place)
            table.create_write_transaction(added, "append", schema, ["day"])
        phases.end(name)
    spark.stop()


_PACK = (
    "bn VARCHAR, bt DOUBLE, t DOUBLE, up DOUBLE, ver INT, sid VARCHAR, seq BIGINT, held BIGINT,"
    " boot INT, n VARCHAR, u VARCHAR, v DOUBLE"
)
_SQL = """
WITH packs AS (
  SELECT received, payload, payload[1] AS head
  FROM read_json(?, format = 'newline_delimited', columns = {'received': 'BIGINT',
                 'topic': 'VARCHAR', 'payload': 'STRUCT(%s)[]'})
), messages AS (
  SELECT *, rtrim(head['bn'], '/') AS device, head['sid'] AS stream, head['seq'] AS seq FROM packs
), fresh AS (
  SELECT DISTINCT ON (device, stream, seq) *
  FROM messages ANTI JOIN known USING (device, stream, seq)
), records AS (
  SELECT *, unnest(payload) AS r, unnest(range(len(payload))) AS record FROM fresh
)
SELECT device, stream, seq, record::INT AS record, head['boot'] AS boot, head['held'] AS held,
       head['ver'] AS version, r['n'] AS name, r['u'] AS unit, r['v'] AS value,
       to_timestamp(head['bt'] + coalesce(r['t'], 0)) AS time,
       to_timestamp(received / 1000) AS received, time::DATE AS day
FROM records
"""


def duckdb_delta(source: Path, target: Path, phases: Any) -> None:
    import deltalake
    import duckdb

    base, place = duckdb.connect(), target / "silver"
    base.execute("SET threads = 2; SET TimeZone = 'UTC'")
    base.execute("CREATE TABLE known (device VARCHAR, stream VARCHAR, seq BIGINT)")
    phases.end("start")
    for name in _rounds(source):
        if name == "more":
            stored = deltalake.DeltaTable(place).to_pyarrow_dataset()
            base.register("stored", stored)
            base.execute("INSERT INTO known SELECT DISTINCT device, stream, seq FROM stored")
        rows = base.execute(_SQL % _PACK, [_lines(source, name)]).to_arrow_table()
        deltalake.write_deltalake(place, rows, mode="append", partition_by=["day"])
        phases.end(name)


def polars_delta(source: Path, target: Path, phases: Any) -> None:
    import deltalake
    import polars as pl

    kinds = {"VARCHAR": pl.String, "DOUBLE": pl.Float64, "BIGINT": pl.Int64, "INT": pl.Int32}
    fields = [one.split() for one in _PACK.split(", ")]
    pack = pl.List(pl.Struct({name: kinds[kind] for name, kind in fields}))
    schema, place = {"received": pl.Int64, "topic": pl.String, "payload": pack}, target / "silver"
    known = pl.LazyFrame(schema={"device": pl.String, "stream": pl.String, "seq": pl.Int64})
    phases.end("start")
    for name in _rounds(source):
        if name == "more":
            known = pl.scan_delta(str(place)).select(_KEY).unique()
        head = pl.col("payload").list.first().struct
        rows = (
            pl.scan_ndjson(_lines(source, name), schema=schema)
            .with_columns(
                device=head.field("bn").str.strip_chars_end("/"), stream=head.field("sid"),
                seq=head.field("seq"), boot=head.field("boot"), held=head.field("held"),
                version=head.field("ver"), base=head.field("bt"),
                record=pl.int_ranges(pl.col("payload").list.len(), dtype=pl.Int32),
            )
            .unique(_KEY)
            .join(known, on=_KEY, how="anti")
            .explode("payload", "record")
        )  # fmt: skip
        record = pl.col("payload").struct
        micros = ((pl.col("base") + record.field("t").fill_null(0)) * 1e6).round().cast(pl.Int64)
        rows = rows.select(
            *_KEY, "record", "boot", "held", "version", name=record.field("n"),
            unit=record.field("u"), value=record.field("v"),
            time=pl.from_epoch(micros, "us").dt.replace_time_zone("UTC"),
            received=pl.from_epoch("received", "ms").dt.replace_time_zone("UTC"),
        ).with_columns(day=pl.col("time").dt.date())  # fmt: skip
        found = rows.collect().to_arrow()
        deltalake.write_deltalake(place, found, mode="append", partition_by=["day"])
        phases.end(name)


WAYS = {
    "outpost-spark": outpost_spark,
    "outpost-local": outpost_local,
    "spark-delta": spark_delta,
    "duckdb-delta": duckdb_delta,
    "polars-delta": polars_delta,
}
