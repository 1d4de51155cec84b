# cpython-only: reads the ports' stubs, which the type check has
"""A fake has no public name that the real thing of its port lacks. The pinned stubs of `make types`
decide, so the fakes cannot drift.

A fake with more names hides faults that a board shows: the fake `machine` was once its own
watchdog, and a build that had renamed the watchdog's feed() passed all tests.
"""

import ast

import pytest

import fake_bus
import fake_network
import typecheck
from fake_machine import PORTS, Chip, flash_of, modules_of

# The stubs are those of the first ESP32; S3 and C3 have this instead (MicroPython 1.25:
# ports/esp32/modesp32.c).
OF_OTHER_CHIPS = {"mcu_temperature"}
# The stubs lack it; the image of the port has it (test_rp2_image.py, extmod/modlwip.c of
# MicroPython 1.25).
NOT_IN_THE_STUBS = {"TCP_NODELAY"}


def fakes(kind: str) -> dict[str, object]:
    """Returns the fakes of a kind of board, each by the name of the real thing: "module", or
    "module.Class".
    """
    ticks = fake_network.Ticks()
    radio, net = fake_network.Radio(PORTS[kind], ticks), fake_network.Net(ticks)
    modules = modules_of(kind, Chip(ticks), flash_of(kind), radio)
    machine, network = modules["machine"], modules["network"]
    sockets, select = fake_network.FakeSocketModule(net, PORTS[kind]), fake_network.FakeSelect()
    found = {
        "machine": machine, "machine.Pin": machine.Pin(26), "machine.ADC": machine.ADC(26),
        "machine.WDT": machine.WDT(8000), "machine.RTC": machine.RTC(), "network": network,
        "network.WLAN": network.WLAN(0), "time": modules["time"], "socket": sockets,
        "socket.socket": sockets.socket(2, 1), "select": select, "select.poll": select.poll(),
    }  # fmt: skip
    if PORTS[kind] is fake_network.RP2:
        return found | {"rp2": modules["rp2"], "rp2.Flash": modules["rp2"].Flash()}
    return found | {"esp32": modules["esp32"], "esp32.Partition": modules["esp32"].Partition}


def wired(kind: str) -> list[tuple[str, object]]:
    """Returns the fakes of fake_bus.py."""
    is_rp2 = PORTS[kind] is fake_network.RP2
    wiring = fake_bus.Wiring(None if is_rp2 else fake_bus.FakeWiredAdcEsp32)
    machine = fake_bus.FakeWiredMachine(wiring)
    pin = machine.Pin(26)
    return [
        ("machine", machine), ("machine.Pin", pin), ("machine.ADC", machine.ADC(pin)),
        ("machine.I2C", machine.I2C(0, 5, 4, 100_000)), ("time", fake_bus.FakeDriverTime(wiring)),
        ("machine.SoftI2C", machine.SoftI2C(5, 4, 100_000)),
        ("machine.UART", machine.UART(1, 9600, pin, pin)),
    ]  # fmt: skip


def datagram_socket() -> object:
    return fake_network.FakeSocketModule(fake_network.Net(fake_network.Ticks())).socket(2, 2)


def public_names(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def names_of(port: str, title: str) -> set[str]:
    """Returns the public names of a module, or of a class in it, from the port's stubs."""
    module, _, class_name = title.partition(".")
    folder = typecheck.stubs_folder(port)
    path = (
        folder / module / "__init__.pyi" if (folder / module).is_dir() else folder / f"{module}.pyi"
    )
    body = ast.parse(path.read_text(encoding="utf-8")).body
    if class_name:
        body = next(
            node.body for node in body if isinstance(node, ast.ClassDef) and node.name == class_name
        )
    defined = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return defined | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}


@pytest.mark.parametrize("kind", PORTS)
def test_a_fake_has_the_names_of_the_port_and_no_others(kind):
    port = "rp2" if PORTS[kind] is fake_network.RP2 else "esp32"
    named = {title: public_names(fake) for title, fake in fakes(kind).items()}
    assert [title for title, names in named.items() if not names and title != "machine.Pin"] == []
    more = {
        title: sorted(names - names_of(port, title) - OF_OTHER_CHIPS - NOT_IN_THE_STUBS)
        for title, names in named.items()
    }
    assert {title: names for title, names in more.items() if names} == {}
    assert public_names(datagram_socket()) <= names_of(port, "socket.socket")
    for title, fake in wired(kind):
        assert public_names(fake) and public_names(fake) <= names_of(port, title), title


def test_a_watchdog_can_be_fed_and_nothing_else():
    """With a wrong name here, the first board that was flashed failed."""
    for kind in PORTS:
        assert public_names(fakes(kind)["machine.WDT"]) == {"feed"}


def test_the_ports_differ_where_the_fakes_say_so():
    """The comparison can fail: names that only one port has."""
    assert "memory" in names_of("esp32", "machine.RTC") - names_of("rp2", "machine.RTC")
    assert "deinit" in names_of("rp2", "network.WLAN") - names_of("esp32", "network.WLAN")
    assert "read_uv" in names_of("esp32", "machine.ADC") - names_of("rp2", "machine.ADC")


def test_only_the_first_esp32_measures_in_fahrenheit():
    assert "raw_temperature" in public_names(fakes("ESP32_GENERIC")["esp32"])
    assert public_names(fakes("ESP32_GENERIC_C3")["esp32"]) == {"Partition", "mcu_temperature"}
