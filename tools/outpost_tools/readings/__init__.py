"""The commands for stored readings.

sources/   other people's messages become readings
export/    from the log to CSV, JSON lines or Parquet
pipeline/  from the log to tables
report/    a page about the tables
"""
