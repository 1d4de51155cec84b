# cpython-only: a browser
"""The setup page in headless Chromium: desktop and phone, light and dark, as axe and a keyboard see
it.

OUTPOST_SETUP_PICTURES=DIR keeps pictures to look at.
"""

import os
from pathlib import Path

import pytest

import browser_rig
from setup_server import SetupServer

browser_rig.skip_without()

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
ACTIVE = "document.activeElement.id"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a-folder-whose-name-is-longer-than-a-phone-is-wide")
    with SetupServer(folder, "--port", "/dev/no-such-port") as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browser_rig.Browser(
        browser_rig.find(), tmp_path_factory.mktemp("browser") / "chromium"
    ) as browser:
        yield browser


@pytest.fixture
def page(browser, server):
    def load(size="desktop", scheme="light"):
        browser.prefer(scheme)
        browser.load(server.url, *SIZES[size])
        browser.wait_for("document.getElementById('plugged')?.innerText.includes('no such port')")
        browser.ask(
            "document.getElementById('board').value = 'RPI_PICO_W';"
            "document.getElementById('board').dispatchEvent(new Event('change'))"
        )
        return browser

    return load


def click(browser, name):
    browser.ask(f"document.getElementById('{name}').click()")


def press(browser, key):
    how = {"key": key, "code": key, "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}[key]}
    text = {"text": "\r"} if key == "Enter" else {}
    browser.call("Input.dispatchKeyEvent", type="keyDown", **how, **text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **how)


def picture(browser, name):
    if folder := os.environ.get("OUTPOST_SETUP_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.picture(Path(folder) / f"{name}.png", whole=True)


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_the_page_fits_and_is_accessible_with_all_that_it_can_show(page, size, scheme):
    browser = page(size, scheme)
    for driver in ("bme280", "battery"):
        browser.ask(f"document.getElementById('driver').value = '{driver}'")
        click(browser, "add-sensor")
    browser.ask("document.querySelectorAll('[data-add]').forEach(one => one.click())")
    browser.ask("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    click(browser, "flash")
    browser.wait_for("!document.getElementById('summary').hidden")
    assert browser.ask(OVERFLOW) <= 0
    assert browser.serious() == []
    picture(browser, f"setup-{size}-{scheme}")
    dark = browser.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] < 128")
    assert dark == (scheme == "dark") and browser.errors == []
    ours = browser.ask("location.origin")
    assert all(one.startswith(ours) for one in browser.requests)


def test_a_fault_is_beside_its_field_and_told_to_a_screen_reader(page):
    browser = page()
    click(browser, "check")
    browser.wait_for("!document.getElementById('summary').hidden")
    assert browser.ask(ACTIVE) == "port", "the first that is wrong"
    name = "document.getElementById('device_id')"
    told = f"{name}.getAttribute('aria-describedby').split(' ')"
    text = browser.ask(f"{told}.map(id => document.getElementById(id).innerText).join(' ')")
    assert "device_id at most 32 characters" in text and "✕ is missing; add it" in text
    browser.ask(
        f"{name}.value = 'kitchen'; {name}.dispatchEvent(new Event('change', {{bubbles: 1}}))"
    )
    browser.wait_for(f"!{name}.hasAttribute('aria-invalid')")


def test_a_fault_of_the_broker_is_not_beside_the_networks_field_of_the_same_name(page):
    browser = page()
    name = "document.getElementById('password')"
    browser.ask(f"{name}.value = 'x'; {name}.dispatchEvent(new Event('change', {{bubbles: 1}}))")
    browser.wait_for("!document.getElementById('password-fault').hidden")
    told = browser.ask("document.getElementById('password-fault').innerText")
    assert told.startswith("✕ needs 'user'")
    assert browser.ask("document.querySelectorAll('.fault:not([hidden])').length") == 1


def test_it_is_worked_by_keyboard(page):
    browser = page()
    browser.ask("document.getElementById('driver').value = 'dht22'")
    browser.ask("document.getElementById('add-sensor').focus()")
    press(browser, "Enter")
    browser.wait_for(f"{ACTIVE}.startsWith('name-')")
    press(browser, "Enter")  # in a field, which is not the button that flashes
    press(browser, "Tab")
    assert browser.ask(ACTIVE).startswith("pin-")
    assert browser.ask("document.getElementById('summary').hidden")
    press(browser, "Tab")
    assert browser.ask("document.activeElement.ariaLabel") == "Remove dht22"
    press(browser, "Enter")
    assert browser.ask(ACTIVE) == "add-sensor", "the focus is not lost with what had it"


def test_what_was_typed_is_gone_when_the_page_is_loaded_again(page):
    browser = page()
    browser.ask(
        "document.querySelectorAll('input[type=password]').forEach(e => { e.value = 'x'; })"
    )
    assert "token" not in browser.ask("location.href")
    browser.call("Page.reload")
    browser.wait_for("document.getElementById('plugged')?.innerText.includes('no such port')")
    left = "[...document.querySelectorAll('input[type=password]')].map(e => e.value).join('')"
    browser.wait_for(f"{left} === ''")
