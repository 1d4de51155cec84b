"""A program of one's own on a board over the fakes of its port, several times: the flash stays.
MicroPython only.

    micropython program_over_fakes.py KIND FOLDER RUNS

FOLDER holds the payload's files, settings.json and hello.py.
Prints what each run sent, as JSON.
"""

import json
import os
import sys

from fake_machine import PORTS, Chip, Filesystem, flash_of, modules_of
from fake_network import FakeSelect, FakeSocketModule, Net, Radio, Ticks
from shipped_board import answer

_OURS = ("board", "outpost", "station", "support")


def power_on():
    """No module of the run before is left."""
    for name in list(sys.modules):
        if name.split(".")[0] in _OURS:
            sys.modules.pop(name)


def run(name, program, flash):
    ticks = Ticks()
    net, messages = Net(ticks), []
    port = modules_of(name, Chip(ticks), flash, Radio(PORTS[name], ticks))
    sleep_ms = port["time"].sleep_ms

    def sleep_and_answer(ms):
        messages.extend(answer(net.stream))
        sleep_ms(ms)

    port["time"].sleep_ms = sleep_and_answer
    power_on()
    sys.modules.update(port)
    sys.modules.update({"socket": FakeSocketModule(net, PORTS[name]), "select": FakeSelect()})
    exec(program, {"__name__": "__main__"})
    return {"messages": messages, "open": net.open}


if __name__ == "__main__":
    kind, folder, runs = sys.argv[1:]
    os.chdir(folder)
    sys.path.insert(0, "")
    with open("hello.py") as file:
        source = file.read()
    chip = flash_of(kind)
    with Filesystem(kind, chip):
        print(json.dumps([run(kind, source, chip) for _ in range(int(runs))]))
