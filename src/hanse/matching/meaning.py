"""When a notification satisfies a subscription, in plain code: what every index and every routing strategy is tested against.

Visibility, policy and expiry are not decided here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import re2

from hanse.filters import compile_q, compile_quality, compile_xpath
from hanse.model import InvalidInput, World, document_of

if TYPE_CHECKING:
    from hanse.model import Geofence, Location, Notification, Selector, Subscription


def satisfies(
    subscription: Subscription,
    notification: Notification,
    publisher_location: Location | None,
    subscriber_location: Location | None,
) -> bool:
    return (
        selects(subscription.selectors, notification)
        and carries(subscription.attributes, notification)
        and tells(subscription.news, notification)
        and passes_q(subscription.q, notification)
        and passes_quality(subscription.quality, notification)
        and passes_xpath(subscription.xpath, notification)
        and lies_in(publisher_location, subscription.geofence)
        and lies_in(subscriber_location, notification.geofence)
    )


def selects(selectors: tuple[Selector, ...], notification: Notification) -> bool:
    """Any selector fits; no selectors at all fit everything."""
    return not selectors or any(fits(selector, notification) for selector in selectors)


def fits(selector: Selector, notification: Notification) -> bool:
    """Every member that is given fits; an absent topic or entity of the notification fits none."""
    if selector.topic is not None and selector.topic != notification.topic:
        return False
    if selector.id is not None and selector.id != notification.entity:
        return False
    if selector.type is not None and selector.type not in notification.types:
        return False
    return selector.id_pattern is None or (
        notification.entity is not None and compiled_pattern(selector.id_pattern).search(notification.entity) is not None
    )


def carries(names: tuple[str, ...], notification: Notification) -> bool:
    return not names or any(name in notification.attributes for name in names)


def tells(names: tuple[str, ...], notification: Notification) -> bool:
    return not names or any(name in notification.news for name in names)


def passes_q(q: str, notification: Notification) -> bool:
    return not q or compile_q(q).matches(notification.attributes)


def passes_quality(quality: str, notification: Notification) -> bool:
    """Every indicator that is named is present and satisfies what is asked of it."""
    return not quality or compile_quality(quality).matches(notification.quality)


def passes_xpath(constraints: tuple[str, ...], notification: Notification) -> bool:
    """Every constraint finds something in the payload, or is true of it; what is no XML satisfies none."""
    if not constraints:
        return True
    document = document_of(notification)
    return document is not None and all(compile_xpath(constraint).matches(document) for constraint in constraints)


def lies_in(location: Location | None, geofence: Geofence) -> bool:
    """An unknown location lies only in the whole world."""
    if location is None:
        return isinstance(geofence, World)
    return geofence.contains(location.lat, location.lon)


@lru_cache(maxsize=4096)
def compiled_pattern(pattern: str) -> Any:
    try:
        return re2.compile(pattern)
    except re2.error as error:
        raise InvalidInput(f"the id_pattern {pattern!r} is not a regular expression (RE2): {error}") from error


def check_filters(selectors: tuple[Selector, ...], q: str, quality: str, xpath: tuple[str, ...] = ()) -> None:
    """Compile everything that could not be compiled; InvalidInput says what it is."""
    for selector in selectors:
        if selector.id_pattern is not None:
            compiled_pattern(selector.id_pattern)
    compile_q(q)
    compile_quality(quality)
    for constraint in xpath:
        try:
            compile_xpath(constraint)
        except InvalidInput as error:
            raise error.at(f"the XPath constraint {constraint[:60]!r}") from error
