"""`outpost selftest`.

health.py         the checks, one after the other
health_report.py  their rows, and the file
selftest.py       the script with which a board tests itself
sensor_check.py   reads each sensor once
live_run.py       runs the station for some seconds
wake_ledger.py    what each step of a wake takes
flash_time.py     how long a board may be silent while it opens its outbox
"""
