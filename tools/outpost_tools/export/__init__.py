"""`outpost export`: readings from the collectors' log into one file, without Spark and Java.

| module | what |
|---|---|
| `arguments.py` | the subcommand |
| `log_files.py` | the segments of a log, sealed and open, in portions of bounded size |
| `copies.py` | which copy of each message counts, by the rules of silver |
| `selection.py` | devices, metrics, times |
| `sinks.py` | CSV, JSON lines, Parquet; a file that is there whole or not at all |
| `days.py` | a file of each day; those that changed |
| `run.py` | the two readings of the log |
| `telling.py` | progress, and what was found beside the readings; on stderr |

What is a message, what it says, what is only a part of another and when its readings were taken is
the pipeline's code: decode.py, exact.py, contents.py, parts.py, clocks.py.
"""

COLUMNS = ("time", "device", "name", "value", "unit", "received", "stream", "seq", "record")
