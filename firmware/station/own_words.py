"""What a program of one's own says about a status, and what to do about it. Loaded only when there
is something to say. Numbers: outpost/status.py; above 0, the port's error numbers."""

MOUNT = {
    -11: "the flash holds something else",
    -12: "it holds series of the ready program, which this program cannot read: let the ready "
    'program send them (reset the board), then set "series": false and run this one',
    -13: "it was made with a smaller 'align'",
    -15: "it holds messages longer than record_bytes: give open_outbox() a greater one",
    -5: "the flash cannot be read, or does not take what is written",
    -16: "'outbox_blocks' is smaller than the outbox, or some of its blocks are gone",
}
PUBLISH = {
    -1: "the outbox is full: it empties when messages are sent and acknowledged",
    -2: "topic and payload are longer than record_bytes",
    -3: "called from inside a handler, or the outbox is not mounted",
    -4: "QoS 0 without a connection; QoS 1 is stored",
    -5: "the flash refused it",
    -6: "the topic is empty, not UTF-8, or has a wildcard",
    -8: "QoS is 0 or 1, and 2 in an ExactlyOnceSession",
    -9: "the payload is shorter than `length`",
    -14: "the broker accepts no retained messages",
}
_USER = "'user' or 'password' in settings.json is wrong, or they are those of another client_id"
CONNACK = {
    1: "it does not speak MQTT 3.1.1: try outpost.level5 or level=3",
    2: "it refuses this client_id: change 'device_id' in settings.json",
    3: "it is not available now",
    4: _USER,
    5: _USER,
    0x84: "it does not speak MQTT 5.0: use the session without outpost.level5",
    0x85: "it refuses this client_id: change 'device_id' in settings.json",
    0x86: _USER,
    0x87: _USER,
}
CONNECTION = {
    104: "the broker, or a device in between, reset it",
    111: "nothing listens there: is the broker running, are 'broker_host' and 'broker_port' right?",
    113: "no route to that address: is 'broker_host' right?",
    118: "no route to that address: is 'broker_host' right?",
    -20: "what came back is not MQTT: is 'broker_port' right, and 'tls'?",
    -22: "no answer in time",
    -23: "the broker, or a device in between, closed it: is this a port for TLS (set 'tls'), or "
    "another program's?",
    -25: "the broker acknowledges nothing",
    -26: "another client seems to have this client_id",
    -28: "the broker disconnected this board",
    -29: "the broker asks for another server",
    -30: "the certificate is not signed by 'ca_file', or not for 'server_name'",
    -31: "the certificate has expired or is not valid yet, or the clock is wrong",
    -32: "the broker ended the handshake: it may require a client certificate",
    -33: "TLS needs the time, and the clock is not set",
    -40: "Wi-Fi could not be joined",
    -41: "the access point refuses 'wifi_password'",
    -42: "no network 'wifi_ssid' in reach",
    -43: "Wi-Fi gave no address",
    -44: "no address for 'broker_host'",
    -45: "TLS needs the time, and 'ntp_host' did not answer",
}
