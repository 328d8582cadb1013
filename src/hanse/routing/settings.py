"""How a federation routes: the same for all its nodes. And the bounds of a broker, each in this one place."""

from __future__ import annotations

import hashlib
from bisect import bisect
from functools import cached_property
from math import isqrt

from msgspec import Struct

from hanse.model import InvalidInput, Polygon
from hanse.routing.areas import FIELD_SIZE_DEG, Areas
from hanse.routing.federation import Federation
from hanse.routing.territories import Territories

DELIVERED_KEPT = 16_384  # notifications that a broker remembers, with the subscriptions that got them, so as to deliver once
EVENTS_SEEN_KEPT = 65_536
RESTRICTED_KEPT = 4_096  # notifications under export rules that can be sent again to where a client has gone
TOMBSTONES_KEPT = 65_536  # dropped subscriptions whose versions are remembered against late copies
WAITING_MAX = 4_096  # notifications that wait for a client that is out of reach
REQUESTS_WAITING_MAX = 256  # requests of a client whose hand-over is under way
FRESH_KEPT = 4_096  # notifications kept for subscriptions that a new advertisement calls
FRESH_MS = 3_600_000
GUARANTEES_MAX = 16  # different ones behind an offer; with more it counts as one without any
HANDOVER_GRACE_MS = 3_600_000  # how long the old broker goes on forwarding; a link cut for longer may cost notifications
STAYS_KEPT = 16  # where a client was lately
FORWARDS_MAX = 16  # how often a delivery follows a client that keeps moving
QUERY_MS = 30_000  # how long a query waits for those that it asked
OFFER_IDLE_MS = 86_400_000  # how long a node goes on offering what nobody publishes any more
OPEN_QUERIES_MAX = 10_000
HASH_POINTS = 10


class Group(Struct, frozen=True):
    leader: str
    members: tuple[str, ...] = ()


class Settings(Struct, frozen=True, dict=True, omit_defaults=True):
    """What all nodes must agree on. What is left out is derived from the federation, the same way by every node."""

    strategy: str
    federation: Federation
    flood_locations: bool = False  # as the DisGB simulation does: every location update goes to every node
    match_known_locations: bool = False  # and as it does: match with where the matching broker last knew the publisher to be
    handover_grace_ms: int = HANDOVER_GRACE_MS
    require_advertisements: bool = False
    advertise_ids: bool = False
    field_size_deg: float = FIELD_SIZE_DEG
    field_owners: tuple[int, ...] = ()
    topic_owners: dict[str, str] = {}
    grid: tuple[tuple[str, ...], ...] = ()
    groups: tuple[Group, ...] = ()
    cloud: str = "cloud"
    anchors: dict[str, str] = {}
    ablations: tuple[str, ...] = ()  # mechanisms switched off on purpose, to show that the checkers find it
    known_scopes: dict[str, dict[str, tuple[str, ...]]] = {}  # mudebs-paper: node -> dimension -> scopes; empty: all know all
    territories: dict[str, Polygon] | None = None  # areas drawn exactly, some as given polygons; None: by fields
    admission: str = "updown"  # mudebs-paper: which neighbours a subscription with scopes enters; or "upward"

    @cached_property
    def areas(self) -> Areas | Territories:
        if self.territories is not None:
            return Territories(self.federation, self.territories)
        if self.field_owners:
            import numpy as np

            return Areas(self.federation.ids, np.array(self.field_owners), self.field_size_deg)
        return Areas.nearest(self.federation, self.field_size_deg)

    @cached_property
    def _ring(self) -> tuple[list[int], list[str]]:
        points = sorted((_hash(f"{node}#{i}"), node) for node in self.served for i in range(HASH_POINTS))
        return [point for point, _ in points], [node for _, node in points]

    @cached_property
    def served(self) -> tuple[str, ...]:
        """The nodes that have clients: all but the cloud of broadcast groups."""
        return tuple(node for node in self.federation.ids if not (self.strategy == "broadcast-groups" and node == self.cloud))

    def hashed(self, key: str) -> str:
        """The node that a name is hashed to, by consistent hashing unless a table says otherwise."""
        owner = self.topic_owners.get(key)
        if owner is None:
            points, nodes = self._ring
            owner = nodes[bisect(points, _hash(key)) % len(nodes)]
        return owner

    @cached_property
    def grid_rows(self) -> tuple[tuple[str, ...], ...]:
        """The grid of a quorum system: rows of equal length, the last one perhaps shorter."""
        if self.grid:
            return self.grid
        nodes = self.federation.ids
        side = isqrt(len(nodes) - 1) + 1 if nodes else 1
        return tuple(nodes[i : i + side] for i in range(0, len(nodes), side))

    @cached_property
    def leader_of(self) -> dict[str, str]:
        return {member: group.leader for group in self.groups for member in (group.leader, *group.members)}

    @cached_property
    def group_of(self) -> dict[str, Group]:
        return {member: group for group in self.groups for member in (group.leader, *group.members)}

    def anchor(self, region: str) -> str:
        """The node that the area of a root scope grows from; every area is a tree of shortest ways to it."""
        anchor = self.anchors.get(region)
        return anchor if anchor is not None else self.hashed(region) if region else self.centre

    @cached_property
    def centre(self) -> str:
        """The node nearest to all others, in links."""
        federation = self.federation
        best, fewest = federation.ids[0], None
        for node in federation.ids:
            total, seen, ring = 0, {node}, [node]
            depth = 0
            while ring:
                total += depth * len(ring)
                depth += 1
                ring = [b for a in ring for b in federation.neighbours[a] if b not in seen and not seen.add(b)]  # type: ignore[func-returns-value]
            if fewest is None or total < fewest:
                best, fewest = node, total
        return best

    def __post_init__(self) -> None:
        known = set(self.federation.ids)
        if not known:
            raise InvalidInput("a federation needs at least one node")
        if self.field_size_deg <= 0 or 180.0 % self.field_size_deg:
            raise InvalidInput(f"fields of {self.field_size_deg:g} degrees do not divide the earth: take a divisor of 180")
        if self.strategy == "grid-quorum" and self.grid and sorted(node for row in self.grid for node in row) != sorted(known):
            raise InvalidInput("the grid does not hold each node once")
        named = {*self.topic_owners.values(), *self.anchors.values(), *self.leader_of}
        if strangers := named - known:
            raise InvalidInput(f"{min(strangers)!r} is given a part to play, but is no node of the federation")
        if self.strategy == "broadcast-groups":
            if self.cloud not in known:
                raise InvalidInput(f"broadcast groups need a node for the cloud: add {self.cloud!r} to the federation")
            if missing := known - {self.cloud} - set(self.leader_of):
                raise InvalidInput(f"node {min(missing)!r} is in no broadcast group")
        if not self._connected():
            raise InvalidInput("the federation is not connected: some node cannot reach another")

    def _connected(self) -> bool:
        seen = {self.federation.ids[0]}
        queue = [self.federation.ids[0]]
        while queue:
            for other in self.federation.neighbours[queue.pop()]:
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
        return len(seen) == len(self.federation.ids)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
