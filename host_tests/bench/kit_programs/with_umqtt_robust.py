"""A reading each minute, with umqtt.robust, which connects again by itself."""

import time

import network
from machine import ADC, Pin
from umqtt.robust import MQTTClient

wlan = network.WLAN(network.STA_IF)
wlan.active(True)
wlan.connect("home", "secret")
while not wlan.isconnected():
    time.sleep(1)
client = MQTTClient("garden", "broker.test", keepalive=90)
client.connect(clean_session=False)
probe = ADC(Pin(34))

while True:
    text = b"%d" % probe.read_u16()
    client.publish(b"garden/soil", text, qos=1)
    time.sleep(60)
