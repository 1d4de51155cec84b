"""The page: one form with the fields of fields.py, and templates for the entries that can be added
to it. All text from others goes through escape(). The script fills in what is plugged in and which
files there are. The page never contains a secret, except one that the user types.
"""

from __future__ import annotations

from outpost_tools.boards.settings import sensor_drivers
from outpost_tools.boards.setup import fields
from outpost_tools.boards.setup.desk import Desk
from outpost_tools.boards.setup.fields import Field
from outpost_tools.pages.arguments import PAGE_PORT
from outpost_tools.text.words import escape

FILES = ("setup.css", "form.js", "work.js", "setup.js")
_PAGE = """\
<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Outpost, setup</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="static/icon.svg"><link rel="stylesheet" href="static/page.css">
<link rel="stylesheet" href="static/setup.css"><script src="static/form.js" defer></script>
<script src="static/work.js" defer></script><script src="static/setup.js" defer></script></head>
<body><a class="skip" href="#main">Skip to the form</a>
<header><h1>Set up a board</h1><p id="link" class="link" role="status"></p></header>
<noscript><p class="trouble">This page needs JavaScript. Without it: <code>outpost provision
--help</code>.</p></noscript>
<main id="main"><form id="form" autocomplete="off" novalidate>{body}</form>{work}</main>
<footer><p>For this computer only. Settings go to the board, and to a file if you save one. When
this page is loaded again, it is empty.</p></footer>{templates}</body></html>
"""
_BOARD = """\
<section aria-labelledby="h-board"><h2 id="h-board">1. The board</h2>
<p>Connect it by USB, with MicroPython on it.</p>
<div class="row">{port}<button type="button" id="refresh">Look again</button></div>
<p id="plugged" class="note" role="status"></p>
<div class="row">{board}<button type="button" id="ask">Ask the board</button></div>
<p class="note">This stops the board's program and starts it again.</p>
<details id="files"><summary>Start from a settings file</summary>
<div class="row">{file}<button type="button" id="load">Load it</button></div>
<p class="note">Files in <code>{folder}</code>. Their passwords are not shown here; they are used
unless you type others.</p><p id="loaded" role="status"></p></details></section>
"""
_WIFI = """\
<section id="wifi" aria-labelledby="h-wifi"><h2 id="h-wifi">3. Wi-Fi</h2>
<div class="list" data-list="networks"></div>
<p class="note">The board joins the first of them that it finds.</p>
<button type="button" data-add="networks">Add a network</button>{country}</section>
"""
_SENSORS = """\
<section aria-labelledby="h-sensors"><h2 id="h-sensors">5. Sensors</h2>
<fieldset id="own" data-field="own"><legend>Built into the board</legend><div id="chips"></div>
<p class="fault" data-fault="own" hidden></p></fieldset>
<div class="list" data-list="sensors"></div>
<p class="fault" data-fault="sensors" hidden></p>
<div class="row"><div class="field"><label for="driver">A sensor connected to the board</label>
<select id="driver">{drivers}</select></div>
<button type="button" id="add-sensor">Add this sensor</button></div>
<p id="pins" class="note"></p></section>
"""
_MORE = """\
<details id="more" class="part"><summary><h2>More settings, all with defaults</h2></summary>
<div class="grid">{more}</div>
<h3>Alarms</h3><p class="note">With series: a reading beyond its bounds is sent at once.</p>
<div class="list" data-list="alarms"></div>
<p class="fault" data-fault="alarms" hidden></p>
<button type="button" data-add="alarms">Add an alarm</button></details>
"""
_ACTIONS = """\
<section aria-labelledby="h-do"><h2 id="h-do">6. Install</h2>
<p class="fault" id="general" data-fault="" hidden></p>
<p id="summary" class="trouble" role="alert" hidden></p>
<label class="check"><input type="checkbox" id="replace"> Rename a main.py or board.py of your own
on the board, instead of refusing (<code>--replace</code>)</label>
<div class="field"><label for="held">If the board still holds messages, and its name, topic or
broker changes (<code>--held</code>)</label><select id="held"><option value="">stop, and tell me
</option><option value="send">send them first, as the board is set now</option>
<option value="keep">keep its name and broker, change the rest</option>
<option value="aside">save them in a file in this folder, and remove them from the board</option>
<option value="move">only the broker changes: let them go to the new one</option></select></div>
<div class="actions"><button type="button" id="flash" class="main">Flash firmware and settings
</button><button type="button" id="provision">Write the settings only</button>
<button type="button" id="check">Check, change nothing</button>
<button type="button" id="save">Save the settings in a file</button></div>
<div id="overwrite" role="group" aria-label="replace the file" hidden><p id="exists"></p>
<button type="button" id="yes">Replace it</button><button type="button" id="no">Keep it</button>
</div><p id="saved" role="status"></p></section>
"""
_WORK = """\
<section id="work" aria-labelledby="h-work" hidden><h2 id="h-work" tabindex="-1">Work on the board
</h2><progress id="bar" max="100" aria-label="progress" hidden></progress>
<div role="log" aria-label="steps"><ol id="steps"></ol></div><p id="verdict" role="status"></p>
<table id="results" hidden><caption class="unseen">Results</caption><thead><tr><th scope="col">what
</th><th scope="col">result</th></tr></thead><tbody></tbody></table>
<p id="next" hidden>{next}</p></section>
"""
_AT_HOME = (
    f"Its values appear on the page of <code>outpost run</code>: "
    f'<a href="http://127.0.0.1:{PAGE_PORT}/" target="_blank" rel="noopener noreferrer">'
    f"http://127.0.0.1:{PAGE_PORT}/</a>, unless you gave it another address."
)
_ELSEWHERE = "<code>outpost monitor</code> shows its messages at the broker."
_HOME = """\
<p>{address}, of <code>outpost run</code>. The board gets a user and rights there when it is
flashed; nothing needs to be filled in.</p>
"""
_BROKER = """\
<div class="grid">{fields}</div>
<p class="note">Certificates are files in <code>{folder}</code>: put them there and look again.</p>
<details><summary>More about TLS: names, a certificate of the board
</summary><div class="grid">{tls}</div></details>
"""
_NETWORK = (
    Field("ssid", "Network (2.4 GHz)", "text", limits="at most 32 bytes", is_required=True),
    Field("password", "Password; empty for an open network", "secret"),
)
_NETWORK_MORE = (
    Field("bssid", "Only this access point, as 3c:84:6a:12:34:56", "text"),
    Field("address", "Fixed address, as 192.168.1.50/24", "text"),
    Field("gateway", "With a fixed address: the router's", "text"),
    Field("name_server", "With a fixed address: the name server's", "text"),
)
_ALARM = (
    Field("reading", "Reading, as attic_temperature", "text"),
    Field("below", "Below", "number"),
    Field("above", "Above", "number"),
)


