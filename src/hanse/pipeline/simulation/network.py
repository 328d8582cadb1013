"""Who hears what, how much later: the ways that a strategy's messages take, as matrices of milliseconds.

Whether a notification reaches a subscription is decided at one broker, with what that broker knows at that moment. A message
takes the same time between the same two brokers, always. So what a broker knows of a client at home elsewhere is what that
client had said a fixed number of milliseconds before; for a publisher at `p` and a subscriber at `h` only one number matters:

    cut[p, h] = way of the notification to the broker that matches - way of the subscription to that broker

A notification sent at t is matched with what the subscriber had said until t + cut. Nothing else of a strategy is needed to
join notifications with subscriptions. Where that broker is the subscriber's own, and not the publisher's, one millisecond is
taken off: within a millisecond brokers handle what other brokers send before what their own clients send.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil, pi
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from hanse.model import EARTH_RADIUS_KM, InvalidInput
from hanse.simulation.latency import MS_PER_KM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hanse.routing import Settings
    from hanse.simulation.latency import Latencies

LINKS_MAX: Final = 6  # by way of leaders and the cloud: four, and two that something else takes meanwhile
NEVER: Final = -(2**30)  # a cut before everything: no way at all


class Option(Struct, frozen=True):
    """One broker for each publisher's and subscriber's home that may match: which, when, and how long until it is delivered."""

    via: NDArray[np.int64]  # -1: there is none
    cut: NDArray[np.int64]
    publisher_cut: NDArray[np.int64]  # the same for what that broker knows of the publisher's place
    way: NDArray[np.int64]  # from the publisher's broker to the subscriber's


class Network:
    def __init__(self, settings: Settings, latencies: Latencies) -> None:
        if not settings.federation.is_mesh:
            raise InvalidInput("the spark engine needs brokers that are all linked with each other: take topology cities or mesh")
        self.settings = settings
        self.ids = settings.federation.ids
        self.index = {node: i for i, node in enumerate(self.ids)}
        self.size = len(self.ids)
        self.ms = np.zeros((self.size, self.size), dtype=np.int64)
        for a, node in enumerate(self.ids):
            for b, other in enumerate(self.ids):
                if a != b:
                    self.ms[a, b] = latencies[node][other]
        if self.size > 1 and self.ms[~np.eye(self.size, dtype=bool)].min() < 1:
            raise InvalidInput("the spark engine needs a latency of 1 ms or more between any two brokers")

    @property
    def homes(self) -> int:
        """How many brokers have clients; they come first."""
        return len(self.settings.served)

    @property
    def slowest_ms(self) -> int:
        """Nothing takes longer by any way, and nobody knows anything so much earlier than another."""
        return LINKS_MAX * max(int(self.ms.max()), ceil(pi * EARTH_RADIUS_KM * MS_PER_KM))

    def option(self, via: NDArray[np.int64], there: NDArray[np.int64] | None = None) -> Option:
        """Matching at `via[p, h]`, which the notification reaches `there[p, h]` ms after it was published; None: straight."""
        every = np.arange(self.size)
        p, h = np.meshgrid(every, every, indexing="ij")
        safe = np.maximum(via, 0)
        way = self.ms[p, safe] if there is None else there
        at_subscriber = (safe == h) & (p != h)
        cut = way - self.ms[h, safe] - at_subscriber
        return Option(
            via,
            np.where(via < 0, NEVER, cut),
            np.where(via < 0, NEVER, way - self.ms[p, safe]),
            way + self.ms[safe, h],
        )

    @cached_property
    def at_subscriber(self) -> Option:
        return self.option(np.tile(np.arange(self.size), (self.size, 1)))

    @cached_property
    def at_publisher(self) -> Option:
        return self.option(np.tile(np.arange(self.size)[:, None], (1, self.size)))

    def owners(self, topics: Iterable[str]) -> NDArray[np.int64]:
        """The broker that each topic is hashed to."""
        return np.array([self.index[self.settings.hashed(topic)] for topic in topics], dtype=np.int64)

    # --- grid quorum --------------------------------------------------------------------------------------------------

    @cached_property
    def lines(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """For each broker the others in its row, and those in its column."""
        rows = [[self.index[node] for node in row] for row in self.settings.grid_rows]
        in_row = {node: [other for other in row if other != node] for row in rows for node in row}
        in_column = {
            node: [other[column] for other in rows if column < len(other) and other[column] != node]
            for row in rows
            for column, node in enumerate(row)
        }
        return in_row, in_column

    @cached_property
    def quorum(self) -> list[list[int]]:
        in_row, in_column = self.lines
        return [in_row[node] + in_column[node] for node in range(self.size)]

    @cached_property
    def quorum_options(self) -> list[Option]:
        """A row and a column meet in up to two brokers; each of them matches, and the first one to tell the subscriber counts."""
        in_row, in_column = self.lines
        found: dict[tuple[int, int], list[int]] = {}
        for p in range(self.size):
            found[p, p] = [p]
            for b in self.quorum[p]:
                across = in_column[b] if p in in_row[b] else in_row[b]
                for h in (b, *across):
                    found.setdefault((p, h), []).append(b)
        depth = max(len(brokers) for brokers in found.values())
        via = np.full((depth, self.size, self.size), -1, dtype=np.int64)
        for (p, h), brokers in found.items():
            for k, b in enumerate(brokers):
                via[k, p, h] = b
        return [self.option(each) for each in via]

    # --- broadcast groups ---------------------------------------------------------------------------------------------

    @cached_property
    def leader(self) -> NDArray[np.int64]:
        """The leader of each broker's group; of the cloud, the cloud itself."""
        leader_of = self.settings.leader_of
        return np.array([self.index[leader_of.get(node, node)] for node in self.ids], dtype=np.int64)

    @property
    def cloud(self) -> int:
        return self.index[self.settings.cloud]

    @cached_property
    def to_cloud(self) -> NDArray[np.int64]:
        """How long it takes from each broker by way of its leader."""
        every = np.arange(self.size)
        way: NDArray[np.int64] = self.ms[every, self.leader] + self.ms[self.leader, self.cloud]
        return way

    @cached_property
    def in_groups(self) -> Option:
        """Straight within a group; else up to the cloud and down by the other leader. Each broker matches for its own clients."""
        down = self.ms[self.cloud, self.leader] + self.ms[self.leader, np.arange(self.size)]
        same = self.leader[:, None] == self.leader[None, :]
        there = np.where(same, self.ms, self.to_cloud[:, None] + down[None, :])
        return self.option(np.tile(np.arange(self.size), (self.size, 1)), there)
