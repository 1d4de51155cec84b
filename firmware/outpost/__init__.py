"""Outpost: an MQTT client that does not allocate, and an outbox in flash that survives power cuts.

Import what you use from its module (`from outpost.client import Client`): importing the package
itself costs nothing.
"""

__version__ = "0.1.0"
