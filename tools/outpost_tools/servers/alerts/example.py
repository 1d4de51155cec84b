"""The output of `outpost alerts example`. The user must replace CHANGE-ME in its one active URL."""

EXAMPLE = """\
# Alerts of `outpost run`: outpost alerts example > home/alerts.toml; chmod 600 home/alerts.toml.
# After a change, run `outpost alerts test home` and restart `outpost run`.
# Names of boards and sensors may contain * and ?. Durations: "90s", "10m", "2h", "1d".

# --- Where alerts are sent: one channel or more, and nowhere else ---

# A push message by ntfy (https://ntfy.sh, or your own server): choose a topic nobody can guess.
[[webhook]]
url = "https://ntfy.sh/CHANGE-ME"
body = "text"                       # plain text, no JSON

# A JSON object: {"text": ..., "title": ..., "alerts": [...]}. Slack, Mattermost, Home Assistant,
# Node-RED. A URL that is secret can be kept in a file: url_file = "slack-url.txt", mode 0600.
# [[webhook]]
# url = "https://hooks.example.org/services/CHANGE-ME"
# text_key = "text"                 # Discord: "content"; ntfy and Gotify: "message"
# more = {}                         # further keys: {topic = "my-topic"}
# token_file = "token.txt"          # mode 0600; sent as "Authorization: Bearer ..."
# ca_file = "ca.pem"                # of a private certificate authority

# [[email]]
# host = "smtp.example.org"
# security = "starttls"             # port 587; "tls": port 465; "none": only on this machine
# user = "me@example.org"
# password_file = "smtp.txt"        # mode 0600; its first line
# from = "me@example.org"
# to = ["me@example.org"]

# [[command]]
# run = ["/usr/local/bin/tell-me"]  # gets the text on stdin; retried if its exit status is not 0

# A hundred other services: the table [[apprise]] with url, or url_file (mode 0600), if the package
# apprise is installed. Its URLs: https://github.com/caronc/apprise/wiki

# --- What to report ---

# Everything that the live page lists as needing attention; collector, disk, and the jobs of
# `outpost run`.
[attention]
for = "5m"                          # how long it must last, or be over, before it is reported
# leave_out = ["open", "behind"]    # kinds; an unknown one gets an error that lists them all
# boards = ["*"]

# [[silence]]
# longer_than = "2h"
# boards = ["kitchen"]

# [[reading]]
# sensor = "temperature"
# above = 8                         # below, or both
# hysteresis = 0.5                  # over when the value is back by this much: at 7.5
# for = "10m"
# boards = ["fridge"]

# most_per_hour, the limit for each channel (default 20), goes before the first [ of the file.
"""
