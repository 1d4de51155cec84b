"""job.run() on a busy machine, where a Python worker may miss Spark's ten seconds to start. It then
tries again, as rounds.py does."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from outpost_tools.pipeline import consumed, job, retries


def run(spark: SparkSession, log: Path, tables_dir: Path, **options: object) -> int:
    """Returns the number of batches done in all tries."""
    before = consumed.committed_batch(tables_dir)
    for left in reversed(range(retries.LATE_TRIES)):
        try:
            job.run(spark, log, tables_dir, **options)
            break
        except Exception as error:
            if not left or not retries.is_late_worker(error):
                raise
    return consumed.committed_batch(tables_dir) - before
