"""Spark's daemon of Python workers, on one machine: workers are its forks, so what it has loaded
none of them loads again. Started by Spark (`spark.python.daemon.module`, settings.py)."""

from pyspark import daemon

from outpost_tools.pipeline import decode, gold, source, transforms

LOADED = (
    decode,
    gold,
    source,
    transforms,
)  # with pyarrow, numpy and pandas, a second of CPU each time

if __name__ == "__main__":
    daemon.manager()
