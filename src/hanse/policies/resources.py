"""What is asked for: an entity as a whole, or one attribute of it, as policies see it.

Policies may name types and attributes by their full URIs or by their short names. The short name of a URI is what follows its
last `#`, `/` or `:`; it needs no JSON-LD context, so it means the same at every node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from hanse.model import Notification
from hanse.quality import attribute_and_criterion

NAMES_KEPT: Final = 16_384  # names whose short names are remembered
LOCATION: Final = "https://uri.etsi.org/ngsi-ld/location"

_LAST: Final = re.compile(r"[^#/:]*$")


class Resource(Struct, frozen=True, omit_defaults=True):
    """`Data` in Cedar. `attribute` is "" for the entity as a whole; `quality` is that of what is asked for, by criterion."""

    types: tuple[str, ...] = ()
    id: str = ""
    attribute: str = ""
    scopes: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()
    quality: dict[str, float] = {}
    tenant: str = ""

    def of(self, attribute: str) -> Resource:
        """The same, one attribute of it."""
        return msgspec.structs.replace(self, attribute=attribute)


@lru_cache(maxsize=NAMES_KEPT)
def short_name(name: str) -> str:
    """What follows the last `#`, `/` or `:`; the whole, where nothing does."""
    found = _LAST.search(name)
    return (found.group() if found else "") or name


@lru_cache(maxsize=NAMES_KEPT)
def both_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names as they are and their short ones, each once."""
    return tuple(sorted({*names, *map(short_name, names)}))


def with_ancestors(scopes: Iterable[str]) -> tuple[str, ...]:
    """Scopes of NGSI-LD and those that they are in: `/Paris/Est` is in `/Paris`, too. Others stay as they are."""
    names: set[str] = set()
    for scope in scopes:
        if scope.startswith("/"):
            parts = scope.strip("/").split("/")
            names.update("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))
        else:
            names.add(scope)
    return tuple(sorted(names))


def scopes_of(stated: Mapping[str, str]) -> tuple[str, ...]:
    """Scopes by dimension, as policies name them: `place:paris`."""
    return tuple(sorted(f"{dimension}:{scope}" for dimension, scope in stated.items()))


def resource_of(notification: Notification, *, tenant: str = "", areas: tuple[str, ...] = ()) -> Resource:
    """A notification as a whole. Its topic counts as a type where it has none."""
    types = notification.types or ((notification.topic,) if notification.topic is not None else ())
    told = [name for name in notification.news if name.startswith("/")]
    return Resource(
        types=types,
        id=notification.entity or "",
        scopes=tuple(sorted({*with_ancestors(told), *scopes_of(notification.scopes)})),
        areas=areas,
        quality=quality_of("", notification.quality),
        tenant=tenant,
    )


def quality_of(attribute: str, quality: Mapping[str, float]) -> dict[str, float]:
    """The indicators of one attribute among those of a notification; those of the whole where it has none of its own."""
    parts = [(attribute_and_criterion(name), value) for name, value in quality.items()]
    found = {criterion: value for (whose, criterion), value in parts if not whose}
    return found | {criterion: value for (whose, criterion), value in parts if whose == attribute}
