"""The client's `link` over Wi-Fi, one step a call.

The steps: join the network, get the time (TLS only), resolve the name, connect TCP, TLS.

No call blocks. Deadlines: network 20 s, name 6 s, TCP 10 s, TLS 10 s (`tls_link.py`), each from the
start of its step. If one passes or a step fails, the link raises OSError(status), and the client
retries after its backoff. Allocates when a step begins or ends, not while it waits: the poller is
made with the socket.
"""

import errno

from micropython import const

from outpost.ticks import elapsed_ms

_TIMED_OUT = const(-22)
_LINK_LOST = const(-23)
_NTP_FAILED = const(-45)
_CONNECT_MS = const(10_000)
_TCP = const(6)
_NODELAY = const(1)  # ESP32; RP2 names its own number, 64, and ignores 1


class WifiLink:
    """wifi, dns: objects of this package. socket, select: the modules.

    secure: callable that makes a TlsLink from an open_socket; None: no TLS.
    """

    def __init__(self, wifi, dns, net_time, socket, select, host, port, ticks_ms, secure=None):
        self._wifi, self._dns, self._time = wifi, dns, net_time
        self._module, self._select, self._ticks_ms = socket, select, ticks_ms
        self._host, self._port = host, port
        self._tcp = self._poller = None
        self._is_connected = False
        self._since_ms = self._reported = 0
        self._tls = secure(self._give) if secure else None

    def __call__(self):
        """A stream, or None (not yet: call again). Raises OSError."""
        try:
            stream = self._step()
        except OSError:
            self._drop()
            raise
        if stream:
            self._tcp = None
        return stream

    def _step(self):
        if self._is_connected:
            return self._finish()
        if not self._wifi.join() or not self._has_time():
            return None
        if self._tcp:
            self._look()
            return None
        address = self._dns(self._host)
        if address:
            self._connect(address)
        return None

    def _has_time(self):
        """TLS checks dates, so it waits for the time.

        Each failure to get it is reported to the client once.
        """
        if not self._tls or self._time.is_set:
            return True
        reported, self._reported = self._reported, self._time.failures
        if self._reported > reported:
            raise OSError(_NTP_FAILED)
        return False

    def _connect(self, address):
        self._tcp = tcp = self._module.socket(self._module.AF_INET, self._module.SOCK_STREAM)
        self._since_ms = self._ticks_ms()
        tcp.setblocking(False)
        try:
            tcp.connect((address, self._port))
        except OSError as error:
            if error.args[0] != errno.EINPROGRESS:
                raise
        self._poller = self._select.poll()
        self._poller.register(tcp, self._select.POLLOUT)

    def _look(self):
        """Has TCP connected? ipoll() with a timeout of 0 neither waits nor allocates."""
        for found in self._poller.ipoll(0):
            if found[1] & (self._select.POLLERR | self._select.POLLHUP):
                raise OSError(_LINK_LOST)
            self._is_connected = True
            return
        if elapsed_ms(self._ticks_ms(), self._since_ms) >= _CONNECT_MS:
            raise OSError(_TIMED_OUT)

    def _finish(self):
        if self._tls:
            stream = self._tls()
        else:
            stream = self._give()
        if stream:
            self._is_connected = False
        return stream

    def _give(self):
        """Hand the connected socket to the client or to TLS, which must close it from now on."""
        tcp, self._tcp, self._poller = self._tcp, None, None
        try:
            # A packet is one write, which should not wait for the ACK of the previous one.
            tcp.setsockopt(_TCP, getattr(self._module, "TCP_NODELAY", _NODELAY), 1)
        except OSError:  # a port without it is slower, not wrong
            pass
        return tcp

    def _drop(self):
        self._is_connected = False
        self._poller = None
        self._dns.stop()
        if self._tcp:
            self._tcp.close()
            self._tcp = None
