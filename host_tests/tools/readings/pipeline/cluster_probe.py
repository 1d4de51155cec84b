"""What spark-submit runs in test_pipeline_cluster.py: a session as the pipeline's, and what is in
force in it. One line of JSON."""

import json
import sys
from pathlib import Path


def where(_):
    import outpost_tools

    yield outpost_tools.__file__


def main() -> None:
    from outpost_tools.readings.pipeline import session

    told: list[str] = []
    spark = session.start(None, Path(sys.argv[1]), say=told.append)
    context = spark.sparkContext
    packages = context.parallelize(range(8), 8).mapPartitions(where).distinct().collect()
    names = ("spark.master", "spark.driver.host", "spark.sql.shuffle.partitions")
    names += ("spark.sql.session.timeZone", "spark.executor.memory", "spark.app.name")
    seen = {name: spark.conf.get(name) for name in names}
    seen["driver_bytes"] = context._jvm.Runtime.getRuntime().maxMemory()
    found = context._jsc.sc().getExecutorMemoryStatus().keySet().mkString(" ").split()
    seen["hosts"] = sorted({address.rpartition(":")[0] for address in found})
    seen["packages"], seen["told"] = packages, told
    print(json.dumps(seen))
    session.stop(spark)


if __name__ == "__main__":
    main()
