"""What `outpost alerts example` prints: two lines are to be changed, the rest may be."""

EXAMPLE = """\
# Alerts of `outpost run`: outpost alerts example > home/alerts.toml; chmod 600 home/alerts.toml.
# After a change: outpost alerts test home, and start `outpost run` again.
# Names of boards and sensors may have * and ?. Spans of time: "90s", "10m", "2h", "1d".

# --- To whom: one or more. Nothing is sent to anybody else. ---

# A push by ntfy (https://ntfy.sh, or your own): choose a topic that nobody guesses.
[[webhook]]
url = "https://ntfy.sh/CHANGE-ME"
body = "text"                       # the text alone

# A JSON object: {"text": ..., "title": ..., "alerts": [...]}. Slack, Mattermost, Home Assistant,
# Node-RED. Whole URLs that are secret may stand in a file: url_file = "slack-url.txt", mode 0600.
# [[webhook]]
# url = "https://hooks.example.org/services/CHANGE-ME"
# text_key = "text"                 # Discord: "content"; ntfy and Gotify: "message"
# more = {}                         # further keys: {topic = "my-topic"}
# token_file = "token.txt"          # mode 0600; sent as "Authorization: Bearer ..."
# ca_file = "ca.pem"                # of a private authority

# [[email]]
# host = "smtp.example.org"
# security = "starttls"             # port 587; "tls": port 465; "none": this machine alone
# user = "me@example.org"
# password_file = "smtp.txt"        # mode 0600; its first line
# from = "me@example.org"
# to = ["me@example.org"]

# [[command]]
# run = ["/usr/local/bin/tell-me"]  # gets the text on stdin; another status than 0: tried again

# --- Of what ---

# Each line of the live page that needs attention; collector, disk, and the jobs of `outpost run`.
[attention]
for = "5m"                          # so long it lasts, and is over, before it is told
# leave_out = ["open", "behind"]    # kinds; a wrong one here is answered with all of them
# boards = ["*"]

# [[silence]]
# longer_than = "2h"
# boards = ["kitchen"]

# [[reading]]
# sensor = "temperature"
# above = 8                         # below, or both
# hysteresis = 0.5                  # over when it is back by so much: at 7.5
# for = "10m"
# boards = ["fridge"]

# most_per_hour goes before the first [ of the file: messages to each channel; default 20
"""
