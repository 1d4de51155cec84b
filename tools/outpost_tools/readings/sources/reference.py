"""The keys of a file of sources, as `outpost sources --help` prints them. schema.py has their
types; a test compares the two.
"""

KEYS = """\
[[source]]      one kind of message; each table has its own name
  name          of the source, in messages and in the tables
  topic         a topic filter in which {device} and {metric} name levels, or parts of one;
                {device#} names one or more levels; + is any level, # (last) any levels below
  except        topics of this kind that belong to others: ["zigbee2mqtt/#"]
  payload       "json" (default); "number": the payload is one number; "senml": RFC 8428 in JSON
  device        if the topic does not have it: "boiler", "plug-{device}", or { path = "node" }
  time          path of the time, or { path = "Time", format = "local", zone = "Europe/Berlin" };
                formats: any (default), epoch-s, epoch-ms, rfc3339, local. Without it: the arrival
  values        json: a list of paths, or of { path, name, unit, scale, offset }. The first that
                matches a value takes it; the reading is value * scale + offset. In paths, * is any
                key, ** (last) any keys below. A name may contain {metric}, {1}, {2}: what the first
                and second wildcard matched. Without a name: the path from its first wildcard on
  metric, unit, scale, offset
                number: the reading's name (default "{metric}"), and the same as above
  units         { temperature = "Cel", "fan.power" = "W", "*_power" = "W" }: units by a name, its
                last part, or a pattern for that
  words         { ON = 1, OFF = 0 }: texts that are values; true and false always are
  no_value      texts for "no value": ["unavailable", "nan"]; such a message is ignored
  ignore        paths that are not readings
  when          { method = ["NotifyStatus"] }: other messages are ignored
  empty         "refuse" (default) or "ignore" a message with none of the values
  home_assistant
                true: Home Assistant has these devices by an integration of its own, so `outpost
                republish` does not announce them to it; default false
  id            path, or paths, of what identifies a message: a second copy then counts once

[[state]]       a device comes or goes: name, topic, except, device as above
  online, offline
                the payloads; with `path`, what is found there

ignore          topics that are nobody's: ["zigbee2mqtt/bridge/#"]
[limits]        devices = 1000 of one source, metrics = 1000 of one device

[[source.example]], [[state.example]]
                topic, payload, and what they must become: device, time, readings = { "name" =
                [21.5, "Cel"] }; or online = true, ignored = true, refused = "part of the reason".
                Also: received (the arrival, "2026-01-15T12:00:00Z"), retained = true
"""
