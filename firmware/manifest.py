"""Freeze list for a custom build: include() it in the board's manifest. The same files as `package.json`."""
# pyright: reportUndefinedVariable=false

MODULES = (
    "__init__",
    "aio",
    "bytecode",
    "client",
    "client_setup",
    "clock",
    "crc",
    "durable",
    "exactly_once",
    "memory",
    "notes",
    "outbox",
    "outbox_setup",
    "packets",
    "partition",
    "pinned",
    "pinning",
    "policies",
    "ram",
    "reader",
    "sectors",
    "session",
    "settings",
    "station",
    "status",
    "streaming",
    "subscriber",
    "telemetry",
    "tls_link",
    "viper",
    "viper_crc",
)

package("outpost", files=[name + ".py" for name in MODULES], base_path=".")  # noqa: F821 - the build's own function
