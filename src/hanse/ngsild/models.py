"""Data models of entity types: JSON Schemas, in the form of Smart Data Models, that say what an entity of a type looks like.

A model is for one type. It names the properties of its entities, which of them are relationships, and which are *dynamic* (they
change by themselves, and are worth subscribing to) rather than *static* (they describe the thing). It may extend others: by
`x-extends`, or by a `$ref` to their types in `allOf` at the top. Which are dynamic the member `x-dynamic` lists; without one, all
are but relationships and those whose names (`STATIC_NAMES`) tell that they describe the thing.

`parse_model` reads a model, `resolve` puts it together with what it inherits, and `violations` says in words what of an entity is
not as the model wants it. The schema holds for the simplified (keyValues) form, where every instance of an attribute, and every
text of a LanguageProperty, is a value of its own. The names in it are those of the @context that it came with.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import VALUE_MEMBER, Entity, Instance
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.model_schemas import PROPERTIES_MAX, SCHEMAS_MAX, FoundProperty, SchemaReader
from hanse.ngsild.uris import is_uri

BYTES_MAX: Final = 262_144  # of one schema
LINEAGE_MAX: Final = 16  # a model and all that it inherits from
TITLE_LENGTH_MAX: Final = 500
VIOLATIONS_MAX: Final = 20  # told of one entity
WORDS_LENGTH_MAX: Final = 300  # of one violation
# a value is explained if its bytes in JSON times the parts of the schema are no more: it can have as many errors
EXPLAINED_MAX: Final = 100_000
PATTERN_BYTES_MAX: Final = 1_000_000  # of one compiled regular expression

Kind: TypeAlias = Literal["", "Property", "GeoProperty", "Relationship"]  # "": the model does not say

STATIC_NAMES: Final = frozenset({
    "address", "alternateName", "annotations", "areaServed", "brandName", "category", "color", "configuration",
    "controlledProperty", "dataProvider", "dateCreated", "dateInstalled", "dateManufactured", "dateModified", "description",
    "deviceCategory", "documentation", "floorsAboveGround", "floorsBelowGround", "image", "location", "manufacturerName",
    "modelName", "name", "openingHours", "openingHoursSpecification", "owner", "seeAlso", "serialNumber", "source",
    "supportedProtocol", "vehicleIdentificationNumber", "vehiclePlateIdentifier", "vehicleType",
})  # fmt: skip
_MOMENT: Final = re.compile(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_KIND: Final = re.compile(r"\s*(Property|Geo-?Property|Relationship)\b", re.IGNORECASE)
_KINDS: Final[dict[str, Kind]] = {"property": "Property", "geoproperty": "GeoProperty", "relationship": "Relationship"}
_LINKS: Final = frozenset({"Relationship", "ListRelationship"})


class DataModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model as it was given: it can be stored, and sent to others."""

    type: str  # expanded
    name: str  # of the type, as the schema has it
    title: str = ""
    version: str = ""
    schema: dict[str, Any] = {}
    extends: tuple[str, ...] = ()  # types, expanded
    names: dict[str, str] = {}  # of its own properties: short -> expanded
    dynamic: tuple[str, ...] | None = None  # short names; None: the schema does not say
    modified_at: str = ""  # as `now_text` writes it; who keeps the model sets it
    is_deleted: bool = False  # it says that there was one, so that nobody brings it back who has not heard

    @property
    def digest(self) -> str:
        """The same for the same content."""
        return hashlib.sha256(encode_model(self)).hexdigest()


class ModelProperty(Struct, frozen=True, omit_defaults=True):
    name: str
    uri: str
    kind: Kind
    is_dynamic: bool
    is_required: bool
    description: str
    model: str  # the type whose model brings it in


