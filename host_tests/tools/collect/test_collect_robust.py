# cpython-only: runs a desktop tool as a process, against real mosquitto
"""`outpost collect` where things are short, hostile or watched: a full disk, TLS, names and rights,
metrics, SIGTERM, retire.
"""
