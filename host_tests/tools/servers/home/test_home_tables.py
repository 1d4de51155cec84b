# cpython-only: the pipeline, with real mosquitto and MicroPython
"""`outpost run` with a real board: the rig's, on 32-bit MicroPython, flashed over its serial port
with the credentials of the broker that `outpost run` made, publishes over TLS; and its job makes
tables and report of that.
"""

import pytest

from collector_process import wait_until
from flash_rig import Rig, tree  # noqa: F401 - a fixture
from home_run import Home
from outpost_tools.errors import ToolError
from outpost_tools.machine import children, needs
from outpost_tools.machine.interpreters import find_mosquitto

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def packages():
    try:
        needs.check("tables", "report")
    except ToolError as error:
        pytest.skip(f"missing: {error}")
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")


def test_a_boards_readings_become_tables_and_a_report(packages, tmp_path, tree):  # noqa: F811
    import deltalake

    home = Home(tmp_path, "--minutes", "1", "--collect=--segment-seconds=2")
    settings = tmp_path / "kitchen.toml"
    settings.write_text('device_id = "kitchen"\nmode = "collector"\ninterval_ms = 200\n')
    settings.chmod(0o600)
    home.start()
    try:
        home.wait_for("ready")
        home.add_board("kitchen")
        given = ["--settings", settings, "--credentials", home.state / "broker"]
        with Rig(tmp_path / "rig", tree) as rig:
            assert rig.outpost("flash", *given) == 0
            assert rig.row("message").startswith("the collector confirmed it after")
            wait_until(lambda: len(home.stored()) >= 20)
        assert 'outpost_reading{board="kitchen",sensor="count"' in home.page("/metrics")
        home.wait_for("tables: done in", limit_s=600)
        rows = deltalake.DeltaTable(str(home.state / "tables" / "readings")).to_pyarrow_table()
        assert set(rows["device"].to_pylist()) == {"kitchen"}
        counts = [row for row in rows.to_pylist() if row["name"] == "count"]
        assert len(counts) == len({row["seq"] for row in counts}) >= 20
        assert set(rows["seq"].to_pylist()) <= home.stored()
        assert "kitchen" in home.state.joinpath("report.html").read_text()
        assert "kitchen" in home.page("/report")
        assert home.terminate() == 0
        assert "Traceback" not in home.text() and "failed" not in home.text()
    finally:
        children.kill(home.process)
