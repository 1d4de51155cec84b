# cpython-only: tests a desktop tool
"""The demo around its judge: plan of disasters, folder, bad arguments, copies on the wire."""

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import outpost_command
from collector_process import LIMIT_S, wait_until
from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.trying.demo import disasters, wire
from outpost_tools.trying.demo import run as demo_run
from outpost_tools.trying.demo.disasters import SHORTEST_RUN_S, Disaster
from outpost_tools.trying.demo.progress import Progress
from outpost_tools.trying.demo.stage import Stage


@pytest.mark.parametrize("seconds", [SHORTEST_RUN_S, 30, 300])
@pytest.mark.parametrize("seed", range(40))
def test_a_plan_can_be_played(seed, seconds):
    plan = disasters.plan(seed, seconds=seconds, boards=4)
    assert plan == disasters.plan(seed, seconds=seconds, boards=4)
    assert [d.at_s for d in plan] == sorted(d.at_s for d in plan)
    assert 0 < plan[0].at_s and plan[-1].at_s < 0.95 * seconds
    up = {"collector": True, "broker": True, "link": True}
    for d in plan:
        verb, what = d.what.split("_")
        assert up[what] is (verb in ("kill", "cut")), "kills what is up, starts what is down"
        up[what] = not up[what]
        if d.what == "kill_broker":
            assert not up["collector"], "the broker dies with a backlog"
    assert all(up.values())
    kinds = [d.what for d in plan]
    assert kinds.count("kill_broker") in (1, 2)
    assert kinds.count("kill_collector") == 2
    assert all(0 <= d.board < 4 for d in plan if d.board is not None)


def test_seeds_differ():
    plans = [disasters.plan(seed, seconds=30, boards=4) for seed in range(20)]
    assert len({json.dumps([d.at_s for d in plan]) for plan in plans}) == 20
    assert {d.how for plan in plans for d in plan if d.how} == {"reset", "silence"}
    assert {sum(d.what == "kill_broker" for d in plan) for plan in plans} == {1, 2}


def test_the_folder_is_made_anew_but_only_when_it_is_ours(tmp_path):
    out = tmp_path / "demo"
    demo_run.claim(out).close()
    (out / "old").mkdir()
    (out / "old" / "file").touch()
    mark = demo_run.claim(out)
    assert [path.name for path in out.iterdir()] == [".outpost-demo"]
    with pytest.raises(ToolError, match="another demo runs"):
        demo_run.claim(out)
    mark.close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").touch()
    with pytest.raises(ToolError, match="not made by"):
        demo_run.claim(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis").exists()


def test_redelivered_counts_copies_beyond_the_first(tmp_path):
    directory = tmp_path / "c1"
    writer = segments.SegmentWriter(directory)

    def append(device, seq, **flags):
        payload = json.dumps([{"sid": "0badcafe", "seq": seq, "held": 0}]).encode()
        writer.append(segments.encode_frame(0, f"outpost/{device}/data".encode(), payload, **flags))

    for seq in (0, 1, 1, 2, 1):
        append("b1", seq)
    append("b2", 1)
    append("b2", 1, retain=True)
    writer.append(segments.encode_frame(0, b"outpost/b2/data", b"bad"))
    writer.seal()
    assert wire.redelivered(tmp_path) == {"b1": 2, "b2": 0}


@pytest.mark.parametrize(
    ("options", "environment", "complaint"),
    [
        (["--broker", "rabbit"], {}, "'rabbit': choose one of mosquitto, amqtt"),
        ([], {"BROKER": "rabbit"}, "'rabbit'"),
        (["--seed", "x"], {}, "'x' is not a whole number"),
        (["--level", "6"], {}, "'6': choose 4 or 5"),
        (["--level", "5", "--broker", "amqtt"], {}, "amqtt speaks MQTT 3.1.1 only"),
        ([], {"SEED": "1.5"}, "'1.5' is not a whole number"),
        (["--seconds", "3"], {}, "--seconds 3"),
        (["--seconds", "nan"], {}, "--seconds nan"),
        (["--boards", "0"], {}, "--boards 0"),
        (["--out", "."], {}, "was not made by"),
    ],
)
def test_bad_arguments(tmp_path, options, environment, complaint):
    (tmp_path / "file").touch()
    done = outpost_command.run(
        "demo", *options, cwd=tmp_path, env={**children.tools_environment(), **environment}
    )
    assert done.returncode == 2
    assert complaint in done.stderr and "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["file"]


def processes_of(folder):
    """Command lines that name `folder`, or run in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
            if str(folder) in words or (process / "cwd").readlink().is_relative_to(folder):
                found.append(words)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process(tmp_path, number):
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    out = tmp_path / "out"
    command = outpost_command.line("demo", "--broker", "mosquitto", "--out", out)
    demo = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=children.tools_environment()
    )
    try:
        for line in demo.stderr:
            if re.search(r" ([3-9]|1\d)/30 s", line):  # a busy machine tells it later
                break
        else:
            pytest.fail("the demo ended by itself")
        # the demo, broker, collector, three boards or more; not each moment: the power fails
        wait_until(lambda: len(processes_of(out)) >= 6)
        demo.send_signal(number)
        assert demo.wait(LIMIT_S) == 130
        assert "interrupted" in demo.stderr.read()
    finally:
        demo.kill()
        demo.stderr.close()
    assert processes_of(out) == []


class SlowStage(Stage):
    """Without processes: each disaster takes longer than the rest of the run."""

    def __init__(self):
        self._seconds, self._progress, self.struck = 0.3, Progress(), []
        self.fleet = SimpleNamespace(boards=[], failures=[])

    async def _strike(self, disaster):
        await asyncio.sleep(0.3)
        self.struck.append(disaster.what)

    def _check(self):
        pass

    def _line(self):
        return ""


def test_a_slow_disaster_does_not_keep_the_next_ones_from_happening():
    """Three nodes of NATS may take 10 s to elect who leads; the collector must come back all the
    same, or the boards never drain.
    """
    stage = SlowStage()
    plan = [Disaster(0.0, "kill_broker"), Disaster(0.1, "start_broker")]
    asyncio.run(stage.play([*plan, Disaster(0.2, "start_collector")]))
    assert stage.struck == ["kill_broker", "start_broker", "start_collector"]
