"""main.py builds its program from the settings, with the files of FOLDER and no others, over the
fakes of a board's port. MicroPython only.

    micropython built_board.py KIND FOLDER [main]

Prints the modules that were loaded by then, or what main.py reports. main: runs main() itself,
which must not get so far as to run its loop.
"""

import os
import sys

from fake_machine import PORTS, Chip, Filesystem, flash_of, modules_of
from fake_network import FakeSelect, FakeSocketModule, Net, Radio, Ticks


def build(main):
    settings = main.load_settings()
    commands = main.open_commands(settings)
    main.board.open(settings)
    main.build(settings, commands)
    if settings["deep_sleep"]:
        from station import deep_sleep  # noqa: F401 - as main() does


class Buses:
    """Stands in for onewire and ds18x20: nothing answers."""

    def OneWire(self, pin):  # noqa: N802 - the port's name
        return pin

    def DS18X20(self, bus):  # noqa: N802
        return self

    def scan(self):
        return []


def run(name, is_main):
    ticks = Ticks()
    chip, net, flash = Chip(ticks), Net(ticks), flash_of(name)
    sys.modules.update(modules_of(name, chip, flash, Radio(PORTS[name], ticks)))
    sys.modules.update({"socket": FakeSocketModule(net, PORTS[name]), "select": FakeSelect()})
    sys.modules.update({"onewire": Buses(), "ds18x20": Buses()})
    import main

    loaded = set()
    unload = main.unload

    def note(name):
        loaded.add(name)
        unload(name)

    main.unload = note
    with Filesystem(name, flash):
        main.main() if is_main else build(main)
    print(*sorted(loaded | {name for name in sys.modules if "." in name}))


if __name__ == "__main__":
    kind, folder, *more = sys.argv[1:]
    os.chdir(folder)
    sys.path.insert(0, "")
    run(kind, more == ["main"])
