"""Freeze list for a custom build: include() it in the board's manifest. The same files as `package.json`."""
# pyright: reportUndefinedVariable=false

MODULES = (
    "__init__",
    "backoff",
    "bytecode",
    "client",
    "clock",
    "durable",
    "notes",
    "outbox",
    "packets",
    "partition",
    "pinned",
    "pinning",
    "policies",
    "reader",
    "ring",
    "sectors",
    "session",
    "settings",
    "station",
    "status",
    "telemetry",
    "viper",
)

package("outpost", files=[name + ".py" for name in MODULES], base_path=".")  # noqa: F821 - the build's own function
