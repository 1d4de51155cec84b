"""What the emulated chip meets in its network: servers of this machine, an echo, DNS, NTP."""

from __future__ import annotations

import socket
from collections.abc import Callable

_NTP_EPOCH_S = 2_208_988_800  # 1900 to 1970


class SocketStream:
    """A TCP connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._unsent = bytearray()
        self._is_broken = False

    def send(self, data: bytes) -> None:
        self._unsent += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._is_broken = True

    def receive(self, limit: int) -> bytes | None:
        self._flush()
        try:
            return None if self._is_broken else self._socket.recv(limit) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def close(self) -> None:
        self._flush()
        self._socket.close()


class Echo:
    """Sends back what it gets."""

    def __init__(self) -> None:
        self._data = b""

    def send(self, data: bytes) -> None:
        self._data += data

    def receive(self, limit: int) -> bytes:
        data, self._data = self._data[:limit], self._data[limit:]
        return data

    def close(self) -> None:
        pass


def dns_answer(address: bytes) -> Callable[[bytes], bytes | None]:
    """A DNS server (port 53) that gives this address for every name."""

    def answer(query: bytes) -> bytes | None:
        end = query.find(b"\0", 12) + 5
        if len(query) < 17 or query[end - 4 : end] != b"\0\1\0\1":  # one question, type A
            return None
        head = query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0"
        return head + query[12:end] + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + address

    return answer


def ntp_answer(unix_s: Callable[[], float]) -> Callable[[bytes], bytes | None]:
    """A time server (port 123)."""

    def answer(request: bytes) -> bytes | None:
        if len(request) < 48:
            return None
        stamp = int((unix_s() + _NTP_EPOCH_S) * (1 << 32)).to_bytes(8, "big")
        head = bytes((0x24, 1, 0, 0xEC)) + bytes(8) + b"GPS\0"  # version 4, server, stratum 1
        return head + stamp + request[40:48] + stamp + stamp

    return answer
