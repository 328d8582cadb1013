"""What a node knows of its federation, as plain values: nodes, links, what is offered, what came which way, and why.

It is not within `federation`, so that a node that is alone says so without loading all of that.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.ngsild.entity import DEFAULT_VOCAB
from hanse.ngsild.errors import BadRequestData, ResourceNotFound
from hanse.ngsild.subscriptions import CLIENT as NGSI_LD_CLIENT
from hanse.ngsild.subscriptions import fires
from hanse.node.outlines import outline
from hanse.node.router import now_ms
from hanse.routing.explain import Check, explain
from hanse.routing.oracle import World
from hanse.routing.state import given_id
from hanse.routing.strategies.advertised import Advertised

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.node.federation.host import Host
    from hanse.node.federation.trace import Step
    from hanse.node.federation.wire import Record
    from hanse.node.tenant import Tenant
    from hanse.routing import ExportRule
    from hanse.routing.messages import Offer

NODE: Final = "urn:hanse:node:"  # what a node's own publications are published as begins so
_KEPT_BACK: Final = ("withheld", "reduced")  # steps that are due to policies
_NAMES: Final = ("types", "deny_types", "attributes", "deny_attributes")


# --- the federation ---------------------------------------------------------------------------------------------------


async def alone(tenant: Tenant) -> dict[str, Any]:
    """A node that is in no federation."""
    node = tenant.settings.node
    itself = {
        "id": node.id,
        "community": node.community,
        "self": True,
        "reachable": True,
        "offers": [],
        "models": _models(tenant),
    }
    return {"federation": None, "node": node.id, **await _counts(tenant), "nodes": [itself], "links": [], "refused": []}


async def overview(host: Host) -> dict[str, Any]:
    terms = host.knowledge.terms
    offers = _offers(host)
    nodes = []
    for record in host.knowledge.records():
        if record.left:
            continue
        is_self = record.node == host.node
        heard = host.heard_ms.get(record.node)
        shown = _node(record) | {
            "self": is_self,
            "reachable": is_self or record.node in host.alive,
            "linked": record.node in host.federation.by_id,
            "straight": record.node in host.transport.straight,
            "lastHeard": None if heard is None else _time(heard),
            "offers": offers.get(record.node, []),
            "models": _models(host.tenant, "" if is_self else record.node),
        }
        if record.area is not None:
            shown["area"] = outline(record.area)
        nodes.append(shown)
    counts = host.links.counts()
    return {
        "federation": terms.federation,
        "node": host.node,
        "strategy": terms.strategy,
        "overrides": terms.overrides,
        **await _counts(host.tenant),
        "nodes": nodes,
        "links": [
            link | {"counts": counts[other]} if (other := _other(link, host.node)) in counts else link for link in links(host)
        ],
        "refused": [{"node": node, "reason": reason} for node, reason in sorted(host.refused.items())],
    }


def topology(host: Host) -> dict[str, Any]:
    """What a node needs to know to come in; in the words of a description of a federation."""
    terms = msgspec.to_builtins(host.knowledge.terms)
    terms["name"] = terms.pop("federation")
    terms.setdefault("overrides", {})
    nodes = [_node(record) for record in host.knowledge.records() if not record.left]
    return {"federation": terms, "nodes": nodes, "links": links(host)}


def links(host: Host) -> list[dict[str, Any]]:
    """Each pair once. A link is `agreed` when both ends want it; what only one of them wants has one rule."""
    wants = {record.node: record.links for record in host.knowledge.records() if not record.left}
    pairs = sorted({(min(a, b), max(a, b)) for a, others in wants.items() for b in others if a != b})
    found = []
    for a, b in pairs:
        there, back = wants.get(a, {}).get(b), wants.get(b, {}).get(a)
        found.append(
            {
                "between": [a, b],
                "agreed": there is not None and back is not None,
                "export": None if there is None else plain_rule(there),
                "back": None if back is None else plain_rule(back),
            }
        )
    return found


def _other(link: dict[str, Any], node: str) -> str:
    a, b = link["between"]
    return str(b if a == node else a if b == node else "")


def plain_rule(rule: ExportRule) -> dict[str, Any]:
    """A rule with short names where they stand for the default vocabulary as well."""
    plain: dict[str, Any] = msgspec.to_builtins(rule)
    for key in _NAMES:
        if key in plain:
            plain[key] = list(dict.fromkeys(name.removeprefix(DEFAULT_VOCAB) for name in plain[key]))
    return plain


def _node(record: Record) -> dict[str, Any]:
    return {
        "id": record.node,
        "community": record.community,
        "location": [record.location.lon, record.location.lat],
        "http": record.http,
        "listen": list(record.listen),
    }


async def _counts(tenant: Tenant) -> dict[str, Any]:
    entities = await tenant.store.read(lambda connection: int(connection.execute("SELECT count(*) FROM entities").fetchone()[0]))
    return {"entities": entities, "subscriptions": len(tenant.subscriptions)}


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _models(tenant: Tenant, origin: str = "") -> list[str]:
    models = tenant.models
    return sorted(model.name for type_, model in models.there().items() if models.get(type_).origin == origin)


def _offers(host: Host) -> dict[str, list[dict[str, Any]]]:
    """Of the nodes that are known to offer something, what that is, and in which qualities."""
    found: dict[str, dict[Offer, tuple[str, ...]]] = {}
    for broker in host.planes.brokers:
        strategy = broker.strategy
        if isinstance(strategy, Advertised):
            found.setdefault(host.node, {})
            for provider, offers in strategy.guarantees(()).items():
                found.setdefault(provider, {}).update(offers)
    return {provider: sorted((_offer(*offer) for offer in offers.items()), key=str) for provider, offers in found.items()}


def _offer(offer: Offer, guarantees: tuple[str, ...]) -> dict[str, Any]:
    type_ = offer.type and offer.type.removeprefix(DEFAULT_VOCAB)
    named = {"type": type_, "topic": offer.topic, "entity": offer.entity, "guarantees": list(guarantees)}
    return {name: value for name, value in named.items() if value}


# --- one notification -------------------------------------------------------------------------------------------------


def trace(host: Host, publisher: str, id_: str, reader: str | None = None) -> dict[str, Any]:
    """What happened to it here, and what is known of it. Without steps it never came here, or that was long ago.

    `reader`: the notification as that node may see it now; only the node that it was published at can tell.
    """
    steps = host.traces.of((publisher, id_))
    notification = host.traces.notification((publisher, id_))
    if notification is not None and publisher in host.broker.clients:
        known = World(host.federation, now_ms=now_ms(), **_publisher(host, publisher, host.node)).published(notification)
        notification = known or notification
    if notification is not None:
        steps = [
            msgspec.structs.replace(step, how=host.communities.why(step.other, notification)) if step.did in _KEPT_BACK else step
            for step in steps
        ]
    if notification is not None and reader is not None:
        is_home = home_of(host, publisher) == host.node
        notification = host.communities.seen_by(reader, notification) if is_home else None
    return {
        "node": host.node,
        "publisher": publisher,
        "id": id_,
        "home": home_of(host, publisher),
        "steps": msgspec.to_builtins(steps),
        "notification": msgspec.to_builtins(notification),
    }


def recent(host: Host, limit: int, after_ms: int = 0) -> list[dict[str, Any]]:
    """The latest ones, newest first; those with something that was done with them after a time."""
    found = []
    for notification in reversed(host.traces.recent(limit)):
        steps = host.traces.of(notification.key)
        if after_ms and not any(step.at_ms > after_ms for step in steps):
            continue
        shown = {
            "publisher": notification.publisher,
            "id": notification.id,
            "entity": notification.entity,
            "types": [name.removeprefix(DEFAULT_VOCAB) for name in notification.types],
            "topic": notification.topic,
            "at_ms": steps[0].at_ms if steps else 0,
            "steps": [{"did": step.did, "at_ms": step.at_ms} | ({"other": step.other} if step.other else {}) for step in steps],
        }
        fence = outline(notification.geofence)
        found.append(shown if fence is None else shown | {"geofence": fence})
    return found


def home_of(host: Host, publisher: str) -> str | None:
    """The node that it publishes at, as far as this one knows."""
    if publisher.startswith(NODE):
        return publisher.removeprefix(NODE)
    return host.node if publisher in host.broker.clients else None


def explanation(host: Host, notification: Notification, wanted: str, home: str | None) -> dict[str, Any]:
    """Why a subscription of a client of this node gets a notification, or does not, as things are now."""
    home = home or home_of(host, notification.publisher)
    if home is None:
        raise BadRequestData(f"say with home= at which node {notification.publisher[:100]!r} published it")
    if home not in host.federation.by_id:
        raise ResourceNotFound(f"there is no node {home[:100]!r} within reach of this one")
    subscription = find(host, wanted)
    broker = host.planes.brokers[host.planes.of_types(notification.types)]
    known = _publisher(host, notification.publisher, home)
    known["homes"][subscription.client] = host.node
    client = broker.clients.get(subscription.client)
    if client is not None and client.location is not None:
        known["locations"][subscription.client] = client.location
    world = World(host.federation, broker.scopes, now_ms(), subscriptions={subscription.id: subscription}, **known)
    found = explain(world, notification, subscription)
    checks = [Check(one.name, one.passed, one.words.replace(DEFAULT_VOCAB, "")) for one in found.checks]
    if subscription.client.startswith(NGSI_LD_CLIENT) and found.view is not None:
        checks.append(_fires(host, found.view, subscription))
    steps = host.traces.of(notification.key)
    return {
        "node": host.node,
        "home": home,
        "subscription": wanted,
        "delivered": all(check.passed for check in checks),  # as things are now
        "matched": any(step.did == "delivered" and _is_of(step, subscription, host.node) for step in steps),  # as they were then
        "path": list(found.path),
        "checks": msgspec.to_builtins(checks),
    }


def _is_of(step: Step, subscription: Subscription, node: str) -> bool:
    return step.how == given_id(subscription.id) and subscription.client in (step.other, f"{step.other}@{node}")


def _fires(host: Host, view: Notification, subscription: Subscription) -> Check:
    """NGSI-LD looks once more: the trigger, the whole query, and whether the subscription is active."""
    from hanse.node.federation.changes import change_of

    change = change_of(view)
    if change is None:
        return Check("NGSI-LD", passed=False, words="It is no change of an entity.")
    asked = host.tenant.subscriptions.get(given_id(subscription.id)).subscription
    fired = fires(asked, change, now_ms(), lambda _: view.quality)
    said = "The change is one that" if fired else "The change is none that"
    return Check("NGSI-LD", fired, f"{said} the subscription asks for: its triggers, its whole query, and that it is active.")


def _publisher(host: Host, publisher: str, home: str) -> dict[str, Any]:
    client = host.broker.clients.get(publisher)
    return {
        "homes": {publisher: home},
        "locations": {publisher: client.location} if client is not None and client.location is not None else {},
        "advertisements": {(publisher, id_): one for id_, one in client.advertisements.items()} if client is not None else {},
    }


def find(host: Host, wanted: str) -> Subscription:
    """A subscription by its id, or as CLIENT/ID where several clients have one of that name."""
    found = [
        kept
        for name, client in host.broker.clients.items()
        for own, kept in client.subscriptions.items()
        if wanted in (given_id(own), f"{name}/{given_id(own)}")
    ]
    if not found:
        raise ResourceNotFound(f"there is no subscription {wanted[:100]!r} of a client of this node")
    if len(found) > 1:
        raise BadRequestData(f"{len(found)} clients have a subscription {wanted[:100]!r}; write CLIENT/ID")
    return found[0]
