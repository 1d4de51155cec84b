"""The commands that run all day, and the notes between them.

home/       `outpost run`: all that a home needs
collect/    the collector: stores messages, confirms them to the boards
live/       the page with the newest values
alerts/     reports problems to a person
republish/  values for Home Assistant and others
mq/         IBM MQ's Publish command message
service/    systemd units, a recipe for containers
"""
