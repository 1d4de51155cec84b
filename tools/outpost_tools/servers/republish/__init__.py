"""The newest value of every sensor, on plain retained topics; for Home Assistant with discovery.

arguments.py   `outpost republish`
run.py         the loop, and removing a board
link.py        the MQTT connection: what arrived, publish
newest.py      which values are current; pure
others.py      other people's devices, read by a mapping (sources/)
discovery.py   the description of a board for Home Assistant; pure
metrics.py     the current values for Prometheus
identity.py    the ids by which Home Assistant distinguishes boards and entities; pure
topics.py      the topics; pure
units.py       SenML units to Home Assistant's units and classes

This is a process of its own, not part of the collector: it decodes every message, which costs more
than storing it, and a failure here must never prevent a message from being stored.

`host_tests/tools/servers/republish` checks each message against Home Assistant's rules;
`ha_rules.py` lists these rules with their source. `test_consumers.py` runs Node-RED and promtool if
`NODE_RED` and `PROMTOOL` name them (`npm install node-red`; Debian's package prometheus), and
compares the keys of Telegraf's configuration with what is published: its binary is in no package
registry.
"""
