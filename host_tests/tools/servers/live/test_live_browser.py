# cpython-only: a browser
"""The live page in headless Chromium, fed by a real mosquitto and a real collector: new values by
themselves, at desktop and phone width, dark and light, and as axe sees it.

OUTPOST_LIVE_PICTURES=DIR keeps pictures to look at.
"""

import json
import os
import time
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

import browser_rig
from collector_process import Process, wait_until
from live_server import Server, payload
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_mosquitto

browser_rig.skip_without()
if find_mosquitto() is None:
    pytest.skip("missing: mosquitto; run `make setup`", allow_module_level=True)

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
NASTY = "<img src=x onerror=\"document.title='owned'\">"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class House:
    """Boards that publish by MQTT."""

    def __init__(self, broker, server):
        self.server = server
        self._numbers = {}
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="house")
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()

    def publish(self, device, *records, held=None, seq=None, time_s=None):
        seq = self._numbers.get(device, -1) + 1 if seq is None else seq
        self._numbers[device] = seq
        data = payload(
            device, seq, records, time_s=time_s or time.time(), held=seq if held is None else held
        )
        self._client.publish(f"outpost/{device}/data", data, qos=1).wait_for_publish(120)

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("house")
    with Broker("mosquitto", folder / "broker") as broker:
        with Process(folder, broker.port) as collector:
            with Server(collector.log, folder) as server:
                made = House(broker, server)
                wait_until(lambda: "subscribed" in collector.text())
                for k in range(12):
                    at = time.time() - 60 * (12 - k)
                    made.publish(
                        "kitchen", ("temperature", "Cel", 20 + k / 4), ("signal", "dBm", -60),
                        time_s=at,
                    )  # fmt: skip
                made.publish("lossy", ("level", "cm", 3), seq=4, held=4)
                made.publish("lossy", ("level", "cm", 3), seq=9, held=9)
                server.wait_for("4 lost")
                yield made
                made.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browser_rig.Browser(
        browser_rig.find(), tmp_path_factory.mktemp("browser") / "chromium"
    ) as browser:
        yield browser


def value_of(device, sensor):
    return (
        f"[...document.querySelectorAll('[data-name=\"{device}\"] [data-s]')]"
        f".find(r => r.textContent.includes('{sensor}'))?.querySelector('.value').textContent"
    )


def picture(browser, name):
    if folder := os.environ.get("OUTPOST_LIVE_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.picture(Path(folder) / f"{name}.png", whole=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", ["/", "/board/kitchen?span=day"])
def test_each_page_fits_and_is_accessible(house, browser, path, size, scheme):
    browser.prefer(scheme)
    browser.load(house.server.url + path, *SIZES[size])
    browser.wait_for("document.getElementById('link')?.dataset.state === 'here'")
    assert browser.ask(OVERFLOW) <= 0
    assert browser.serious() == []
    picture(browser, f"{'board' if 'board' in path else 'live'}-{size}-{scheme}")
    dark = browser.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] < 128")
    assert dark == (scheme == "dark") and browser.errors == []


def test_a_value_appears_by_itself_from_mqtt_to_the_screen(house, browser):
    browser.load(house.server.url, *SIZES["desktop"])
    browser.wait_for("document.getElementById('link')?.dataset.state === 'here'")
    spark = "document.querySelector('[data-name=kitchen] .spark path').getAttribute('d')"
    before = browser.ask(spark)
    house.publish("kitchen", ("temperature", "Cel", 31.75), ("signal", "dBm", -61))
    browser.wait_for(f"{value_of('kitchen', 'temperature')} === '31.75 °C'")
    browser.wait_for(f"{spark} !== {json.dumps(before)}")
    house.publish("cellar", ("humidity", "%RH", 55.5))  # a board that the page did not have
    browser.wait_for(f"{value_of('cellar', 'humidity')} === '55.5 %'")
    assert browser.errors == []


def test_what_others_call_things_never_becomes_an_element(house, browser):
    browser.load(house.server.url, *SIZES["desktop"])
    browser.wait_for("document.getElementById('link')?.dataset.state === 'here'")
    house.publish("rogue", (NASTY, NASTY, 1))
    browser.wait_for("document.querySelector('[data-name=rogue] [data-s]') !== null")
    house.publish("rogue", (NASTY, NASTY, 2))
    browser.wait_for(
        "document.querySelector('[data-name=rogue] .value').textContent.startsWith('2 ')"
    )
    assert browser.ask("document.images.length") == 0
    assert browser.ask("document.title") == "Outpost, live"
    browser.load(house.server.url + "/board/rogue", *SIZES["phone"])
    assert browser.ask("document.images.length") == 0 and browser.ask(OVERFLOW) <= 0


def test_the_list_is_searched_and_narrowed_to_what_needs_attention(house, browser):
    browser.load(house.server.url, *SIZES["desktop"])
    shown = "[...document.querySelectorAll('.card:not([hidden])')].map(c => c.dataset.name)"
    assert browser.ask(shown)[0] == "lossy"  # what needs attention comes first
    browser.ask("document.getElementById('only').click()")
    browser.wait_for(f"{shown}.join() === 'lossy'")
    browser.ask("document.getElementById('only').click()")
    browser.ask(
        "document.getElementById('find').value = 'TEMPER';"
        "document.getElementById('find').dispatchEvent(new Event('input'))"
    )
    browser.wait_for(f"{shown}.join() === 'kitchen'")


def test_without_colour_and_sight_the_state_is_words(house, browser):
    browser.load(house.server.url, *SIZES["phone"])
    lossy = "document.querySelector('[data-name=lossy]')"
    # A card has a text to see once a frame has found it in view (content-visibility).
    browser.ask(f"{lossy}.scrollIntoView()")
    browser.wait_for(f"{lossy}.innerText.includes('4 lost')")
    label = "document.querySelector('[data-name=kitchen] .spark').getAttribute('aria-label')"
    assert "readings: " in browser.ask(label)
    verdict = browser.ask("document.querySelector('.verdict').innerText")
    assert "attention" in verdict and "lost messages" in verdict


def test_a_page_that_lost_its_server_says_so_and_finds_it_again(house, browser):
    browser.load(house.server.url, *SIZES["desktop"])
    browser.wait_for("document.getElementById('link')?.dataset.state === 'here'")
    server = house.server
    server.__exit__()
    browser.wait_for("document.getElementById('link')?.dataset.state === 'away'")
    server.__enter__()
    browser.wait_for("document.getElementById('link')?.dataset.state === 'here'")
    house.publish("kitchen", ("temperature", "Cel", -4.5))
    browser.wait_for(f"{value_of('kitchen', 'temperature')} === '-4.5 °C'")
