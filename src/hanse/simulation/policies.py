"""Small random policies for the nodes of a scenario: of all the kinds that decide or change something, and quickly judged.

What they leave of a notification they leave as it is, however often they look at it; so whether something was let go that they
forbid can be told from what was let go.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from hanse.model import Location, Notification
from hanse.routing.export import EVENTS

SHARE = 0.35  # of the scenarios
COARSE_DEG = 20.0
STEP = 5


class Rule(Struct, frozen=True, omit_defaults=True):
    """What some nodes may not see as it is: of everything, or of what has this type, scope or id, or is less precise."""

    targets: tuple[str, ...]
    does: str  # forbid, hide or round an attribute, coarsen the place, hide freshness
    attribute: str = ""
    type: str = ""
    scope: tuple[str, str] = ("", "")
    entity: str = ""
    precision: float = 0.0

    def applies(self, target: str, n: Notification) -> bool:
        dimension, scope = self.scope
        return (
            target in self.targets
            and (not self.type or self.type in n.types)
            and (not dimension or n.scopes.get(dimension) == scope)
            and (not self.entity or n.entity == self.entity)
            and (not self.precision or n.quality.get("precision", 0.0) < self.precision)
        )

    def change(self, n: Notification) -> Notification:
        changed: dict[str, Any] = {}
        if self.does == "hide" and (self.attribute in n.attributes or self.attribute in n.news):
            changed["attributes"] = {name: value for name, value in n.attributes.items() if name != self.attribute}
            changed["news"] = tuple(name for name in n.news if name != self.attribute or name in EVENTS)
        elif self.does == "round" and isinstance(value := n.attributes.get("temp"), int):
            changed["attributes"] = {**n.attributes, "temp": value // STEP * STEP}
        elif self.does == "coarsen" and (at := n.location) is not None:
            changed["location"] = Location(_coarse(at.lat, 80.0), _coarse(at.lon, 180.0))
        elif self.does == "blur" and "freshness" in n.quality:
            changed["quality"] = {name: value for name, value in n.quality.items() if name != "freshness"}
        left = msgspec.structs.replace(n, **changed)
        return n if left == n else msgspec.structs.replace(left, payload="")


def _coarse(degrees: float, most: float) -> float:
    return max(-most, min(most, round(degrees / COARSE_DEG) * COARSE_DEG))


class Rules(Struct, frozen=True):
    """A policy of one node."""

    rules: tuple[Rule, ...]

    def view(self, target: str, notification: Notification) -> Notification | None:
        for rule in self.rules:
            if rule.applies(target, notification):
                if rule.does == "forbid":
                    return None
                notification = rule.change(notification)
        return notification

    def why(self, target: str, notification: Notification) -> str:
        """The rules that do something, by their numbers."""
        found = []
        for i, rule in enumerate(self.rules):
            if rule.applies(target, notification):
                left = None if rule.does == "forbid" else rule.change(notification)
                if left is not notification:
                    found.append(f"rule {i} has it {rule.does} {rule.attribute}".rstrip())
                if left is None:
                    break
                notification = left
        return "; ".join(found)


def random_policies(
    seed: int, strategy: str, nodes: tuple[str, ...], types: tuple[str, ...], scopes: list[tuple[str, str]]
) -> dict[str, Rules]:
    """For some scenarios, of some nodes. Their dice are their own: a scenario is the same with and without them."""
    dice = Random(f"policies/{seed}/{strategy}")
    if dice.random() >= SHARE:
        return {}
    return {node: Rules(tuple(_rule(dice, node, nodes, types, scopes))) for node in nodes if dice.random() < 0.6}


def _rule(dice: Random, node: str, nodes: tuple[str, ...], types: tuple[str, ...], scopes: list[tuple[str, str]]) -> list[Rule]:
    others = [other for other in nodes if other != node]
    if not others:
        return []
    found = []
    for _ in range(dice.randint(1, 3)):
        about: dict[str, Any] = dice.choice(
            (
                {},
                {"type": dice.choice(types)},
                {"type": dice.choice(types)},
                {"scope": dice.choice(scopes)} if scopes else {},
                {"entity": f"urn:{dice.randrange(6)}"},
                {"precision": float(dice.randrange(2, 8))},
            )
        )
        targets = tuple(dice.sample(others, dice.randint(1, len(others))))
        does = dice.choice(("forbid", "hide", "hide", "round", "coarsen", "blur"))
        attribute = dice.choice(("temp", "name", "flag")) if does == "hide" else ""
        found.append(Rule(targets, does, attribute, **about))
    return found
