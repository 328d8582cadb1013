"""Notifications on their way out: a queue for each endpoint, senders for HTTP and MQTT, streams for browsers, dead letters."""

from hanse.node.notifier.notifier import Notifier

__all__ = ["Notifier"]
