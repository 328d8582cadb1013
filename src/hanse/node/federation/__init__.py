"""A node among others: links over zenoh, kept promises about them, and the brokers that decide what crosses.

`host` drives the brokers of `hanse.routing`; `links` keeps what must cross until the other end has it; `transport` and
`identity` carry it, enciphered, from one known node to another; `knowledge` is what all nodes know of each other.
"""

from hanse.node.federation.host import Host
from hanse.node.federation.setting_up import federated

__all__ = ["Host", "federated"]
