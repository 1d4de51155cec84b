# cpython-only: tests a desktop tool
"""`outpost flash` speaks the version of MQTT that the settings say, also in its test of the link:
to a server that takes no other."""

import json

import pytest

from flash_rig import SETTINGS, Rig
from scripted_server import ScriptedServer, encode

pytestmark = pytest.mark.timeout(600)


def one_version(level, levels):
    """A server that takes boards of one level, and acknowledges what they publish with QoS 1."""

    def script(connection):
        levels.append(connection.receive(level=5)[1]["level"])
        if levels[-1] != level:
            connection.send(encode("CONNACK", code=1))
            return
        connection.send(encode("CONNACK", level))
        while True:
            kind, fields = connection.receive(level=level)
            if kind == "PUBLISH":
                connection.send(encode("PUBACK", level, packet_id=fields["packet_id"]))

    return script


@pytest.mark.parametrize("level", [3, 4, 5])
def test_a_server_that_takes_one_version_lets_the_board_in(level, tmp_path, tree):
    levels = []
    with ScriptedServer(one_version(level, levels)) as server, Rig(tmp_path / "rig", tree) as rig:
        more = {"broker_port": server.port, "level": level, "mode": "broker", "outbox_blocks": 8}
        path = rig.folder / "kitchen.toml"
        values = {**SETTINGS, **more}
        path.write_text("".join(f"{key} = {json.dumps(values[key])}\n" for key in values))
        assert rig.outpost("flash", "--settings", path, "--link-timeout", 20) == 0, rig.out
        assert not server.faults
    assert set(levels) == {level}
