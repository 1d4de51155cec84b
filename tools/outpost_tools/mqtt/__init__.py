"""MQTT between a tool and a broker: packets, the connection, and why one fails.

connection.py          a connection that acknowledges on request
message_connection.py  a connection that delivers one message at a time
client.py              paho's client, many packets at a time
packets.py             splits what a server sent into packets
properties.py          the properties of a PUBLISH of MQTT 5.0
server_limits.py       what a server of MQTT 5.0 allows
refusals.py            why a broker refuses a connection, by its code, and what to do
causes.py              why a connection fails, found out by asking what listens at the address
takeover.py            whether another client uses our client identifier
arguments.py           the options with which a command reaches a broker
credentials.py         a file with all that one client needs to reach its broker
certificates.py        certificates and keys, as a board accepts them
tls.py                 the TLS of a connection to a broker
"""
