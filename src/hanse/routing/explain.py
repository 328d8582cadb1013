"""Why a notification reaches a subscription, or does not: the oracle's meaning, check by check, each in one sentence.

Filters are judged by what policy and export rules leave of the notification where the subscriber is; where they leave nothing of
it, by the whole of it, so that all reasons are told and not the first alone. `delivered` is what `World.receivers` says, always.
"""

from __future__ import annotations

from math import asin, radians, sqrt
from typing import TYPE_CHECKING, Any

import msgspec
import shapely
from msgspec import Struct

from hanse.filters import compile_q, compile_quality, values_at
from hanse.matching.meaning import carries, lies_in, passes_q, passes_quality, passes_xpath, selects, tells
from hanse.model import EARTH_RADIUS_KM, Circle, Notification, Polygon, document_of, half_chord_squared
from hanse.routing.export import ExportRule, export_types
from hanse.routing.federation import way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanse.filters import Filter
    from hanse.model import Geofence, Location, Selector, Subscription
    from hanse.routing.oracle import World

VALUE_MAX = 60  # characters of a value in a sentence


class Check(Struct, frozen=True):
    """One condition: what it is about, whether it holds, and why, in a sentence."""

    name: str
    passed: bool
    words: str


class Explanation(Struct, frozen=True):
    delivered: bool
    checks: tuple[Check, ...]
    path: tuple[str, ...] = ()  # the nodes that export rules let it pass, from the publisher's to the subscriber's
    view: Notification | None = None  # what is left of it there


def explain(world: World, notification: Notification, subscription: Subscription) -> Explanation:
    publisher, subscriber = notification.publisher, subscription.client
    for client in (publisher, subscriber):
        if client not in world.homes:
            return Explanation(delivered=False, checks=(Check("home", passed=False, words=f"{client} is at no node."),))
    published = world.published(notification)
    whole = published if published is not None else _located(world, notification)
    source, target = world.homes[publisher], world.homes[subscriber]
    view = world.view(whole, subscription)
    allowed = world.allowed(source, target, whole)
    sent = allowed if allowed is not None else whole
    seen = view if view is not None else sent
    checks = (
        _active(world, subscription),
        _advertised(world, notification),
        *_selected(subscription, seen, _taken_out(whole, sent, seen)),
        *_places(world, subscription, seen),
        *_visibility(world, subscription, seen),
        *_allowed(world, whole, allowed, source, target),
        _exported(world, sent, world.federation.exported(source, target, sent), subscription),
    )
    path = (source, *(node for _, node in way(world.federation.audience(source, sent), target))) if view is not None else ()
    return Explanation(all(check.passed for check in checks), checks, path, view)


def _located(world: World, notification: Notification) -> Notification:
    where = notification.location or world.locations.get(notification.publisher)
    return msgspec.structs.replace(notification, location=where)


# --- the subscription and the advertisement -----------------------------------------------------------------------------


def _active(world: World, subscription: Subscription) -> Check:
    expiry = subscription.expires_at_ms
    if expiry is None:
        return Check("active", passed=True, words="The subscription has no end.")
    left_s = (expiry - world.now_ms) / 1000
    words = f"The subscription goes on for {left_s:g} s." if left_s > 0 else f"The subscription ended {-left_s:g} s ago."
    return Check("active", passed=left_s > 0, words=words)


def _advertised(world: World, n: Notification) -> Check:
    name = n.advertisement
    if name is None:
        if world.require_advertisements:
            return Check("advertised", passed=False, words="It names no advertisement, and the federation requires one.")
        return Check("advertised", passed=True, words="It names no advertisement, and needs none.")
    advertisement = world.advertisements.get((n.publisher, name))
    if advertisement is None:
        return Check("advertised", passed=False, words=f"{n.publisher} has no advertisement {name!r}.")
    why = ""
    if advertisement.expires_at_ms is not None and advertisement.expires_at_ms <= world.now_ms:
        why = "has ended"
    elif not selects(advertisement.selectors, n):
        why = f"speaks of {_selectors(advertisement.selectors)}, not of {_entity(n)}"
    elif not passes_q(advertisement.q, n):
        why = f"promises {_failing(compile_q(advertisement.q), n.attributes)}"
    elif n.scopes not in ({}, advertisement.scopes):
        why = "states other scopes"
    elif not passes_quality(advertisement.quality, n):
        why = f"guarantees {_failing(compile_quality(advertisement.quality), n.quality)}"
    elif not passes_xpath(advertisement.xpath, n):
        why = f"promises {_failing_xpath(advertisement.xpath, n)}"
    words = f"The advertisement {name!r} {why}." if why else f"It is as the advertisement {name!r} says."
    return Check("advertised", passed=not why, words=words)


# --- content --------------------------------------------------------------------------------------------------------------