class CompiledModel(Struct, frozen=True):
    """A model with all that it inherits, ready to check entities."""

    type: str
    name: str
    lineage: tuple[str, ...]  # types: the most general first, its own last
    properties: dict[str, ModelProperty]  # by short name
    schema: dict[str, Any]
    size: int  # how many parts the schema has
    short: dict[str, str]  # expanded -> short name
    validator: Any  # for an entity as a whole
    parts: Any  # for properties by themselves

    def of(self, *, dynamic: bool) -> list[str]:
        """The names of the dynamic properties, or of the static ones."""
        return [name for name, found in self.properties.items() if found.is_dynamic == dynamic]

    @property
    def relationships(self) -> list[str]:
        return [name for name, found in self.properties.items() if found.kind == "Relationship"]


encode_model = msgspec.json.Encoder(order="sorted").encode
decode_model = msgspec.json.Decoder(DataModel).decode


# --- reading ----------------------------------------------------------------------------------------------------------


def parse_model(data: bytes | dict[str, Any], context: Context, *, type_: str = "") -> DataModel:
    """`type_`: the type that it is for (expanded), if known otherwise. Raises BadRequestData for what is no usable schema."""
    document = _document(data)
    found = SchemaReader(document)
    _validator(found.schema)
    named = list(dict.fromkeys(found.type_names))
    if len(named) > 1 and type_ not in map(context.expand_name, named):
        raise BadRequestData(f"the schema is for several types, {', '.join(named)[:200]}; a model is for one")
    expanded = [context.expand_name(name) for name in named]
    if not named and not type_:
        raise BadRequestData('the schema does not say for which type it is; give it "properties": {"type": {"const": "Room"}}')
    if type_ and named and type_ not in expanded:
        raise BadRequestData(f"the schema is for the type {named[0][:200]!r}, not for {type_!r}")
    parents = [*found.parents, *_texts(document, "x-extends")]
    model = DataModel(
        type=type_ or expanded[0],
        name=named[expanded.index(type_)] if type_ and named else named[0] if named else context.compact_type(type_),
        title=_text(document, "title"),
        version=_text(document, "$schemaVersion", "version", "x-version"),
        schema=document,
        extends=tuple(dict.fromkeys(map(context.expand_name, parents))),
        names={name: context.expand_name(name) for name in found.properties},
        dynamic=tuple(_texts(document, "x-dynamic")) if "x-dynamic" in document else None,
    )
    _check_names(model)
    return model


def check_model(model: DataModel) -> None:
    """A model that someone else has read: whether it is one. Raises BadRequestData."""
    if len(encode_model(model)) > 2 * BYTES_MAX:
        raise BadRequestData(f"the model is larger than {2 * BYTES_MAX:,} bytes")
    if not _is_moment(model.modified_at):
        raise BadRequestData(f"{model.modified_at[:40]!r} is no time at which the model can have changed")
    for uri in (model.type, *model.extends, *model.names.values()):
        if not is_uri(uri):
            raise BadRequestData(f"{uri[:200]!r} in the model is no URI")
    if model.is_deleted:
        return
    found = SchemaReader(_document(model.schema))
    if missing := found.properties.keys() - model.names.keys():
        raise BadRequestData(f"the model does not say what {min(missing)[:200]!r} means")
    _check_names(model)


def _is_moment(text: str) -> bool:
    try:
        return _MOMENT.fullmatch(text) is not None and datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _check_names(model: DataModel) -> None:
    """Two names for one attribute would be two rules that each see only half."""
    seen: dict[str, str] = {}
    for name, uri in model.names.items():
        if uri in seen:
            raise BadRequestData(f"{seen[uri][:100]!r} and {name[:100]!r} are the same attribute, {uri[:200]}; use one name")
        seen[uri] = name


