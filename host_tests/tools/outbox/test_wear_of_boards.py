# cpython-only: tests a desktop tool
"""What `outpost outbox wear` says of a message is what is counted in the geometry of each board."""

import pytest

import power_loss  # noqa: F401 - gives the firmware zlib's CRC
from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from outpost_tools.outbox import wear
from support import esp32_board, partition, rp2_board

BLOCKS, MESSAGES = 8, 3_000
GEOMETRIES = {
    "RP2": (rp2_board._ALIGN, rp2_board._PAGE_BYTES),
    "ESP32, pinned": (esp32_board._PIN_ALIGN, esp32_board._PAGE_BYTES),
    "ESP32, partition": (partition._PLAIN_ALIGN, partition._ENCRYPTED_ALIGN),
    "ESP32, encrypted": (partition._ENCRYPTED_ALIGN, partition._ENCRYPTED_ALIGN),
    "RP2, made before": (256, 256),
}


def counted(align, page_bytes, topic, payload):
    """Erases a message."""
    flash = flash_in_ram(BLOCKS, page_bytes)
    outbox = Outbox(flash, align=align, page_bytes=page_bytes)
    assert outbox.format(b"01234567") == 0
    erases = flash.erases
    for _ in range(MESSAGES):
        assert outbox.append(bytes(topic), bytes(payload), payload) == 0
        outbox.discard(outbox.next_seq - 1)
    return (flash.erases - erases) / MESSAGES


@pytest.mark.parametrize("board", GEOMETRIES)
@pytest.mark.parametrize("load", [(24, 64), (20, 200)])
def test_the_model_is_what_is_counted(board, load):
    align, page_bytes = GEOMETRIES[board]
    found = counted(align, page_bytes, *load)
    said = 1 / wear.Load(BLOCKS, 1.0, *load, align).messages_per_block
    assert abs(found - said) < 1.5 / MESSAGES + said * 0.01


def test_on_rp2_a_message_takes_less_than_0_03_erases():
    assert counted(*GEOMETRIES["RP2"], 24, 64) < 0.030
