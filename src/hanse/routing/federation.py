"""What every node of a federation knows about all of them: nodes, links with their export rules, and what follows from these.

The description is a value; whatever is derived from it (next hops, who may hear of what) is computed once and kept.
Links are directed: an export rule says what its source lets go to its target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cached_property

from msgspec import Struct

from hanse.model import InvalidInput, Location, Notification

MAX_AUDIENCES_KEPT = 4096


class Node(Struct, frozen=True, omit_defaults=True):
    id: str
    location: Location = Location(0.0, 0.0)
    community: str = ""
    population: int = 0
    clients: int = 0

    def __post_init__(self) -> None:
        if not self.id or not self.id.isprintable():
            raise InvalidInput(f"{self.id!r} is no name for a node: it is empty, or has a control character")


class ExportRule(Struct, frozen=True, omit_defaults=True):
    """What may cross a link: names with `*`, `?` and `[...]`. An empty list of types or ids lets all of them through."""

    types: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    deny_types: tuple[str, ...] = ()
    deny_ids: tuple[str, ...] = ()

    def allows_type(self, name: str) -> bool:
        if any(fnmatchcase(name, pattern) for pattern in self.deny_types):
            return False
        return not self.types or any(fnmatchcase(name, pattern) for pattern in self.types)

    def allows_id(self, name: str) -> bool:
        if any(fnmatchcase(name, pattern) for pattern in self.deny_ids):
            return False
        return not self.ids or any(fnmatchcase(name, pattern) for pattern in self.ids)

    def allows(self, types: tuple[str, ...], entity: str | None) -> bool:
        """Every type must be let through: a rule that hides one is not got round by naming a second."""
        if types:
            if not all(self.allows_type(name) for name in types):
                return False
        elif self.types:
            return False
        if entity is None:
            return not self.ids
        return self.allows_id(entity)


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

    @cached_property
    def has_export_rules(self) -> bool:
        return any(link.export != OPEN for link in self.links)

    @cached_property
    def _rules(self) -> dict[str, tuple[tuple[str, ExportRule], ...]]:
        found: dict[str, list[tuple[str, ExportRule]]] = {node.id: [] for node in self.nodes}
        for link in self.links:
            found[link.source].append((link.target, link.export))
        return {node: tuple(rules) for node, rules in found.items()}

    def _reached(self, source: str, passes: Callable[[ExportRule], bool]) -> dict[str, str]:
        """The nodes within reach along links whose rules let something pass, each with the node before it."""
        parents = {source: source}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for other, rule in self._rules[node]:
                if other not in parents and passes(rule):
                    parents[other] = node
                    queue.append(other)
        return parents

    @cached_property
    def _audiences(self) -> dict[tuple[str, tuple[str, ...], str | None], dict[str, str]]:
        return {}

    def audience(self, source: str, types: tuple[str, ...], entity: str | None) -> dict[str, str]:
        """The nodes that may hear of what `source` has with these types and id, each with the node that it comes from.

        The export rules decide link by link, so that what no rule forbids may take a longer way.
        """
        key = (source, types, entity)
        parents = self._audiences.get(key)
        if parents is None:
            parents = self._reached(source, lambda rule: rule.allows(types, entity))
            if len(self._audiences) >= MAX_AUDIENCES_KEPT:
                self._audiences.clear()
            self._audiences[key] = parents
        return parents

    @cached_property
    def _open(self) -> dict[tuple[tuple[str, ...], str | None], bool]:
        return {}

    def is_open_to(self, types: tuple[str, ...], entity: str | None) -> bool:
        """Whether no link anywhere would refuse this."""
        if not self.has_export_rules:
            return True
        key = (types, entity)
        answer = self._open.get(key)
        if answer is None:
            if len(self._open) >= MAX_AUDIENCES_KEPT:
                self._open.clear()
            answer = self._open[key] = all(link.export.allows(types, entity) for link in self.links)
        return answer

    @cached_property
    def _offer_trees(self) -> dict[tuple[str, str | None, str | None], dict[str, str]]:
        return {}

    def offer_tree(self, provider: str, name: str | None, entity: str | None) -> dict[str, str]:
        """The nodes that may know that `provider` has something of this type or topic, each with the node that tells it.

        Where only the type is told, rules about ids decide later, for each notification.
        """
        key = (provider, name, entity)
        parents = self._offer_trees.get(key)
        if parents is None:
            if name is None:
                parents = self._reached(provider, lambda _: True)
            elif entity is None:
                parents = self._reached(provider, lambda rule: rule.allows_type(name))
            else:
                parents = self._reached(provider, lambda rule: rule.allows((name,), entity))
            if len(self._offer_trees) >= MAX_AUDIENCES_KEPT:
                self._offer_trees.clear()
            self._offer_trees[key] = parents
        return parents

    def may_hear(self, source: str, target: str, notification: Notification) -> bool:
        """Policy: whether export rules let a notification published at `source` come to `target`."""
        return not self.has_export_rules or target in self.audience(source, export_types(notification), notification.entity)


def export_types(notification: Notification) -> tuple[str, ...]:
    """What export rules take for the types of a notification: its topic counts as one where it has no type."""
    return notification.types or ((notification.topic,) if notification.topic is not None else ())


def both_ways(pairs: list[tuple[str, str]]) -> tuple[Link, ...]:
    """Open links in both directions for each pair."""
    return tuple(link for a, b in pairs for link in (Link(a, b), Link(b, a)))
