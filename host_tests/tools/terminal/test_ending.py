# cpython-only: tests a desktop tool
"""A program that is asked to end ends, however many signals come and whatever they interrupt."""

import os
import signal
import subprocess
import sys
import threading

from outpost_tools.machine import children
from outpost_tools.terminal.ending import Ending
from paths import REPOSITORY

TIMES, BURST = 300, 200
_LIMIT_S = 60  # in vain
SIGNALLED = """
import sys
from outpost_tools.terminal.ending import Ending

for _ in sys.stdin:
    ending = Ending()
    ending.on_signals()
    print("waits", flush=True)
    while not ending.wait(0.001):
        pass
    print("ended", flush=True)
"""


def test_signals_that_come_together_end_it():
    """The set() of an Event, in the handler of the second, waited for ever for the lock that the
    set() of the first had: Ctrl-C twice, or `timeout`, which sends its signal twice.
    """
    with subprocess.Popen(
        [sys.executable, "-c", SIGNALLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=children.tools_environment(),
    ) as child:
        watchdog = threading.Timer(_LIMIT_S, child.kill)
        watchdog.start()
        for _ in range(TIMES):
            child.stdin.write(b"again\n")
            child.stdin.flush()
            assert child.stdout.readline() == b"waits\n"
            for _ in range(BURST):
                os.kill(child.pid, signal.SIGINT)
            assert child.stdout.readline() == b"ended\n", "it hangs"
        watchdog.cancel()
        child.kill()


def test_waiting_ends_with_its_time_or_when_it_is_asked_for():
    ending = Ending()
    assert not ending.wait(0.01) and not ending.is_set()
    ending.set()
    assert ending.wait(3600) and ending.is_set()


def test_there_is_no_other_handler_of_signals():
    """One that does more than assign may wait for what it interrupts. `outpost test` has one that
    ends a program under test, which hangs."""
    found = [
        path.name
        for path in (REPOSITORY / "tools").rglob("*.py")
        if "signal.signal(" in path.read_text(encoding="utf-8")
    ]
    assert sorted(found) == ["ending.py", "on_cpython.py"]
