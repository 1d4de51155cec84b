"""Code that several jobs share. Nothing here imports a job.

command_line.py     the parser of a subcommand, and the types of its arguments
errors.py           ToolError: one line for the user, exit status 2
labels.py           the message: labels, limits, valid names of streams
message.py          the message: the exact reader, and the key that the collector needs
series.py           many samples in one message, read exactly
plain_key.py        the key of a plain message, by a single regular expression
ranges.py           sets of sequence numbers, kept as ranges
segments.py         the collector's log on disk
mqtt_connection.py  an MQTT connection that acknowledges on request
mqtt_client.py      paho's client, many packets at a time
mqtt_packets.py     splits what a server sent into packets
broker.py           a broker on loopback, with mosquitto.conf
children.py         child processes that do not outlive us, signals, free ports
interpreters.py     MicroPython and mosquitto on this machine
java.py             finds the Java that runs Spark
tls.py              the TLS of a connection to a broker
refusals.py         why a broker refuses a connection, by its code, and what to do
notices.py          what we are waiting for: reported once, repeats folded
attention.py        which board needs attention, and what to do about it
web.py              what the pages served from this machine have in common
words.py            numbers and times as a person reads them
needs.py            third-party packages: what is missing, and the command that installs it
source_tree.py      where firmware, boards and pages are
"""
