"""Five engines that read the tables by Delta's log, none of them by ours: name -> function of a
table's folder and columns that gives its rows as tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deltalake
import duckdb
import duckdb_extension_delta
import polars
from pyspark.sql import SparkSession

EXTENSION = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))


def by_duckdb(place: Path, columns: list[str]) -> list[tuple]:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{EXTENSION}'")
        text = ", ".join(f'"{name}"' for name in columns)
        return connection.execute(f"SELECT {text} FROM delta_scan('{place}')").fetchall()


def by_polars(place: Path, columns: list[str]) -> list[tuple]:
    return polars.scan_delta(str(place)).select(columns).collect().rows()


def by_pyarrow(place: Path, columns: list[str]) -> list[tuple]:
    rows = deltalake.DeltaTable(str(place)).to_pyarrow_dataset().to_table(columns=columns)
    return list(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def by_pandas(place: Path, columns: list[str]) -> list[tuple]:
    frame = deltalake.DeltaTable(str(place)).to_pandas(columns=columns)
    return list(frame[columns].itertuples(index=False, name=None))


def by_spark(spark: SparkSession) -> Callable[[Path, list[str]], list[tuple]]:
    """Without the connector: the files that the newest version has."""

    def read(place: Path, columns: list[str]) -> list[tuple]:
        files = deltalake.DeltaTable(str(place)).file_uris()
        if not files:
            return []
        frame = spark.read.option("basePath", str(place)).parquet(*files)
        return [tuple(row) for row in frame.select(columns).collect()]

    return read


def all_engines(spark: SparkSession) -> dict[str, Callable[[Path, list[str]], list[tuple]]]:
    plain = {"duckdb": by_duckdb, "polars": by_polars, "pyarrow": by_pyarrow, "pandas": by_pandas}
    return plain | {"spark": by_spark(spark)}
