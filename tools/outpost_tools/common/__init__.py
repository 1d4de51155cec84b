"""Code that several jobs share. Nothing here imports a job.

Messages
labels.py           labels, limits, valid names of streams
name_rules.py       the rules for all names: device ids, topic prefixes, readings, collectors
message.py          the exact reader, and the key that the collector needs
senml.py            from SenML records to readings, by RFC 8428
series.py           many samples in one message, read exactly
plain_key.py        the key of a plain message, by a single regular expression
ranges.py           sets of sequence numbers, kept as ranges
arrival.py          what an arrival shows about the times of a message
board_words.py      the readings with which a board describes itself
sensor_notes.py     what a board reports about its sensors

What the collector's log has besides messages
collector_notes.py  notes of a collector in its own log
job_notes.py        which jobs of `outpost run` failed the last time

MQTT
mqtt_connection.py  a connection that acknowledges on request
message_connection.py  a connection that delivers one message at a time
mqtt_client.py      paho's client, many packets at a time
mqtt_packets.py     splits what a server sent into packets
mqtt_properties.py  the properties of a PUBLISH of MQTT 5.0
server_limits.py    what a server of MQTT 5.0 allows
refusals.py         why a broker refuses a connection, by its code, and what to do
causes.py           why a connection fails, found out by asking what listens at the address
takeover.py         whether another client uses our client identifier
credentials.py      a file with all that one client needs to reach its broker
tls.py              the TLS of a connection to a broker

Brokers on loopback
brokers.py          makes one by its kind: broker.py (mosquitto), amqtt_broker.py, nats.py
balancer.py         one address for several servers

What the pages and reports agree on
attention.py        which board needs attention, and what to do about it
silence.py          when a board counts as silent
restarts.py         which starts of a board were unwanted
machine_clock.py    whether this machine's clock is set
words.py            numbers and times as a person reads them
web.py              what the pages served from this machine have in common
http_server.py      the server behind every HTTP port
csv_cells.py        cells that a spreadsheet would run as a formula
visible.py          makes text from others safe for a terminal or a log

Commands and this machine
command_line.py     the parser of a subcommand, and the types of its arguments
parser.py           argparse, and which option a misspelt one probably means
errors.py           ToolError: one line for the user, exit status 2
ending.py           the end of a program that runs until a signal asks for it
notices.py          what we are waiting for: reported once, repeats folded
toml_file.py        a TOML file that a person wrote, with errors that the person understands
board_json.py       JSON for a board: settings and commands
files.py            replaces files atomically
exposure.py         who else can read a password
children.py         child processes that do not outlive us, signals, free ports
interpreters.py     MicroPython and mosquitto on this machine
java.py             finds the Java that runs Spark
needs.py            third-party packages: what is missing, and the command that installs it
firmware.py         what the tools take from the firmware's own sources
source_tree.py      where firmware, boards and pages are
"""
