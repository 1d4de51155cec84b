"""The networks that a board may join, from the setting `wifi_networks`.

Loaded only if that key is used: a board with one network needs only `wifi_ssid`. Knows no radio;
imports nothing, so the desktop tools check a settings file with the same code.
"""

_KEYS = ("ssid", "password", "bssid", "address", "gateway", "name_server")
_SSID_BYTES = 32
_MOST_NETWORKS = 8


def networks(listed):
    """[(ssid, password or None, BSSID as bytes or None, addresses or None)] in the order given.

    addresses: (address, mask, gateway, name server) as the port's ifconfig() takes them; None:
    DHCP. Raises ValueError: one line that names the entry and the key.
    """
    found = []
    for i in range(len(listed)):
        try:
            found.append(_network(listed[i]))
        except ValueError as error:
            raise ValueError("key 'wifi_networks', entry " + str(i + 1) + ": " + str(error.args[0]))
    if not 0 < len(found) <= _MOST_NETWORKS:
        raise ValueError(
            "key 'wifi_networks' must have 1 to "
            + str(_MOST_NETWORKS)
            + " entries, not "
            + str(len(found))
        )
    return found


def _network(given):
    if not isinstance(given, dict):
        raise ValueError("must be an object with ssid and password, not " + repr(given))
    for key in given:
        if key not in _KEYS:
            raise ValueError("unknown key '" + str(key) + "'; known: " + ", ".join(_KEYS))
        if not isinstance(given[key], str):
            raise ValueError("key '" + key + "' must be text")
    ssid, password = given.get("ssid", ""), given.get("password")
    if not 0 < len(ssid.encode()) <= _SSID_BYTES:
        raise ValueError("key 'ssid' must have 1 to 32 bytes")
    if password and not 8 <= len(password) <= 64:
        raise ValueError("key 'password' must have 8 to 63 characters, or be 64 hex digits")
    bssid = _bssid(given["bssid"]) if given.get("bssid") else None
    return ssid, password or None, bssid, _addresses(given)


def _bssid(text):
    try:
        parts = [int(part, 16) for part in text.split(":")]
        if len(parts) == 6 and len(text) == 17:
            return bytes(parts)
    except ValueError:
        pass
    raise ValueError(
        "key 'bssid' must be the access point's address, as 3c:84:6a:12:34:56, not " + repr(text)
    )


def _addresses(given):
    """The argument of ifconfig(), or None if the settings give no address."""
    text = given.get("address")
    if not text:
        if given.get("gateway") or given.get("name_server"):
            raise ValueError("key 'gateway' and key 'name_server' need 'address'; add it")
        return None
    address, slash, bits = text.partition("/")
    if not slash or not bits.isdigit() or not 1 <= int(bits) <= 30:
        raise ValueError("key 'address' must be as 192.168.1.50/24, not " + repr(text))
    if not given.get("gateway"):
        raise ValueError("key 'address' needs 'gateway', your router's address; add it")
    gateway = _address("gateway", given["gateway"])
    name_server = given.get("name_server")
    server = _address("name_server", name_server) if name_server else gateway
    return _address("address", address), _mask(int(bits)), gateway, server


def _address(key, text):
    parts = text.split(".")
    if len(parts) != 4 or not all([part.isdigit() and int(part) < 256 for part in parts]):
        raise ValueError("key '" + key + "' must be an IPv4 address, not " + repr(text))
    return text


def _mask(bits):
    """24: 255.255.255.0"""
    found = []
    for _ in range(4):
        ones = min(bits, 8)
        bits -= ones
        found.append(str(256 - (1 << (8 - ones))))
    return ".".join(found)
