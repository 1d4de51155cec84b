"""Checks the Wi-Fi part of a board's settings before a board is touched."""

from __future__ import annotations

import re
from typing import Any

from outpost_tools.machine.firmware import network_rules

_MOST_SSID_BYTES = 32


def faults(full: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (key, "" or what is wrong and what to do) for a board that has Wi-Fi. full: the
    settings with defaults."""
    host, country = full["broker_host"], full["wifi_country"]
    is_country = re.fullmatch("([A-Z]{2})?", country)
    return [
        *(_networks(full["wifi_networks"]) if full["wifi_networks"] else _one_network(full)),
        ("wifi_country", "" if is_country else 'must be two capital letters, as "DE"'),
        (
            "broker_host",
            "is an IPv6 address, and the board has IPv4 alone" if ":" in host else "",
        ),
    ]


def _one_network(full: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("wifi_ssid", _ssid_fault(full["wifi_ssid"])),
        ("wifi_password", _password_fault(full["wifi_password"])),
    ]


def _networks(listed: list[Any]) -> list[tuple[str, str]]:
    """Apply the board's own check, and a stricter one to the passwords."""
    try:
        found = network_rules().networks(listed)
    except ValueError as error:
        return [("wifi_networks", str(error).removeprefix("key 'wifi_networks'").lstrip(", "))]
    told = [_password_fault(password or "") for _, password, _, _ in found]
    return [
        ("wifi_networks", fault and f"entry {number}: key 'password' {fault}")
        for number, fault in enumerate(told, 1)
    ]


def _ssid_fault(ssid: str) -> str:
    if not ssid:
        return "is missing; this board reaches the broker by Wi-Fi"
    return (
        ""
        if len(ssid.encode()) <= _MOST_SSID_BYTES
        else f"must be of at most {_MOST_SSID_BYTES} bytes"
    )


def _password_fault(password: str) -> str:
    """WPA: 8 to 63 characters, or the key itself as 64 hex digits."""
    if not password or 8 <= len(password) <= 63 or re.fullmatch("[0-9A-Fa-f]{64}", password):
        return ""
    return (
        f"must have 8 to 63 characters, or be 64 hex digits, not {len(password)}; leave it out for "
        "an open network"
    )
