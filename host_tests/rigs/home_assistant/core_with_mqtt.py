"""Home Assistant's own core with its MQTT integration, without a front end. Runs under its own
Python, started by `home_assistant_rig.py`.

    python3.13 core_with_mqtt.py FOLDER PORT

FOLDER: its configuration; `.storage` names the broker. PORT: of its web server, on loopback. Each
change of a state is a line of JSON on stdout: {"id", "state", "attributes"}; state is null when the
entity is removed. Its log is on stderr. It ends when stdin does.
"""

import asyncio
import json
import logging
import sys

from homeassistant import bootstrap, core, loader
from homeassistant.const import EVENT_STATE_CHANGED


@core.callback  # without this, each call gets its own thread
def tell(event):
    new = event.data["new_state"]
    line = {
        "id": event.data["entity_id"],
        "state": new and new.state,
        "attributes": dict(new.attributes) if new else {},
    }
    print(json.dumps(line, default=str), flush=True)


async def serve(folder, port):
    hass = core.HomeAssistant(folder)
    hass.config.skip_pip = True
    loader.async_setup(hass)
    hass.bus.async_listen(EVENT_STATE_CHANGED, tell)
    web = {"server_host": "127.0.0.1", "server_port": port}
    await bootstrap.async_from_config_dict({"mqtt": {}, "http": web}, hass)
    await hass.async_start()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await hass.async_stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
