# cpython-only: a browser
"""The page in headless Chromium: at desktop and phone width, with 4 and 400 devices. Prints load
time and size (pytest -s).

OUTPOST_REPORT_PICTURES=DIR keeps pictures to look at.
"""

import json
import os
from pathlib import Path

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    import browser_rig
    import report_fleet

from outpost_tools import cli

browser_rig.skip_without()

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
# On a quiet core 0.1 to 0.3 s; this machine may be busy with ten other things.
LOAD_MS = 5000
BUDGET_BYTES = {4: 2_300_000, 400: 3_500_000}  # plotly is 1.95 MB of it
BUTTON = "document.querySelector('.fleet tbody tr:not([hidden]) .name button')"
ROWS = "[...document.querySelectorAll('.fleet tbody tr:not(.detail):not([hidden])')]"
VISIBLE = f"{ROWS}.map(row => row.querySelector('button').textContent)"
WIDTHS = (
    "[...document.querySelectorAll('.detail .chart')]"
    ".map(c => [c.clientWidth, c.querySelector('.main-svg').clientWidth])"
)
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LINES = "[...document.querySelectorAll('#latency .scatterlayer .js-line')]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browser_rig.Browser(
        browser_rig.find(), tmp_path_factory.mktemp("browser") / "chromium"
    ) as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """devices -> the page."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "events.json").write_text(json.dumps(report_fleet.events()))
    found = {}
    for devices in (4, 400):
        tables, out = (
            report_fleet.make(folder / str(devices), devices, messages=144),
            folder / f"{devices}.html",
        )
        line = [
            "report",
            "--tables",
            str(tables),
            "--out",
            str(out),
            "--events",
            str(folder / "events.json"),
        ]
        assert cli.main(line) == 0
        found[devices] = out
    return found


def picture(browser, name):
    if folder := os.environ.get("OUTPOST_REPORT_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.picture(Path(folder) / f"{name}.png")


def whole(browser, name):
    if folder := os.environ.get("OUTPOST_REPORT_PICTURES"):
        browser.picture(Path(folder) / f"{name}.png", whole=True)


def overflow(browser):
    """How many pixels wider than the window the page is."""
    return browser.ask(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def check_quiet(browser, page):
    """No error, nothing asked of any other place: a picture inside plotly's own style is no
    request.
    """
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [
        page.resolve().as_uri()
    ]


@pytest.mark.parametrize("devices", [4, 400])
@pytest.mark.parametrize("size", SIZES)
def test_the_page(browser, pages, devices, size):
    page = pages[devices]
    load_ms = browser.load(page, *SIZES[size])
    bytes_ = page.stat().st_size
    print(f"{devices} devices, {size}: loaded in {load_ms:.0f} ms, {bytes_ / 1e6:.2f} MB")
    assert load_ms < LOAD_MS and bytes_ < BUDGET_BYTES[devices]
    assert overflow(browser) <= 0
    # not before a chart is in view
    assert browser.ask("typeof Plotly") == "undefined" or devices == 4
    picture(browser, f"{devices}-{size}-top")
    browser.ask("document.querySelector('.advice').open = true")
    picture(browser, f"{devices}-{size}-advice")
    assert overflow(browser) <= 0
    browser.ask("document.querySelector('.advice').open = false")

    browser.ask(f"{BUTTON}.click()")
    browser.wait_for("document.querySelectorAll('.detail .main-svg').length >= 5")
    widths = browser.ask(WIDTHS)
    assert all(abs(box - chart) <= 2 for box, chart in widths)
    browser.ask(f"{BUTTON}.scrollIntoView()")
    picture(browser, f"{devices}-{size}-device")

    browser.ask("document.querySelector('#latency').scrollIntoView()")
    browser.wait_for("document.querySelector('#latency .main-svg')")
    picture(browser, f"{devices}-{size}-latency")
    browser.ask("scrollTo(0, document.body.scrollHeight)")
    picture(browser, f"{devices}-{size}-end")
    assert overflow(browser) <= 0
    check_quiet(browser, page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_dark_and_light_are_accessible_with_all_opened(browser, pages, size, scheme):
    browser.prefer(scheme)
    browser.load(pages[4], *SIZES[size])
    browser.ask("document.querySelector('.advice').open = true")
    browser.ask(f"{BUTTON}.click()")
    browser.wait_for("document.querySelectorAll('.detail .main-svg').length >= 5")
    browser.ask("document.querySelector('#latency').scrollIntoView()")
    browser.wait_for("document.querySelector('#latency .main-svg')")
    browser.ask("scrollTo(0, 0)")
    whole(browser, f"report-{size}-{scheme}")
    found = browser.serious()
    dark = browser.ask(f"{BACKGROUND}.match(/\\d+/)[0] < 128")
    browser.prefer("light")
    assert found == [] and overflow(browser) <= 0
    assert dark == (scheme == "dark")
    check_quiet(browser, pages[4])


def test_without_colour_nothing_is_lost(browser, pages):
    """Lines differ in dash, states in sign and word; the picture is for eyes."""
    browser.load(pages[400], *SIZES["desktop"])
    browser.call("Emulation.setEmulatedVisionDeficiency", type="achromatopsia")
    browser.ask("document.querySelector('#latency').scrollIntoView()")
    browser.wait_for(f"{LINES}.length >= 3")
    picture(browser, "400-grey-latency")
    dashes = browser.ask(f"{LINES}.map(line => line.style.strokeDasharray)")
    assert len(set(dashes)) == 3
    chips = browser.ask(
        "[...document.querySelectorAll('.chip')].map(chip => [chip.className, chip.textContent])"
    )
    names = {name for name, _ in chips}
    assert len({text[0] for _, text in chips}) == len(names) >= 12
    browser.call("Emulation.setEmulatedVisionDeficiency", type="none")


def choose(browser, selector, value):
    event = "input" if selector == "#filter" else "change"
    browser.ask(
        f"{{const e = document.querySelector('{selector}'); "
        f"e.value = '{value}'; e.dispatchEvent(new Event('{event}'))}}"
    )


def test_list_of_400_is_short_filtered_and_sorted(browser, pages):
    browser.load(pages[400], *SIZES["phone"])
    quiet = ("", "noclock", "mended")
    troubled = [n for n in range(400) if report_fleet.trouble_of(n, 400) not in quiet]
    shown = browser.ask(VISIBLE)
    assert len(shown) == 50 and {
        int(name.split("-")[1]) - 1 for name in shown[: len(troubled)]
    } == set(troubled)
    choose(browser, "#state", "silent")
    silent = [n + 1 for n in range(400) if report_fleet.trouble_of(n, 400) == "silent"]
    assert sorted(int(name.split("-")[1]) for name in browser.ask(VISIBLE)) == silent
    choose(browser, "#state", "")
    choose(browser, "#filter", "CELLAR-2")
    assert (
        all(name.startswith("cellar-2") for name in browser.ask(VISIBLE))
        and len(browser.ask(VISIBLE)) > 20
    )
    choose(browser, "#filter", "")
    choose(browser, "#order", "name")
    assert browser.ask(VISIBLE)[:2] == ["cellar-2", "cellar-6"]
    choose(browser, "#order", "lost")
    assert (
        browser.ask(
            "document.querySelector('.fleet tbody tr:not([hidden]) [data-k=lost]').dataset.v"
        )
        == "24"
    )
    browser.ask("document.querySelector('#more').click()")
    assert len(browser.ask(VISIBLE)) == 400 and overflow(browser) <= 0
    check_quiet(browser, pages[400])


def test_hostile_names_stay_text_in_charts(browser, tmp_path):
    """The names of metrics and units reach plotly, which reads a subset of HTML."""
    import pyarrow as pa

    from outpost_tools.readings.pipeline import schemas, tables

    folder = report_fleet.make(tmp_path / "t", 4, messages=20)
    hostile = "<img src=x onerror=alert(1)></script><script>document.title = 'broken'</script>"
    rows = tables.read_table(folder, "readings", schemas.READING.names)
    for name in ("name", "unit"):
        rows = rows.set_column(
            rows.schema.get_field_index(name), name, pa.array([hostile] * rows.num_rows)
        )
    report_fleet.put(folder, "readings", rows)
    (tmp_path / "events.json").write_text(
        json.dumps([{"time_ms": 1763700000000, "kind": hostile, "device": None}])
    )
    line = [
        "report",
        "--tables",
        str(folder),
        "--out",
        str(tmp_path / "r.html"),
        "--title",
        hostile,
    ]
    assert cli.main([*line, "--events", str(tmp_path / "events.json")]) == 0
    browser.load(tmp_path / "r.html", *SIZES["phone"])
    browser.ask(f"{BUTTON}.click()")
    browser.wait_for("document.querySelectorAll('.detail .main-svg').length >= 2")
    assert browser.ask("document.title") == hostile and browser.ask("document.images.length") == 0
    assert overflow(browser) <= 0
    check_quiet(browser, tmp_path / "r.html")
