"""Observations with their quality in XML, as the INCOME paper has it, and back.

    <notification>
      <observation id="1" date="2014-06-12T08:30:00Z">
        <observable><uri>#pollution</uri><entity><uri>bordeaux://thiersave./sensors/45/</uri><type>Thing</type></entity></observable>
        <value type="number" unitcode="GQ">41.5</value>
        <qocindicator id="10" name="PrecisionQoCIndicator">
          <qoccriterion id="[10.1]" name="precision">
            <qocmetricdefinition id="10.1" direction="UPPER" minvalue="0" maxvalue="100" .../>
          </qoccriterion>
          <qocmetricvalue value="80" creationdate="2014-06-12T08:30:00Z" definition="10.1"/>
        </qocindicator>
      </observation>
    </notification>

The names of elements and ids are those that the paper's filters use; the members of a definition and of a value are QoCIM's.
Numbers are written without exponents, which XPath 1.0 does not know. `from_xml` takes what `to_xml` writes, and refuses what an
observation could not hold, so that nothing is lost. `quality_of_xml` takes any XML and reads the indicators that it finds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hanse.model.errors import InvalidInput
from hanse.model.payload import MAX_XML_CHARACTERS, Document, parse_xml
from hanse.quality.criteria import Criterion, Definition, Levels, Registry, default_registry
from hanse.quality.indicators import Indicator, MetricValue, Quality
from hanse.quality.keys import whole
from hanse.quality.observation import MAX_OBSERVATIONS, Observation, with_freshness, worst_of
from hanse.quality.texts import checked_time

if TYPE_CHECKING:
    from lxml import etree

    Element: TypeAlias = etree._Element  # noqa: SLF001  it has no other name

MAX_NUMBER_CHARACTERS: Final = 1_200  # the smallest double has a thousand digits, written out

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DIRECTIONS: Final = {"higher": "UPPER", "lower": "LOWER"}
_BY_DIRECTION: Final = {theirs: ours for ours, theirs in _DIRECTIONS.items()}


# --- writing ----------------------------------------------------------------------------------------------------------


def to_xml(*observations: Observation) -> str:
    """A notification of at least one observation."""
    from lxml import etree

    if not 1 <= len(observations) <= MAX_OBSERVATIONS:
        raise InvalidInput(f"a notification has 1 to {MAX_OBSERVATIONS} observations, not {len(observations)}")
    root = etree.Element("notification")
    for observation in observations:
        _write_observation(root, observation)
    text = etree.tostring(root, encoding="unicode")
    if len(text) > MAX_XML_CHARACTERS:
        raise InvalidInput(f"the notification has {len(text)} characters in XML; {MAX_XML_CHARACTERS} are allowed: split it")
    return text


def _write_observation(root: Element, observation: Observation) -> None:
    one = _child(root, "observation", id=observation.id, date=observation.at)
    observable = _child(one, "observable")
    _child(observable, "uri").text = observation.observable
    entity = _child(observable, "entity")
    _child(entity, "uri").text = observation.entity
    _child(entity, "type").text = observation.entity_type
    kind, text = _value_text(observation.value)
    _child(one, "value", type=kind, unitcode=observation.unit_code).text = text
    for stated in observation.quality.indicators:
        _write_indicator(one, stated)


def _write_indicator(parent: Element, stated: Indicator) -> None:
    one = _child(parent, "qocindicator", id=stated.id, name=stated.name)
    criterion = _child(one, "qoccriterion", id=stated.criterion_id, name=stated.criterion)
    for definition in stated.definitions:
        _write_definition(criterion, definition)
    for value in stated.values:
        _child(
            one,
            "qocmetricvalue",
            id=value.id,
            value=_number_text(value.value),
            creationdate=value.at,
            modificationdate=value.modified_at,
            definition=value.definition,
        )


def _write_definition(parent: Element, definition: Definition) -> None:
    levels = definition.levels
    one = _child(
        parent,
        "qocmetricdefinition",
        id=definition.id,
        name=definition.name,
        isinvariant="true" if definition.invariant else "false",
        unit=definition.unit,
        unitcode=definition.unit_code,
        direction=_DIRECTIONS[definition.direction],
        provideruri=definition.provider,
        minvalue=_number_text(definition.min),
        maxvalue=_number_text(definition.max),
        defaultvalue=_number_text(definition.default),
        mediumlevel=_number_text(levels.medium if levels else None),
        highlevel=_number_text(levels.high if levels else None),
    )
    if definition.description:
        _child(one, "informaldescription").text = definition.description
    for keyword in definition.keywords:
        _child(one, "keyword").text = keyword
    for id_ in definition.related:
        _child(one, "relateddefinition", id=id_)


def _child(parent: Element, tag: str, **attributes: str | None) -> Element:
    from lxml import etree

    return etree.SubElement(parent, tag, {name: value for name, value in attributes.items() if value})


def _number_text(value: float | None) -> str | None:
    if value is None:
        return None
    return format(Decimal(repr(float(value))), "f").removesuffix(".0")


def _value_text(value: Any) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return "number", str(value)
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return "number", text if "." in text else f"{text}.0"
    if isinstance(value, str):
        return "text", value
    return "json", json.dumps(value, separators=(",", ":"))


# --- reading ----------------------------------------------------------------------------------------------------------


def from_xml(document: str | Document, registry: Registry | None = None) -> tuple[Observation, ...]:
    """The observations of a notification. InvalidInput where it is not one, or has what an observation cannot hold."""
    registry = registry or default_registry()
    root = (parse_xml(document) if isinstance(document, str) else document).root
    if root.tag == "observation":
        return (_read_observation(root, registry),)
    if root.tag != "notification":
        raise InvalidInput(f"<{_shown(root.tag)}> is no notification; begin with <notification> or <observation>")
    found = _Parts(root, (), ("observation",))
    observations = found.all("observation")
    if not 1 <= len(observations) <= MAX_OBSERVATIONS:
        raise InvalidInput(f"a notification has 1 to {MAX_OBSERVATIONS} observations, not {len(observations)}")
    return tuple(_read_observation(one, registry) for one in observations)


class _Parts:
    """An element taken apart: which attributes and elements it may have is said once, all others are refused."""

    def __init__(self, element: Element, attributes: tuple[str, ...], children: tuple[str, ...]) -> None:
        self._tag = str(element.tag)
        self.get = element.get
        self._children: dict[str, list[Element]] = {}
        for name in element.attrib:
            if name not in attributes:
                known = ", ".join(attributes) or "it has none"
                raise InvalidInput(f"<{self._tag}> has an unknown attribute {_shown(name)!r} ({known})")
        for child in element:
            if isinstance(child.tag, str):  # else a comment or an instruction
                if child.tag not in children:
                    known = ", ".join(children) or "it has none"
                    raise InvalidInput(f"<{self._tag}> has an unknown element <{_shown(child.tag)}> ({known})")
                self._children.setdefault(child.tag, []).append(child)
        self.text = _text(element)
        if children and self.text.strip():
            raise InvalidInput(f"<{self._tag}> has text in it, {self.text.strip()[:40]!r}; put that into one of its elements")

    def all(self, tag: str) -> list[Element]:
        return self._children.get(tag, [])

    def one(self, tag: str) -> Element:
        found = self.all(tag)
        if len(found) != 1:
            raise InvalidInput(f"<{self._tag}> has {len(found)} elements <{tag}>; give one")
        return found[0]

    def text_of(self, tag: str, default: str | None = None) -> str:
        if default is not None and not self.all(tag):
            return default
        return _Parts(self.one(tag), (), ()).text

    def number(self, attribute: str) -> float | None:
        text = self.get(attribute)
        return None if text is None else _read_number(text, f"<{self._tag} {attribute}>")


def _read_observation(element: Element, registry: Registry) -> Observation:
    parts = _Parts(element, ("id", "date"), ("observable", "value", "qocindicator"))
    observable = _Parts(parts.one("observable"), (), ("uri", "entity"))
    entity = _Parts(observable.one("entity"), (), ("uri", "type"))
    value = _Parts(parts.one("value"), ("type", "unitcode"), ())
    return Observation(
        id=parts.get("id") or "",
        at=parts.get("date"),
        entity=entity.text_of("uri").strip(),
        entity_type=entity.text_of("type", "Thing").strip(),
        observable=observable.text_of("uri").strip(),
        value=_read_value(value.text, value.get("type")),
        unit_code=value.get("unitcode") or "",
        quality=Quality(tuple(_read_indicator(one, registry) for one in parts.all("qocindicator"))),
    )


def _read_indicator(element: Element, registry: Registry) -> Indicator:
    parts = _Parts(element, ("id", "name"), ("qoccriterion", "qocmetricvalue"))
    criterion = _Parts(parts.one("qoccriterion"), ("id", "name"), ("qocmetricdefinition",))
    definitions = tuple(_read_definition(one, registry) for one in criterion.all("qocmetricdefinition"))
    usual = definitions[0].id if definitions else ""
    return Indicator(
        criterion=_criterion_name(element, parts.one("qoccriterion"), registry),
        id=parts.get("id") or "",
        name=parts.get("name") or "",
        criterion_id=criterion.get("id") or "",
        definitions=definitions,
        values=tuple(_read_metric_value(one, usual) for one in parts.all("qocmetricvalue")),
    )


def _read_metric_value(element: Element, usual: str) -> MetricValue:
    parts = _Parts(element, ("id", "value", "creationdate", "modificationdate", "definition"), ())
    value = parts.number("value")
    if value is None:
        raise InvalidInput("<qocmetricvalue> has no value")
    return MetricValue(
        value=value,
        at=parts.get("creationdate"),
        definition=parts.get("definition") or usual,
        id=parts.get("id") or "",
        modified_at=parts.get("modificationdate"),
    )


def _read_definition(element: Element, registry: Registry) -> Definition:
    known = ("id", "name", "isinvariant", "unit", "unitcode", "direction", "provideruri", "minvalue", "maxvalue", "defaultvalue")
    inner = ("informaldescription", "keyword", "relateddefinition")
    parts = _Parts(element, (*known, "mediumlevel", "highlevel"), inner)
    id_ = parts.get("id") or ""
    if not id_:
        raise InvalidInput("<qocmetricdefinition> has no id; give it one, like 10.1")
    medium, high = parts.number("mediumlevel"), parts.number("highlevel")
    if (medium is None) != (high is None):
        raise InvalidInput("<qocmetricdefinition> has one of mediumlevel and highlevel; give both or none")
    direction = parts.get("direction")
    if direction is not None and direction not in _BY_DIRECTION:
        raise InvalidInput(f"<qocmetricdefinition direction> is {direction[:40]!r}; it is UPPER or LOWER")
    return Definition(
        id=id_,
        name=parts.get("name") or "",
        levels=None if medium is None or high is None else Levels(medium, high),
        unit=parts.get("unit") or "",
        unit_code=parts.get("unitcode") or "",
        direction=_direction(direction, id_, registry),
        min=parts.number("minvalue"),
        max=parts.number("maxvalue"),
        default=parts.number("defaultvalue"),
        provider=parts.get("provideruri") or "",
        description=parts.text_of("informaldescription", ""),
        keywords=tuple(_Parts(one, (), ()).text for one in parts.all("keyword")),
        related=tuple(_Parts(one, ("id",), ()).get("id") or "" for one in parts.all("relateddefinition")),
        invariant=_read_boolean(parts.get("isinvariant") or "false"),
    )


def _direction(written: str | None, definition_id: str, registry: Registry) -> Any:
    """Which is better; as the registry says, where the document does not."""
    if written is not None:
        return _BY_DIRECTION.get(written)
    known = (one for criterion in registry.by_name.values() for one in criterion.definitions if one.id == definition_id)
    return next((one.direction for one in known), "higher")


def _criterion_name(element: Element, criterion: Element | None, registry: Registry) -> str:
    """Of an indicator: as its criterion is called, or else by its id, or else by its own name, PrecisionQoCIndicator."""
    written = (criterion.get("name") if criterion is not None else None) or ""
    if written and not written.endswith("QoCCriterion"):
        return written
    if known := registry.of_id(element.get("id") or ""):
        return known.name
    word = (element.get("name") or written).removesuffix("QoCIndicator").removesuffix("QoCCriterion")
    return word[:1].lower() + word[1:]


def _read_number(text: str, what: str) -> float:
    if len(text) > MAX_NUMBER_CHARACTERS or not _NUMBER.fullmatch(text.strip()) or not isfinite(float(text)):
        raise InvalidInput(f"{what} is {text[:40]!r}; give a number")
    return float(text)


def _read_boolean(text: str) -> bool:
    if text.strip() not in ("true", "false"):
        raise InvalidInput(f"{text[:40]!r} is neither true nor false")
    return text.strip() == "true"


def _read_value(text: str, kind: str | None) -> Any:
    if kind is None:
        kind = "number" if _NUMBER.fullmatch(text.strip()) else "text"
    match kind:
        case "text":
            return text
        case "boolean":
            return _read_boolean(text)
        case "number":
            number = _read_number(text, "<value>")
            return int(text) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) else number
        case "json":
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                raise InvalidInput(f"<value> is not JSON: {error}") from error
    raise InvalidInput(f"<value type> is {kind[:40]!r}; it is number, text, boolean or json")


def _shown(tag: Any) -> str:
    return str(tag)[:60]


# --- quality of any document ------------------------------------------------------------------------------------------


def quality_of_xml(
    document: str | Document,
    registry: Registry | None = None,
    *,
    now: float | None = None,
    expand: Callable[[str], str] | None = None,
) -> dict[str, float]:
    """What a notification in XML says of its quality: the keys of `Notification.quality`.

    Indicators inside an <observation> are of its observable, whose name goes through `expand`; others are of the whole. What
    is no indicator, or cannot be understood by the registry, says nothing. With the time `now`, freshness follows from the
    date of each observation. InvalidInput only where it is no XML, or none that a node takes.
    """
    registry = registry or default_registry()
    root = (parse_xml(document) if isinstance(document, str) else document).root
    stated: list[tuple[str, dict[str, float]]] = []
    of_whole: list[tuple[str, dict[str, float]]] = []
    inside: dict[Element, dict[str, float]] = {}
    for observation in root.iter("observation"):
        attribute = _text(observation.find("observable/uri")).strip().removeprefix("#")
        values: dict[str, float] = {}
        inside[observation] = values
        if attribute:
            stated.append((expand(attribute) if expand else attribute, values))
        else:
            of_whole.append(("", values))
    loose: dict[str, float] = {}
    for element in root.iter("qocindicator"):
        read = _read_plain(element, registry)
        if read is not None:
            criterion, value = read
            values = inside.get(next(element.iterancestors("observation"), root), loose)
            name = criterion.name
            values[name] = criterion.definition.worse(values[name], value) if name in values else value
    for observation, values in inside.items():
        values.update(with_freshness(values, _date(observation, now), now, registry))
    return whole(worst_of(stated, registry), worst_of([*of_whole, ("", loose)], registry)[""], registry)


def _text(element: Element | None) -> str:
    """What is written in an element itself, past comments and instructions."""
    return "" if element is None else "".join((element.text or "", *(child.tail or "" for child in element)))


def _date(observation: Element, now: float | None) -> str | None:
    written = observation.get("date")
    if now is None or written is None:
        return None
    try:
        return checked_time(written, "the date")
    except InvalidInput:
        return None


def _read_plain(element: Element, registry: Registry) -> tuple[Criterion, float] | None:
    """The criterion and plain value of an indicator, if it has one that the registry understands."""
    carrier = latest = None
    for child in element:
        if child.tag == "qocmetricvalue":
            latest = child
        elif child.tag == "qoccriterion" and carrier is None:
            carrier = child
    criterion = registry.by_name.get(_criterion_name(element, carrier, registry))
    text = latest.get("value") if latest is not None else None
    if criterion is None or latest is None or text is None:
        return None
    if len(text) > MAX_NUMBER_CHARACTERS or not _NUMBER.fullmatch(text.strip()):
        return None
    definitions = [] if carrier is None else [child for child in carrier if child.tag == "qocmetricdefinition"]
    value = _plain(definitions, latest.get("definition") or "", float(text), criterion)
    return None if value is None else (criterion, value)


def _plain(definitions: list[Element], definition_id: str, value: float, criterion: Criterion) -> float | None:
    """`plain_value`, without making an Indicator of the element first."""
    if not definitions:
        return criterion.plain(value, definition_id or criterion.definition.id)
    carried = next((one for one in definitions if definition_id in ("", one.get("id"))), None)
    if carried is None:
        return None
    id_ = carried.get("id")
    known = next((one for one in criterion.definitions if one.id == id_), None)
    if known is None or carried.get("direction") not in (None, _DIRECTIONS[known.direction]):
        return None
    for bound, sign in ((carried.get("minvalue"), 1), (carried.get("maxvalue"), -1)):
        if bound is not None and _NUMBER.fullmatch(bound) and sign * value < sign * float(bound):
            return None
    return criterion.plain(value, known.id, carried.get("unitcode") or "")
