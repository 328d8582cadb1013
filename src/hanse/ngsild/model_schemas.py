"""JSON Schemas in the form of Smart Data Models, read into one form that is safe to apply.

Whoever may add a model decides what every entity of its type is checked against, so a schema is taken apart first: only keywords
that check something stay, every reference is replaced by what it refers to (nothing is ever fetched), and a schema that refers
to itself is refused. What is left is a tree of bounded size, and applying it takes time in proportion to it.

Older drafts are turned into 2020-12 where they differ: an array of `items` is `prefixItems`, `dependencies` are two keywords.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.uris import is_uri

DEPTH_MAX: Final = 64  # schemas within schemas, references followed
SCHEMAS_MAX: Final = 2_000  # in one model, after every reference is replaced by what it refers to
PROPERTIES_MAX: Final = 1_000  # of the entity itself

# Where a schema stands: it holds for the entity whatever else holds; perhaps, as one of several; or for something in the entity.
Place: TypeAlias = Literal["always", "perhaps", "within"]

_ONE: Final = frozenset({
    "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties",
})  # fmt: skip
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"dependentSchemas", "patternProperties", "properties"})
_IN_PLACE: Final = frozenset({"anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
_PLAIN: Final = frozenset({
    "const", "dependentRequired", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains",
    "maximum", "maxItems", "maxLength", "maxProperties", "minContains", "minimum", "minItems", "minLength", "minProperties",
    "multipleOf", "pattern", "required", "title", "type", "uniqueItems", "x-ngsi",
})  # fmt: skip
# NGSI-LD itself sees to these; and an heir of the model has another type
_GIVEN: Final = frozenset({"id", "type", "@context", "scope"})

_COMMON_PLACE: Final = re.compile(
    r"https?://(smart-data-models\.github\.io|(www\.)?smartdatamodels\.org|raw\.githubusercontent\.com/smart-data-models"
    r"|github\.com/smart-data-models|fiware\.github\.io)/"
)
_MODEL_PLACE: Final = re.compile(r"/([^/]+)/schema\.json$")
_NAME: Final = re.compile(r"[^\W\d_][\w\-.]*")


def _common(names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in names.split()}}


# What models refer to most, so that these properties are known. All but the kind of a location is left open: the common schemas
# have changed more than once, and nothing is fetched.
COMMON: Final[dict[str, dict[str, Any]]] = {
    "GSMA-Commons": _common("alternateName dataProvider dateCreated dateModified description name owner seeAlso source"),
    "Location-Commons": _common("address areaServed location"),
    "PhysicalObject-Commons": _common("annotations color image"),
    "DateTime-Commons": _common("openingHoursSpecification"),
    "Contact-Commons": _common("contactPoint"),
    "Device-Commons": _common("category controlledAsset controlledProperty deviceCategory supportedProtocol"),
}
COMMON["Location-Commons"]["properties"]["location"] = {"x-ngsi": {"type": "GeoProperty"}}


class FoundProperty:
    """A property of the entity, as the schema has it."""

    __slots__ = ("is_required", "perhaps", "schemas")

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []  # all of them hold
        self.perhaps: list[dict[str, Any]] = []
        self.is_required = False


class SchemaReader:
    """Reads one document. Afterwards it knows what the schema says of the entity itself."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._count = 0
        self.type_names: list[str] = []  # that the schema is for
        self.parents: list[str] = []  # models that it refers to, as they are named there
        self.properties: dict[str, FoundProperty] = {}
        self.is_closed = False  # other properties than these are refused
        self._required: set[str] = set()
        self.schema = self._read(document, "always", (), 0)
        for name in self._required:
            self._property(name).is_required = True

    def _property(self, name: str) -> FoundProperty:
        if name not in self.properties and len(self.properties) >= PROPERTIES_MAX:
            raise BadRequestData(f"the schema has more than {PROPERTIES_MAX} properties")
        return self.properties.setdefault(name, FoundProperty())

    def _read(self, given: Any, place: Place, followed: tuple[str, ...], depth: int) -> dict[str, Any]:
        if given is True or given is False:
            return {} if given else {"not": {}}
        if not isinstance(given, dict):
            raise BadRequestData(f"a schema is a JSON object, not {_shown(given)}")
        self._count += 1
        if self._count > SCHEMAS_MAX:
            raise BadRequestData(f"the schema is made of more than {SCHEMAS_MAX} parts, references followed; make it smaller")
        if depth > DEPTH_MAX:
            raise BadRequestData(f"the schema is nested more than {DEPTH_MAX} deep, references followed")
        read: dict[str, Any] = {}
        for key, value in given.items():
            if key in _SEVERAL:
                if not isinstance(value, list):
                    raise BadRequestData(f"{key} is an array of schemas, not {_shown(value)}")
                inner = _place(place, key)
                read[key] = [self._read(item, inner, followed, depth + 1) for item in value]
            elif key in _NAMED:
                read[key] = self._named(key, value, place, followed, depth)
            elif key in _ONE:
                if value is False and place == "always" and key in {"additionalProperties", "unevaluatedProperties"}:
                    self.is_closed = True  # by all that is inherited, too: it says so at the very top, see `models`
                else:
                    read[key] = self._read(value, _place(place, key), followed, depth + 1)
            elif key == "items":
                self._items(given, read, followed, depth)
            elif key == "dependencies":
                self._dependencies(value, read, place, followed, depth)
            elif key == "required" and isinstance(value, list) and place != "within":
                read[key] = [name for name in value if not (isinstance(name, str) and name in _GIVEN)]
                if place == "always":
                    self._required.update(name for name in read[key] if isinstance(name, str))
            elif key in _PLAIN:
                read[key] = value
        if "$ref" in given:
            self._follow(given["$ref"], read, place, followed, depth)
        return read

    def _named(self, key: str, value: Any, place: Place, followed: tuple[str, ...], depth: int) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadRequestData(f"{key} is an object of schemas, not {_shown(value)}")
        inner = _place(place, key)
        if key != "properties" or place == "within":
            return {name: self._read(item, inner, followed, depth + 1) for name, item in value.items()}
        if place == "always" and isinstance(value.get("type"), dict):
            self._type(value["type"])
        read = {name: self._read(item, inner, followed, depth + 1) for name, item in value.items() if name != "type"}
        for name, schema in read.items():
            if name not in _GIVEN:
                found = self._property(name)
                (found.schemas if place == "always" else found.perhaps).append(schema)
        return read

    def _type(self, given: dict[str, Any]) -> None:
        names = given["enum"] if isinstance(given.get("enum"), list) else [given.get("const")]
        self.type_names += [name for name in names if isinstance(name, str)]

    def _items(self, given: dict[str, Any], read: dict[str, Any], followed: tuple[str, ...], depth: int) -> None:
        items = given["items"]
        if not isinstance(items, list):
            read["items"] = self._read(items, "within", followed, depth + 1)
            return
        if items:
            read["prefixItems"] = [self._read(item, "within", followed, depth + 1) for item in items]
        if "additionalItems" in given:
            read["items"] = self._read(given["additionalItems"], "within", followed, depth + 1)

    def _dependencies(self, value: Any, read: dict[str, Any], place: Place, followed: tuple[str, ...], depth: int) -> None:
        if not isinstance(value, dict):
            raise BadRequestData(f"dependencies is an object, not {_shown(value)}")
        names = {name: item for name, item in value.items() if isinstance(item, list)}
        schemas = {name: item for name, item in value.items() if not isinstance(item, list)}
        if names:
            read["dependentRequired"] = names
        if schemas:
            read["dependentSchemas"] = self._named("dependentSchemas", schemas, place, followed, depth)

    # --- references -------------------------------------------------------------------------------------------------

    def _follow(self, ref: Any, read: dict[str, Any], place: Place, followed: tuple[str, ...], depth: int) -> None:
        """Put what a reference leads to beside what else is said."""
        if not isinstance(ref, str):
            raise BadRequestData(f"$ref is a text, not {_shown(ref)}")
        if ref.startswith("#"):
            if ref in followed or ref in {"#", "#/"}:
                raise BadRequestData(f"the schema refers to itself by {ref[:200]!r}; write out as many levels as are needed")
            target = self._pointed(ref)
            added = self._read(target, place, (*followed, ref), depth + 1)
        else:
            url, _, fragment = ref.partition("#")
            added = self._elsewhere(ref, url, fragment, place, followed, depth)
        read["allOf"] = [*read.get("allOf", ()), added]

    def _elsewhere(
        self, ref: str, url: str, fragment: str, place: Place, followed: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        is_common = _COMMON_PLACE.match(url)
        model = _MODEL_PLACE.search(url) if is_common and not fragment else None
        if is_common and model is None:
            return self._read(_common_schema(fragment), place, followed, depth + 1)
        name = model[1] if model else url
        if fragment or not (_NAME.fullmatch(name) or is_uri(name)) or name.endswith((".json", ".yaml")):
            raise BadRequestData(
                f"$ref {ref[:200]!r} is not fetched; refer to a part of the document (#/...) or, in allOf, to a model's type"
            )
        if place != "always":
            raise BadRequestData(f"$ref {ref[:200]!r} is a model; another extends it at the top, by allOf, not within a property")
        if name not in self.parents:
            self.parents.append(name)
        return {}

    def _pointed(self, ref: str) -> Any:
        """What a JSON pointer into the document leads to (RFC 6901)."""
        target: Any = self._document
        for part in unquote(ref[1:]).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isascii() and name.isdigit() and len(name) < 7 and int(name) < len(target):
                target = target[int(name)]
            else:
                raise BadRequestData(f"$ref {ref[:200]!r} leads nowhere in the document")
        if target is self._document:
            raise BadRequestData(f"$ref {ref[:200]!r} is no path into the document; write it as #/definitions/Name")
        return target


def _place(place: Place, key: str) -> Place:
    if key == "allOf" or place == "within":
        return place
    return "perhaps" if key in _IN_PLACE else "within"


def _common_schema(fragment: str) -> dict[str, Any]:
    """A definition of the Smart Data Models' common schemas; what is not built in allows everything."""
    target: Any = {"definitions": COMMON}
    for part in fragment.strip("/").split("/"):
        target = target.get(part) if isinstance(target, dict) else None
    return target if isinstance(target, dict) and fragment.strip("/") != "definitions" else {}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
