"""Gold: what a person asks of the readings. Pure DataFrame functions.

Two layers. `windows` and `days` (a row per device, stream, boot and day) are made from silver day
by day, and only the days that got rows are recomputed: a reading that is late by a month revises
its own day and no other (days.py). The small tables follow from `days` and the state without Spark
(summaries.py).

Readings without a time are counted in `days`; windows leave them out. Delays are kept as counts by
milliseconds rounded to three significant digits, which add up over days as percentiles do not; the
maximum is exact.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from outpost_tools.common import labels
from outpost_tools.pipeline import health, schemas

_BOOT = ["device", "stream", "boot"]
# Metrics of the firmware and of its users that tell of the device's own health: their last value is
# shown.
HEALTH = {"battery": ("battery", "battery_v", "vbat"), "reset_cause": ("reset_cause",)}


def placed(readings: DataFrame, clocks: DataFrame) -> DataFrame:
    """Readings with the times that clocks.place() would put in: the same rule as a Spark
    expression. What does not fit 64 bits has no time: tables of older versions may hold such."""
    known = (
        F.broadcast(clocks)
        .withColumnRenamed("clock_seq", "_seq")
        .withColumnRenamed("offset_us", "_offset")
    )
    since_boot_s = F.col("uptime_s") + F.coalesce("shift_s", F.lit(0.0))
    since_boot = F.rint(since_boot_s * 1_000_000).try_cast("bigint")
    time = F.timestamp_micros(F.try_add("_offset", since_boot))
    open_one = (F.col("time").isNull() | F.coalesce("placed", F.lit(False))) & (
        F.col("seq") < F.col("_seq")
    )
    usable = open_one & time.between(*schemas.TIME_LIMITS) & _is_plausible(time)
    joined = readings.join(known, _BOOT, "left")
    joined = joined.withColumn("placed", F.when(usable, True).otherwise(F.col("placed")))
    return joined.withColumn("time", F.when(usable, time).otherwise(F.col("time"))).select(
        *readings.columns
    )


def _is_plausible(time: Column) -> Column:
    """arrival.limits() as an expression of Spark."""
    delay_us = F.try_subtract(F.unix_micros("received"), F.unix_micros(time))
    no_clock = F.col("received") < F.lit(schemas.TIME_LIMITS[0])  # the collector's
    return no_clock | delay_us.between(
        -labels.MAX_AHEAD_S * 1_000_000, labels.MAX_AGE_S * 1_000_000
    )


def windows(readings: DataFrame, seconds: float) -> DataFrame:
    """Per device, metric and window of `seconds`: count, min, max, mean, last.

    In the order of time before they are added up: a sum of floats depends on its order, and that
    must not depend on how many machines there were.
    """
    window = F.window("time", f"{round(seconds * 1000)} milliseconds")
    order = F.struct("time", "stream", "seq", "record")
    timed = readings.filter(F.col("time").isNotNull()).repartition("device", "name")
    timed = timed.sortWithinPartitions("device", "name", "unit", "time", "stream", "seq", "record")
    grouped = timed.groupBy("device", "name", "unit", window.alias("window"))
    return grouped.agg(
        F.count("value").alias("count"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.avg("value").alias("mean"),
        F.max_by("value", order).alias("last"),
    ).select(
        "device",
        "name",
        "unit",
        F.col("window.start").alias("start"),
        "count",
        "min",
        "max",
        "mean",
        "last",
    )


def days(readings: DataFrame) -> DataFrame:
    """Per device, stream, boot and day: what summaries.py adds up."""
    key = [*_BOOT, "day"]
    seen = F.struct(
        "received", "stream", "seq", "boot", (F.col("seq") - F.col("held")).alias("backlog")
    )
    rows = readings.withColumn("day", F.to_date("time"))
    facts = rows.groupBy(*key).agg(
        F.count(F.lit(1)).alias("readings"),
        F.count_if(F.col("time").isNull()).alias("without_time"),
        F.count_if(F.col("placed")).alias("placed"),
        *(
            f(c).alias(f"{word}_{c}")
            for c in ("seq", "received", "time")
            for word, f in (("first", F.min), ("last", F.max))
        ),
        F.max(F.col("seq") - F.col("held")).alias("backlog_max"),
        F.max(seen).alias("last"),
        *(_last_value(names).alias(name) for name, names in HEALTH.items()),
        *(_last_of_boot(name).alias(name) for name in health.NAMES),
    )
    delay_ms = F.rint((F.unix_micros("received") - F.unix_micros("time")) / 1000).cast("bigint")
    messages = rows.filter((F.col("record") == 0) & F.col("time").isNotNull()).withColumn(
        "delay_ms", delay_ms
    )
    counts = messages.groupBy(*key, three_digits(F.col("delay_ms")).alias("ms")).agg(
        F.count(F.lit(1)).alias("count"), F.max("delay_ms").alias("max_ms")
    )
    pairs = F.map_from_entries(F.collect_list(F.struct("ms", "count")))
    delays = counts.groupBy(*key).agg(pairs.alias("delays"), F.max("max_ms").alias("delay_max_ms"))
    same = [facts[name].eqNullSafe(delays[name]) for name in key]
    return facts.join(delays, same, "left").select(
        *(facts[name] for name in facts.columns), "delays", "delay_max_ms"
    )


def _last_value(names: tuple[str, ...]) -> Column:
    return F.max(F.when(F.col("name").isin(*names), F.struct("received", "seq", "value")))


def _last_of_boot(name: str) -> Column:
    return F.max(F.when(F.col("name") == name, F.struct("seq", "value")))


def three_digits(number: Column) -> Column:
    """An integer rounded, half away from 0, to its three leading digits."""
    size = F.abs(number)
    unit = F.pow(F.lit(10.0), F.greatest(F.length(size.cast("string")) - 3, F.lit(0))).cast(
        "bigint"
    )
    return (F.signum(number) * F.floor((size + F.floor(unit / 2)) / unit) * unit).cast("bigint")
