# cpython-only: real mosquitto, MicroPython and Chromium
"""A board is added in the browser: from an empty folder to its first confirmed value, typed and
clicked in Chromium. The board is the rig's: 32-bit MicroPython behind a pseudo-terminal.

OUTPOST_SETUP_PICTURES=DIR keeps pictures to look at.
"""

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

import browser_rig
from collector_process import wait_until
from flash_rig import Rig
from home_run import Home
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from paths import REPOSITORY, RIGS
from setup_server import SetupServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
browser_rig.skip_without()
if find_mosquitto() is None:
    pytest.skip("missing: mosquitto; run `make setup`", allow_module_level=True)


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path)
    made.start()
    try:
        made.wait_for("ready")
        yield made
    finally:
        children.kill(made.process)


@pytest.fixture
def browser(tmp_path):
    with browser_rig.Browser(browser_rig.find(), tmp_path / "chromium") as browser:
        yield browser


def enter(browser, name, text):
    """As somebody types, and goes on to the next field."""
    browser.ask(
        f"document.getElementById({json.dumps(name)}).value = {json.dumps(text)};"
        f"document.getElementById({json.dumps(name)})"
        ".dispatchEvent(new Event('change', {bubbles: true}))"
    )


def click(browser, name):
    browser.ask(f"document.getElementById('{name}').click()")


def text_of(browser, name):
    return browser.ask(f"document.getElementById('{name}').innerText")


def wait_for_verdict(browser):
    browser.wait_for(
        "document.getElementById('verdict').innerText && !document.getElementById('flash').disabled"
    )
    return text_of(browser, "verdict")


def picture(browser, name):
    if folder := os.environ.get("OUTPOST_SETUP_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.picture(Path(folder) / f"{name}.png", whole=True)


def test_from_an_empty_folder_to_a_confirmed_value(home, browser, tmp_path):
    with (
        Rig(tmp_path / "rig", REPOSITORY) as board,
        SetupServer(
            tmp_path, "home", "--port", board.port, "--board", RIGS / "rig_board"
        ) as server,
    ):
        browser.load(server.url, 1100, 900)
        browser.wait_for("document.getElementById('port')?.options.length === 1")
        assert "token" not in browser.ask("location.href")
        click(browser, "ask")  # which kind it is
        assert wait_for_verdict(browser).startswith("✓")
        assert browser.ask("document.getElementById('board').value").endswith("rig_board")

        click(browser, "flash")  # without a name
        browser.wait_for("document.getElementById('device_id').ariaInvalid === 'true'")
        assert "use 1 to 32 of A-Z" in text_of(browser, "device_id-fault")
        assert browser.ask("document.activeElement.id") == "device_id"
        enter(browser, "device_id", "kitchen")
        enter(browser, "interval_ms", "200")
        browser.wait_for("document.getElementById('device_id-fault').hidden")

        click(browser, "flash")
        browser.wait_for("document.getElementById('steps').innerText.includes('copying')")
        browser.load(server.url, 1100, 900)  # it goes on, and the page tells of it
        browser.wait_for("document.getElementById('device_id')?.value === ''")
        verdict = wait_for_verdict(browser)
        picture(browser, "flashed")
        results = text_of(browser, "results")
        assert verdict.startswith("✓ Done") and "✕" not in results, verdict + results
        assert "the collector confirmed it after" in results and "count: 1" in results
        assert text_of(browser, "next").startswith("Its values appear on the page")
        assert "kitchen" in text_of(browser, "steps") and browser.serious() == []
        confirmed = 'outpost_reading{board="kitchen",sensor="count"'
        wait_until(lambda: confirmed in home.page("/metrics"))

        save_and_change(browser, board, tmp_path)
        assert browser.errors == [] and server.interrupt() == 0
    assert home.stored() >= {0, 1}


def save_and_change(browser, board, tmp_path):
    """Its settings in a file, loaded again, and one of them changed."""
    enter(browser, "board", str(RIGS / "rig_board"))
    enter(browser, "device_id", "kitchen")
    enter(browser, "interval_ms", "200")
    click(browser, "save")
    browser.wait_for("document.getElementById('saved').innerText.startsWith('✓')")
    path = tmp_path / "home" / "boards" / "kitchen.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tomllib.loads(path.read_text())["interval_ms"] == 200
    assert "password" not in path.read_text()  # the broker's folder has it
    click(browser, "save")
    browser.wait_for("!document.getElementById('overwrite').hidden")
    click(browser, "no")
    browser.ask("document.getElementById('files').open = true")
    # "saved" comes before the list of the files, and a list takes no name that it does not have
    browser.wait_for("[...document.getElementById('file').options].some(one => one.value)")
    enter(browser, "file", "kitchen.toml")
    enter(browser, "interval_ms", "1")
    click(browser, "load")
    browser.wait_for("document.getElementById('interval_ms').value === '200'")
    enter(browser, "interval_ms", "300")
    click(browser, "provision")
    browser.wait_for("document.getElementById('verdict').innerText.startsWith('✓ Done: the set')")
    assert "/settings.json" in text_of(browser, "results")
    assert '"interval_ms": 300' in board.mpremote("cat", ":/settings.json")
