"""The ways from messages to a table of readings that pipeline_growth.py measures, each run as a
separate program.

    python growth_ways.py WAY INPUT OUTPUT

prints one JSON object: wall and CPU seconds of its phases. All write the same rows: typed, each
message once by (device, stream, seq), a row per reading, Parquet by day.

- outpost: the real job on segments, silver and gold.
- json-batch: Spark on JSON lines with from_json, dropDuplicates of whole messages, then the
  readings. The least work that Spark can do: one pass, nothing is remembered, so the next run would
  read everything again.
- json-stream: the same as a stream with AvailableNow, as one would run it every few minutes: the
  next run reads only what is new. dropDuplicates without a watermark, because a replay may be of
  any age; its keys are in RocksDB, which is what Spark's manual advises for millions of keys.
- pandas: one script, all in memory.

delta_ways.py has more, which silver_ways.py measures. Both Spark ways get twice the heap of
Outpost's session.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

import delta_ways  # noqa: E402
import process_tree  # noqa: E402

_FILES_PER_BATCH = 8  # about 128 MiB: Outpost's own bound
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PACK = (
    "received BIGINT, topic STRING, payload ARRAY<STRUCT<"
    "bn: STRING, bt: DOUBLE, t: DOUBLE, up: DOUBLE, ver: INT, sid: STRING,"
    " seq: BIGINT, held: BIGINT, boot: INT, n: STRING, u: STRING, v: DOUBLE>>"
)


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


def outpost(source: Path, target: Path, phases: Phases) -> None:
    from outpost_tools.readings.pipeline import job, session
    from outpost_tools.readings.pipeline.spark import Spark

    spark = session.start("local[2]", target / "spark.log")
    phases.end("start")

    def progress(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        if text.startswith("computing "):
            phases.end("silver")

    job.run(Spark(spark), source / "log", target, progress=progress)
    phases.end("gold")
    spark.stop()


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
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    }
    builder = SparkSession.builder.master("local[2]").appName("json")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _readings(lines):
    """Turns lines of JSON into rows of readings."""
    from pyspark.sql import functions as F  # noqa: N812  `F` is how everyone writes Spark

    packs = lines.select(F.from_json("value", _PACK).alias("m")).select("m.received", "m.payload")
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


def json_batch(source: Path, target: Path, phases: Phases) -> None:
    spark = _spark(target)
    phases.end("start")
    _readings(spark.read.text(str(source / "lines"))).write.partitionBy("day").parquet(
        str(target / "silver")
    )
    phases.end("silver")
    spark.stop()


def json_stream(source: Path, target: Path, phases: Phases) -> None:
    spark = _spark(target)
    phases.end("start")
    lines = spark.readStream.option("maxFilesPerTrigger", _FILES_PER_BATCH).text(
        str(source / "lines")
    )
    writer = (
        _readings(lines)
        .writeStream.format("parquet")
        .partitionBy("day")
        .option("path", str(target / "silver"))
    )
    writer.option("checkpointLocation", str(target / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    phases.end("silver")
    spark.stop()


def pandas(source: Path, target: Path, phases: Phases) -> None:
    import pandas as pd

    phases.end("start")
    rows = []
    for path in sorted((source / "lines").glob("*.json")):
        with path.open("rb") as file:
            for line in file:
                message = json.loads(line)
                head = message["payload"][0]
                base = (
                    head["bn"][:-1],
                    *(head[key] for key in ("sid", "seq", "boot", "held", "ver")),
                )
                for record, reading in enumerate(message["payload"]):
                    time = head["bt"] + reading.get("t", 0.0)
                    row = record, reading["n"], reading.get("u"), reading["v"], time
                    rows.append((*base, message["received"], *row))
    names = "device stream seq boot held version received record name unit value time"
    frame = pd.DataFrame(rows, columns=names.split())
    del rows
    frame = frame.drop_duplicates(["device", "stream", "seq", "record"])
    frame["time"] = pd.to_datetime(
        (frame["time"] * 1_000_000).round().astype("int64"), unit="us", utc=True
    )
    frame["received"] = pd.to_datetime(frame["received"], unit="ms", utc=True)
    frame["day"] = frame["time"].dt.date
    frame.to_parquet(target / "silver", partition_cols=["day"])
    phases.end("silver")


WAYS = {"outpost": outpost, "json-batch": json_batch, "json-stream": json_stream, "pandas": pandas}
ALL = WAYS | delta_ways.WAYS


def result_files(way: str, target: Path) -> list[Path]:
    """Returns the Parquet files that count after the way's end."""
    if way.startswith("outpost"):
        from outpost_tools.readings.pipeline import delta

        silver = delta.open_table(target / "readings")
        return [target / "readings" / delta.name_of(one) for one in delta.files_of(silver)]
    if way in delta_ways.WAYS:
        import deltalake

        return sorted(map(Path, deltalake.DeltaTable(target / "silver").file_uris()))
    return sorted(path for path in (target / "silver").rglob("*.parquet") if path.stat().st_size)


def main() -> None:
    way, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.executable, "127.0.0.1"
    os.environ.pop("SPARK_HOME", None)
    phases = Phases()
    ALL[way](source, target, phases)
    print(json.dumps(phases.seconds))


if __name__ == "__main__":
    main()
