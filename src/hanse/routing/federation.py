"""What every node of a federation knows about all of them: nodes, links with their export rules, and what follows from these.

The description is a value; whatever is derived from it (next hops, who may hear of what) is computed once and kept.
Links are directed: an export rule says what its source lets go to its target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from hanse.model import InvalidInput, Location, Notification
from hanse.routing.export import ExportRule, Hidden, export_types, stripped

MAX_AUDIENCES_KEPT = 4096
Tree: TypeAlias = dict[str, str]  # node -> the node before it; the first one stands before itself
Verdicts: TypeAlias = tuple[bool, ...]  # what the rules that look inside say of a notification, in their order


class Node(Struct, frozen=True, omit_defaults=True):
    id: str
    location: Location = Location(0.0, 0.0)
    community: str = ""
    population: int = 0
    clients: int = 0

    def __post_init__(self) -> None:
        if not self.id or not self.id.isprintable():
            raise InvalidInput(f"{self.id!r} is no name for a node: it is empty, or has a control character")


OPEN = ExportRule()


class Link(Struct, frozen=True, omit_defaults=True):
    source: str
    target: str
    export: ExportRule = OPEN


class Federation(Struct, frozen=True, dict=True, omit_defaults=True):
    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        known = {node.id for node in self.nodes}
        if len(known) != len(self.nodes):
            raise InvalidInput("two nodes have the same id")
        for link in self.links:
            for end in (link.source, link.target):
                if end not in known:
                    raise InvalidInput(f"a link names {end!r}, which is no node")
        pairs = {(link.source, link.target) for link in self.links}
        if len(pairs) != len(self.links) or any(a == b for a, b in pairs):
            raise InvalidInput("a link is given twice, or joins a node to itself")
        if missing := next((pair for pair in pairs if pair[::-1] not in pairs), None):
            raise InvalidInput(
                f"the link {missing[0]} to {missing[1]} has no way back: give both, one with a rule that denies all if need be"
            )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(node.id for node in self.nodes)

    @cached_property
    def by_id(self) -> dict[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {node.id: [] for node in self.nodes}
        for link in self.links:
            found[link.source].append(link.target)
        return {node: tuple(others) for node, others in found.items()}

    @cached_property
    def is_mesh(self) -> bool:
        """Every node is linked to every other: nothing is ever relayed."""
        return len(self.links) == len(self.nodes) * (len(self.nodes) - 1)

    @cached_property
    def others(self) -> dict[str, tuple[str, ...]]:
        return {node: tuple(other for other in self.ids if other != node) for node in self.ids}

    @cached_property
    def _next_hops(self) -> dict[str, dict[str, str]]:
        return {}

    def next_hop(self, here: str, destination: str) -> str:
        """The neighbour of `here` on a shortest way to `destination`; the same one for every pair, always."""
        table = self._next_hops.get(destination)
        if table is None:
            # one breadth-first search from the destination gives every node its parent towards it
            table = {}
            queue = deque([destination])
            while queue:
                node = queue.popleft()
                for other in self.neighbours[node]:
                    if other != destination and other not in table:
                        table[other] = node
                        queue.append(other)
            self._next_hops[destination] = table
        return table[here]

    # --- export rules -------------------------------------------------------------------------------------------------

    @cached_property
    def has_export_rules(self) -> bool:
        return any(link.export != OPEN for link in self.links)

    @cached_property
    def hides_attributes(self) -> bool:
        """Some link takes attributes out of what crosses it."""
        return any(link.export.hides is not None for link in self.links)

    @cached_property
    def rule(self) -> dict[tuple[str, str], ExportRule]:
        """By the two ends of a link."""
        return {(link.source, link.target): link.export for link in self.links}

    @cached_property
    def _inside(self) -> tuple[ExportRule, ...]:
        """The rules that look inside, each once: few, so that what they say is part of a key."""
        found: list[ExportRule] = []
        for link in self.links:
            if link.export.looks_inside and link.export not in found:
                found.append(link.export)
        return tuple(found)

    @cached_property
    def _rules(self) -> dict[str, tuple[tuple[str, ExportRule, int], ...]]:
        """The links of each node: to whom, the rule, and where it stands in `_inside` (-1: it does not look inside)."""
        found: dict[str, list[tuple[str, ExportRule, int]]] = {node.id: [] for node in self.nodes}
        for link in self.links:
            rule = link.export
            found[link.source].append((link.target, rule, self._inside.index(rule) if rule.looks_inside else -1))
        return {node: tuple(rules) for node, rules in found.items()}

    def _verdicts(self, notification: Notification) -> Verdicts:
        return tuple([rule.admits(notification) for rule in self._inside])

    def _reached(self, source: str, passes: Callable[[ExportRule, int], bool]) -> Tree:
        """The nodes within reach along links whose rules let something pass, each with the node before it."""
        parents = {source: source}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for other, rule, inside in self._rules[node]:
                if other not in parents and passes(rule, inside):
                    parents[other] = node
                    queue.append(other)
        return parents

    @cached_property
    def _audiences(self) -> dict[tuple[str, tuple[str, ...], str | None, Verdicts], Tree]:
        return {}

    def audience(self, source: str, notification: Notification) -> Tree:
        """The nodes that may hear of a notification published at `source`, each with the node that it comes from.

        The export rules decide link by link, so that what no rule forbids may take a longer way. Nothing decides that a link may
        take out, so that the answer is the same wherever on its way a notification is.
        """
        types, verdicts = export_types(notification), self._verdicts(notification)
        key = (source, types, notification.entity, verdicts)
        parents = self._audiences.get(key)
        if parents is None:
            entity = notification.entity
            parents = self._reached(source, lambda rule, i: rule.allows(types, entity) and (i < 0 or verdicts[i]))
            if len(self._audiences) >= MAX_AUDIENCES_KEPT:
                self._audiences.clear()
            self._audiences[key] = parents
        return parents

    @cached_property
    def _open(self) -> dict[tuple[tuple[str, ...], str | None], bool]:
        return {}

    def is_open_to(self, notification: Notification) -> bool:
        """Whether no link anywhere would refuse it, or take anything out of it.

        Where a link hides attributes this is true of nothing: who has got less than there was could not tell.
        """
        if not self.has_export_rules:
            return True
        if self.hides_attributes or not all(self._verdicts(notification)):
            return False
        types, entity = export_types(notification), notification.entity
        answer = self._open.get((types, entity))
        if answer is None:
            if len(self._open) >= MAX_AUDIENCES_KEPT:
                self._open.clear()
            answer = self._open[types, entity] = all(link.export.allows(types, entity) for link in self.links)
        return answer

    @cached_property
    def _offer_trees(self) -> dict[tuple[str, str | None, str | None], Tree]:
        return {}

    def offer_tree(self, provider: str, name: str | None, entity: str | None) -> Tree:
        """The nodes that may know that `provider` has something of this type or topic, each with the node that tells it.

        Where only the type is told, rules about ids decide later, for each notification; and so do those about content.
        """
        key = (provider, name, entity)
        parents = self._offer_trees.get(key)
        if parents is None:
            if name is None:
                parents = self._reached(provider, lambda rule, _: not rule.is_closed)
            elif entity is None:
                parents = self._reached(provider, lambda rule, _: rule.allows_type(name))
            else:
                parents = self._reached(provider, lambda rule, _: rule.allows((name,), entity))
            if len(self._offer_trees) >= MAX_AUDIENCES_KEPT:
                self._offer_trees.clear()
            self._offer_trees[key] = parents
        return parents

    def may_hear(self, source: str, target: str, notification: Notification) -> bool:
        """Policy: whether export rules let a notification published at `source` come to `target`."""
        return not self.has_export_rules or target in self.audience(source, notification)

    def exported(self, source: str, target: str, notification: Notification) -> Notification | None:
        """What `target` may see of a notification published at `source`: what all links on the way leave of it; None: nothing."""
        if not self.has_export_rules:
            return notification
        parents = self.audience(source, notification)
        if target not in parents:
            return None
        if self.hides_attributes:
            for hides in self._hidden(source, target, notification):
                notification = stripped(hides, notification)
        return notification

    def is_all_for(self, source: str, here: str, target: str, notification: Notification) -> bool:
        """Whether what came from `source` to `here` can go on to `target` with all that `target` may see of it.

        If attributes were taken out before, or would be on the way, only `source` can send what `target` is to have.
        """
        if not self.hides_attributes or source == here:
            return True
        taken = self._hidden(source, here, notification) | self._hidden(here, target, notification)
        return taken <= self._hidden(source, target, notification)

    def _hidden(self, source: str, target: str, notification: Notification) -> frozenset[Hidden]:
        """What the links on the way hide, each thing once."""
        parents = self.audience(source, notification)
        links = way(parents, target) if target in parents else ()
        return frozenset([hides for link in links if (hides := self.rule[link].hides) is not None])


def way(parents: Tree, target: str) -> list[tuple[str, str]]:
    """The links of a tree that lead to a node, first one first."""
    links: list[tuple[str, str]] = []
    while (before := parents[target]) != target:
        links.append((before, target))
        target = before
    links.reverse()
    return links


def both_ways(pairs: list[tuple[str, str]]) -> tuple[Link, ...]:
    """Open links in both directions for each pair."""
    return tuple(link for a, b in pairs for link in (Link(a, b), Link(b, a)))