def _taken_out(whole: Notification, sent: Notification, seen: Notification) -> str:
    """What is not left of it where the subscriber is, and who has taken it out."""
    words = ""
    for who, before, after in (("The policy of its node has", whole, sent), ("Export rules have", sent, seen)):
        hidden = sorted((before.attributes.keys() - after.attributes.keys()) | (set(before.news) - set(after.news)))
        if hidden := hidden + ["the payload"] * (before.payload != after.payload):
            words += f" {who} taken out {', '.join(hidden)}."
        if changed := sorted(name for name, value in after.attributes.items() if value != before.attributes[name]):
            words += f" {who} changed {', '.join(changed)}."
    return words


def _selected(s: Subscription, n: Notification, left: str) -> Iterator[Check]:
    """Entities, attributes, news, `q`, quality and XPath, as far as the subscription asks for them."""
    if not s.selectors:
        yield Check("entities", passed=True, words="The subscription is about every entity and topic.")
    else:
        fits = selects(s.selectors, n)
        yield Check("entities", fits, f"It is about {_entity(n)}; asked for is {_selectors(s.selectors)}.")
    if s.attributes:
        words = f"It carries {_names(n.attributes)}; one of {', '.join(s.attributes)} is asked for.{left}"
        yield Check("attributes", carries(s.attributes, n), words)
    if s.news:
        yield Check("news", tells(s.news, n), f"It tells of {_names(n.news)}; one of {', '.join(s.news)} is waited for.{left}")
    if s.q:
        passed = passes_q(s.q, n)
        words = f"{s.q} holds." if passed else f"{_failing(compile_q(s.q), n.attributes)}.{left}"
        yield Check("q", passed, words)
    if s.quality:
        passed = passes_quality(s.quality, n)
        words = f"{s.quality} holds." if passed else f"{_failing(compile_quality(s.quality), n.quality)}."
        yield Check("quality", passed, words)
    if s.xpath:
        passed = passes_xpath(s.xpath, n)
        words = f"{' and '.join(s.xpath)} {'holds' if len(s.xpath) == 1 else 'hold'}."
        yield Check("xpath", passed, words if passed else f"{_failing_xpath(s.xpath, n)}.{left}")


def _failing_xpath(constraints: tuple[str, ...], n: Notification) -> str:
    """The first constraint on the payload that does not hold, and why."""
    failing = next(constraint for constraint in constraints if not passes_xpath((constraint,), n))
    return f"{failing}, but {'the payload has no such thing' if document_of(n) is not None else 'there is no XML payload'}"


def _failing(filter_: Filter, values: dict[str, Any]) -> str:
    """The first part of a filter that does not hold, and what is there instead."""
    compiled = compile_q if filter_.language == "q" else compile_quality
    for part in filter_.conjuncts:
        one = compiled(part.text)
        if not one.matches(values):
            found = []
            for path in sorted(path.text for path in one.paths):
                there = values_at(values, path) if filter_.language == "q" else [values[path]] if path in values else []
                found.append(f"{path} is {', '.join(map(_value, there))}" if there else f"there is no {path}")
            return f"{part.text}, but {' and '.join(found)}"
    return filter_.text


def _value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_MAX else f"{text[: VALUE_MAX - 1]}…"


def _names(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _entity(n: Notification) -> str:
    parts = [f"type {' and '.join(n.types)}"] if n.types else []
    parts += [f"topic {n.topic}"] if n.topic is not None else []
    parts += [f"id {n.entity}"] if n.entity is not None else []
    return ", ".join(parts) or "no entity"


def _selectors(selectors: tuple[Selector, ...]) -> str:
    said = []
    for selector in selectors:
        named = [(name, getattr(selector, name)) for name in ("type", "id", "id_pattern", "topic")]
        said.append(", ".join(f"{name} {value}" for name, value in named if value is not None) or "anything")
    return " or ".join(said)


# --- places -----------------------------------------------------------------------------------------------------------------


def _places(world: World, s: Subscription, n: Notification) -> Iterator[Check]:
    there = world.locations.get(s.client)
    yield Check("publisher's place", lies_in(n.location, s.geofence), _place("it", n.location, "the subscription", s.geofence))
    yield Check("subscriber's place", lies_in(there, n.geofence), _place(s.client, there, "the notification", n.geofence))


def _place(who: str, where: Location | None, whose: str, geofence: Geofence) -> str:
    who = who[0].upper() + who[1:] if who == "it" else who
    if not isinstance(geofence, Circle | Polygon):
        return f"The geofence of {whose} is the whole world."
    if where is None:
        return f"{who} is at no known place, and {whose} has a geofence."
    inside = "inside" if geofence.contains(where.lat, where.lon) else "outside"
    if isinstance(geofence, Circle):
        away = _km(where, geofence.lat, geofence.lon)
        radius = EARTH_RADIUS_KM * radians(geofence.radius_deg)
        return f"{who} is {away:.1f} km from the centre of the geofence of {whose}, {inside} its radius of {radius:.1f} km."
    if inside == "inside":
        return f"{who} is inside the geofence of {whose}."
    away = min(_km_to_shape(where, geofence, turn) for turn in (-360.0, 0.0, 360.0))
    return f"{who} is outside the geofence of {whose}, about {away:.1f} km from its edge."


def _km(where: Location, lat: float, lon: float) -> float:
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(half_chord_squared(where.lat, where.lon, lat, lon))))


