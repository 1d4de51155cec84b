"""Status numbers of the hot path: OK is 0, a failure is negative. For users and tests.

The modules repeat the values as private constants, because a private `const` costs no RAM on a
board and an imported name does. `test_status.py` checks that the two agree.

`last_error` may also be what the link raised: an error number of the port (positive), or one of
mbedTLS's (below -256).
"""

from micropython import const

OK = const(0)
FULL = const(-1)  # outbox full: refused, nothing stored; drain it, or wait for acknowledgements
# topic or message longer than a record: raise record_bytes, or send less
TOO_BIG = const(-2)
# called again from inside itself, or the transmit buffer still holds a packet: try later; or the
# outbox is not mounted
BUSY = const(-3)
OFFLINE = const(-4)  # QoS 0 without a connection: not sent, not stored
STORAGE = const(-5)  # the flash refused the record: nothing is guaranteed; see the counters
# empty, not UTF-8, with NUL, or with a wildcard where none may be [MQTT-3.3.2-2, 4.7]
BAD_TOPIC = const(-6)
EMPTY = const(-7)  # no further record
BAD_QOS = const(-8)  # QoS must be 0 or 1; 2 with ExactlyOnceSession only
BAD_LENGTH = const(-9)  # publish: the payload has fewer bytes than `length` says, or that is < 0
BLANK = const(-10)  # mount: the region is erased; format() makes it an outbox
# mount: neither blank nor an outbox; format(force=True) destroys what is there
FOREIGN = const(-11)
NEWER = const(-12)  # mount: written by a newer format version; update the firmware
GEOMETRY = const(-13)  # mount: formatted with a smaller `align`; mount it with that one
# publish: MQTT 5, the server takes no RETAIN (session.server[0x25] is 0)
BAD_RETAIN = const(-14)
# mount: it holds a message that is longer than record_bytes: mount it with a greater one
SHORT_RECORDS = const(-15)
# mount: the device has fewer blocks than when it was written: give it all of them
SHORT_DEVICE = const(-16)
# last_error: the server sent what MQTT does not allow; the connection was closed
PROTOCOL_ERROR = const(-20)
REFUSED = const(-21)  # last_error: CONNACK refused; return_code says why (1..5)
# last_error: no CONNACK, no PINGRESP, or a packet that stopped half way, in or out: see Deadlines
# in firmware/README.md
TIMED_OUT = const(-22)
LINK_LOST = const(-23)  # last_error: the stream ended or broke
# last_error: more inbound QoS 2 messages at a time than can be noted; they come again
TOO_MANY = const(-24)
# last_error: the server answers pings, but did not acknowledge a message, or answer SUBSCRIBE or
# UNSUBSCRIBE, within 6 times response_ms
NO_ANSWER = const(-25)
# last_error: the server closes each connection soon after it has accepted it: another client has
# this client_id, or the server does not want this one
TAKEN_OVER = const(-26)
# session.suspects.status: the server ends each connection on the oldest message, as on the four set
# aside before, with no acknowledgement in between. No more are set aside until one comes
BLOCKED = const(-27)
# last_error: MQTT 5, the server sent DISCONNECT; session.reason says why
SERVER_LEFT = const(-28)
# last_error: MQTT 5, as above: use another server, session.server.get(0x1C) if it names one
MOVED = const(-29)
# last_error: the server's certificate is not signed by ca_file, or not for server_name
TLS_UNTRUSTED = const(-30)
# last_error: the server's certificate has expired or is not valid yet, or the clock is wrong
TLS_EXPIRED = const(-31)
# last_error: the server broke off the handshake: it may want a client certificate, another one, or
# other ciphers
TLS_REFUSED = const(-32)
# last_error: the clock is not set, so no certificate can be judged: nothing was sent
NO_TIME = const(-33)
# last_error: the network could not be joined, for none of the three reasons below; retried
WIFI_FAILED = const(-40)
WIFI_WRONG_PASSWORD = const(-41)  # last_error: the access point did not take wifi_password
# last_error: no network wifi_ssid in reach (not on 5 GHz), or none with security the chip has
WIFI_NO_AP = const(-42)
# last_error: no address within 20 s: the DHCP server does not answer, or the signal is bad
WIFI_TIMED_OUT = const(-43)
DNS_FAILED = const(-44)  # last_error: broker_host has no address, or no name server answered
NTP_FAILED = const(-45)  # last_error: TLS needs the time, and ntp_host did not answer
CLOSED = const(0)  # state: no stream
CONNECTING = const(1)  # state: CONNECT is out
CONNECTED = const(2)  # state: CONNACK arrived
