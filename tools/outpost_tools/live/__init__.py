"""`outpost live`: the newest values on a page, straight from the collectors' log; no Spark, nothing
but plain Python, and no build step for the browser's script.

    segments → follow.py → fleet.py (history.py) → page.py, device_page.py → app.py → browser
                                                 → events.py (new values), prometheus.py

arguments.py    the subcommand
follow.py       reads the log: the newest segment first, older ones after it, then what is written
collecting.py   does a collector write?
fleet.py        what is known of boards and sensors, bounded; what changed since when
board.py        one board: its streams, numbers, health, sensors
history.py      a day, a week and a month of a sensor, in bins
page.py         the overview: HTML, the same for the whole page and for a part that changed
device_page.py  one board's page
charts.py       sparklines and charts as SVG
app.py          addresses, security headers, password
events.py       server-sent events: what changed, to each browser at its own pace
prometheus.py   the readings as Prometheus' metrics
serve.py        listens, until SIGTERM or SIGINT
"""
