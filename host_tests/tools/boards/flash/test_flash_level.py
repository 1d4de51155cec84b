# cpython-only: tests a desktop tool
"""`outpost flash` speaks the version of MQTT that the settings say, also in its test of the link:
to a server that takes no other."""

import json
import socket
import threading

import pytest

from flash_rig import SETTINGS, Rig, tree  # noqa: F401 - a fixture

pytestmark = pytest.mark.timeout(600)


class Server:
    """Takes boards of one level, and acknowledges what they publish with QoS 1."""

    def __init__(self, level):
        self.level, self.levels = level, []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as packets:
                self._talk(client, packets)

    def _talk(self, client, packets):
        while first := packets.read(1):
            body = packets.read(length_of(packets))
            if first[0] >> 4 == 1:
                self.levels.append(body[2 + body[1]])
                if self.levels[-1] != self.level:
                    return client.sendall(b"\x20\x02\x00\x01")
                client.sendall(b"\x20\x03\x00\x00\x00" if self.level == 5 else b"\x20\x02\x00\x00")
            elif first[0] >> 4 == 3:
                at = 2 + (body[0] << 8 | body[1])
                client.sendall(b"\x40\x02" + body[at : at + 2])


def length_of(packets):
    length = shift = 0
    while True:
        byte = packets.read(1)[0]
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return length


@pytest.mark.parametrize("level", [3, 4, 5])
def test_a_server_that_takes_one_version_lets_the_board_in(level, tmp_path, tree):  # noqa: F811
    server = Server(level)
    more = {"broker_port": server.port, "level": level, "mode": "broker", "outbox_blocks": 8}
    with Rig(tmp_path / "rig", tree) as rig:
        path = rig.folder / "kitchen.toml"
        values = {**SETTINGS, **more}
        path.write_text("".join(f"{key} = {json.dumps(values[key])}\n" for key in values))
        assert rig.outpost("flash", "--settings", path, "--link-timeout", 20) == 0, rig.out
    server.close()
    assert set(server.levels) == {level}