def render(desk: Desk) -> str:
    parts = [
        _board(desk),
        _named(),
        _WIFI.format(country=_all(fields.of_keys(("wifi_country",)))),
        _broker(desk),
        _SENSORS.format(drivers=_drivers(desk)),
        _MORE.format(more=_all([one for one in fields.more() if one.name not in desk.left_out])),
        _ACTIONS,
    ]
    work = _WORK.format(next=_AT_HOME if desk.home else _ELSEWHERE)
    return _PAGE.format(body="".join(parts), work=work, templates=_templates(desk))


# --- The parts of the form ---


def _board(desk: Desk) -> str:
    options = "".join(
        f'<option value="{escape(name)}" data-wifi="{"yes" if kind.has_wifi else "no"}" '
        f'data-own="{escape(" ".join(kind.sensors))}" '
        f'data-pins="{", ".join(map(str, kind.adc_pins))}">'
        f"{escape(kind.description)} – {escape(kind.name)}</option>"
        for name, kind in desk.kinds.items()
    )
    first = "" if len(desk.kinds) == 1 else '<option value="">choose</option>'
    return _BOARD.format(
        port=_select("port", "Port", ""),
        board=_select(
            "board", "Kind of board", first + options, '<p class="hint"><code>--board</code></p>'
        ),
        file=_select("file", "Settings file", '<option value="">none</option>'),
        folder=escape(f"{desk.files.folder.absolute()}"),
    )


def _select(name: str, label: str, options: str, hint: str = "") -> str:
    return (
        f'<div class="field" data-field="{name}"><label for="{name}">{label}</label>'
        f'<select id="{name}">{options}</select>{hint}{_fault(name)}</div>'
    )


def _named() -> str:
    field = _all(fields.of_keys(("device_id",)))
    return f'<section aria-labelledby="h-name"><h2 id="h-name">2. Its name</h2>{field}</section>'


