"""When the path to the server fails, and how: [[from second, to second, kind]].

    "refuses"    nothing listens; what is connected is reset at its start
    "silent"     the path swallows everything, both ways; a connect times out. What was sent
                 meanwhile arrives at its end, because TCP repeats it, if both sides still have the
                 connection then
    "half_open"  what the board sends is lost, what the server sends arrives; a connect times out.
                 The connection is reset at its end, not before. A new one works after it
    "slow"       the answers take 3 s

A pure function of the scenario, which never changes. Must not know a connection.
"""

OF_RADIO = "no_wifi"  # see radio.py
KINDS = ("refuses", "silent", "half_open", "slow", OF_RADIO)


class Outages:
    """ValueError names an outage that is none."""

    def __init__(self, outages):
        self.spans = []  # (from us, to us, kind), by their start
        for start_s, end_s, kind in outages:
            if kind not in KINDS or not start_s < end_s:
                raise ValueError("outage [%s, %s, %r]" % (start_s, end_s, kind))
            if kind != OF_RADIO:
                self.spans.append((int(start_s * 1_000_000), int(end_s * 1_000_000), kind))
        self.spans.sort()

    def kind(self, us):
        """Returns the kind of the outage at that time, or None."""
        for start, end, kind in self.spans:
            if start <= us < end:
                return kind
        return None

    def arrives_us(self, us):
        """Returns when a packet arrives at the board that should at `us`."""
        for start, end, kind in self.spans:
            if kind == "silent" and start <= us < end:
                us = end
        return us

    def edges(self):
        """[(us, what)]: "reset" where connections are reset, "resume" where the path is back."""
        found = []
        for start, end, kind in self.spans:
            if kind == "refuses":
                found.append((start, "reset"))
            elif kind != "slow":
                found.append((end, "resume"))
        return found
