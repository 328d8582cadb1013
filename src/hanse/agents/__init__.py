"""Agents: platforms that do not speak NGSI-LD become data of a node. They know a node by HTTP only.

`Agent` is the base to write one; `gtfs_agent` and `mqtt_json` are two that are.
"""

from hanse.agents.base import Agent, Counters, Gone, PlatformAway, Received, Unusable

__all__ = ["Agent", "Counters", "Gone", "PlatformAway", "Received", "Unusable"]
