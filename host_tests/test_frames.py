# cpython-only: reads what MicroPython prints of the code that it compiles
"""A call whose frame needs more than 11 words takes it from the heap: no function of the steady state may.

The interpreter says how many words a function needs: names and stack (N_STATE), and 3 for each
`try` inside another (N_EXC_STACK). The limit is VM_MAX_STATE_ON_STACK in MicroPython's py/vm.c and py/objfun.c.
"""

import re
import subprocess
from pathlib import Path

import pytest

from outpost_tools import interpreters

FIRMWARE = Path(__file__).resolve().parent.parent / "firmware"
MOST_WORDS = 11
WORDS_OF_A_TRY = 3
MODULES = (
    "outpost.aio outpost.checksum outpost.client outpost.durable outpost.exactly_once outpost.memory outpost.outbox "
    "outpost.packets outpost.policies outpost.portable outpost.ram_outbox outpost.reader outpost.sectors outpost.session "
    "outpost.state_note outpost.streaming outpost.subscriber station.clock station.station station.telemetry"
).split()
MAY = {  # set-up, and what a page says allocates
    "__init__", "<module>", "<listcomp>", "<genexpr>",
    "aio.py run", "aio.py publish", "aio.py delivered", "aio.py connected",  # coroutines allocate in any case
    "client.py _connect",  # connecting may; the frame is given back at once
    "outbox.py format", "state_note.py _take_note", "exactly_once.py _take_note",  # once a boot
    "subscriber.py encode_filters", "subscriber.py subscribe",  # SUBSCRIBE does
}  # fmt: skip


def frames(module: str) -> dict[str, int]:
    """Words of the frame of each function of the modules that importing this one brings along, by "file function"."""
    command = interpreters.find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython for i386: run make setup")
    done = subprocess.run(
        [*command, "-v", "-v", "-c", f"import {module}"],
        env={"MICROPYPATH": str(FIRMWARE)}, capture_output=True, check=False,
    )  # fmt: skip
    text = done.stdout.decode(errors="replace")
    found = re.findall(r"File \S*?([^/\s]+), code block '(\S+)'.*?\(N_STATE (\d+)\)\n\(N_EXC_STACK (\d+)\)", text, re.DOTALL)
    return {f"{file} {name}": int(state) + WORDS_OF_A_TRY * int(tries) for file, name, state, tries in found}


@pytest.mark.parametrize("module", MODULES)
def test_no_frame_of_the_steady_state_comes_from_the_heap(module):
    found = frames(module)
    assert any(name.startswith(f"{module.split('.')[1]}.py ") for name in found), "the interpreter printed nothing of it"
    large = {name: words for name, words in found.items() if words > MOST_WORDS}
    large = {name: words for name, words in large.items() if name not in MAY and name.split()[1] not in MAY}
    assert not large, f"words of these frames: {large}; at most {MOST_WORDS}"
