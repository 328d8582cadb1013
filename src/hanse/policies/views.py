"""What a principal may see of something: the attributes that it may, as exactly as it may.

The rule for a whole, everywhere: it is seen if nothing forbids it as a whole, and some attribute of it is seen. What has no
attributes at all is seen if it is permitted as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from hanse.model import Notification
from hanse.policies.cedar import Action
from hanse.policies.obfuscation import coarsened_location, obfuscated, removes
from hanse.policies.policy_set import Decision, PolicySet
from hanse.policies.principals import Principal
from hanse.policies.resources import LOCATION, Resource, quality_of, resource_of
from hanse.quality import attribute_and_criterion

# News that name no attribute: what happens to an entity. (A scope among the news begins with a slash.)
EVENTS: Final = frozenset(f"{what}{how}" for what in ("entity", "attribute") for how in ("Created", "Updated", "Deleted"))


def attributes_seen(
    policies: PolicySet,
    principal: Principal,
    action: Action,
    whole: Resource,
    attributes: Mapping[str, Any],
    *,
    quality_of_attribute: Callable[[str], dict[str, float]] | None = None,
) -> Mapping[str, Any] | None:
    """The attributes that are left of these, the same mapping if nothing is changed; None: the whole is not seen."""
    if quality_of_attribute is not None and policies.looks_at_quality(action):
        entire = policies.decide(principal, action, whole)
        each = tuple([decision_of(policies, principal, action, whole, name, quality_of_attribute) for name in attributes])
    else:
        entire, each = policies.decisions(principal, action, whole, tuple(attributes))
    if entire.is_forbidden:
        return None
    if not attributes:
        return attributes if entire.allowed else None
    kept: dict[str, Any] = {}
    is_changed = False
    for (name, value), decision in zip(attributes.items(), each, strict=True):
        if not decision.allowed or removes(decision.obfuscations):
            is_changed = True
            continue
        if decision.obfuscations:
            shown = obfuscated(value, decision.obfuscations)
            is_changed = is_changed or shown != value
            kept[name] = shown
        else:
            kept[name] = value
    if not kept:
        return None
    return kept if is_changed else attributes


def decision_of(
    policies: PolicySet,
    principal: Principal,
    action: Action,
    whole: Resource,
    attribute: str,
    quality_of_attribute: Callable[[str], dict[str, float]] | None = None,
) -> Decision:
    """About one attribute of a whole."""
    resource = whole.of(attribute)
    if quality_of_attribute is not None and policies.looks_at_quality(action):
        resource = msgspec.structs.replace(resource, quality=quality_of_attribute(attribute))
    return policies.decide(principal, action, resource)


def view(
    policies: PolicySet, principal: Principal, action: Action, notification: Notification, *, tenant: str = ""
) -> Notification | None:
    """What is left of a notification; the same one if that is everything; None: nothing is to be told.

    The payload stays behind where anything is taken out or changed: nobody can look inside.
    """
    areas = policies.areas_at(notification.location)
    whole = resource_of(notification, tenant=tenant, areas=areas)

    def decided(name: str) -> Decision:
        return decision_of(
            policies, principal, action, whole, name, lambda attribute: quality_of(attribute, notification.quality)
        )

    attributes = attributes_seen(
        policies,
        principal,
        action,
        whole,
        notification.attributes,
        quality_of_attribute=lambda attribute: quality_of(attribute, notification.quality),
    )
    if attributes is None:
        return None
    named = [name for name in notification.news if not is_event(name)]
    told = {name for name in named if name in attributes or (name not in notification.attributes and _is_shown(decided(name)))}
    if named and not told:
        return None  # all that has happened, has happened to what it may not see
    news = tuple(name for name in notification.news if is_event(name) or name in told)
    location = notification.location
    if location is not None:
        decision = decided(LOCATION)
        location = coarsened_location(location, decision.obfuscations) if _is_shown(decision) else None
    quality = quality_left(notification, set(attributes))
    if attributes is notification.attributes and news == notification.news and location == notification.location:
        return notification
    return msgspec.structs.replace(
        notification, attributes=dict(attributes), news=news, location=location, quality=quality, payload=""
    )


def is_event(name: str) -> bool:
    """Whether news name something that happened, or a scope, rather than an attribute."""
    return name in EVENTS or name.startswith("/")


def _is_shown(decision: Decision) -> bool:
    return decision.allowed and not removes(decision.obfuscations)


def quality_left(notification: Notification, attributes: set[str]) -> dict[str, float]:
    """Without indicators of what is not seen, and without those of the whole that could stem from them."""
    parts = {name: attribute_and_criterion(name) for name in notification.quality}
    gone = {name for name, (whose, _) in parts.items() if whose and whose not in attributes}
    hidden = {(parts[name][1], notification.quality[name]) for name in gone}
    return {name: value for name, value in notification.quality.items() if name not in gone and (name, value) not in hidden}
