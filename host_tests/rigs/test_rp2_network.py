# cpython-only: it tests the emulated chip's network
"""The far end of the chip's PPP line, and how the port's own lwIP behaves over it."""

import selectors
import socket
import struct
import threading

import pytest

import rp2_image
from rp2040 import littlefs
from rp2040.chip import Chip
from rp2040.counter import LAST_LINE, ON_CHIP, Counter
from rp2040.ip_peer import ACK, FIN, PSH, RST, SYN, IpPeer, checksum
from rp2040.pace import Pace
from rp2040.ppp import CHIP, GATEWAY, IPCP, LCP, Ppp, fcs
from rp2040.ppp_line import PppLine, SocketStream
from rp2040.uart_link import Network, dns_reply, ntp_reply

CHIP_PORT = 50_000


class Echo:
    """The far end of a connection: sends back what it receives."""

    def __init__(self):
        self._data = b""

    def send(self, data):
        self._data += data

    def receive(self, limit):
        data, self._data = self._data[:limit], self._data[limit:]
        return data

    def close(self):
        pass


# --- PPP ---


def frame(protocol, data):
    """Returns a frame as a chip may send it: no compression, and only the necessary escapes."""
    body = b"\xff\x03" + protocol.to_bytes(2, "big") + data
    body += (fcs(body) ^ 0xFFFF).to_bytes(2, "little")
    escaped = body.replace(b"\x7d", b"\x7d\x5d").replace(b"\x7e", b"\x7d\x5e")
    return b"\x7e" + escaped + b"\x7e"


def control(code, identifier, options=b""):
    return bytes((code, identifier)) + (len(options) + 4).to_bytes(2, "big") + options


def taken(line):
    text = bytes(line)
    line.clear()
    return text


def answers(line):
    """Returns (protocol, code, identifier, data) of every control packet that is sent back."""
    found = []
    for text in taken(line).split(b"\x7e"):
        if text:
            plain, parts = bytearray(), iter(text)
            for byte in parts:
                plain.append(next(parts) ^ 0x20 if byte == 0x7D else byte)
            assert fcs(bytes(plain)) == 0xF0B8
            found.append(
                (int.from_bytes(plain[2:4], "big"), plain[4], plain[5], bytes(plain[8:-2]))
            )
    return found


def test_every_byte_of_a_packet_comes_through_the_frames():
    packet = bytes(range(256)) * 3
    line, got = bytearray(), []
    sender, receiver = Ppp(line.extend), Ppp(line.extend)
    receiver.on_packet = got.append
    sender.send(packet)
    for byte in taken(line):
        receiver.receive(bytes((byte,)))
    assert got == [packet] and receiver.bad_frames == 0


def test_a_damaged_frame_is_counted_and_dropped():
    got = []
    ppp = Ppp(bytearray().extend)
    ppp.on_packet = got.append
    ppp.receive(frame(0x0021, b"abc").replace(b"abc", b"abd"))
    assert (got, ppp.bad_frames) == ([], 1)


def test_the_link_opens_once_both_requests_are_acknowledged():
    line = bytearray()
    ppp = Ppp(line.extend)
    for protocol in (LCP, IPCP):
        options = b"\x02\x06\0\0\0\0" if protocol == LCP else b"\x03\x06" + CHIP
        ppp.receive(frame(protocol, control(1, 7, options)))
        (_, code, identifier, data), (_, ours, our_identifier, wanted) = answers(line)
        assert (code, identifier, data, ours) == (2, 7, options, 1)
        assert not ppp.is_up
        ppp.receive(frame(protocol, control(2, our_identifier, wanted)))
    assert ppp.is_up
    ppp.receive(frame(LCP, control(1, 1, b"")))  # the chip was reset
    assert not ppp.is_up


def test_the_chip_is_told_its_address_and_name_server():
    line = bytearray()
    ppp = Ppp(line.extend)
    ppp.receive(frame(IPCP, control(1, 3, b"\x03\x06\0\0\0\0\x81\x06\0\0\0\0")))
    assert answers(line)[0] == (IPCP, 3, 3, b"\x03\x06" + CHIP + b"\x81\x06" + GATEWAY)


def test_options_and_protocols_that_are_not_known_are_rejected():
    line = bytearray()
    ppp = Ppp(line.extend)
    ppp.receive(frame(IPCP, control(1, 4, b"\x02\x06\0\x2d\x0f\x01\x03\x06" + CHIP)))
    assert answers(line)[0] == (IPCP, 4, 4, b"\x02\x06\0\x2d\x0f\x01")
    ppp.receive(frame(0x8057, control(1, 5)))  # IPv6
    assert answers(line)[0][:2] == (LCP, 8)


