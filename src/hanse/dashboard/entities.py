"""An entity for people: attributes with unit, time and quality, history as small charts, and what it is related to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hanse.model.errors import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.quality import Measure, default_measure
from hanse.quality.keys import indicator_key

if TYPE_CHECKING:
    from hanse.quality import Criterion

TEXT_MAX: Final = 300  # characters of a value
OBJECTS_MAX: Final = 30  # of a relationship
CHARTS_MAX: Final = 12
GRAPH_MAX: Final = 60  # entities in the graph of relationships
LABEL_MAX: Final = 60
GREY: Final = "#7d8a94"  # can be read on light and on dark
MEMBERS: Final = frozenset({"id", "type", "scope", "@context", "createdAt", "modifiedAt", "expiresAt", "deletedAt"})
_VALUES: Final = ("value", "object", "languageMap", "vocab", "json", "valueList", "objectList")
_RELATIONS: Final = ("Relationship", "ListRelationship")


class Indicator(NamedTuple):
    """What is known of one criterion."""

    name: str
    text: str
    level: str  # low, medium or high; empty where the criterion has no levels


class Shown(NamedTuple):
    """One attribute, or one of its instances."""

    name: str
    kind: str
    text: str
    unit: str
    observed: str
    modified: str
    objects: list[str]
    quality: list[Indicator]


# --- attributes -------------------------------------------------------------------------------------------------------


def attributes_of(entity: Mapping[str, Any], measure: Measure | None = None) -> list[Shown]:
    """All attributes of an entity in normalized form, in its own order."""
    measured = quality_of(entity, measure)
    return [
        _shown(name, instance, measured.get(name, []))
        for name, value in entity.items()
        if name not in MEMBERS
        for instance in (value if isinstance(value, list) else [value])
        if isinstance(instance, dict)
    ]


def _shown(name: str, instance: Mapping[str, Any], quality: list[Indicator]) -> Shown:
    kind = str(instance.get("type", "Property"))
    dataset = instance.get("datasetId")
    return Shown(
        f"{name} ({dataset})" if dataset else name,
        kind,
        short(next((instance[member] for member in _VALUES if member in instance), None)),
        str(instance.get("unitCode", "")),
        str(instance.get("observedAt", "")),
        str(instance.get("modifiedAt", "")),
        objects_of(instance) if kind in _RELATIONS else [],
        quality,
    )


def objects_of(instance: Mapping[str, Any]) -> list[str]:
    """The entities that a relationship names."""
    found = instance.get("object", instance.get("objectList", []))
    named = [one.get("object") if isinstance(one, dict) else one for one in (found if isinstance(found, list) else [found])]
    return [one for one in named if isinstance(one, str)][:OBJECTS_MAX]


def short(value: Any) -> str:
    """A value in a few words: texts as they are, everything else as JSON."""
    if isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def quality_of(entity: Mapping[str, Any], measure: Measure | None = None) -> dict[str, list[Indicator]]:
    """By attribute, and under "" that of the whole: as of now, by what the node measures with, or by the starting set."""
    measure = measure or default_measure()
    try:
        parsed = parse_entity(dict(entity), CORE, now := now_text())
    except (NgsiLdError, InvalidInput):
        return {}
    measured = measure.of_entity(now)(parsed)
    found: dict[str, list[Indicator]] = {}
    for name in ("", *(name for name in entity if name not in MEMBERS)):
        attribute = CORE.expand_term(name) if name else ""
        indicators = [
            _indicator(criterion, measured[key])
            for criterion in measure.registry.by_name.values()
            if (key := indicator_key(attribute, criterion.name)) in measured
        ]
        if indicators:
            found[name] = indicators
    return found


def _indicator(criterion: Criterion, value: float) -> Indicator:
    definition = criterion.definition
    unit = {"percent": " %", "second": " s", "metre": " m", "hertz": " Hz"}.get(definition.unit, f" {definition.unit}".rstrip())
    return Indicator(criterion.name, f"{value:.4g}{unit}", definition.level(value) if definition.levels is not None else "")


def place_of(entity: Mapping[str, Any]) -> tuple[float, float] | None:
    """Where it is, if it is at one point: longitude and latitude."""
    found = entity.get("location")
    instance = found[0] if isinstance(found, list) and found else found
    return point(instance.get("value")) if isinstance(instance, dict) else None


def point(value: Any) -> tuple[float, float] | None:
    try:
        return (float(value["coordinates"][0]), float(value["coordinates"][1])) if value["type"] == "Point" else None
    except (KeyError, TypeError, IndexError, ValueError):
        return None


def plain_type(entity: Mapping[str, Any]) -> str:
    types = entity.get("type", "")
    return ", ".join(map(str, types)) if isinstance(types, list) else str(types)


def preview(entity: Mapping[str, Any], most: int = 4) -> str:
    """A few of its values in one line."""
    said = list(islice(_values(entity), most + 1))
    return ", ".join(said[:most] + ["…"] * (len(said) > most))


def _values(entity: Mapping[str, Any]) -> Iterator[str]:
    for name, value in entity.items():
        if name in MEMBERS:
            continue
        instance = value[0] if isinstance(value, list) and value else value
        if isinstance(instance, dict) and instance.get("type") in ("Property", "LanguageProperty", "VocabProperty"):
            said = short(next((instance[member] for member in _VALUES if member in instance), None))
            yield f"{name} {said[:40]}"


# --- history ----------------------------------------------------------------------------------------------------------


class Chart(NamedTuple):
    name: str
    options: dict[str, Any]
    words: str  # the same for those who do not see it


def charts(temporal: Mapping[str, Any], units: Mapping[str, str]) -> list[Chart]:
    """The attributes that were numbers, over time; `temporal` has lists of values and times (temporalValues)."""
    found = []
    for name, series in temporal.items():
        points = numbers(series)
        if len(points) > 1:
            found.append(Chart(name, _line(name, points, units.get(name, "")), _in_words(name, points, units.get(name, ""))))
    return found[:CHARTS_MAX]


def numbers(series: Any) -> list[tuple[str, float]]:
    """The moments and values of an attribute, in order, where it was a number."""
    values = series.get("values", []) if isinstance(series, dict) else []
    plain = [(str(at), float(value)) for value, at in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return sorted(plain)


def track(temporal: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Where it has been."""
    series = temporal.get("location")
    values = series.get("values", []) if isinstance(series, dict) else []
    return [place for value, _ in sorted(values, key=lambda one: str(one[1])) if (place := point(value)) is not None]


