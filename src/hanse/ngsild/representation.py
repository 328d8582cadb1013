"""An entity as a client sees it: names compacted by its @context, in one of three forms, and only the parts it asked for.

The **normalized** form says everything. The **concise** one leaves out types that its reader can tell, and objects around bare
values. The **simplified** one (keyValues) has values only. What the system sets (`createdAt`, `modifiedAt`, `expiresAt`) shows
with `sys_attrs` only. `represent` is on the way of every answer and every notification, so the common case, all of an entity in
the normalized form, does nothing but copy.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from hanse.ngsild.entity import LOCATION, RESERVED_MEMBERS, VALUE_MEMBER, Entity, Instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanse.ngsild.contexts import Context

Format: TypeAlias = Literal["normalized", "concise", "simplified"]
Join: TypeAlias = Literal["inline", "flat"]

SYSTEM_MEMBERS: Final = frozenset({"createdAt", "modifiedAt", "expiresAt"})
# what pick and omit may name beside attributes; these names stay short
ENTITY_PARTS: Final = frozenset({"id", "type", "scope"}) | SYSTEM_MEMBERS
NO_DATASET: Final = "@none"

_NOTHING: Final[frozenset[str]] = frozenset()
_WRAPPED: Final = frozenset({"LanguageProperty", "JsonProperty", "VocabProperty"})
_NAMED_BY_CONTEXT: Final = frozenset({"vocab", "objectType", "previousVocab", "entityTypeSealed"})


class Projection(Struct, frozen=True):
    """What to pick from, or to omit of, an entity: its members, and those of the entities that a relationship leads to."""

    names: tuple[str, ...] = ()  # expanded, or one of ENTITY_PARTS
    linked: tuple[tuple[str, Projection], ...] = ()  # relationship, and what of the entities at its other end


class View(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What of an entity is shown, and how. Names are expanded."""

    format: Format = "normalized"
    sys_attrs: bool = False
    lang: str | None = None  # as in Accept-Language
    pick: tuple[str, ...] = ()  # only these members of the entity; all if empty
    omit: tuple[str, ...] = ()
    pick_linked: tuple[tuple[str, Projection], ...] = ()
    omit_linked: tuple[tuple[str, Projection], ...] = ()
    attrs: tuple[str, ...] = ()  # only these attributes; all if empty
    dataset_ids: tuple[str, ...] = ()  # only these instances; "@none" is the default one
    geojson: bool = False
    geometry_property: str | None = None  # whose value is the geometry of a feature; None: location
    join: Join | None = None
    join_level: int = 1
    contained_by: tuple[str, ...] = ()  # entities that hold this one already, and so are not linked again

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Members of an instance that do not show."""
        return _NOTHING if self.sys_attrs else SYSTEM_MEMBERS

    @cached_property
    def is_whole(self) -> bool:
        """Whether every member of an entity shows."""
        return not (self.pick or self.omit or self.attrs or self.dataset_ids)

    @cached_property
    def _picked(self) -> frozenset[str]:
        return frozenset(self.pick)

    @cached_property
    def _omitted(self) -> frozenset[str]:
        return frozenset(self.omit)

    def shows(self, name: str) -> bool:
        """Whether a member of the entity is asked for: one of ENTITY_PARTS, or an attribute."""
        if self._picked and name not in self._picked:
            return False
        if name in self._omitted:
            return False
        if not self.attrs or name in self.attrs or name in ENTITY_PARTS:
            return name not in SYSTEM_MEMBERS or self.sys_attrs or name in self._picked
        return False

    @property
    def geometry_name(self) -> str:
        return self.geometry_property or LOCATION


NORMALIZED: Final = View()


def represent(entity: Entity, context: Context, view: View = NORMALIZED) -> dict[str, Any]:
    """The JSON of one entity, without an @context; empty if the view leaves nothing of it."""
    compact = context.compact_iri
    show = _FORMS[view.format]
    if view.is_whole:
        types = entity.types
        shown: dict[str, Any] = {
            "id": entity.id,
            "type": context.compact_type(types[0]) if len(types) == 1 else [context.compact_type(name) for name in types],
        }
        if entity.scopes:
            shown["scope"] = _one_or_all(entity.scopes)
        if view.sys_attrs:
            _put_times(shown, entity, SYSTEM_MEMBERS)
        for name, instances in entity.attributes.items():
            shown[compact(name)] = show(instances, compact, view)
        return shown
    shown = {}
    if view.shows("id"):
        shown["id"] = entity.id
    if view.shows("type"):
        shown["type"] = _one_or_all([context.compact_type(name) for name in entity.types])
    if entity.scopes and view.shows("scope"):
        shown["scope"] = _one_or_all(entity.scopes)
    _put_times(shown, entity, frozenset(name for name in SYSTEM_MEMBERS if view.shows(name)))
    for name, instances in entity.attributes.items():
        if view.shows(name):
            kept = in_datasets(instances, view.dataset_ids)
            if kept:
                shown[compact(name)] = show(kept, compact, view)
    return shown


def represent_all(entities: Iterable[Entity], context: Context, view: View = NORMALIZED) -> list[dict[str, Any]]:
    """Those of which the view leaves something."""
    shown = [represent(entity, context, view) for entity in entities]
    return shown if view.is_whole else [item for item in shown if item]


def represent_instance(instance: Instance, context: Context, view: View = NORMALIZED) -> Any:
    """One instance of an attribute, in the form of the view."""
    compact = context.compact_iri
    if view.format == "normalized":
        return _normalized(instance, compact, view)
    return _concise(instance, compact, view) if view.format == "concise" else simplified_value(instance, compact, view)


def in_datasets(instances: list[Instance], dataset_ids: tuple[str, ...]) -> list[Instance]:
    """The instances of an attribute that belong to one of these data sets; all, if none is named."""
    if not dataset_ids:
        return instances
    return [instance for instance in instances if instance.get("datasetId", NO_DATASET) in dataset_ids]


def _put_times(shown: dict[str, Any], entity: Entity, names: frozenset[str]) -> None:
    if "createdAt" in names and entity.created_at:
        shown["createdAt"] = entity.created_at
    if "modifiedAt" in names and entity.modified_at:
        shown["modifiedAt"] = entity.modified_at
    if "expiresAt" in names and entity.expires_at is not None:
        shown["expiresAt"] = entity.expires_at


def _one_or_all(items: Any) -> Any:
    return items[0] if len(items) == 1 else list(items)


# --- normalized -------------------------------------------------------------------------------------------------------


def _normalized_all(instances: list[Instance], compact: Callable[[str], str], view: View) -> Any:
    if len(instances) == 1:
        return _normalized(instances[0], compact, view)
    return [_normalized(instance, compact, view) for instance in instances]


def _normalized(instance: Instance, compact: Callable[[str], str], view: View) -> dict[str, Any]:
    hidden = view.hidden
    shown: dict[str, Any] = {}
    for key, value in instance.items():
        if key in hidden:
            continue
        if key in RESERVED_MEMBERS:
            shown[key] = value if key not in _NAMED_BY_CONTEXT else _compacted(value, compact)
        else:
            shown[compact(key)] = _normalized_all(value, compact, view)
    if view.lang is not None and "languageMap" in shown:
        return _in_one_language(shown, view.lang)
    return shown


def _compacted(value: Any, compact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return compact(value)
    if isinstance(value, list):
        return [_compacted(item, compact) for item in value]
    return value


# --- concise ----------------------------------------------------------------------------------------------------------


def _concise_all(instances: list[Instance], compact: Callable[[str], str], view: View) -> Any:
    if len(instances) == 1:
        return _concise(instances[0], compact, view)
    return [_concise_object(instance, compact, view) for instance in instances]


def _concise(instance: Instance, compact: Callable[[str], str], view: View) -> Any:
    shown = _concise_object(instance, compact, view)
    if len(shown) == 1 and "value" in shown:
        value = shown["value"]
        # bare, unless the reader would take an object for an attribute or an array for its instances
        if not isinstance(value, dict | list) or (instance.get("type") == "GeoProperty" and isinstance(value, dict)):
            return value
    return shown


def _concise_object(instance: Instance, compact: Callable[[str], str], view: View) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, value in instance.items():
        if key == "type" or key in view.hidden:
            continue
        if key in RESERVED_MEMBERS:
            shown[key] = value if key not in _NAMED_BY_CONTEXT else _compacted(value, compact)
        else:
            shown[compact(key)] = _concise_all(value, compact, view)
    if view.lang is not None and "languageMap" in shown:
        shown = _in_one_language(shown, view.lang)
        shown.pop("type")
    return shown


# --- simplified -------------------------------------------------------------------------------------------------------


def _simplified_all(instances: list[Instance], compact: Callable[[str], str], view: View) -> Any:
    if len(instances) == 1 and "datasetId" not in instances[0]:
        return simplified_value(instances[0], compact, view)
    return {
        "dataset": {instance.get("datasetId", NO_DATASET): simplified_value(instance, compact, view) for instance in instances}
    }


def simplified_value(instance: Instance, compact: Callable[[str], str], view: View) -> Any:
    """The value of an instance alone; kinds that it would not tell are named around it."""
    kind = instance.get("type", "Property")
    member = VALUE_MEMBER.get(kind, "value")
    value = instance.get(member)
    if kind == "Relationship":
        return instance.get("entity", value)
    if kind == "ListRelationship":
        if "entityList" in instance:
            return instance["entityList"]
        return [item.get("object", item) if isinstance(item, dict) else item for item in value or ()]
    if kind == "LanguageProperty" and view.lang is not None and isinstance(value, dict):
        return choose_language(value, view.lang)[1]
    if kind == "VocabProperty":
        value = _compacted(value, compact)
    return {member: value} if kind in _WRAPPED else value


_FORMS: Final = {"normalized": _normalized_all, "concise": _concise_all, "simplified": _simplified_all}


# --- languages --------------------------------------------------------------------------------------------------------


def _in_one_language(shown: dict[str, Any], wanted: str) -> dict[str, Any]:
    """A LanguageProperty as a Property in the best language there is, and which that is."""
    languages = shown["languageMap"]
    if not isinstance(languages, dict) or not languages:
        return shown
    language, text = choose_language(languages, wanted)
    chosen: dict[str, Any] = {}
    for key, value in shown.items():
        if key == "languageMap":
            chosen |= {"value": text, "lang": language}
        elif key != "type":
            chosen[key] = value
    return {"type": "Property"} | chosen


def choose_language(languages: dict[str, Any], wanted: str) -> tuple[str, Any]:
    """The text in the language that is wanted most; in any, if it is in none of those that are wanted."""
    if not languages:
        return NO_DATASET, None
    by_lower = {language.lower(): language for language in languages}
    for tag in language_ranges(wanted):
        if tag == "*":
            break
        found = _matching(tag, by_lower)
        if found is not None:
            return found, languages[found]
    language = "@none" if "@none" in languages else next(iter(languages))
    return language, languages[language]


def _matching(tag: str, by_lower: dict[str, str]) -> str | None:
    """The lookup of RFC 4647: the tag, then shorter ones; last a longer one (`en` finds `en-US`)."""
    part = tag
    while part:
        if part in by_lower:
            return by_lower[part]
        part = part.rpartition("-")[0]
        if part[-2:-1] == "-":  # a single letter says what follows it, and means nothing alone
            part = part[:-2]
    return next((language for lower, language in by_lower.items() if lower.startswith(tag + "-")), None)


@lru_cache(maxsize=1024)
def language_ranges(wanted: str) -> tuple[str, ...]:
    """The tags of `fr-CH,fr;q=0.9,*;q=0.5`, the most wanted first, in lower case; what cannot be read weighs least."""
    weighed: list[tuple[float, str]] = []
    for part in wanted.lower().split(","):
        tag, *parameters = (piece.strip() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.001
        if tag and quality > 0.0:
            weighed.append((quality, tag))
    return tuple(tag for _, tag in sorted(weighed, key=lambda pair: -pair[0]))
