"""`outpost export`: writes readings from the collectors' log to one file, without Spark and Java.

| module | what |
|---|---|
| `arguments.py` | the subcommand |
| `log_files.py` | the segments of a log, sealed and open, in portions of bounded size |
| `copies.py`, `foreign_copies.py` | which copy of each message counts, by the rules of silver |
| `selection.py` | devices, metrics, times |
| `sinks.py` | CSV, JSON lines, Parquet; a file that is there whole or not at all |
| `days.py` | a file of each day; those that changed |
| `run.py` | the two passes over the log |
| `telling.py` | progress, and what else was found; on stderr |

The pipeline's code decides what is a message, what it contains, whether it is only a part of
another one, and when its readings were taken: decode.py, exact.py, contents.py, parts.py,
clocks.py; for other people's messages: foreign_rows.py.
"""

COLUMNS = ("time", "device", "name", "value", "unit", "received", "stream", "seq", "record")