# --- TCP and UDP ---


def ip(protocol, body):
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0) + CHIP + GATEWAY
    return head + body


class ChipEnd:
    """Builds a chip's segments by hand, and reads the answers."""

    def __init__(self, open_stream=lambda port: Echo(), udp=None):
        self.packets = []
        self.peer = IpPeer(self.packets.append, open_stream, udp)
        self.number, self.received = 1000, 0

    def send(self, flags, payload=b"", number=None, window=6400, port=1883, options=b""):
        head = struct.pack(
            ">HHIIBBHHH", CHIP_PORT, port, self.number if number is None else number,
            self.received, 20 + len(options) << 2, flags, window, 0, 0,
        )  # fmt: skip
        self.peer.packet(ip(6, head + options + payload))

    def got(self):
        """Returns (flags, number, acknowledged, payload) of every segment, with checksums
        verified."""
        segments = []
        for packet in self.packets:
            body = packet[20:]
            assert checksum(packet[:20]) == 0
            assert checksum(packet[12:20] + struct.pack(">BBH", 0, 6, len(body)) + body) == 0
            _, _, number, acknowledged, offset, flags = struct.unpack_from(">HHIIBB", body)
            segments.append((flags, number, acknowledged, body[offset >> 2 :]))
        self.packets.clear()
        return segments

    def connect(self, window=6400):
        self.send(SYN, window=window, options=bytes((2, 4, 3, 32)))  # MSS 800
        [(flags, number, acknowledged, _)] = self.got()
        assert (flags, acknowledged) == (SYN | ACK, 1001)
        self.number, self.received = 1001, number + 1
        self.send(ACK, window=window)


def test_data_is_acknowledged_and_answered():
    end = ChipEnd()
    end.connect()
    end.send(PSH | ACK, b"hello")
    assert end.got() == [(ACK, 1, 1006, b"")]
    end.peer.pump(0)
    assert end.got() == [(PSH | ACK, 1, 1006, b"hello")]


def test_a_segment_that_comes_again_is_acknowledged_and_taken_once():
    stream = Echo()
    end = ChipEnd(lambda port: stream)
    end.connect()
    end.send(PSH | ACK, b"hello")
    end.send(PSH | ACK, b"hello, you")  # as lwIP may merge it with the next
    end.send(PSH | ACK, b"lost before", number=1050)
    assert [segment[2] for segment in end.got()] == [1006, 1011, 1011]
    assert stream.receive(100) == b"hello, you"


def test_what_the_chip_does_not_acknowledge_is_sent_again():
    end = ChipEnd()
    end.connect()
    end.send(PSH | ACK, b"hello")
    end.peer.pump(0)
    end.got()
    end.peer.pump(999)
    assert end.got() == []
    end.peer.pump(1000)
    assert end.got() == [(PSH | ACK, 1, 1006, b"hello")]
    end.number, end.received = 1006, 6
    end.send(ACK)
    end.peer.pump(5000)
    assert end.got() == []


def test_no_more_is_sent_than_the_chips_window_and_segment_size_take():
    end = ChipEnd()
    end.connect(window=1000)
    for start in range(0, 2000, 500):
        end.number = 1001 + start
        end.send(PSH | ACK, bytes(500), window=1000)
    end.got()
    end.peer.pump(0)
    assert [len(segment[3]) for segment in end.got()] == [800, 200]


def test_a_silent_path_takes_everything_and_says_nothing():
    end = ChipEnd()
    end.connect()
    end.peer.is_silent = True
    end.send(PSH | ACK, b"hello")
    end.peer.pump(10_000)
    assert end.got() == []
    assert end.peer.payload_bytes == 5


def test_a_port_without_a_server_refuses_the_connection():
    end = ChipEnd(lambda port: None)
    end.send(SYN)
    assert [segment[0] for segment in end.got()] == [RST | ACK]


@pytest.mark.parametrize("who", ["chip", "server"])
def test_a_real_server_of_this_machine_is_reached_and_the_connection_is_closed(who):
    selector = selectors.DefaultSelector()
    with selector, socket.create_server(("127.0.0.1", 0)) as server:
        end = ChipEnd(lambda port: SocketStream(server.getsockname()[1], selector))
        end.connect()
        peer, _ = server.accept()
        end.send(PSH | ACK, b"ping")
        end.number += 4
        assert peer.recv(100) == b"ping"
        end.got()
        if who == "chip":
            end.send(FIN | ACK)
            assert [segment[0] for segment in end.got()] == [ACK, FIN | ACK]
            assert peer.recv(100) == b""
        else:
            peer.sendall(b"pong")
            peer.close()
            segments = pumped(end, 2)
            assert segments == [(PSH | ACK, 1, 1005, b"pong"), (FIN | ACK, 5, 1005, b"")]
        peer.close()


