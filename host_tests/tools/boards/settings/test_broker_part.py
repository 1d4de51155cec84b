# cpython-only: it tests the desktop command
"""A board's settings with the part that `outpost broker` made for it."""

import getpass
import json

import pytest

from outpost_tools import cli
from outpost_tools.boards.port import kinds
from outpost_tools.boards.settings import settings_file
from outpost_tools.errors import ToolError
from outpost_tools.machine import source_tree
from outpost_tools.mqtt import credentials

OWN = {"device_id": "kitchen", "wifi_ssid": "Home", "wifi_password": "correct horse"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker") / "fleet"
    words = ["--host", "127.0.0.1", "--port", "1", "--prefix", "plant/a", "--user",
             getpass.getuser(), "--plugin", "/usr/lib/plugin.so"]  # fmt: skip
    assert cli.main(["broker", "init", str(folder), *words]) == 0
    assert cli.main(["broker", "add", str(folder), "kitchen"]) == 0
    return folder


@pytest.fixture
def written(tmp_path):
    def write(**values):
        path = tmp_path / "board.toml"
        path.write_text("".join(f"{key} = {json.dumps(one)}\n" for key, one in values.items()))
        path.chmod(0o600)
        return path

    return write


def kind():
    return kinds.load(source_tree.repository(), "RPI_PICO_W")


@pytest.mark.parametrize("place", [".", "boards/kitchen.json"])
def test_a_board_gets_broker_tls_user_and_topics(fleet, written, place):
    """From the folder, or from its file alone, as on another machine."""
    found = credentials.find(fleet, "board", "kitchen")
    settings = settings_file.load(written(**OWN), kind(), fleet / place)
    on_board = json.loads(settings.files["/settings.json"])
    assert on_board["ca_file"] in settings.files and on_board["tls"] is True
    assert (on_board["user"], on_board["password"]) == ("kitchen", found.password)
    assert (on_board["broker_host"], on_board["broker_port"]) == ("127.0.0.1", 1)
    assert on_board["topic_prefix"] == "plant/a" and settings.full["mode"] == "collector"
    assert found.password not in "\n".join(settings.lines())


def test_the_name_comes_from_a_boards_file(fleet, written):
    own = {key: value for key, value in OWN.items() if key != "device_id"}
    settings = settings_file.load(written(**own), kind(), fleet / "boards" / "kitchen.json")
    assert settings.full["device_id"] == "kitchen"


@pytest.mark.parametrize(
    "more, place, says",
    [
        ({"broker_host": "other"}, ".", "--credentials says broker_host: delete those keys"),
        ({"device_id": "cellar"}, ".", "no board 'cellar' there; make it with `outpost broker add"),
        ({"device_id": "cellar"}, "boards/kitchen.json", "the credentials are those of 'kitchen'"),
        ({}, "collectors/collector-1.json", "these are of a collector, and a board's are needed"),
        ({}, "broker.json", "not a credentials file of this version"),
        ({}, "nothing.json", "cannot be read"),
    ],
)
def test_what_does_not_fit_is_one_line(fleet, written, more, place, says):
    with pytest.raises(ToolError, match=says):
        settings_file.load(written(**{**OWN, **more}), kind(), fleet / place)


def test_a_settings_file_without_broker_is_told_of_the_credentials(written):
    with pytest.raises(ToolError, match="'broker_host' is missing; add it, or give --credentials"):
        settings_file.load(written(**OWN), kind())


def test_a_folder_without_one_of_that_kind_says_how_to_make_it(fleet):
    with pytest.raises(ToolError, match=f"`outpost broker add {fleet} --operator NAME`"):
        credentials.find(fleet, "operator")


def test_the_command_checks_them_and_shows_no_secret(fleet, written, capsys):
    path = written(**OWN, mode="collector")
    status = cli.main(
        ["provision", "--board", "RPI_PICO_W", "--credentials", str(fleet), str(path)]
    )
    said = capsys.readouterr()
    assert (status, said.err) == (0, "") and 'user = "kitchen"' in said.out
    found = credentials.find(fleet, "board", "kitchen")
    assert found.password not in said.out and "nothing was written" in said.out


def test_a_file_that_others_can_read_is_warned_of(fleet, capsys):
    path = fleet / "boards" / "kitchen.json"
    path.chmod(0o640)
    try:
        credentials.load(path, "board")
    finally:
        path.chmod(0o600)
    assert "others can read it" in capsys.readouterr().err


def test_the_example_for_credentials_is_taken_with_them(fleet, capsys, tmp_path):
    """The one without them names a broker, and the command refused it."""
    file = fleet / "boards" / "kitchen.json"
    assert cli.main(["provision", "--example", "--credentials", str(file)]) == 0
    text = capsys.readouterr().out
    assert f"--credentials {file}" in text and "broker_host" not in text and "# tls" not in text
    path = tmp_path / "kitchen.toml"
    path.write_text(text)
    path.chmod(0o600)
    words = ["provision", "--board", "RPI_PICO_W", "--credentials", str(file), str(path)]
    assert cli.main(words) == 0
    assert "checked" in capsys.readouterr().out


def test_an_authority_that_a_board_cannot_take_is_one_line(fleet, written, tmp_path):
    found = credentials.find(fleet, "board", "kitchen")
    path = tmp_path / "kitchen.json"
    for ca, says in (
        ("none", "which is not a certificate"),
        (found.ca * 2, "holds 2 certificates"),
    ):
        path.write_text(json.dumps(json.loads(found.text()) | {"ca": ca}))
        path.chmod(0o600)
        with pytest.raises(ToolError, match=f"board.toml: --credentials has .*{says}"):
            settings_file.load(written(**OWN), kind(), path)
