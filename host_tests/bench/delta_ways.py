"""The ways from messages to a table of readings that silver_ways.py measures, each run as a program
of its own.

    python delta_ways.py WAY INPUT OUTPUT

prints one JSON object: wall and CPU seconds of its phases. Each way is a function of (source,
target, phases) and ends in a Delta table with the same rows: typed, each message once by (device,
stream, seq), a row per reading. `source/log` and `source/lines` have the messages; if there is
`source/more`, its files come after the first round, in a round of their own (phase "more"):
Outpost reads them as its next segments, and the others look for each message among the keys of all
that they have stored.

The ways beside Outpost are what a data engineer writes in an afternoon. They read JSON lines, which
are not checked; they have no quarantine, no conflicts, no times of late clocks, no gaps, and what a
kill leaves half done, nobody mends. Spark has twice the heap of Outpost's session.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import process_tree

_KEY = ["device", "stream", "seq"]


class Phases:
    """Seconds by the clock and of CPU (of the whole session of processes) since the previous
    phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = (time.monotonic(), 0.0)

    def end(self, name: str) -> None:
        now = (time.monotonic(), sum(process_tree.members(os.getsid(0)).values()))
        self.seconds |= {
            f"{name}_s": now[0] - self._last[0],
            f"{name}_cpu_s": now[1] - self._last[1],
        }
        self._last = now


# --- Outpost ---


def outpost_spark(source: Path, target: Path, phases: Phases) -> None:
    from outpost_tools.readings.pipeline import session
    from outpost_tools.readings.pipeline.spark import Spark

    spark = session.start("local[2]", target / "spark.log")
    phases.end("start")
    _outpost(Spark(spark), source, target, phases)
    spark.stop()


def outpost_local(source: Path, target: Path, phases: Phases) -> None:
    from outpost_tools.readings.pipeline import engines

    with engines.local(2) as engine:
        phases.end("start")
        _outpost(engine, source, target, phases)


def _outpost(engine, source: Path, target: Path, phases: Phases) -> None:
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

_MESSAGE = (
    "received BIGINT, topic STRING, payload ARRAY<STRUCT<"
    "bn: STRING, bt: DOUBLE, t: DOUBLE, up: DOUBLE, ver: INT, sid: STRING,"
    " seq: BIGINT, held: BIGINT, boot: INT, n: STRING, u: STRING, v: DOUBLE>>"
)


def _spark(target: Path):
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": False,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 4,  # of the 200 by default most would be empty
        "spark.sql.warehouse.dir": str(target / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]").appName("json")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _readings(lines):
    """Turns lines of JSON into rows of readings."""
    from pyspark.sql import functions as F  # noqa: N812  `F` is how everyone writes Spark

    packs = lines.select(F.from_json("value", _MESSAGE).alias("m")).select(
        "m.received", "m.payload"
    )
    head = F.col("payload")[0]
    messages = packs.select(
        F.regexp_replace(head["bn"], "/$", "").alias("device"),
        head["sid"].alias("stream"),
        *(
            head[label].alias(name)
            for label, name in (
                ("seq", "seq"),
                ("boot", "boot"),
                ("held", "held"),
                ("ver", "version"),
            )
        ),
        head["bt"].alias("bt"),
        "received",
        "payload",
    ).dropDuplicates(["device", "stream", "seq"])
    rows = messages.select("*", F.posexplode("payload").alias("record", "r"))
    time_us = F.rint((F.col("bt") + F.coalesce("r.t", F.lit(0.0))) * 1_000_000).cast("bigint")
    return rows.select(
        *("device", "stream", "seq", "record", "boot", "held", "version"),
        *(
            F.col(f"r.{label}").alias(name)
            for label, name in (("n", "name"), ("u", "unit"), ("v", "value"))
        ),
        F.timestamp_micros(time_us).alias("time"),
        F.timestamp_millis("received").alias("received"),
    ).withColumn("day", F.to_date("time"))


def spark_delta(source: Path, target: Path, phases: Phases) -> None:
    import deltalake
    from deltalake.transaction import AddAction, create_table_with_add_actions

    spark, place = _spark(target), target / "silver"
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    phases.end("start")
    for name in _rounds(source):
        rows = _readings(spark.read.text(_lines(source, name)))
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


def duckdb_delta(source: Path, target: Path, phases: Phases) -> None:
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


def polars_delta(source: Path, target: Path, phases: Phases) -> None:
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


def result_files(way: str, target: Path) -> list[Path]:
    """Returns the Parquet files that count after the way's end."""
    if way.startswith("outpost"):
        from outpost_tools.readings.pipeline import delta

        silver = delta.open_table(target / "readings")
        return [target / "readings" / delta.name_of(one) for one in delta.files_of(silver)]
    import deltalake

    return sorted(map(Path, deltalake.DeltaTable(target / "silver").file_uris()))


def main() -> None:
    way, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.executable, "127.0.0.1"
    os.environ.pop("SPARK_HOME", None)
    phases = Phases()
    WAYS[way](source, target, phases)
    print(json.dumps(phases.seconds))


if __name__ == "__main__":
    main()
