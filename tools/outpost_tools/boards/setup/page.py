"""The page: one form with the fields of fields.py, and templates for the entries that can be added
to it. The script fills in what is plugged in and which files there are. The page never contains a
secret, except one that the user types.
"""

from __future__ import annotations

from outpost_tools.boards.settings import sensor_drivers
from outpost_tools.boards.settings.sensor_drivers import Driver
from outpost_tools.boards.setup import fields
from outpost_tools.boards.setup.desk import Desk
from outpost_tools.boards.setup.fields import Field
from outpost_tools.pages import templates
from outpost_tools.pages.arguments import PAGE_PORT

FILES = ("setup.css", "form.js", "work.js", "setup.js")
_PAGE = templates.of_room(__package__).get_template("page.html")
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
    folder = desk.files.folder
    return _PAGE.render(
        desk=desk,
        folder=f"{folder.absolute()}",
        port=PAGE_PORT,
        of_keys=fields.of_keys,
        broker=fields.BROKER,
        broker_tls=fields.BROKER_TLS,
        more=[one for one in fields.more() if one.name not in desk.left_out],
        network=_NETWORK,
        network_more=_NETWORK_MORE,
        alarm=_ALARM,
        drivers={name: sensor_drivers.find(name, folder) for name in desk.drivers()},
        of_driver=_of_driver,
        readings=fields.readings,
    )


def _of_driver(name: str, driver: Driver) -> list[Field]:
    label = "Name, the prefix of its readings"
    return [Field("name", label, "text", name, "at most 24 characters"), *fields.of_driver(driver)]
