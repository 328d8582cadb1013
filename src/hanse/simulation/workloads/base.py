"""What all workloads share."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.routing.federation import Federation
from hanse.routing.messages import Attach, Request
from hanse.simulation.actions import Action
from hanse.simulation.topologies import shares

if TYPE_CHECKING:
    from collections.abc import Iterable

WARM_UP_MS = 5_000


class Workload(Struct):
    name: str
    federation: Federation
    actions: list[Action]  # by time; at the same time, client by client, each in its own order
    description: str = ""


class Load(Struct, frozen=True, kw_only=True):
    """What every workload is asked for."""

    federation: Federation
    clients: int
    duration_s: int
    seed: int

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise InvalidInput(f"{self.clients} clients are too few; give 1 or more")
        if self.duration_s < 1:
            raise InvalidInput(f"a workload lasts 1 second or more, not {self.duration_s}")
        if not self.federation.nodes:
            raise InvalidInput("the federation has no node")

    @property
    def duration_ms(self) -> int:
        return self.duration_s * 1000


class Diary:
    """One client's actions, as they are made."""

    def __init__(self, actions: list[Action], node: str, client: str, at_ms: int) -> None:
        self.actions = actions
        self.node = node
        self.client = client
        self.add(at_ms, Attach(client))

    def add(self, at_ms: int, do: Request) -> None:
        self.actions.append(Action(at_ms, self.node, self.client, do))


def in_time_order(actions: list[Action]) -> list[Action]:
    actions.sort(key=attrgetter("at_ms"))
    return actions


def clients_per_node(federation: Federation, clients: int) -> list[tuple[str, int]]:
    """The clients shared out as the nodes' own numbers of clients say, else by population, else evenly."""
    weights = [node.clients for node in federation.nodes]
    if not any(weights):
        weights = [node.population for node in federation.nodes]
    return list(zip(federation.ids, shares(weights, clients), strict=True))


def client_names(federation: Federation, clients: int) -> Iterable[tuple[str, str]]:
    """Each client's node and name, node by node."""
    for node, count in clients_per_node(federation, clients):
        for i in range(count):
            yield node, f"{node}-{i}"
