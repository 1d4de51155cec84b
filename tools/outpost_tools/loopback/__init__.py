"""MQTT brokers on loopback, for `outpost run`, the demo and tests.

brokers.py       makes one by its kind
broker.py        mosquitto, or amqtt in a process of its own
amqtt_broker.py  amqtt, with what it loses mended
nats.py          NATS: one node, or three
balancer.py      one address for several servers
"""