def pumped(end, count):
    """Returns that many segments; the kernel may take a moment to hand over what the server
    sent."""
    segments, waiting = [], threading.Event()
    while len(segments) < count:
        end.peer.pump(0)
        segments += end.got()
        waiting.wait(0.001)
    return segments


def test_names_and_time_are_answered():
    def name(question):
        return dns_reply(question, GATEWAY)

    def time(question):
        return ntp_reply(question, 1_750_000_000)

    end = ChipEnd(udp={53: name, 123: time})
    question = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\6broker\0\0\1\0\1"
    end.peer.packet(ip(17, struct.pack(">HHHH", CHIP_PORT, 53, 8 + len(question), 0) + question))
    end.peer.packet(ip(17, struct.pack(">HHHH", CHIP_PORT, 123, 56, 0) + b"\x23" + bytes(47)))
    answer, stamp = (packet[28:] for packet in end.packets)
    assert answer[:2] == b"\x12\x34" and answer.endswith(b"\0\4" + GATEWAY)
    assert int.from_bytes(stamp[40:44], "big") - 2_208_988_800 == 1_750_000_000


# --- The port's own stack, on the chip ---


class Sink:
    """Counts what arrives."""

    def __init__(self):
        self.bytes = 0

    def send(self, data):
        self.bytes += len(data)

    def receive(self, limit):
        return b""

    def close(self):
        pass


def full_send_queue(**constants):
    """Runs full_send_queue.py. Returns size -> what it printed, with the bytes that arrived."""
    folder = rp2_image.find("pico-ppp")
    if folder is None:
        pytest.skip("missing: no image pico-ppp; run `python3 tools/setup.py --rp2`")
    case = "".join(f"{name} = {value!r}\n" for name, value in constants.items()).encode()
    files = {
        f"/{name}.py": (ON_CHIP / f"{name}.py").read_bytes() for name in ("console", "ppp_wlan")
    }
    files["/boot.py"] = files.pop("/console.py")
    files |= {"/case.py": case, "/main.py": (ON_CHIP / "full_send_queue.py").read_bytes()}
    chip = Chip(littlefs.with_files((folder / "firmware.bin").read_bytes(), files))
    sinks, results = [], {}

    def open_stream(port):
        sinks.append(Sink())
        return sinks[-1]

    def echo(line):
        if line.startswith("path "):
            if line == "path silent":
                sinks[-1].before = sinks[-1].bytes
            network.path = line != "path silent"
        elif line.startswith("size "):
            words = line.split()
            numbers = dict(zip(words[::2], map(int, words[1::2]), strict=True))
            results[numbers["size"]] = numbers | {"arrived": sinks[-1].bytes - sinks[-1].before}

    network = Network()
    line = PppLine(chip, network, open_stream=open_stream)
    counter = Counter(chip, echo)
    finished = Pace(chip, [line], speed=1000).run_for(200, lambda: LAST_LINE in counter.lines)
    line.close()
    assert finished, "\n".join(counter.lines)
    return results


def test_a_full_send_queue_blocks_a_non_blocking_write_for_10_s_and_loses_it():
    """Why the client bounds what it sends: the port waits 200 x 50 ms, and then reports success.

    The watchdog has 8 s. The stream continues without the bytes, in the middle of a packet.
    """
    results = full_send_queue(SIZES=(388,), BOUND_BYTES=0, OVERHEAD_BYTES=0, MOST_PACKETS=70)
    assert results[388]["longest_ms"] >= 10_000
    assert results[388]["arrived"] < results[388]["bytes"]


def test_small_packets_block_by_their_number():
    """lwIP queues 32 segments, whatever is in them."""
    results = full_send_queue(SIZES=(20,), BOUND_BYTES=0, OVERHEAD_BYTES=0, MOST_PACKETS=70)
    assert results[20]["packets"] == 33 and results[20]["longest_ms"] >= 10_000


@pytest.mark.long
def test_no_write_waits_where_unacknowledged_bytes_and_packets_are_bounded():
    """Each packet takes 100 bytes of lwIP's heap of 8,000 besides its own; at most 16 are in
    flight."""
    sizes = (20, 388, 1200)
    results = full_send_queue(SIZES=sizes, BOUND_BYTES=6500, OVERHEAD_BYTES=100, MOST_PACKETS=16)
    assert {size: row["arrived"] for size, row in results.items()} == {
        size: row["bytes"] for size, row in results.items()
    }
    assert max(row["longest_ms"] for row in results.values()) < 20
    assert [results[size]["packets"] for size in sizes] == [16, 13, 5]
