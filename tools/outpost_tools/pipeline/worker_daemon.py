"""Spark's daemon of Python workers, on one machine: workers are its forks, so what it has loaded
none of them loads again. Started by Spark (`spark.python.daemon.module`, settings.py)."""

import gc

from pyspark import daemon

from outpost_tools.pipeline import decode, gold, source, transforms

# With pyarrow, numpy and pandas, a second of CPU each time.
LOADED = (decode, gold, source, transforms)

if __name__ == "__main__":
    # A worker collects garbage after each task: without this, among all that was loaded.
    gc.freeze()
    daemon.manager()
