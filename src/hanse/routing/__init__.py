"""Who hears what: the broker and the reliable link as pure state machines, the strategies, and the oracle."""

from hanse.routing.areas import Areas
from hanse.routing.broker import Broker
from hanse.routing.export import ExportRule
from hanse.routing.federation import Federation, Link, Node, both_ways
from hanse.routing.settings import Group, Settings
from hanse.routing.strategies import STRATEGIES

__all__ = ["STRATEGIES", "Areas", "Broker", "ExportRule", "Federation", "Group", "Link", "Node", "Settings", "both_ways"]
