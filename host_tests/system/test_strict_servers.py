# cpython-only: boards under MicroPython and the collector as a process, over servers with limits
"""Collector mode over servers with the limits of Azure Event Grid and AWS IoT Core: nothing that
they close the connection for, and exact over connections that break, also where the server loses
its sessions.
"""

import pytest

from exact_fleet import Run, assert_exact
from real_broker import micropython
from strict_server import AWS, EVENT_GRID, StrictServer

QUEUED = ("--confirmation", "queued")


def restart_collector(run):
    run.collectors[0].kill()
    run.collectors[0].start()


@pytest.mark.parametrize(
    ("limits", "confirmation"),
    [(EVENT_GRID, "queued"), (AWS, "queued"), (AWS, "retained")],
    ids=["event grid", "aws", "aws, retained"],
)
def test_collector_mode_is_exact_within_the_limits(tmp_path, limits, confirmation):
    micropython("i386")
    with StrictServer(limits) as server:
        run = Run(
            tmp_path,
            server.port,
            settings={"confirmation": confirmation},
            options=("--confirmation", confirmation),
        )
        account = run.play(
            (0.8, lambda _: server.cut()),
            (1.6, restart_collector),
            (2.4, lambda _: server.lose_sessions()),
            (3.2, lambda _: server.cut()),
        )
    print(account)
    assert server.violations == []
    assert_exact(account)
