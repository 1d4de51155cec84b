"""`outpost report`: one self-contained HTML page about the tables, by pyarrow, pandas and plotly;
no Spark.

arguments.py  the subcommand
data.py       the tables, thinned to bins in time
page.py       the page and its sections
fleet.py      the devices on it
pack.py       the series for report.js, which draws, sorts and filters in the browser; report.css

Words, and which device needs attention: common/words.py, common/attention.py.
"""