def _broker(desk: Desk) -> str:
    mode = _all(fields.of_keys(("mode",))) + (
        '<p class="note">collector: <code>outpost run</code> or <code>outpost collect</code> works '
        "at this broker; the board keeps each message until it is on its disk. broker: the broker "
        "alone.</p>"
    )
    if desk.home:
        asked = _HOME.format(address=escape(desk.home.address))
    else:
        asked = _BROKER.format(
            fields=_all(fields.of_keys(fields.BROKER)),
            tls=_all(fields.of_keys(fields.BROKER_TLS)),
            folder=escape(f"{desk.files.folder.absolute()}"),
        )
    return (
        f'<section aria-labelledby="h-broker"><h2 id="h-broker">4. The broker</h2>{asked}{mode}'
        "</section>"
    )


def _drivers(desk: Desk) -> str:
    return "".join(
        f'<option value="{escape(name)}">{escape(_title(name, desk))}</option>'
        for name in desk.drivers()
    )


def _title(name: str, desk: Desk) -> str:
    title = sensor_drivers.find(name, desk.files.folder).title
    return f"{name} – {title}" if title else name


# --- What may be added ---


def _templates(desk: Desk) -> str:
    extra = f"<details><summary>Fixed address, one access point</summary>{_all(_NETWORK_MORE)}"
    found = [
        _template("networks", "Network", _all(_NETWORK) + f"{extra}</details>"),
        _template("alarms", "Alarm", f'<div class="grid">{_all(_ALARM)}</div>'),
    ]
    for name in desk.drivers():
        driver = sensor_drivers.find(name, desk.files.folder)
        label = "Name, the prefix of its readings"
        of_name = Field("name", label, "text", name, "at most 24 characters")
        title = f"{escape(driver.title)}. " if driver.title else ""
        body = (
            f'<p class="note">{title}Reads {escape(fields.readings(driver))}.</p>'
            f'<div class="grid">{_all([of_name, *fields.of_driver(driver)])}</div>'
        )
        found.append(_template(f"driver-{name}", name, body))
    return "".join(found)


def _template(name: str, title: str, body: str) -> str:
    return (
        f'<template id="t-{escape(name)}"><fieldset class="entry"><legend>{escape(title)}</legend>'
        f'{body}<p class="fault" data-fault="" hidden></p>'
        '<button type="button" class="remove">Remove</button></fieldset></template>'
    )


# --- A field ---


def _all(some: list[Field] | tuple[Field, ...]) -> str:
    return "".join(map(_field, some))


def _field(one: Field) -> str:
    name = escape(one.name)
    label = f"{escape(one.label)}{' <b>required</b>' if one.is_required else ''}"
    if one.kind == "flag":
        checked = " checked" if one.default == "true" else ""
        return (
            f'<div class="field" data-field="{name}"><label class="check">'
            f'<input type="checkbox" id="{name}"{checked}> {label}</label>{_note(one)}'
            f"{_fault(one.name)}</div>"
        )
    return (
        f'<div class="field" data-field="{name}"><label for="{name}">{label}</label>'
        f"{_control(one)}{_note(one)}{_fault(one.name)}</div>"
    )


def _control(one: Field) -> str:
    name, default = escape(one.name), escape(one.default)
    if one.kind == "choice":
        options = "".join(
            f'<option value="{escape(text)}"{" selected" if text == one.default else ""}>'
            f"{escape(text)}</option>"
            for text in one.choices
        )
        return f'<select id="{name}">{options}</select>'
    if one.kind == "file":
        return f'<select id="{name}" data-files><option value="">none</option></select>'
    if one.kind == "secret":
        return (
            f'<input id="{name}" type="password" autocomplete="new-password" spellcheck="false" '
            'autocapitalize="off"><label class="check show"><input type="checkbox" data-show> '
            'show</label><label class="check show" hidden><input type="checkbox" data-keep '
            "checked> if empty, the file's</label>"
        )
    mode = ' inputmode="numeric"' if one.kind == "number" and one.limits[:1] != "-" else ""
    required = ' aria-required="true"' if one.is_required else ""
    return (
        f'<input id="{name}" placeholder="{default}" autocomplete="off" spellcheck="false" '
        f'autocapitalize="off"{mode}{required}>'
    )


def _note(one: Field) -> str:
    """The key, its range, and the meaning of an empty field."""
    default = one.default if one.kind in ("text", "number") else ""
    parts = [one.limits, f"default {default}" if default else ""]
    text = "; ".join(escape(part) for part in parts if part)
    key = "" if one.label.startswith(one.name) else f"<code>{escape(one.name)}</code> "
    return f'<p class="hint">{key}{text}</p>'


def _fault(name: str) -> str:
    return f'<p class="fault" data-fault="{escape(name)}" hidden></p>'
