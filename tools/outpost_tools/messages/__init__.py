"""What a board's message is: its labels, names and limits, and its exact readers. Pure.

labels.py           labels, limits, valid names of streams
name_rules.py       the rules for all names: device ids, topic prefixes, readings, collectors
message.py          the exact reader, and the key that the collector needs
senml.py            from SenML records to readings, by RFC 8428
series.py           many samples in one message, read exactly
plain_key.py        the key of a plain message, by a single regular expression
ranges.py           sets of sequence numbers, kept as ranges
arrival.py          what an arrival shows about the times of a message
reasons.py          why messages could not be read, counted
board_words.py      the readings with which a board describes itself
sensor_notes.py     what a board reports about its sensors
"""
