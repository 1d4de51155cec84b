"""Which failures of Spark are transient, and how long to wait before the next try.

A failure is transient when a busy or partly lost machine causes it: a worker that started too late
or was killed, a lost executor, a broken connection, a JVM that died. Everything else (input, disk,
rights, code) fails again in the same way, so it ends the run at once. No Spark here.
"""

from __future__ import annotations

# Delays in a row; a round that succeeds starts them again. Somebody is waiting for a single run.
SINGLE_S = (5.0, 10.0, 20.0)
CONTINUOUS_S = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0)  # about 15 minutes
# A Python worker has ten seconds to start, which cannot be configured. A busy machine is not
# a failure, and the next worker finds its libraries in memory. So retry at once, this many times in
# a row, before using those delays.
LATE_TRIES = 8
_LATE = "Python worker failed to connect back"
_TRANSIENT = (
    _LATE,
    "Python worker exited unexpectedly",
    "PythonWorkerFactory",  # when a worker could not be created
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
    "StoreError",  # object storage that cannot be reached, or asks for patience
    "error sending request",
    "BrokenProcessPool",
    "CommitFailedError",  # other drivers have committed each time
)
_PERMANENT = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Permission denied",
    "FileNotFoundError",
    "OutOfMemoryError",
    "Too many open files",
    "no right to do this",
    "does not accept these keys",
)


def is_transient(error: BaseException) -> bool:
    """By the texts of the error and its causes. Permanent wins: a full disk also breaks links."""
    said = "\n".join(map(_said, _chain(error)))
    if any(sign in said for sign in _PERMANENT):
        return False
    return any(sign in said for sign in _TRANSIENT) or any(map(_is_broken_off, _chain(error)))


def is_late_worker(error: BaseException) -> bool:
    return any(_LATE in str(one) for one in _chain(error))


def _is_broken_off(error: BaseException) -> bool:
    """Whether a connection broke. py4j's own error without a trace means the same: an answer of the
    JVM has a trace, or is a Py4JJavaError."""
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
    """One line, because Spark's own messages are many and long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if "Error: " in line and not line.startswith("at ")]
    told = (wanted or lines or [type(error).__name__])[-1 if wanted else 0][:300]
    # Delta Lake's first line is no more than "Generic LocalFileSystem error"
    sign = next((one for one in _PERMANENT if one in str(error) and one not in told), None)
    return f"{told}: {sign}" if sign else told