def _document(data: bytes | dict[str, Any]) -> dict[str, Any]:
    try:
        raw = data if isinstance(data, bytes) else msgspec.json.encode(data)
        if len(raw) > BYTES_MAX:
            raise BadRequestData(f"the schema is larger than {BYTES_MAX:,} bytes")
        document = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, BadRequestData):
            raise
        raise BadRequestData(f"the schema is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadRequestData("a data model is a JSON Schema: a JSON object")
    return document


def _text(document: dict[str, Any], *names: str) -> str:
    for name in names:
        if name in document:
            value = document[name]
            if not isinstance(value, str) or len(value) > TITLE_LENGTH_MAX:
                raise BadRequestData(f"{name} is a text of at most {TITLE_LENGTH_MAX} characters")
            return value
    return ""


def _texts(document: dict[str, Any], name: str) -> list[str]:
    value = document.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > PROPERTIES_MAX or not all(isinstance(text, str) for text in texts):
        raise BadRequestData(f"{name} is a name, or an array of names")
    return texts


# --- inheriting -------------------------------------------------------------------------------------------------------


def resolve(model: DataModel, others: Mapping[str, DataModel]) -> CompiledModel:
    """The model with what it inherits from others, by type. Raises BadRequestData for an unknown parent, or one of its heirs."""
    lineage = _lineage(model, others)
    properties: dict[str, ModelProperty] = {}
    own: dict[str, list[dict[str, Any]]] = {}
    schemas, is_closed = [], False
    for ancestor in lineage:
        found = SchemaReader(ancestor.schema)
        schemas.append(found.schema)
        is_closed = is_closed or found.is_closed
        for name, item in found.properties.items():
            _put(properties, name, item, ancestor)
            own.setdefault(name, []).extend(item.schemas)
        for name in ancestor.dynamic or ():
            if name not in properties:
                raise BadRequestData(f"x-dynamic of the model {ancestor.name!r} names {name[:100]!r}, which is no property of it")
            properties[name] = msgspec.structs.replace(properties[name], is_dynamic=True)
    merged: dict[str, Any] = {"allOf": schemas}
    if is_closed:
        merged |= {"properties": {"id": {}, "type": {}, "scope": {}}, "unevaluatedProperties": False}
    return CompiledModel(
        type=model.type,
        name=model.name,
        lineage=tuple(ancestor.type for ancestor in lineage),
        properties=properties,
        schema=merged,
        size=sum(1 for _ in _objects(merged)),
        short={item.uri: name for name, item in properties.items()},
        validator=_validator(merged),
        parts=_validator({"properties": {name: {"allOf": found} for name, found in own.items() if found}}),
    )


def _lineage(model: DataModel, others: Mapping[str, DataModel]) -> list[DataModel]:
    """The models that it is made of, each after those that it extends."""
    done: dict[str, DataModel] = {}

    def visit(one: DataModel, within: tuple[str, ...]) -> None:
        if one.type in within:
            circle = " extends ".join([*within[within.index(one.type) :], one.type])
            raise BadRequestData(f"a model cannot extend itself: {circle}")
        if one.type in done:
            return
        for parent in one.extends:
            found = model if parent == model.type else others.get(parent)
            if found is None or found.is_deleted:
                raise BadRequestData(f"the model {one.name!r} extends {parent!r}, of which there is no model; add that first")
            visit(found, (*within, one.type))
        if len(done) >= LINEAGE_MAX:
            raise BadRequestData(f"the model {model.name!r} inherits from more than {LINEAGE_MAX - 1} others")
        done[one.type] = one

    visit(model, ())
    return list(done.values())


def _put(properties: dict[str, ModelProperty], name: str, item: FoundProperty, model: DataModel) -> None:
    uri = model.names.get(name, "")
    before = properties.get(name)
    if before is not None and before.uri != uri:
        raise BadRequestData(
            f"{name[:100]!r} is {before.uri[:200]} in the model of {before.model!r} and {uri[:200]} in {model.name!r}; "
            "let them use the same @context"
        )
    hints = [hint for schema in (*item.schemas, *item.perhaps) for hint in _hints(schema)]
    kind = next((found for text in hints if (found := _kind(text))), before.kind if before else "")
    is_static = name in STATIC_NAMES or kind == "Relationship" if model.dynamic is None else True
    properties[name] = ModelProperty(
        name=name,
        uri=uri,
        kind=kind,
        is_dynamic=before.is_dynamic if before else not is_static,
        is_required=item.is_required or (before is not None and before.is_required),
        description=next((text for text in hints if text not in _KINDS.values()), before.description if before else ""),
        model=before.model if before else model.type,
    )
    if len(properties) > PROPERTIES_MAX:
        raise BadRequestData(f"the model {model.name!r} has more than {PROPERTIES_MAX} properties with those that it inherits")


def _hints(schema: dict[str, Any]) -> Iterator[str]:
    """What a property's schema says about itself, where its kind may stand: in x-ngsi, or first in the description."""
    hint = schema.get("x-ngsi")
    if isinstance(hint, dict) and isinstance(hint.get("type"), str):
        yield hint["type"]
    if isinstance(schema.get("description"), str):
        yield schema["description"]
    for inner in schema.get("allOf", ()):
        yield from _hints(inner)


def _kind(text: str) -> Kind:
    found = _KIND.match(text)
    return _KINDS[found[1].lower().replace("-", "")] if found else ""


def _validator(schema: dict[str, Any]) -> Any:
    import jsonschema_rs  # takes as long to import as all of this package, and most nodes have no models

    if sum(1 for _ in _objects(schema)) > 10 * SCHEMAS_MAX:
        raise BadRequestData("the schema is too large with what it inherits")
    try:
        return jsonschema_rs.Draft202012Validator(
            schema,
            validate_formats=True,
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES_MAX),  # linear in time: no look-around
        )
    except jsonschema_rs.ValidationError as error:
        place = "/".join(map(str, (*error.instance_path, *error.schema_path[-1:])))
        more = (
            "; it must be small, without look-around and references back" if error.kind.as_dict().get("format") == "regex" else ""
        )
        raise BadRequestData(f"the schema is not valid JSON Schema: {_cut(error.message)} (at {_cut(place)}){more}") from None
    except (ValueError, TypeError, OverflowError, RecursionError, jsonschema_rs.ReferencingError) as error:
        raise BadRequestData(f"the schema is not valid JSON Schema: {_cut(str(error))}") from None


