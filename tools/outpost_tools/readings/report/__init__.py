"""`outpost report`: one self-contained HTML page about the tables, made with pyarrow, pandas and
plotly; no Spark.

arguments.py  the subcommand
reading.py    the time range, and reading the tables for it
data.py       the tables, thinned to bins in time
newest.py     newest values, and faults of sensors
outages.py    the file of events
page.py       the page (templates/)
fleet.py      the devices on it
pack.py       the series for report.js, which draws, sorts and filters in the browser; report.css

Wording, and which device needs attention: text/words.py, attention/attention.py.
"""