def _km_to_shape(where: Location, polygon: Polygon, turn: float) -> float:
    """To the point of its edge that is nearest in the plane of latitudes and longitudes."""
    line = shapely.shortest_line(polygon.shape, shapely.Point(where.lon + turn, where.lat))
    lon, lat = shapely.get_coordinates(line)[0]
    return _km(where, float(lat), float(lon))


# --- scopes -----------------------------------------------------------------------------------------------------------------


def _visibility(world: World, s: Subscription, n: Notification) -> Iterator[Check]:
    traces = world.scopes.trace(n.scopes, s.scopes, n.attributes)
    for dimension in sorted({*n.scopes, *s.scopes}):
        trace = traces.get(dimension)
        if trace is None:
            who = "The notification" if dimension not in n.scopes else "The subscription"
            yield Check(f"scopes: {dimension}", passed=True, words=f"{who} states no scope here, which restricts nothing.")
        else:
            yield Check(f"scopes: {dimension}", trace.visible, f"{trace.reason}.")
    if not n.scopes and not s.scopes:
        yield Check("scopes", passed=True, words="Neither side states a scope.")


# --- the policy of the publisher's node ----------------------------------------------------------------------------------------


def _allowed(world: World, whole: Notification, allowed: Notification | None, source: str, target: str) -> Iterator[Check]:
    policy = world.policies.get(source)
    if policy is None or source == target:
        return
    why = policy.why(target, whole)
    if allowed is None:
        yield Check("policy", passed=False, words=f"The policy of {source} lets {target} see nothing of it: {why}.")
    elif allowed == whole:
        yield Check("policy", passed=True, words=f"The policy of {source} lets {target} see all of it.")
    else:
        yield Check("policy", passed=True, words=f"The policy of {source} lets {target} see less than all of it: {why}.")


# --- export rules -------------------------------------------------------------------------------------------------------------


def _exported(world: World, whole: Notification, view: Notification | None, s: Subscription) -> Check:
    federation = world.federation
    source, target = world.homes[whole.publisher], world.homes[s.client]
    if source == target:
        return Check("export rules", passed=True, words=f"It is published at {source}, where the subscriber is.")
    parents = federation.audience(source, whole)
    if view is None:
        stopping = _stopping(world, parents, source, target)
        if stopping is None:
            return Check("export rules", passed=False, words=f"No links lead from {source} to {target}.")
        a, b = stopping
        others = any(link.source in parents and link.target not in parents for link in federation.links if link.target != b)
        more = " No other way is open to it." if others else ""
        words = f"It cannot pass the link from {a} to {b}: {objection(federation.rule[a, b], whole)}.{more}"
        return Check("export rules", passed=False, words=words)
    links = way(parents, target)
    words = f"It may go {' → '.join([source, *(node for _, node in links)])}."
    for a, b in links:
        after = federation.rule[a, b].stripped(whole)
        taken = [name for name in whole.attributes if name not in after.attributes]
        taken += [f"the news of {name}" for name in whole.news if name not in after.news and name not in taken]
        taken += ["the payload"] if whole.payload and not after.payload else []
        if taken:
            words += f" The link from {a} to {b} takes out {', '.join(taken)}."
        whole = after
    return Check("export rules", passed=True, words=words)


def _stopping(world: World, parents: dict[str, str], source: str, target: str) -> tuple[str, str] | None:
    """The link on the plain way to the target where it leaves the nodes that may hear of it; None: there is no such way."""
    node = source
    try:
        while (after := world.federation.next_hop(node, target)) in parents:
            node = after
    except KeyError:
        return None
    return node, after


def objection(rule: ExportRule, notification: Notification) -> str:
    """What an export rule has against a notification, in words; empty if it may cross."""
    types, entity = export_types(notification), notification.entity
    if rule.is_closed:
        return "the rule denies everything"
    for name in types:
        if not rule.allows_type(name):
            return (
                f"the rule denies the type {name}"
                if _denied(name, rule.deny_types)
                else f"the rule does not name the type {name}"
            )
    if not types and rule.types:
        return "the rule names types, and it has none"
    if entity is None and rule.ids:
        return "the rule names ids, and it has none"
    if entity is not None and not rule.allows_id(entity):
        return f"the rule denies the id {entity}" if _denied(entity, rule.deny_ids) else f"the rule does not name the id {entity}"
    if (dimension := rule.stops_scopes(notification)) is not None:
        stated = notification.scopes.get(dimension)
        what = f"the scope {stated}" if stated is not None else "what states no scope"
        return f"the rule does not let {what} pass in the dimension {dimension}"
    if rule.stops_place(notification):
        return (
            "it is outside the rule's area" if notification.location is not None else "the rule has an area, and it has no place"
        )
    if rule.stops_quality(notification):
        return f"the rule asks for {_failing(compile_quality(rule.quality), notification.quality)}"
    return ""


def _denied(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(patterns) and not ExportRule(deny_types=patterns).allows_type(name)