def _objects(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


# --- checking ---------------------------------------------------------------------------------------------------------


def violations(
    compiled: CompiledModel, entity: Entity, context: Context = CORE, changed: Collection[str] | None = None
) -> list[str]:
    """What of an entity is not as its model wants it, a line each. `changed` (expanded): only what concerns these attributes.

    So a patch is not refused for what was missing or wrong before; but it is if it takes away what is required.
    """
    names = {uri: compiled.short.get(uri) or _other_name(uri, compiled, context) for uri in entity.attributes}
    meant = None if changed is None else {names.get(uri) or compiled.short.get(uri) or uri for uri in changed}
    whole: dict[str, Any] = {"id": entity.id, "type": [*map(context.compact_type, entity.types)]}
    if entity.scopes:
        whole["scope"] = list(entity.scopes)
    told: dict[str, None] = {}
    more: list[dict[str, Any]] = []
    for uri, instances in entity.attributes.items():
        name = names[uri]
        first, *others = [value for instance in instances for value in _values(instance, context)] or [None]
        whole[name] = first
        if meant is None or name in meant:
            more += ({name: value} for value in others)
            told |= dict.fromkeys(_wrong_kinds(compiled, name, instances))
    if not compiled.validator.is_valid(whole):
        told |= dict.fromkeys(_broken(compiled, whole, meant))
    for part in more:
        if len(told) >= VIOLATIONS_MAX:
            break
        if not compiled.parts.is_valid(part):
            told |= dict.fromkeys(_part(compiled, part))
    return list(told)[:VIOLATIONS_MAX]


def _other_name(uri: str, compiled: CompiledModel, context: Context) -> str:
    """An attribute that the model does not know; it must not be taken for one that it does."""
    name = context.compact_iri(uri)
    return uri if name in compiled.properties else name


def _values(instance: Instance, context: Context) -> list[Any]:
    """The values of an instance, as simple as they can be."""
    kind = instance.get("type", "Property")
    value = instance.get(VALUE_MEMBER.get(kind, "value"))
    if kind == "LanguageProperty" and isinstance(value, dict):
        return list(value.values())
    if kind == "ListRelationship" and isinstance(value, list):
        return [[item.get("object") if isinstance(item, dict) else item for item in value]]
    if kind == "VocabProperty":
        terms = value if isinstance(value, list) else [value]
        compacted = [context.compact_iri(term) if isinstance(term, str) else term for term in terms]
        return [compacted if isinstance(value, list) else compacted[0]]
    if kind == "Property" and isinstance(value, dict) and "@value" in value and value.keys() <= {"@type", "@value"}:
        return [value["@value"]]
    return [value]


def _wrong_kinds(compiled: CompiledModel, name: str, instances: list[Instance]) -> Iterator[str]:
    expected = compiled.properties[name].kind if name in compiled.properties else ""
    for instance in instances:
        kind = instance.get("type", "Property")
        if (
            (expected == "Relationship" and kind not in _LINKS)
            or (expected == "GeoProperty" and kind != "GeoProperty")
            or (expected == "Property" and kind in _LINKS)
        ):
            yield f"{name}: it is a {kind}, and should be a {expected} (rule: kind)"


def _broken(compiled: CompiledModel, whole: dict[str, Any], meant: set[str] | None) -> Iterator[str]:
    if _is_small(compiled, whole):
        for error in compiled.validator.iter_errors(whole):
            if meant is None or meant & _concerned(error):
                yield _told(error)
        return
    # attribute by attribute; a patch is not held against rules between attributes then: nobody could say whether it broke them
    names = whole.keys() if meant is None else meant
    found = [line for name in sorted(names & whole.keys()) for line in _part(compiled, {name: whole[name]})]
    for name, item in compiled.properties.items():
        if item.is_required and name not in whole and (meant is None or name in meant):
            found.append(f"{name}: it is missing (rule: required)")
    if compiled.schema.get("unevaluatedProperties") is False:
        unknown = sorted((names & whole.keys()) - compiled.properties.keys() - {"id", "type", "scope"})
        found += [f"{_cut(name)}: the model does not know it (rule: unevaluatedProperties)" for name in unknown]
    if not found and meant is None:
        found.append("the entity: it breaks a rule between attributes, and is too large to say more (rule: allOf)")
    yield from found


def _part(compiled: CompiledModel, part: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one value of one attribute by itself."""
    if compiled.parts.is_valid(part):
        return
    if _is_small(compiled, part):
        yield from map(_told, compiled.parts.iter_errors(part))
    else:
        yield f"{min(part)}: it does not fit, and is too large to say why (rule: properties)"


def _is_small(compiled: CompiledModel, value: dict[str, Any]) -> bool:
    """Whether all that may be wrong with a value can be listed in no time."""
    return len(msgspec.json.encode(value)) * compiled.size <= EXPLAINED_MAX


def _concerned(error: Any) -> set[str]:
    """The attributes that an error is about."""
    if error.instance_path:
        return {str(error.instance_path[0])}
    kind = error.kind.as_dict()
    if "property" in kind:
        return {str(kind["property"])}
    if "unexpected" in kind:
        return set(map(str, kind["unexpected"]))
    return {name for branch in kind.get("context", ()) for inner in branch for name in _concerned(inner)}


def _told(error: Any) -> str:
    path, rule, kind = ".".join(map(str, error.instance_path)), error.kind.name, error.kind.as_dict()
    if "property" in kind:
        return f"{_cut(f'{path}.' if path else '')}{_cut(str(kind['property']))}: it is missing (rule: required)"
    if "unexpected" in kind:
        return f"{_cut(', '.join(map(str, kind['unexpected'])))}: the model does not know it (rule: {rule})"
    if "context" in kind:
        reasons = dict.fromkeys(_told(inner) for branch in kind["context"] for inner in branch[:1])
        message = f"it fits none of the alternatives, or more than one: {_cut('; '.join(reasons))}"
    else:
        message = error.message
    return f"{_cut(path) or 'the entity'}: {_cut(message)} (rule: {rule})"


def _cut(text: str) -> str:
    return text if len(text) <= WORDS_LENGTH_MAX else text[: WORDS_LENGTH_MAX - 4] + " ..."
