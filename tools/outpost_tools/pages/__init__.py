"""The pages that this machine serves: the server, and what all of them have in common.

http_server.py  the server behind every HTTP port
web.py          security headers, the check of the host, the icon and the style
templates.py    the templates of a room, which escape what they print
arguments.py    the options of a command that serves a page
"""
