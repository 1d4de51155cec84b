"""Spark's daemon of Python workers, on one machine: it forks the workers, so none of them has to
import again what it has imported. Started by Spark (`spark.python.daemon.module`, settings.py)."""

import gc

from pyspark import daemon

from outpost_tools.readings.pipeline import decode, gold, transforms

# With pyarrow, numpy and pandas, importing these takes a second of CPU each time.
LOADED = (decode, gold, transforms)

if __name__ == "__main__":
    # A worker collects garbage after each task; this excludes all that was imported.
    gc.freeze()
    daemon.manager()
