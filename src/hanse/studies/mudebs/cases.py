"""The scenarios of the muDEBS paper as cases to run: an overlay, who knows which scope, which filters are false.

The text of the paper leaves choices open; the ones made here are those of the reading that comes nearest to its numbers:
- scenario 1: s1 is joined at every transit broker of a partition, s2 and s3 in turn at the gateways of its stub domains, s4 or s5
  at their other brokers. Who calls JoinScope learns the subscope, and so do neighbours that know the superscope. The transit
  broker without a partition, b, and its stubs know nothing;
- scenarios 2 and 3: s1 is joined at one transit broker, s2 and s3 at its two neighbours, s4 and s5 at the gateways of these. Who
  joins a scope knows the scopes above it. All others know nothing. A further dimension starts one transit broker further on;
- every client makes all combinations of the scopes that its broker knows, and the empty one, which stands for ⊤ and ⊥;
- every message counts, those that arrive twice, too.
In the paper a filter may stand between a root and ⊤ (its level 1). In ours ⊤ is never crossed; so scenarios 2 and 3 write the ⊤
of a subscription as a scope of its own, `any`, above s1. The meaning is then the same for all ways of routing and for the oracle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.model import TOP
from hanse.scopes import NEVER, Scopes
from hanse.scopes.projection import Knowledge
from hanse.simulation.topologies import STUBS_OF_TRANSIT, transit_stub

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.routing import Federation

SUPERSCOPES: Final = {"s1": TOP, "s2": "s1", "s3": "s1", "s4": "s2", "s5": "s3"}
ANY: Final = "any"  # the ⊤ of the paper where it is crossed
PARTITIONS: Final = {"P1": ("d", "a", "c"), "P2": ("ad", "ad", "c"), "P3": ("acd", "acd", "acd")}  # of D1, D2, D3
ROOT_ORDER: Final = "dcba"  # where the first, second, ... dimension has its root
LEVELS: Final = {0: "all true", 1: "L1 false", 2: "L2 false", 3: "L3 false"}

Known = dict[str, dict[str, tuple[str, ...]]]  # by broker, by dimension


class Case(Struct, frozen=True, kw_only=True):
    """One experiment. `shut`: the level whose visibility filters are false; `crossed`: ⊤ is a scope with a border of its own."""

    name: str
    federation: Federation
    known: Known
    dimensions: tuple[str, ...] = ()
    shut: int = 0
    crossed: bool = False
    empty: bool = True


def unscoped(nodes: int) -> Case:
    federation = transit_stub(nodes)
    return Case(name=f"Net{nodes}, no scoping", federation=federation, known={broker: {} for broker in federation.ids})


def scenario_1(name: str, *, empty: bool = True) -> Case:
    federation = transit_stub(52)
    projections = {f"D{i}": partition(federation, hubs) for i, hubs in enumerate(PARTITIONS[name], 1)}
    known = known_by(federation, projections)
    title = name if empty else f"{name} without ⊤"
    return Case(name=title, federation=federation, known=known, dimensions=tuple(projections), empty=empty)


def scenario_2(nodes: int, shut: int, roots: str = ROOT_ORDER[:1]) -> Case:
    """Scenario 3 is the same with more roots, one for each dimension."""
    federation = transit_stub(nodes)
    projections = {f"D{i}": around(federation, root) for i, root in enumerate(roots, 1)}
    name = f"Net{nodes}, {dimensions_of(len(roots))}, {LEVELS[shut]}"
    if not ROOT_ORDER.startswith(roots):
        name += f", roots at {', '.join(roots)}"
    known = known_by(federation, projections)
    return Case(name=name, federation=federation, known=known, dimensions=tuple(projections), shut=shut, crossed=True)


def dimensions_of(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"


# --- who knows what -----------------------------------------------------------------------------------------------------


def partition(federation: Federation, hubs: str) -> dict[str, tuple[str, ...]]:
    """Scenario 1: what the brokers of these transit brokers and of their stub domains know."""
    knowledge = Knowledge(federation)
    gateways = [gateway for hub in hubs for gateway in gateways_of(federation, hub)]
    members = {gateway: [b.id for b in federation.nodes if b.community == gateway and b.id != gateway] for gateway in gateways}
    for hub in hubs:
        knowledge.join(hub, "s1", TOP)
    for i, gateway in enumerate(gateways):
        knowledge.join(gateway, ("s2", "s3")[i % 2], "s1")
    for i, gateway in enumerate(gateways):
        for broker in members[gateway]:
            knowledge.join(broker, ("s4", "s5")[i % 2], ("s2", "s3")[i % 2])
    return {
        broker: found
        for broker in federation.ids
        if (found := tuple(scope for scope in SUPERSCOPES if broker in knowledge.brokers.get(scope, ())))
    }


def around(federation: Federation, root: str) -> dict[str, tuple[str, ...]]:
    """Scenarios 2 and 3: s1 at a transit broker, s2 and s3 beside it, leaves at their gateways."""
    known: dict[str, tuple[str, ...]] = {root: ("s1",)}
    beside = sorted((b for b in federation.neighbours[root] if b in STUBS_OF_TRANSIT), reverse=True)
    for hub, scope, leaf in zip(beside, ("s2", "s3"), ("s4", "s5"), strict=True):
        known[hub] = ("s1", scope)
        known |= dict.fromkeys(gateways_of(federation, hub), ("s1", scope, leaf))
    return known


def gateways_of(federation: Federation, hub: str) -> list[str]:
    return [broker for broker in federation.neighbours[hub] if broker not in STUBS_OF_TRANSIT]


def known_by(federation: Federation, projections: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Known:
    return {b: {dimension: knows[b] for dimension, knows in projections.items() if b in knows} for b in federation.ids}


def graphs(case: Case) -> Scopes:
    scopes = Scopes()
    for dimension in case.dimensions:
        graph = scopes.graph(dimension)
        if case.crossed:
            graph.add(ANY)
        for scope, superscope in SUPERSCOPES.items():
            above = ANY if superscope == TOP and case.crossed else superscope
            level = {"s1": 1, "s2": 2, "s3": 2}.get(scope, 3)
            shut = NEVER if level == case.shut else ""
            graph.add(scope, above, out=shut, into=shut)
    return scopes
