"""`outpost report`: one self-contained HTML page about the tables, by pyarrow, pandas and plotly;
no Spark.

arguments.py  the subcommand
data.py       the tables, thinned to bins in time
attention.py  which devices need attention, and why; the order of everything
page.py       the page and its sections
fleet.py      the devices on it
pack.py       the series for report.js, which draws, sorts and filters in the browser; report.css
words.py      numbers and times as a person reads them
"""
