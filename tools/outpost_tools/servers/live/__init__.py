"""`outpost live`: the newest values on a page, straight from the collectors' log. It needs no
Spark, and the browser's script needs no build step.

    segments → follow.py → fleet.py (history.py) → page.py, device_page.py → app.py → browser
                                                 → events.py (new values), prometheus.py

arguments.py    the subcommand
follow.py       reads the log: the newest segment first, then older ones, and what is appended
collecting.py   whether a collector writes to the log
forgotten.py    the boards that the page no longer shows
fleet.py        the state of all devices and sensors, bounded, and which part changed since when
device.py       what every device has
board.py        one board: its streams, numbers, health
foreign_device.py  one device of a mapping (sources/): copies, last known values, online or offline
others.py       other people's frames, read by the mapping, within bounds
pauses.py       the longest pause of a device
sensor.py       one sensor: its newest readings
history.py      a sensor's readings of the last hour to the last year, in bins
page.py         the overview: the whole page, and the parts that change (templates/)
card.py         one device on it
device_page.py  one device's page
charts.py       sparklines and charts as SVG
app.py          addresses, security headers, password
events.py       server-sent events: sends changes to each browser at its own pace
prometheus.py   the readings as metrics for Prometheus
words.py        readings in words; which ones describe the board itself
serve.py        listens, until SIGTERM or SIGINT
"""
