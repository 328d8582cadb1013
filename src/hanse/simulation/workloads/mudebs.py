"""The client program of the muDEBS paper: one client a broker, producer and consumer, once through all combinations of known
scopes.

For each combination of the scopes that its broker knows, at most one in each dimension, the client advertises everything, then
subscribes to everything in the same way, and then publishes one notification for each advertisement. All clients have
advertised before the first one subscribes, and all have subscribed before the first one publishes.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from hanse.model import Advertisement, InvalidInput, Notification, Subscription
from hanse.routing.messages import Advertise, Attach, Publish, Request, Subscribe
from hanse.simulation.actions import Action
from hanse.simulation.workloads.base import Load, Workload, in_time_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_COMBINATIONS = 100_000


def mudebs(load: Load, *, known: Mapping[str, Mapping[str, Sequence[str]]], empty: bool = True, gap_ms: int = 10) -> Workload:
    """`known`: the scopes that each node knows, by dimension. `empty`: whether the combination of no scope at all is made, too.

    One client a broker, whatever number is asked for. `gap_ms` lies between any two actions; the phases follow each other at
    thirds of the duration, or later where it takes longer.
    """
    federation = load.federation
    if unknown := next((node for node in known if node not in federation.by_id), None):
        raise InvalidInput(f"the known scopes name {unknown!r}, which is no node")
    if gap_ms < 0:
        raise InvalidInput(f"the gap between actions cannot be {gap_ms} ms")
    combinations = [(node, combinations_of(known.get(node, {}), empty=empty)) for node in federation.ids]
    if sum(len(each) for _, each in combinations) > MAX_COMBINATIONS:
        raise InvalidInput(f"the known scopes have more than {MAX_COMBINATIONS} combinations; give fewer")
    actions: list[Action] = []
    for node, _ in combinations:
        actions.append(Action(0, node, client_of(node), Attach(client_of(node))))
    start_ms = gap_ms
    for phase in (_advertise, _subscribe, _publish):
        now_ms = start_ms
        for node, each in combinations:
            for i, scopes in enumerate(each):
                actions.append(Action(now_ms, node, client_of(node), phase(client_of(node), i, scopes, now_ms)))
                now_ms += gap_ms
        start_ms = max(now_ms, start_ms + load.duration_ms // 3)
    return Workload(
        "mudebs", federation, in_time_order(actions), "the client program of muDEBS: all combinations of known scopes"
    )


def client_of(node: str) -> str:
    return f"client-{node}"


def combinations_of(known: Mapping[str, Sequence[str]], *, empty: bool) -> list[dict[str, str]]:
    """All choices of at most one scope in each dimension; the empty one is the first, if it is wanted."""
    choices = [[None, *scopes] for scopes in known.values()]
    found = [{d: scope for d, scope in zip(known, choice, strict=True) if scope is not None} for choice in product(*choices)]
    return found if empty else found[1:]


def _advertise(client: str, i: int, scopes: dict[str, str], _now_ms: int) -> Request:
    return Advertise(Advertisement(id=f"{client}/a{i}", client=client, scopes=scopes))


def _subscribe(client: str, i: int, scopes: dict[str, str], _now_ms: int) -> Request:
    return Subscribe(Subscription(id=f"{client}/s{i}", client=client, scopes=scopes))


def _publish(client: str, i: int, scopes: dict[str, str], now_ms: int) -> Request:
    notification = Notification(
        id=f"{client}/n{i}", publisher=client, scopes=scopes, advertisement=f"{client}/a{i}", published_at_ms=now_ms
    )
    return Publish(notification)
