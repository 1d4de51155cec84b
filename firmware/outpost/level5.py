"""MQTT 5.0 for any session: `over(Session)(outbox, b"board-1", session_expiry_s=86_400)`.

Puts the classes together: `level5_session.py`, for sessions that subscribe `level5_subscribing.py`,
and the session's own. Allocation: set-up.
"""

from outpost.mqtt5.level5_session import Level5


def over(base):
    """Returns a subclass of the session class `base` that speaks MQTT 5.0."""
    bases = Level5, base
    if hasattr(base, "subscribe"):
        from outpost.mqtt5.level5_subscribing import SubscribingLevel5

        bases = SubscribingLevel5, base
    return type("Session5", bases, {"_base": base})
