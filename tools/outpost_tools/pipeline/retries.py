"""Which failures of Spark pass by themselves, and how long to wait before the next try.

Transient is what a busy or partly lost machine does: a worker that started too late or was killed,
an executor that was lost, a connection that broke, a JVM that died. Everything else (input, disk,
rights, code) fails again in the same way: it ends the run at once. No Spark here.
"""

from __future__ import annotations

# In a row; a round that ends well starts them anew. A single run has somebody waiting for it.
SINGLE_S = (5.0, 10.0, 20.0)
CONTINUOUS_S = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0)  # about 15 minutes
# A Python worker has ten seconds to start, which cannot be set: a busy machine is no failure, and
# the next one finds its libraries in memory. At once, so often in a row, before those.
LATE_TRIES = 8
_LATE = "Python worker failed to connect back"
_TRANSIENT = (
    _LATE,
    "Python worker exited unexpectedly",
    "PythonWorkerFactory",  # where a worker could not be made
    "ExecutorLostFailure",
    "Executor heartbeat timed out",
    "All masters are unresponsive",
    "RpcTimeoutException",
    "RpcEnvStoppedException",
    "Could not find HeartbeatReceiver",
    "Futures timed out",
    "FetchFailed",
    "SocketTimeoutException",
    "EOFException",
    "ClosedChannelException",
    "Connection reset",
    "Connection refused",
    "Broken pipe",
    "Failed to connect to",
    "SparkContext was shut down",
    "Answer from Java side is empty",
)
_PERMANENT = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Permission denied",
    "FileNotFoundError",
    "OutOfMemoryError",
    "Too many open files",
)


def is_transient(error: BaseException) -> bool:
    """By what it and its causes say. Permanent wins: a full disk breaks connections too."""
    said = "\n".join(map(_said, _chain(error)))
    if any(sign in said for sign in _PERMANENT):
        return False
    return any(sign in said for sign in _TRANSIENT) or any(map(_is_broken_off, _chain(error)))


def is_late_worker(error: BaseException) -> bool:
    return any(_LATE in str(one) for one in _chain(error))


def _is_broken_off(error: BaseException) -> bool:
    """A connection's end. py4j's own error without a trace is one, too: what the JVM answers has a
    trace, or is a Py4JJavaError."""
    if type(error).__name__ == "Py4JError":
        return "Trace:" not in str(error)
    return isinstance(error, ConnectionError | EOFError)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def cause(error: BaseException) -> str:
    """One line: Spark's own texts are many and long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if "Error: " in line and not line.startswith("at ")]
    told = (wanted or lines or [type(error).__name__])[-1 if wanted else 0][:300]
    # Delta Lake's first line is no more than "Generic LocalFileSystem error"
    sign = next((one for one in _PERMANENT if one in str(error) and one not in told), None)
    return f"{told}: {sign}" if sign else told
