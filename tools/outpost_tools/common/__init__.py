"""What several jobs use. Nothing here imports a job.

command_line.py     the parser of a subcommand, and the types of its arguments
errors.py           ToolError: one line for the user, exit status 2
labels.py           the message: labels, limits, what a device or a stream may be called
message.py          the message: the exact reader, and the key that the collector needs
series.py           many samples in one message, read exactly
plain_key.py        the key of a plain message, by one expression
ranges.py           sets of sequence numbers, kept as ranges
segments.py         the collector's log on disk
mqtt_connection.py  an MQTT connection that acknowledges on request
mqtt_client.py      paho's client, many packets at a time
mqtt_packets.py     what a server sent, split into packets
broker.py           a broker on loopback, with mosquitto.conf
children.py         child processes that do not outlive us, signals, free ports
interpreters.py     MicroPython and mosquitto on this machine
java.py             which Java runs Spark
notices.py          what is waited for: said once, repeats folded
attention.py        which board needs a look, and what to do about it
words.py            numbers and times as a person reads them
needs.py            other people's packages: what is missing, and the line that installs it
source_tree.py      where firmware, boards and pages are
"""
