"""A reading each minute, with mqtt_as, which keeps the connection up by itself. It reads the probe
in time also while a publication waits: what is not sent yet is in a list."""

import asyncio

from machine import ADC, Pin
from mqtt_as import MQTTClient, config

probe = ADC(Pin(34))
waiting = []


async def send(client):
    while True:
        if waiting:
            await client.publish("garden/soil", waiting[0], qos=1)
            waiting.pop(0)
        await asyncio.sleep_ms(50)


async def main():
    config.update({"ssid": "home", "wifi_pw": "secret", "server": "broker.test"})
    config.update({"client_id": "garden", "keepalive": 90, "clean": False})
    client = MQTTClient(config)
    await client.connect()
    sending = asyncio.create_task(send(client))
    while not sending.done():
        waiting.append(b"%d" % probe.read_u16())
        await asyncio.sleep(60)


asyncio.run(main())
