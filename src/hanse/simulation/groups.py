"""Broadcast groups for a federation, formed as the DisGB authors do: leaders far apart, everyone else to the nearest leader."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import msgspec

from hanse.model import Location
from hanse.routing import Federation, Group, Link, Node
from hanse.simulation.latency import MS_PER_KM, distance_km

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP_RADIUS_MS = 100  # no two leaders are nearer to each other
CLOUD_PLACE = Location(39.022878, -77.464276)  # a county in Virginia with more data centres than any other
CLOUD = "cloud"


def form_groups(nodes: Sequence[Node]) -> tuple[Group, ...]:
    """Leaders first, the ones with most clients before others; then each other node joins the nearest leader."""

    def latency_ms(a: Node, b: Node) -> int:
        return ceil(distance_km(a.location, b.location) * MS_PER_KM)

    leaders: list[Node] = []
    for node in sorted(nodes, key=lambda node: -node.clients):
        if all(latency_ms(node, leader) > GROUP_RADIUS_MS for leader in leaders):
            leaders.append(node)
    members: dict[str, list[str]] = {leader.id: [] for leader in leaders}
    for node in nodes:
        if node.id not in members:
            members[min(leaders, key=lambda leader: latency_ms(node, leader)).id].append(node.id)
    return tuple(Group(leader, tuple(others)) for leader, others in members.items())


def with_cloud(federation: Federation) -> tuple[Federation, tuple[Group, ...]]:
    """The federation with a node for the cloud, linked to every node of a mesh and else to every leader."""
    groups = form_groups(federation.nodes)
    linked = federation.ids if federation.is_mesh else tuple(group.leader for group in groups)
    links = tuple(link for node in linked for link in (Link(node, CLOUD), Link(CLOUD, node)))
    wider = msgspec.structs.replace(
        federation, nodes=(*federation.nodes, Node(CLOUD, CLOUD_PLACE)), links=federation.links + links
    )
    return wider, groups
