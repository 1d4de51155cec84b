"""The message of `outpost alerts test`."""

from __future__ import annotations

import secrets
import time

from outpost_tools.servers.alerts.ledger import TEST, Event, iso
from outpost_tools.servers.alerts.text import Message, message


def message_now() -> Message:
    now = iso(time.time())
    event: Event = {
        "id": f"test-{secrets.token_hex(6)}", "state": TEST, "kind": "test", "board": "",
        "text": "a test of alerts; nothing is wrong", "began": now, "time": now,
    }  # fmt: skip
    return message([event])
