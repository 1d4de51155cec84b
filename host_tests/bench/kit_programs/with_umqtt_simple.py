"""A reading each minute, with umqtt.simple: when anything fails, the board is reset."""

import time

import machine
import network
from machine import ADC, Pin
from umqtt.simple import MQTTClient

wlan = network.WLAN(network.STA_IF)
wlan.active(True)
wlan.connect("home", "secret")
while not wlan.isconnected():
    time.sleep(1)
client = MQTTClient("garden", "broker.test", keepalive=60)
probe = ADC(Pin(34))

try:
    client.connect(clean_session=False)
    while True:
        text = b"%d" % probe.read_u16()
        client.publish(b"garden/soil", text, qos=1)
        for _ in range(2):
            time.sleep(30)
            client.ping()
except OSError:
    machine.reset()
