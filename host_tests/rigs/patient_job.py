"""job.run() on a busy machine, where a Python worker may miss Spark's ten seconds to start. It then
tries again, as rounds.py does."""

from __future__ import annotations

from outpost_tools.readings.pipeline import job, plan, retries, tables
from outpost_tools.readings.pipeline.delta import open_table
from outpost_tools.readings.pipeline.engines import Engine
from outpost_tools.store.at import at


def run(engine: Engine, log: object, tables_dir: object, **options: object) -> int:
    """Returns the number of rounds done in all tries."""
    before = rounds(tables_dir)
    for left in reversed(range(retries.LATE_TRIES)):
        try:
            job.run(engine, log, tables_dir, **options)
            break
        except Exception as error:
            if not left or not retries.is_late_worker(error):
                raise
    return rounds(tables_dir) - before


def rounds(tables_dir: object) -> int:
    """How many rounds the tables have."""
    if not tables.exists(tables_dir, "streams"):
        return 0
    return plan.number(open_table(at(tables_dir) / "streams"))
