"""Other nodes as this node's policies know them: what each may see of what is published and kept here.

A node is `Node::"its name"` in Cedar, in the community that its certificate names. What it may see is what it may `read`; it is
told of changes only if it may also `subscribe` to something of what has changed. Decisions are made here, before anything
leaves, and go by the policies as they are at that moment, overrides included; nobody else knows them.

That there is something of a type is no secret: advertisements are not under policies, only under export rules.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from hanse.model import InvalidInput
from hanse.ngsild.geofences import EVENT_GEOFENCE, event_geofence, place
from hanse.ngsild.subscriptions import news
from hanse.node.access.seen_store import SeenStore
from hanse.node.federation.changes import change_of, travelling
from hanse.policies import Principal, attributes_seen, resource_of, short_name
from hanse.policies.obfuscation import removes
from hanse.policies.resources import quality_of
from hanse.policies.views import decision_of, is_event, quality_left

if TYPE_CHECKING:
    from hanse.model import Notification
    from hanse.ngsild.entity import Change
    from hanse.node.access.access import Access
    from hanse.node.access.views import Sight
    from hanse.node.federation.host import Host
    from hanse.node.store import Store
    from hanse.policies import Action, Decision, PolicySet, Resource

_ACTIONS: Final[dict[Action, str]] = {"subscribe": "subscribe to", "read": "read"}  # of a node that is told of changes


@lru_cache(maxsize=4096)
def _principal(node: str, community: str) -> Principal:
    return Principal(node, community, kind="Node")


class NodePolicy:
    """A `routing.policy.Policy` for the brokers of a node, and what other nodes see of its store."""

    def __init__(self, host: Host, access: Access) -> None:
        self._host = host
        self._access = access
        self._told: tuple[Notification, Change | None] | None = None  # the change that the brokers were last told of

    @property
    def policies(self) -> PolicySet:
        return self._access.policies

    def sight(self, node: str) -> Sight:
        known = self._host.federation.by_id.get(node)
        return self._access.sight(self._host.tenant, _principal(node, known.community if known is not None else ""))

    def store(self, node: str) -> Store:
        """What is kept here, as another node sees it."""
        return SeenStore(self._host.tenant.store, self.sight(node))

    # --- notifications ------------------------------------------------------------------------------------------------

    def view(self, target: str, notification: Notification) -> Notification | None:
        sight = self.sight(target)
        change = self._change(notification)
        if not self._may_subscribe(sight, notification, change):
            return None
        return sight.notification(notification) if change is None else _of_change(sight, notification, change)

    def _change(self, notification: Notification) -> Change | None:
        """What a notification of this node tells of; of a client's, nothing."""
        if notification.publisher != self._host.tenant.publisher:
            return None
        if self._told is None or self._told[0] is not notification:
            self._told = notification, change_of(notification)
        return self._told[1]

    def _may_subscribe(self, sight: Sight, n: Notification, change: Change | None) -> bool:
        whole = self._whole(sight, n, change, "subscribe")
        qualities = {name: quality_of(name, n.quality) for name in n.attributes} if n.quality else {}
        seen = attributes_seen(
            sight.policies,
            sight.principal,
            "subscribe",
            whole,
            n.attributes,
            quality_of_attribute=lambda name: qualities.get(name, {}),
        )
        return seen is not None

    def _whole(self, sight: Sight, n: Notification, change: Change | None, action: Action) -> Resource:
        if change is not None:
            return sight.resource(change.entity, action)
        return resource_of(n, tenant=sight.tenant, areas=sight.policies.areas_at(n.location))

    # --- in words -----------------------------------------------------------------------------------------------------

    def why(self, target: str, notification: Notification) -> str:
        """Which policies keep what of it from a node; empty if none does."""
        sight, change = self.sight(target), self._change(notification)
        names = dict.fromkeys((*notification.attributes, *(name for name in notification.news if not is_event(name))))
        for action, verb in _ACTIONS.items():
            whole = self._whole(sight, notification, change, action)
            entire = sight.policies.decide(sight.principal, action, whole)
            if entire.is_forbidden or (not names and not entire.allowed):
                return f"it may not {verb} it, since {_by(entire)}"
            decided = {
                name: decision_of(
                    sight.policies, sight.principal, action, whole, name, lambda name: quality_of(name, notification.quality)
                )
                for name in names
            }
            if action == "read" or not any(decision.allowed for decision in decided.values()):
                return "; ".join(_words(verb, decided))
        return ""


def _words(verb: str, decided: dict[str, Decision]) -> list[str]:
    """What is not as it is, by the reasons."""
    said: dict[tuple[str, str], list[str]] = {}
    for name, decision in decided.items():
        if decision.is_plain:
            continue
        is_gone = not decision.allowed or removes(decision.obfuscations)
        how = "" if is_gone else f" after {', '.join(map(str, decision.obfuscations))}"
        said.setdefault((f"it may {'not ' if is_gone else ''}{verb} ", f"{how}: {_by(decision)}"), []).append(short_name(name))
    return [f"{may}{', '.join(names)}{how}" for (may, how), names in said.items()]


def _of_change(sight: Sight, notification: Notification, change: Change) -> Notification | None:
    """The notification of a change as a node may see it: its values, what has changed of it, and what that was before."""
    seen = sight.change(change)
    if seen is None or seen is change:
        return notification if seen is not None else None
    attributes = seen.entity.attributes
    geofence = notification.geofence
    if EVENT_GEOFENCE in change.entity.attributes:
        # only those who are inside may hear of it; where the fence may not be seen, nobody could tell who is
        if EVENT_GEOFENCE not in attributes:
            return None
        try:
            geofence = event_geofence(attributes)
        except InvalidInput:
            return None
    left = msgspec.structs.replace(
        notification,
        attributes=attributes,
        news=news(seen),
        quality=quality_left(notification, set(attributes)),
        location=place(attributes),
        geofence=geofence,
    )
    return travelling(left, seen)


def _by(decision: Decision) -> str:
    if decision.errors:
        return f"a policy failed: {decision.errors[0]}"
    if not decision.policies:
        return "no policy permits it"
    names = ", ".join(map(repr, decision.policies))
    return f"policy {names} {'permits' if decision.allowed else 'forbids'} it"
