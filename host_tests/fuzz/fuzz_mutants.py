"""Broken copies of the firmware, made in memory: (what is wrong, target, module, text, what stands there instead).

The fuzzer must find each of them, or it proves nothing. The texts follow the firmware: one that no longer stands there once is an
error, never a mutant left out.
"""

MUTANTS = (
    ("a fifth byte of length is taken", "reader", "reader",
     "if shift == _TOO_LONG:", "if shift == _TOO_LONG and self.first != 0x30:"),
    ("an oversize packet grows the buffer", "subscriber", "reader", "count = min(count, len(self.buffer) - self.have)",
     "self.buffer.extend(bytes(max(0, self.have + count - len(self.buffer))))"),
    ("identifier 0 is taken", "subscriber", "subscribing", "packets.get_u16(buf, at - 2) or -1", "packets.get_u16(buf, at - 2)"),
    ("PUBACK of an identifier not in flight frees", "subscriber", "session",
     "place >= self.next_send - seq", "place >= 16"),
    ("a message whose handler raised is acknowledged", "subscriber", "subscribing",
     "self.handler_errors += 1\n            return False",
     "self.handler_errors += 1\n            return True"),
    ("a repetition without DUP", "subscriber", "session", "first |= 8", "first |= 0"),
    ("one more in flight than the window allows", "subscriber", "session",
     "if seq - self.base >= self.window", "if seq - self.base > self.window"),
    ("QoS 0 overwrites what goes out", "subscriber", "session",
     "if self.out_end or (self.in_flight and", "if (self.in_flight and"),
    ("reconnects at once", "subscriber", "client", "self._wait_ms = backoff_ms(", "self._wait_ms = 0 * backoff_ms("),
    ("no deadline for CONNACK and PINGRESP", "subscriber", "session",
     ">= self.response_ms:\n            return True",
     ">= self.response_ms:\n            return False"),
    ("a topic that is no UTF-8 is taken", "subscriber", "subscribing", "or not is_topic(buf, 2, 2 + length)", ""),
    ("SUBACK of another request is taken", "subscriber", "subscribing",
     "packets.get_u16(buffer, 0) != self._request_id", "False"),
    ("a half streamed message is acknowledged", "streamer", "streaming", "if self._mode == _FAILED:\n            return False",
     "if self._mode == _FAILED:\n            return True"),
    ("the collector's word from the future is believed", "durable", "durable", "if seq >= self.outbox.next_seq or", "if"),
    ("freed while the exchange is open", "durable", "durable", "through = min(through, self.base - 1)", "pass"),
    ("another stream's word is believed", "durable", "durable", "if buf[at + i] != stream[i]:", "if buf[at + i] < stream[i]:"),
    ("PUBREL before the note", "exactly_once", "exactly_once",
     "if is_open and (self._is_noted or self._save()):", "if is_open:"),
    ("QoS 2 handed over at each repetition", "exactly_once", "exactly_once", "if self._place(packet_id) < 0:", "if True:"),
    ("PUBREC although the note was not taken", "exactly_once", "exactly_once",
     "if not self._save():\n                self._note_end -= 2\n                return _STORAGE", "self._save()"),
    ("published again after PUBREC", "exactly_once", "exactly_once", "if not self._released & bit:", "if True:"),
)  # fmt: skip
