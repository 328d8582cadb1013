"""Export rules: what a node lets go over one of its links, and in which form.

A rule decides by what every hop sees alike: types, id, scopes, place and quality of a notification as a whole, which no rule ever
takes out. So each node that has a notification, in whatever form, knows the same way for it. Attributes do not decide: those that
do not pass are taken out, with all that is said of their quality, and whoever is behind the link goes by what is left.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Struct

from hanse.model import WORLD, Geofence, InvalidInput, World

if TYPE_CHECKING:
    from hanse.model import Notification

# News that name no attribute: what happens to an entity. (A scope among the news begins with a slash.)
EVENTS: Final = frozenset(f"{what}{how}" for what in ("entity", "attribute") for how in ("Created", "Updated", "Deleted"))
NAMES_KEPT: Final = 16_384  # names of attributes whose passing is remembered
Hidden: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # attributes that pass, attributes that do not


class ExportRule(Struct, frozen=True, omit_defaults=True):
    """What may cross a link: names with `*`, `?` and `[...]`. What is left out restricts nothing.

    - `types`, `ids`, and what is denied of them: every type must pass, and the id. A topic counts as a type where there is none.
    - `deny`: nothing crosses but what `types` and `ids` name; if neither names anything, nothing at all.
    - `scopes`: by dimension, the scopes that pass. What states no scope in the dimension crosses only if `*` is among them.
    - `area`: only what is located in it crosses; what has no location does not.
    - `quality`: as in a subscription, but of the whole alone; only what satisfies it crosses.
    - `attributes`, `deny_attributes`: what does not pass is taken out, and with it the news of it and its quality. The payload
      stays behind, whatever is in it: nobody can look inside. Place and the quality of the whole are no attributes, and cross.
    """

    types: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    deny_types: tuple[str, ...] = ()
    deny_ids: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    deny_attributes: tuple[str, ...] = ()
    scopes: dict[str, tuple[str, ...]] = {}
    area: Geofence = WORLD
    quality: str = ""
    deny: bool = False

    def __post_init__(self) -> None:
        for member in ("types", "ids", "deny_types", "deny_ids", "attributes", "deny_attributes"):
            _check_patterns(getattr(self, member), member)
        for dimension, patterns in self.scopes.items():
            if not dimension or not dimension.isprintable():
                raise InvalidInput(f"{dimension!r} is no name of a dimension", place="the scopes of an export rule")
            if not patterns:
                raise InvalidInput(
                    "no scope is named; leave the dimension out, or name scopes that pass",
                    place=f"dimension {dimension!r} of an export rule",
                )
            _check_patterns(patterns, f"scopes of dimension {dimension!r}")
        if self.quality:
            from hanse.filters import compile_quality  # the grammar is slow to load, and most rules have no filter

            place = "the quality of an export rule"
            try:
                paths = compile_quality(self.quality).paths
            except InvalidInput as error:
                raise error.at(place) from error
            if named := next((path for path in paths if len(path.names) > 1), None):
                remedy = f"write {named.names[-1]}, which is the worst that an attribute has"
                raise InvalidInput(f"{named.text!r} is of an attribute, and attributes may be hidden; {remedy}", place=place)

    # --- names --------------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Nothing crosses, whatever it is."""
        return self.deny and not self.types and not self.ids

    def allows_type(self, name: str) -> bool:
        if self.is_closed or _any(name, self.deny_types):
            return False
        return not self.types or _any(name, self.types)

    def allows_id(self, name: str) -> bool:
        if self.is_closed or _any(name, self.deny_ids):
            return False
        return not self.ids or _any(name, self.ids)

    def allows(self, types: tuple[str, ...], entity: str | None) -> bool:
        """Every type must be let through: a rule that hides one is not got round by naming a second."""
        if self.is_closed:
            return False
        if types:
            if not all(self.allows_type(name) for name in types):
                return False
        elif self.types:
            return False
        if entity is None:
            return not self.ids
        return self.allows_id(entity)

    # --- content ------------------------------------------------------------------------------------------------------

    @property
    def looks_inside(self) -> bool:
        """Whether more than names decides."""
        return bool(self.scopes or self.quality or not isinstance(self.area, World))

    def admits(self, notification: Notification) -> bool:
        """Scopes, place and quality."""
        return not (self.stops_scopes(notification) or self.stops_place(notification) or self.stops_quality(notification))

    def stops_scopes(self, notification: Notification) -> str | None:
        """The dimension that stops it."""
        for dimension, patterns in self.scopes.items():
            stated = notification.scopes.get(dimension)
            if not ("*" in patterns if stated is None else _any(stated, patterns)):
                return dimension
        return None

    def stops_place(self, notification: Notification) -> bool:
        if isinstance(self.area, World):
            return False
        place = notification.location
        return place is None or not self.area.contains(place.lat, place.lon)

    def stops_quality(self, notification: Notification) -> bool:
        if not self.quality:
            return False
        from hanse.filters import compile_quality

        return not compile_quality(self.quality).matches(notification.quality)

    # --- attributes ---------------------------------------------------------------------------------------------------

    @property
    def hides(self) -> Hidden | None:
        """What it says of attributes; None if nothing."""
        return (self.attributes, self.deny_attributes) if self.attributes or self.deny_attributes else None

    def shows(self, attribute: str) -> bool:
        return _shows((self.attributes, self.deny_attributes), attribute)

    def stripped(self, notification: Notification) -> Notification:
        """What crosses of a notification that may cross; the same one if nothing is taken out."""
        hides = self.hides
        return notification if hides is None else stripped(hides, notification)


def stripped(hides: Hidden, notification: Notification) -> Notification:
    """A notification without what is hidden so; the same one if that is nothing."""
    kept = {name: value for name, value in notification.attributes.items() if _shows(hides, name)}
    news = tuple([name for name in notification.news if name in EVENTS or name.startswith("/") or _shows(hides, name)])
    quality = {name: value for name, value in notification.quality.items() if _shows_quality(hides, name)}
    are_all = len(kept) == len(notification.attributes) and len(quality) == len(notification.quality)
    if are_all and news == notification.news and not notification.payload:
        return notification
    return msgspec.structs.replace(notification, attributes=kept, news=news, quality=quality, payload="")


def _shows_quality(hides: Hidden, indicator: str) -> bool:
    """That of the whole is always shown; that of an attribute, `temperature.precision`, as the attribute is."""
    attribute = indicator.rpartition(".")[0]
    return not attribute or _shows(hides, attribute)


@lru_cache(maxsize=NAMES_KEPT)
def _shows(hides: Hidden, attribute: str) -> bool:
    passing, denied = hides
    return (not passing or _any(attribute, passing)) and not _any(attribute, denied)


def export_types(notification: Notification) -> tuple[str, ...]:
    """What export rules take for the types of a notification: its topic counts as one where it has no type."""
    return notification.types or ((notification.topic,) if notification.topic is not None else ())


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _check_patterns(patterns: tuple[str, ...], what: str) -> None:
    for pattern in patterns:
        if not pattern or not pattern.isprintable():
            raise InvalidInput(
                f"{pattern!r} fits no name; write a name, with * for any characters", place=f"the {what} of an export rule"
            )
