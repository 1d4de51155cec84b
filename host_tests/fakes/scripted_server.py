"""The server's side of MQTT 3.1.1 for scripts: what an ordinary server answers, and under CPython a
server on a real socket that follows a script, faults included.

The codec is `virtual.packets`, whose names tests take from here too. Runs under both Pythons; the
sockets are for CPython only.
"""

from virtual.packets import Malformed, decode, decode_all, encode, frame

__all__ = (
    "Connection", "Gone", "Malformed", "ScriptedServer", "answer", "decode", "decode_all", "encode",
    "frame",
)  # fmt: skip


def answer(kind, fields):
    """Returns the answer of an ordinary server, in bytes; the session is always present."""
    if kind == "CONNECT":
        return encode("CONNACK", session_present=0 if fields["clean"] else 1)
    if kind == "PUBLISH" and fields["qos"]:
        return encode("PUBACK" if fields["qos"] == 1 else "PUBREC", packet_id=fields["packet_id"])
    if kind == "SUBSCRIBE":
        return encode(
            "SUBACK", packet_id=fields["packet_id"], codes=[qos for _, qos in fields["filters"]]
        )
    if kind in ("PUBREC", "PUBREL", "UNSUBSCRIBE"):
        other = {"PUBREC": "PUBREL", "PUBREL": "PUBCOMP", "UNSUBSCRIBE": "UNSUBACK"}[kind]
        return encode(other, packet_id=fields["packet_id"])
    return encode("PINGRESP") if kind == "PINGREQ" else b""


# --- A server on a real socket (CPython) ---

try:
    import select
    import socket
    import struct
    import threading
    import time
except ImportError:  # MicroPython has no threading: the codec is all that runs there
    threading = None


class Gone(Exception):
    """The client has closed the connection, or sent nothing in time."""


class Connection:
    """One client's connection, as a script sees it."""

    def __init__(self, sock, server, number):
        self.socket, self.server, self.number = sock, server, number
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""

    def receive(self, timeout_s=60, level=4):
        """Returns the next packet, (kind, fields), and adds it to server.seen. level: as of
        decode(). Raises Gone."""
        self.socket.settimeout(timeout_s)
        while True:
            step = decode(self._data, level)
            if step is not None:
                self._data = step[2]
                self.server.seen.append((self.number, step[0], step[1]))
                return step[:2]
            try:
                chunk = self.socket.recv(4096)
            except OSError as error:
                raise Gone(str(error)) from error
            if not chunk:
                raise Gone("closed")
            self._data += chunk

    def expect(self, kind):
        found, fields = self.receive()
        if found != kind:
            raise AssertionError("expected %s, got %s %r" % (kind, found, fields))
        return fields

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def send_byte_by_byte(self, data, pause_s=0.001):
        """Send one segment per byte: Nagle is off, and the pause lets the previous one leave."""
        for i in range(len(data)):
            self.send(data[i : i + 1])
            time.sleep(pause_s)

    def accept(self, session_present=0):
        """Expect CONNECT, and answer with CONNACK."""
        fields = self.expect("CONNECT")
        self.send(encode("CONNACK", session_present=session_present))
        return fields

    def serve(self):
        """Act as an ordinary server until the client closes."""
        while True:
            self.send(answer(*self.receive()))

    def say_no_more(self):
        """Send FIN, and continue reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        """Send RST: what is in transit is lost."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def wait_for_end(self, timeout_s=60):
        """Read and discard until the client closes. Raises AssertionError if it does not."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            raise AssertionError("the client did not close the connection in %s s" % timeout_s)
        except OSError:
            pass  # closed the hard way


class ScriptedServer:
    """`with ScriptedServer(script, script, ...) as server`: connection n runs scripts[n], later
    ones the last script.

    A script is a function of a Connection. When it returns, the connection is closed; Gone ends it.
    Other exceptions are added to `faults`. `seen`: (connection, kind, fields) of each packet
    received.
    """

    def __init__(self, *scripts, receive_bytes=0):
        self.scripts = scripts
        self.seen, self.faults = [], []
        self.connections = 0
        self._listener = socket.socket()
        if receive_bytes:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port = self._listener.getsockname()[1]
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_stopping = True
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()  # wakes accept()
        except OSError:
            pass
        self._listener.close()
        self._thread.join(120)

    def _run(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._is_stopping:
                sock.close()
                return
            self._follow(sock)

    def _follow(self, sock):
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        try:
            script(Connection(sock, self, self.connections - 1))
        except Gone:
            pass
        except Exception as error:  # it must reach the test, whatever it is
            self.faults.append(repr(error))
        finally:
            sock.close()

    def wait_for_next(self, timeout_s=60):
        """Wait until the next connection waits for its turn."""
        select.select([self._listener], [], [], timeout_s)

    def kinds(self, connection):
        """Returns the kinds of packets received on that connection."""
        return [kind for number, kind, _ in self.seen if number == connection]

    def published(self, connection):
        """Returns [(packet identifier, dup, payload)] received on that connection."""
        found = [
            fields
            for number, kind, fields in self.seen
            if number == connection and kind == "PUBLISH"
        ]
        return [(fields["packet_id"], fields["dup"], fields["payload"]) for fields in found]
