"""From the JSON that a client sends to the internal shape of `entity`, or a complaint about what is wrong with it.

Normalized and concise attributes may be mixed, as the specification wants it; `simplified` input has to be announced. A patch
(`allow_null`, `partial`) may say less than a whole attribute: an instance in it may lack its "type" (then it is that of the
attribute it is applied to) and its value, and NGSI-LD's Null may stand for what is to be deleted. `operations` says what it does.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import (
    NGSI_LD,
    NULL,
    RESERVED_MEMBERS,
    VALUE_MEMBER,
    Attributes,
    Entity,
    Instance,
)
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.limits import (
    ATTRIBUTES_MAX,
    INSTANCES_MAX,
    NUMBER_MAX,
    STRING_LENGTH_MAX,
    SUB_ATTRIBUTE_DEPTH_MAX,
    TYPES_MAX,
)
from hanse.ngsild.uris import check_uri, is_uri
from hanse.ngsild.values import (
    GEOMETRIES,
    check_date_time,
    check_geometry,
    check_json,
    check_language_map,
    check_scope,
    looks_like_geometry,
    shown,
    utc_time,
)

_KIND_OF_MEMBER: Final = {"value": "Property"} | {
    member: kind for kind, member in VALUE_MEMBER.items() if kind not in {"Property", "GeoProperty"}
}
_VALUE_MEMBERS: Final = frozenset(_KIND_OF_MEMBER)
_INSTANCE_MARKS: Final = _VALUE_MEMBERS | {"type", "@type"}  # an object with one of these is an attribute, not just a value
_SET_BY_NODE: Final = frozenset({"createdAt", "modifiedAt", "deletedAt", "instanceId"})
_WITHOUT_UNIT: Final = frozenset({"Relationship", "LanguageProperty", "JsonProperty", "VocabProperty", "ListRelationship"})
_GEO_ONLY: Final = frozenset(NGSI_LD + term for term in ("location", "observationSpace", "operationSpace"))
_ENTITY_MEMBERS: Final = frozenset(
    {"id", "type", "@id", "@type", "scope", "expiresAt", "createdAt", "modifiedAt", "deletedAt", "@context"}
)
_SEALED: Final = frozenset({"entityIdSealed", "entityTypeSealed"})  # what a proof is of
_NEVER_ATTRIBUTES: Final = _SEALED | {"datasetId", "instanceId", "observedAt", "unitCode"}
_NAMED_BY_NGSI_LD: Final = _ENTITY_MEMBERS | _NEVER_ATTRIBUTES | RESERVED_MEMBERS  # any other name is that of an attribute
_PROOF: Final = NGSI_LD + "ngsildproof"
_SIMPLIFIED_WRAPS: Final = frozenset({"languageMap", "vocab", "json"})


class Fragment(Struct, kw_only=True, gc=False):
    """Part of an entity, to be appended to one or to change one."""

    id: str | None = None
    types: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None  # None: not said; (): to be deleted
    attributes: Attributes = {}
    expires_at: str | None = None  # NULL: to be deleted
    context: Context = CORE  # what the names in it were meant in


def split_context(body: Any) -> tuple[Any, Any]:
    """A document without its "@context", and that."""
    if isinstance(body, dict) and "@context" in body:
        return {name: value for name, value in body.items() if name != "@context"}, body["@context"]
    return body, None


def parse_entity(body: Any, context: Context, now: str, *, simplified: bool = False, temporal: bool = False) -> Entity:
    """`temporal`: an attribute is the history of its instances, so that many of them may have the same datasetId."""
    if type(body) is not dict:
        raise BadRequestData(f"an entity is a JSON object, not {shown(body)}")
    id_ = body.get("id") or body.get("@id")
    if id_ is None:
        raise BadRequestData("the entity has no id; give it one, a URI like urn:ngsi-ld:Building:1")
    if type(id_) is not str or not is_uri(id_) or id_ == NULL:
        check_uri(None if id_ == NULL else id_, "the id of the entity")
    reader = _Reader(context, now, patch=False, simplified=simplified, temporal=temporal)
    types = reader.types(body)
    if not types:
        raise BadRequestData("the entity has no type; give it one")
    expires = body.get("expiresAt")
    return Entity(
        id=id_,
        types=types,
        scopes=reader.scopes(body["scope"]) if "scope" in body else (),
        attributes=reader.attributes(body),
        created_at=now,
        modified_at=now,
        expires_at=check_date_time(expires, "expiresAt") if "expiresAt" in body else None,
    )


def parse_fragment(
    body: Any,
    context: Context,
    now: str,
    *,
    simplified: bool = False,
    allow_null: bool = False,
    temporal: bool = False,
    lang: str | None = None,
) -> Fragment:
    """`allow_null`: it is a patch. `lang`: the language that plain texts for LanguageProperties are in (used by `merge`)."""
    if type(body) is not dict:
        raise BadRequestData(f"a part of an entity is a JSON object, not {shown(body)}")
    if lang is not None:
        check_language_map({lang: ""}, "lang")
    id_ = body.get("id") or body.get("@id")
    if id_ is not None:
        check_uri(id_, "the id of the entity")
    reader = _Reader(context, now, patch=allow_null, simplified=simplified, temporal=temporal)
    expires = body.get("expiresAt")
    if "expiresAt" in body and not (allow_null and expires == NULL):
        expires = check_date_time(expires, "expiresAt")
    scopes = None
    if "scope" in body:
        scopes = () if allow_null and body["scope"] == NULL else reader.scopes(body["scope"])
    return Fragment(
        id=id_,
        types=reader.types(body),
        scopes=scopes,
        attributes=reader.attributes(body),
        expires_at=expires,
        context=context,
    )


def parse_attribute(
    name: str, body: Any, context: Context, now: str, *, partial: bool = False, simplified: bool = False, temporal: bool = False
) -> list[Instance]:
    """The instances of one attribute. `partial`: it is a patch of existing ones."""
    if name in _ENTITY_MEMBERS:
        raise BadRequestData(f"{name!r} is not the name of an attribute")
    expanded = context.expand_name(name)
    if partial and body == {}:
        raise BadRequestData(f"there is nothing in this update of {name!r}; say what is to change")
    reader = _Reader(context, now, patch=partial, simplified=simplified, temporal=temporal, merges=False)
    instances = reader.attribute(name, body, 0)
    if expanded in _CHECKED:
        _CHECKED[expanded](name, instances)
    return instances


class _Reader:
    """Reads the parts of one document."""

    __slots__ = ("context", "expand", "merges", "now", "patch", "simplified", "temporal")

    def __init__(self, context: Context, now: str, *, patch: bool, simplified: bool, temporal: bool, merges: bool = True) -> None:
        self.context = context
        self.expand = context.expand_name
        self.now = now
        self.patch = patch
        self.merges = patch and merges  # it may go into values, and delete members of them
        self.simplified = simplified
        self.temporal = temporal

    def types(self, body: dict[str, Any]) -> tuple[str, ...]:
        given = body.get("type")
        if given is None:
            given = body.get("@type")
            if given is None:
                if "type" in body or "@type" in body:
                    raise BadRequestData("the type of an entity is not null; leave it out, or name one")
                return ()
        if type(given) is str:
            return (self.expand(given),)
        if type(given) is not list or not given or len(given) > TYPES_MAX or any(type(name) is not str for name in given):
            raise BadRequestData("the type of an entity is a name or an array of names")
        return tuple(dict.fromkeys(map(self.expand, given)))

    def scopes(self, given: Any) -> tuple[str, ...]:
        if type(given) is str:
            return (check_scope(given),)
        if type(given) is dict:  # as in a temporal representation
            return self.scopes(given.get("value"))
        if type(given) is not list or len(given) > TYPES_MAX:
            raise BadRequestData("scope is a text like /Madrid/Gardens, or an array of them")
        if given and type(given[0]) is dict and self.temporal:
            return self.scopes(given[-1])
        return tuple(dict.fromkeys(map(check_scope, given)))

    def attributes(self, body: dict[str, Any]) -> Attributes:
        if len(body) > ATTRIBUTES_MAX:
            raise BadRequestData(f"an entity has at most {ATTRIBUTES_MAX} attributes")
        attributes: Attributes = {}
        for name, value in body.items():
            if name in _NAMED_BY_NGSI_LD:
                if name in _ENTITY_MEMBERS:
                    continue
                if name in _NEVER_ATTRIBUTES or type(value) is not dict:
                    raise BadRequestData(f"{name!r} is a member of attributes, and not the name of one")
            expanded = self.expand(name)
            if expanded in attributes:
                raise BadRequestData(f"the attribute {name!r} is there twice, under two names for {expanded!r}")
            attributes[expanded] = instances = self.attribute(name, value, 0)
            if expanded in _CHECKED:
                _CHECKED[expanded](name, instances)
        return attributes

    def attribute(self, name: str, value: Any, depth: int) -> list[Instance]:
        if self.simplified:
            return self._simplified(name, value)
        kind = type(value)
        if kind is dict:
            return [self.instance(name, value, depth)]
        if kind is list and self._are_instances(value, depth):
            if any(type(item) is not dict for item in value):
                raise BadRequestData(f"the instances of the attribute {name!r} are objects, all of them")
            if len(value) > INSTANCES_MAX:
                raise BadRequestData(f"the attribute {name!r} has more than {INSTANCES_MAX} instances")
            instances = [self.instance(name, item, depth) for item in value]
            if len(instances) > 1 and not (self.temporal and depth == 0):
                _check_datasets(name, instances)
            return instances
        return [self._plain(name, value)]

    def _are_instances(self, value: list[Any], depth: int) -> bool:
        """Whether what is in an array are instances of an attribute, and not the value of one in the concise form."""
        if self.temporal and depth == 0:
            return True
        return bool(value) and type(value[0]) is dict and not _INSTANCE_MARKS.isdisjoint(value[0])

    def instance(self, name: str, body: dict[str, Any], depth: int) -> Instance:
        said = body.get("type")
        result: Instance
        if type(said) is str and said in VALUE_MEMBER:
            kind, result = said, {"type": said}
        else:
            kind, explicit = self._kind(name, body)
            if kind in GEOMETRIES:  # concise: the geometry itself
                return self._plain(name, body)
            result = {"type": kind} if explicit or not self.patch else {}
        member = VALUE_MEMBER.get(kind)  # none only in a patch that says nothing of the value
        for key, value in body.items():
            if key == member:
                result[key] = self._value(name, kind, value)
            elif key in RESERVED_MEMBERS:
                if key == "type":
                    continue
                if key in _VALUE_MEMBERS:
                    say = f"a {kind} has its value in {member!r}" if member else "say only one of them"
                    raise BadRequestData(f"the attribute {name!r} cannot have {key!r}: {say}")
                self._metadata(name, kind, key, value, result)
            elif key == "@type":
                continue
            else:
                if depth >= SUB_ATTRIBUTE_DEPTH_MAX:
                    raise BadRequestData(
                        f"attributes of attributes are nested more than {SUB_ATTRIBUTE_DEPTH_MAX} deep at {key[:60]!r}"
                    )
                expanded = self.expand(key)
                if expanded in result:
                    raise BadRequestData(f"the attribute {name!r} has {key!r} twice, under two names for {expanded!r}")
                result[expanded] = self.attribute(key, value, depth + 1)
        if member not in result and not self.patch:
            raise BadRequestData(f"the attribute {name!r} is a {kind} without {member!r}")
        result["createdAt"] = result["modifiedAt"] = self.now
        return result

    def _kind(self, name: str, body: dict[str, Any]) -> tuple[str, bool]:
        """What kind of attribute an object is that does not plainly say so, and whether it says so at all."""
        said = body.get("type", body.get("@type"))
        if type(said) is list and len(said) == 1:
            said = said[0]
        if type(said) is str:
            if said in GEOMETRIES and looks_like_geometry(body):
                return said, True
            expanded = self.context.expand_term(said)
            kind = expanded.removeprefix(NGSI_LD)
            if kind in VALUE_MEMBER and expanded != kind:
                return kind, True
        if said is not None:
            raise BadRequestData(
                f"the attribute {name!r} has an unknown type, {shown(said)}; an attribute is one of {', '.join(VALUE_MEMBER)}"
            )
        members = _VALUE_MEMBERS.intersection(body)
        if len(members) > 1:
            raise BadRequestData(f"the attribute {name!r} has {' and '.join(sorted(members))}; say only one of them")
        for member in members:
            is_geometry = member == "value" and looks_like_geometry(body["value"])
            return ("GeoProperty" if is_geometry else _KIND_OF_MEMBER[member]), False
        if not self.patch:
            raise BadRequestData(f"the attribute {name!r} has neither a type nor a value; write it like {{'value': 30}}")
        return "", False

    def _value(self, name: str, kind: str, value: Any) -> Any:
        if kind == "Property":
            scalar = type(value)
            if scalar is float or scalar is int:
                if -NUMBER_MAX <= value <= NUMBER_MAX:
                    return value
            elif scalar is bool or (scalar is str and value != NULL and len(value) <= STRING_LENGTH_MAX):
                return value
            if value == NULL and self.patch:
                return NULL
            check_json(value, f"the attribute {name!r}", ngsi_null=self.merges)
            return value
        if kind == "Relationship" and type(value) is str and value != NULL and is_uri(value):
            return value
        if value is None:
            raise BadRequestData(f"the attribute {name!r}: null is no value in NGSI-LD; say {NULL!r} in a patch to delete it")
        if _is_null(kind, value):
            if not self.patch:
                raise BadRequestData(f"the attribute {name!r}: {NULL!r} deletes, and there is nothing to be deleted here")
            return NULL
        return getattr(self, "_" + kind)(f"the attribute {name!r}", value)

    def _GeoProperty(self, what: str, value: Any) -> Any:  # noqa: N802
        if type(value) is str:  # JSON in a text, for those whose JSON-LD tools garble arrays of arrays
            try:
                value = msgspec.json.decode(value)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                raise BadRequestData(f"{what}: {shown(value)} is not a GeoJSON geometry") from None
        check_geometry(value, what)
        return value

    def _Relationship(self, what: str, value: Any) -> Any:  # noqa: N802
        if type(value) is str:
            return check_uri(value, f"{what}: its object")
        if type(value) is not list or not value or len(value) > INSTANCES_MAX:
            raise BadRequestData(f"{what}: its object is a URI or an array of URIs, not {shown(value)}")
        return [check_uri(item, f"{what}: one of its objects") for item in value]

    def _LanguageProperty(self, what: str, value: Any) -> Any:  # noqa: N802
        check_language_map(value, what)
        if not self.patch and any(text == NULL or (type(text) is list and NULL in text) for text in value.values()):
            raise BadRequestData(f"{what}: {NULL!r} deletes, and there is nothing to be deleted here")
        return value

    def _JsonProperty(self, what: str, value: Any) -> Any:  # noqa: N802
        if type(value) is not dict and type(value) is not list:
            raise BadRequestData(f"{what}: its json is an object or an array, not {shown(value)}; a Property holds anything else")
        check_json(value, what, null=True, ngsi_null=True)
        return value

    def _VocabProperty(self, what: str, value: Any) -> Any:  # noqa: N802
        names = value if type(value) is list else [value]
        if not names or len(names) > INSTANCES_MAX or any(type(item) is not str or not item for item in names):
            raise BadRequestData(f"{what}: its vocab is a name or an array of names")
        check_json(names, what)
        expanded = [self.context.expand_term(item) for item in names]
        return expanded if type(value) is list else expanded[0]

    def _ListProperty(self, what: str, value: Any) -> Any:  # noqa: N802
        if type(value) is not list:
            raise BadRequestData(f"{what}: its valueList is an array, not {shown(value)}")
        check_json(value, what)
        return value

    def _ListRelationship(self, what: str, value: Any) -> Any:  # noqa: N802
        if type(value) is not list or len(value) > INSTANCES_MAX:
            raise BadRequestData(f"{what}: its objectList is an array of URIs, not {shown(value)}")
        return [{"object": check_uri(_object_of(item), f"{what}: one of its objects")} for item in value]

    def _metadata(self, name: str, kind: str, key: str, value: Any, result: Instance) -> None:
        """The members of an attribute that NGSI-LD names itself."""
        if key in _SET_BY_NODE:
            if key == "instanceId" and self.temporal:
                result[key] = check_uri(value, f"the attribute {name!r}: instanceId")
            return
        if value == NULL and self.patch and key != "datasetId":
            result[key] = NULL
            return
        match key:
            case "unitCode" if kind in _WITHOUT_UNIT:
                raise BadRequestData(f"the attribute {name!r} is a {kind}; only what can be measured has a unitCode")
            case "unitCode" | "lang":
                result[key] = _text(name, key, value)
            case "observedAt" | "expiresAt":
                result[key] = utc_time(value) or check_date_time(value, f"the attribute {name!r}: {key}")
            case "datasetId":
                if value != "@none":
                    result[key] = check_uri(None if value == NULL else value, f"the attribute {name!r}: datasetId")
            case "objectType":
                names = value if type(value) is list else [value]
                if not names or len(names) > TYPES_MAX or any(type(item) is not str for item in names):
                    raise BadRequestData(f"the attribute {name!r}: objectType is a name or an array of names")
                expanded = [self.expand(item) for item in names]
                result[key] = expanded if type(value) is list else expanded[0]
            case "entityIdSealed" | "entityTypeSealed":
                if type(value) is not str or not value or self.expand(name) != _PROOF:
                    raise BadRequestData(f"the attribute {name!r}: {key} is a text, and only ngsildproof has it")
                result[key] = check_uri(value, key) if key == "entityIdSealed" else self.expand(value)
            case "valueType" if kind == "LanguageProperty" and value != "langString":
                raise BadRequestData(f"the attribute {name!r}: the valueType of a LanguageProperty is langString; leave it out")
            case "valueType":
                result[key] = _text(name, key, value)
            case _:
                raise BadRequestData(f"the attribute {name!r} cannot have {key!r}: only answers have it")

    def _plain(self, name: str, value: Any) -> Instance:
        """A value that stands for the whole attribute, as in the concise and the simplified form."""
        if value == NULL:
            if not self.patch:
                raise BadRequestData(f"the attribute {name!r}: {NULL!r} deletes, and there is nothing to be deleted here")
            return {"value": NULL}
        kind = "GeoProperty" if looks_like_geometry(value) else "Property"
        result: Instance = {} if self.patch else {"type": kind}
        result["value"] = self._value(name, kind, value)
        result["createdAt"] = result["modifiedAt"] = self.now
        return result

    def _simplified(self, name: str, value: Any) -> list[Instance]:
        if type(value) is dict and len(value) == 1:
            ((key, inner),) = value.items()
            if key in _SIMPLIFIED_WRAPS:
                kind = _KIND_OF_MEMBER[key]
                return [{"type": kind, key: self._value(name, kind, inner), "createdAt": self.now, "modifiedAt": self.now}]
            if key == "dataset" and type(inner) is dict and inner:
                instances: list[Instance] = []
                for dataset, item in inner.items():
                    instance = self._plain(name, item)
                    if dataset != "@none":
                        instance["datasetId"] = check_uri(dataset, f"the attribute {name!r}: datasetId")
                    instances.append(instance)
                return instances
        return [self._plain(name, value)]


def _text(name: str, key: str, value: Any) -> str:
    if type(value) is not str or not value:
        raise BadRequestData(f"the attribute {name!r}: {key} is a text, not {shown(value)}")
    if value == NULL or len(value) > STRING_LENGTH_MAX:
        check_json(value, f"the attribute {name!r}: {key}")
    return value


def _is_null(kind: str, value: Any) -> bool:
    """The ways to say that the value of an attribute of this kind is to be deleted."""
    if value == NULL:
        return True
    match kind:
        case "LanguageProperty":
            return type(value) is dict and value.get("@none") == NULL
        case "ListProperty" | "ListRelationship":
            return type(value) is list and len(value) == 1 and _object_of(value[0]) == NULL
        case _:
            return False


def _object_of(item: Any) -> Any:
    return item.get("object") if type(item) is dict and len(item) == 1 else item


def _check_geo_only(name: str, instances: list[Instance]) -> None:
    for item in instances:
        if item.get("type", "GeoProperty") != "GeoProperty":
            raise BadRequestData(f"{name!r} is where something is: it must be a GeoProperty, not a {item['type']}")


def _check_proof(_name: str, instances: list[Instance]) -> None:
    for item in instances:
        if item.get("type", "Property") != "Property" or (type(item.get("value", {})) is not dict and item.get("value") != NULL):
            raise BadRequestData("ngsildproof is a Property whose value is an object, a W3C Data Integrity proof")


_CHECKED: Final = dict.fromkeys(_GEO_ONLY, _check_geo_only) | {_PROOF: _check_proof}  # attributes that NGSI-LD says more of


def _check_datasets(name: str, instances: list[Instance]) -> None:
    datasets = {instance.get("datasetId") for instance in instances}
    if len(datasets) != len(instances):
        raise BadRequestData(f"the attribute {name!r} has two instances with the same datasetId, or two without one")