def _line(name: str, points: list[tuple[str, float]], unit: str) -> dict[str, Any]:
    axis = {"axisLabel": {"color": GREY, "fontSize": 10, "hideOverlap": True}, "axisLine": {"lineStyle": {"color": GREY}}}
    return {
        "title": {"text": f"{name}{f' in {unit}' if unit else ''}", "textStyle": {"color": GREY, "fontSize": 13}},
        "grid": {"left": 44, "right": 12, "top": 32, "bottom": 24},
        "tooltip": {"trigger": "axis"},
        "animation": False,
        "xAxis": {"type": "time", "splitNumber": 3, **axis},
        "yAxis": {"type": "value", "scale": True, "splitNumber": 3, "splitLine": {"lineStyle": {"color": f"{GREY}44"}}, **axis},
        "series": [{"type": "line", "data": [list(one) for one in points], "showSymbol": len(points) < 20, "symbolSize": 4}],
    }


def _in_words(name: str, points: list[tuple[str, float]], unit: str) -> str:
    values = [value for _, value in points]
    said = f"{name}: {len(values)} values from {min(values):.6g} to {max(values):.6g}, last {values[-1]:.6g}"
    return f"{said} {unit}".rstrip()


# --- relationships ----------------------------------------------------------------------------------------------------


class Edge(NamedTuple):
    source: str
    name: str
    target: str


def edges_of(entity: Mapping[str, Any]) -> list[Edge]:
    """What it says that it is related to."""
    return [
        Edge(str(entity["id"]), name, target)
        for name, value in entity.items()
        if name not in MEMBERS
        for instance in (value if isinstance(value, list) else [value])
        if isinstance(instance, dict) and instance.get("type") in _RELATIONS
        for target in objects_of(instance)
    ]


def graph(center: str, edges: Iterable[Edge], types: Mapping[str, str], colors: Mapping[str, str]) -> dict[str, Any]:
    """The options of a chart with entities as points and relationships as arrows; those without a type were not looked at."""
    kept: list[Edge] = []
    ids = {center: None}
    for edge in dict.fromkeys(edges):
        new = {edge.source, edge.target} - ids.keys()
        if len(ids) + len(new) <= GRAPH_MAX:
            ids |= dict.fromkeys(sorted(new))
            kept.append(edge)
    points = [
        {
            "id": one,
            "name": one.rpartition(":")[2] or one,
            "value": one,
            "symbolSize": 34 if one == center else 22,
            "itemStyle": {"color": colors.get(types.get(one, ""), GREY), "opacity": 1 if one in types else 0.5},
            "label": {"formatter": f"{types.get(one, '')}\n{one.rpartition(':')[2] or one}".strip()[:LABEL_MAX]},
        }
        for one in ids
    ]
    links = [{"source": edge.source, "target": edge.target, "label": {"show": True, "formatter": edge.name}} for edge in kept]
    return {
        "tooltip": {":formatter": "p => p.dataType === 'node' ? p.value : ''", "renderMode": "richText"},
        "series": [
            {
                "type": "graph",
                "layout": "force",
                "force": {"repulsion": 420, "edgeLength": 130, "layoutAnimation": False},
                "roam": "move",
                "emphasis": {"focus": "adjacency"},
                "draggable": True,
                "data": points,
                "links": links,
                "edgeSymbol": ["none", "arrow"],
                "label": {"show": True, "position": "bottom", "color": GREY, "lineHeight": 14},
                "edgeLabel": {"color": GREY, "fontSize": 10},
                "lineStyle": {"color": GREY, "curveness": 0.08},
            }
        ],
    }
