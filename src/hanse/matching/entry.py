"""A subscription made ready for matching under one key: what is left to test once the key has been found equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import cos, radians, sin
from typing import TYPE_CHECKING, Any, TypeAlias

from hanse.filters import compile_q, compile_quality, compile_xpath, flat_getter, number_value, path_getter, text_value
from hanse.matching.meaning import carries, check_filters, fits, tells
from hanse.model import Circle, World, document_of

if TYPE_CHECKING:
    from hanse.filters import Filter, XPathFilter
    from hanse.model import Geofence, Notification, Selector, Subscription

Key: TypeAlias = tuple[str, str]  # which member of a selector, and its value
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]

ANY: Key = ("", "")


def keys_of(subscription: Subscription) -> dict[Key, tuple[Selector, ...]]:
    """The keys to file a subscription under, each with the selectors of which one must still fit (none: nothing left to test)."""
    selectors = subscription.selectors
    if len(selectors) == 1:
        key, rest = _key(selectors[0])
        return {key: selectors if rest else ()}
    keys: dict[Key, tuple[Selector, ...]] = {} if selectors else {ANY: ()}
    for selector in selectors:
        key, rest = _key(selector)
        if not rest:
            keys[key] = ()
        elif keys.get(key, selectors):
            keys[key] = (*keys.get(key, ()), selector)
    return keys


def _key(selector: Selector) -> tuple[Key, bool]:
    """The most telling member of a selector, and whether others are given too."""
    others = selector.id_pattern is not None
    if selector.topic is not None:
        return ("topic", selector.topic), others or selector.id is not None or selector.type is not None
    if selector.id is not None:
        return ("id", selector.id), others or selector.type is not None
    return (ANY if selector.type is None else ("type", selector.type)), others


@dataclass(frozen=True, slots=True)
class Test:
    """What is tested by calling Python. Equal tests give equal answers, so that one answer serves all rows that share it."""

    selectors: tuple[Selector, ...] = ()
    attributes: tuple[str, ...] = ()
    q_key: str = ""
    quality_key: str = ""
    q: Predicate | None = field(default=None, compare=False)
    quality: Predicate | None = field(default=None, compare=False)
    news: tuple[str, ...] = ()
    xpath: tuple[XPathFilter, ...] = ()

    def passes(self, notification: Notification) -> bool:
        return (
            (not self.selectors or any(fits(selector, notification) for selector in self.selectors))
            and carries(self.attributes, notification)
            and tells(self.news, notification)
            and (self.q is None or self.q(notification.attributes))
            and (self.quality is None or self.quality(notification.quality))
            and (not self.xpath or self._passes_xpath(notification))
        )

    def _passes_xpath(self, notification: Notification) -> bool:
        document = document_of(notification)
        return document is not None and all(constraint.matches(document) for constraint in self.xpath)


NO_TEST = Test()


def check(subscription: Subscription) -> None:
    """Raise InvalidInput if one of its texts cannot be compiled."""
    check_filters(subscription.selectors, subscription.q, subscription.quality, subscription.xpath)


class Conjunction:
    """A filter as its atoms and what they leave: a tenth of the size of its closures, which are dropped."""

    __slots__ = ("_atoms", "_residual")

    def __init__(self, compiled: Filter) -> None:
        getter_of = path_getter if compiled.language == "q" else flat_getter
        self._atoms = tuple((getter_of(atom.path), atom.kind, atom.low, atom.high) for atom in compiled.atoms)
        self._residual = compiled.residual

    def __call__(self, mapping: Mapping[str, Any]) -> bool:
        for getter, kind, low, high in self._atoms:
            for value in getter(mapping):
                if kind == "number":
                    number = number_value(value)
                    if number is not None and low <= number <= high:  # type: ignore[operator]
                        break
                elif kind == "exists" or (value == low and text_value(value) is not None):
                    break
            else:
                return False
        return self._residual is None or self._residual(mapping)


class Entry:
    """Everything that can be worked out before an event comes. `h_max` is negative unless the geofence is a circle."""

    __slots__ = ("cos_lat", "geofence", "h_max", "lat", "lon", "selectors", "subscription", "test")

    def __init__(self, subscription: Subscription, selectors: tuple[Selector, ...]) -> None:
        self.subscription = subscription
        self.selectors = selectors
        q, quality = subscription.q, subscription.quality
        self.test: Test | None = None
        if selectors or subscription.attributes or subscription.news or q or quality or subscription.xpath:
            self.test = Test(
                selectors,
                subscription.attributes,
                q,
                quality,
                Conjunction(compile_q(q)) if q else None,
                Conjunction(compile_quality(quality)) if quality else None,
                subscription.news,
                tuple(map(compile_xpath, subscription.xpath)),
            )
        fence: Geofence = subscription.geofence
        self.geofence = None if isinstance(fence, World) else fence
        self.lat = self.lon = self.cos_lat = 0.0
        self.h_max = -1.0
        if isinstance(fence, Circle):
            self.lat, self.lon, self.cos_lat = fence.lat, fence.lon, cos(radians(fence.lat))
            half = sin(radians(fence.radius_deg) / 2)
            self.h_max = half * half
