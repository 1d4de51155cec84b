# cpython-only: the responder is zeroconf, a library of CPython's
"""A name that ends in `.local`, asked for of a real mDNS responder on the loopback device."""

import socket
import time
import uuid
from types import SimpleNamespace

import pytest
from zeroconf import IPVersion, ServiceInfo, Zeroconf

from collector_process import wait_until
from support.dns import Ask, Dns


class LoopbackSockets:
    """The module `socket`, whose multicasts leave by the loopback device."""

    AF_INET, SOCK_DGRAM = socket.AF_INET, socket.SOCK_DGRAM

    def socket(self, family, kind):
        made = socket.socket(family, kind)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        return Datagrams(made)


class Datagrams:
    """As MicroPython's: readinto() of a socket."""

    def __init__(self, made):
        self._made = made
        self.setblocking, self.connect = made.setblocking, made.connect
        self.send, self.sendto, self.close = made.send, made.sendto, made.close

    def readinto(self, buf):
        try:
            return self._made.recv_into(buf)
        except BlockingIOError:
            return None


@pytest.fixture(scope="module")
def responder():
    """{name: address} that it answers for. A name of our own: another run may be beside us."""
    name = f"broker-{uuid.uuid4().hex[:8]}.local"
    service = ServiceInfo(
        "_mqtt._tcp.local.", f"{name[:-6]}._mqtt._tcp.local.", port=1883, server=name + ".",
        addresses=[socket.inet_aton("192.168.4.77")],
    )  # fmt: skip
    zeroconf = Zeroconf(interfaces=["127.0.0.1"], ip_version=IPVersion.V4Only)
    try:
        zeroconf.register_service(service, cooperating_responders=True)
        yield {name: "192.168.4.77"}
    finally:
        zeroconf.close()


def resolved(host):
    """The address, or None when the question's own deadline has passed."""
    ticks_ms = lambda: int(time.monotonic() * 1000) & 0x3FFFFFFF  # noqa: E731
    dns = Dns(
        Ask(LoopbackSockets(), ticks_ms), SimpleNamespace(name_server="127.0.0.1"), lambda: 77
    )
    try:
        while not (address := dns(host)):
            time.sleep(0.01)
    except OSError:
        return None
    return address


def test_a_name_of_the_network_is_found_without_a_name_server(responder):
    """However late the responder's thread may be: the question is asked anew."""
    for name, address in responder.items():
        wait_until(lambda name=name, address=address: resolved(name) == address)
        wait_until(lambda name=name, address=address: resolved(name + ".") == address)
        wait_until(lambda name=name, address=address: resolved(name.upper()) == address)


def test_a_name_that_nobody_has_ends_as_a_failure(responder):
    assert resolved("nobody-has-this-name.local") is None
