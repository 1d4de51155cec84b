"""mosquitto.conf of the broker: one TLS listener and the dynamic-security plugin. Everything else
comes from the recommended configuration (loopback/mosquitto.conf), which explains it."""

from __future__ import annotations

import re
from pathlib import Path

from outpost_tools.boards.broker.about import About
from outpost_tools.boards.broker.folder import Folder
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import configuration
from outpost_tools.machine import interpreters

PLUGIN = "mosquitto_dynamic_security.so"
MOST_QUEUED = 2147483647
_NAME = "server/mosquitto.conf"
_NO_LIMIT = re.compile(
    r"^(?:# 0: no limit on their number \.\.\.\n)?max_queued_messages 0$", re.MULTILINE
)
_PLACES = ("/usr/lib/*/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/", "/opt/homebrew/lib/")
_LISTENER = """\
# Made by `outpost broker init`, which overwrites it; change users and rights with
# `outpost broker add` and `revoke`.

# --- listeners

# Only TLS, and a name and a password for everybody.
listener {port}{listen}
certfile {server}/server.pem
keyfile {server}/server.key
# 1.2 is the lowest version that is not broken; boards with MicroPython support it.
tls_version tlsv1.2
allow_anonymous false
# Users, passwords and rights. With an acl_file, mosquitto would grant every SUBSCRIBE and drop at
# delivery; the plugin refuses it.
plugin {plugin}
plugin_opt_config_file {security}
# Shows `outpost broker` whether this broker runs; the plugin's file then belongs to the broker.
pid_file {pid}

"""


def text(folder: Folder, about: About) -> str:
    listener = _LISTENER.format(
        port=about.port,
        listen=f" {about.listen}" if about.listen else "",
        server=folder.server,
        plugin=about.plugin,
        security=folder.security,
        pid=folder.pid,
    )
    made = configuration(listener, folder.state, about.user)
    return made[made.index(listener) :]


def mend(folder: Folder, about: About) -> str:
    """Replaces a setting of earlier versions in the folder's configuration and leaves the rest, in
    which somebody may have changed another limit. Returns what was done; "": nothing.

    Raises ToolError.
    """
    if not folder.configuration.is_file():
        return ""
    before = folder.read(_NAME)
    after = _NO_LIMIT.sub(f"max_queued_messages {MOST_QUEUED}", before)
    if after == before:
        return ""
    folder.write(_NAME, after)
    folder.give_to(about.user)
    return (
        f"{folder.configuration}: max_queued_messages {MOST_QUEUED} instead of 0, with which "
        "mosquitto closed the connection at each message that a board may not send; restart the "
        "broker"
    )


def find_plugin() -> str:
    """The plugin of the mosquitto that we run. Raises ToolError."""
    command = interpreters.find_mosquitto()
    if command is not None and Path(command[0]).is_relative_to(interpreters.cache_folder()):
        patterns = [(interpreters.cache_folder(), f"roots/*mosquitto*/usr/lib/*/{PLUGIN}")]
    else:
        patterns = [(Path("/"), f"{place[1:]}{PLUGIN}") for place in _PLACES]
    for root, pattern in patterns:
        if found := sorted(root.glob(pattern)):
            return str(found[0])
    raise ToolError(
        f"{PLUGIN} was not found: install mosquitto 2 (apt install mosquitto, or `outpost fetch "
        "mosquitto`), or name its path on the broker's machine: --plugin PATH"
    )
