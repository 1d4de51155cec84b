"""The newest value of every sensor, on plain retained topics; for Home Assistant with discovery.

arguments.py   `outpost republish`
run.py         the loop, and removing a board
link.py        the MQTT connection: what arrived, publish
newest.py      which values are current; pure
discovery.py   the description of a board for Home Assistant; pure
metrics.py     the same for Prometheus
units.py       SenML units to Home Assistant's units and classes
"""
