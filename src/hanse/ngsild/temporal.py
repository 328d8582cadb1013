"""The evolution of entities, and the forms it is shown in (clauses 4.5.6 to 4.5.9 and 4.5.19).

Normalized, an attribute is the array of its instances, each with its instanceId. As temporalValues, it is one object with an
array of pairs, value and time; as aggregatedValues, one with an array of triples for every method: value, start and end of the
period. In these two an attribute with several datasetIds (or that has been of several kinds) is an array of such objects.

Scopes evolve like a Property whose value is the array of the scopes.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from hanse.ngsild.aggregation import Method, Period
from hanse.ngsild.contexts import Context
from hanse.ngsild.entity import NGSI_LD, NULL, VALUE_MEMBER, Instance
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.representation import View, represent_instance, simplified_value
from hanse.ngsild.temporal_parsing import TemporalQuery, to_text

SCOPE: Final = NGSI_LD + "scope"

_TIMES_SET_BY_NODE: Final = frozenset({"createdAt", "modifiedAt"})


class Series(Struct):
    """The instances of one attribute with one datasetId, in order of time; or what was computed of them."""

    attribute: str
    dataset: str | None
    times: list[int]
    instances: list[Instance]
    kind: str = "Property"
    aggregates: dict[Method, list[tuple[Any, Period]]] | None = None


class Evolution(Struct, kw_only=True):
    id: str
    types: tuple[str, ...]
    created_at: str
    modified_at: str
    series: list[Series] = []  # one without instances: there are some, beyond this page


class Page(Struct):
    evolutions: list[Evolution]
    is_partial: bool = False  # the time asked for is longer than what is shown

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last moment in it; scopes may have been set long before."""
        every = (series for evolution in self.evolutions for series in evolution.series if series.attribute != SCOPE)
        times = [us for series in every for us in series.times]
        return (min(times), max(times)) if times else None


def content_range(page: Page, query: TemporalQuery) -> str:
    """What a partial page covers (clause 6.3.10): forwards in time, or backwards with lastN."""
    first, last = page.span or (query.from_us or 0, query.until_us or 0)
    if query.last_n is None:
        start, end, size = first if query.from_us is None else query.from_us, last, "*"
    else:
        start, end, size = last if query.until_us is None else query.until_us, first, str(query.last_n)
    return f"date-time {to_text(start)}-{to_text(end)}/{size}"


def gone(kind: str, dataset: str | None) -> Instance:
    """The instance that says that an attribute of this kind was deleted."""
    instance: Instance = {"type": kind, VALUE_MEMBER[kind]: {"@none": NULL} if kind == "LanguageProperty" else NULL}
    return instance if dataset is None else instance | {"datasetId": dataset}


def instance_value(instance: Instance) -> Any:
    return instance.get(VALUE_MEMBER[instance["type"]])


def patched(instance: Instance, patch: Instance) -> Instance:
    """An instance with the members that a patch says; NGSI-LD's Null takes one away, but for the value, which it becomes."""
    kind = str(patch.get("type", instance["type"]))
    member = VALUE_MEMBER[kind]
    if kind != instance["type"] and member not in patch:
        raise BadRequestData(f"an instance that becomes a {kind} needs {member!r}")
    others = {VALUE_MEMBER[instance["type"]]} - {member}
    merged = {name: value for name, value in instance.items() if name not in others} | patch
    if any(name in patch and name != member for name in VALUE_MEMBER.values()):
        raise BadRequestData(f"the instance is a {kind}, which has its value in {member!r}")
    return {name: value for name, value in merged.items() if value != NULL or name == member}


def represent_evolution(evolution: Evolution, context: Context, view: View, query: TemporalQuery) -> dict[str, Any]:
    """The JSON of one entity's evolution, without "@context"; empty if the view leaves nothing of it."""
    result: dict[str, Any] = {}
    if view.shows("id"):
        result["id"] = evolution.id
    if view.shows("type"):
        types = [context.compact_type(name) for name in evolution.types]
        result["type"] = types[0] if len(types) == 1 else types
    if view.shows("createdAt"):
        result["createdAt"] = evolution.created_at
    if view.shows("modifiedAt"):
        result["modifiedAt"] = evolution.modified_at
    for attribute, series in _by_attribute(evolution.series).items():
        is_scope = attribute == SCOPE
        if view.shows("scope" if is_scope else attribute):
            name = "scope" if is_scope else context.compact_iri(attribute)
            result[name] = _represent_attribute(series, context, view, query)
    return result


def _by_attribute(series: list[Series]) -> dict[str, list[Series]]:
    grouped: dict[str, list[Series]] = {}
    for one in series:
        grouped.setdefault(one.attribute, []).append(one)
    return grouped


def _represent_attribute(series: list[Series], context: Context, view: View, query: TemporalQuery) -> Any:
    if query.aggregation is not None:
        parts = [_aggregated(one) for one in series]
    elif query.format == "temporalValues":
        parts = [part for one in series for part in _pairs(one, context, view, query)]
    else:
        placed = [
            (us, _represent_instance(instance, context, view, query))
            for one in series
            for us, instance in zip(one.times, one.instances, strict=True)
        ]
        if len(series) > 1:
            placed.sort(key=lambda pair: pair[0])
        return [shown for _, shown in placed]
    return parts[0] if len(parts) == 1 else parts


def _represent_instance(instance: Instance, context: Context, view: View, query: TemporalQuery) -> Any:
    shown = represent_instance(instance, context, view)
    if query.timeproperty in _TIMES_SET_BY_NODE and isinstance(shown, dict):
        shown[query.timeproperty] = instance[query.timeproperty]  # the place in time shows, even if others do not
    return shown


def _pairs(series: Series, context: Context, view: View, query: TemporalQuery) -> list[dict[str, Any]]:
    """The values of a series and their times; an object for every kind of attribute that it has been."""
    found: dict[str, dict[str, Any]] = {}
    if not series.times:
        return [_titled(series.kind, series.dataset) | {VALUE_MEMBER[series.kind] + "s": []}]
    for us, instance in zip(series.times, series.instances, strict=True):
        kind = instance["type"]
        if kind == "LanguageProperty" and view.lang is not None:
            kind = "Property"
        many = VALUE_MEMBER[kind] + "s"
        if kind not in found:
            found[kind] = _titled(kind, series.dataset) | {many: []}
        value = NULL if instance_value(instance) == NULL else simplified_value(instance, context.compact_iri, view)
        found[kind][many].append([value, _time_of(instance, us, query)])
    return list(found.values())


def _time_of(instance: Instance, us: int, query: TemporalQuery) -> str:
    """The time of an instance, as it was written if it was observed."""
    if query.timeproperty in (None, "observedAt") and "observedAt" in instance:
        return str(instance["observedAt"])
    return to_text(us)


def _aggregated(series: Series) -> dict[str, Any]:
    shown = _titled(series.kind, series.dataset)
    for method, values in (series.aggregates or {}).items():
        shown[method] = [[value, to_text(period.start_us), to_text(period.end_us)] for value, period in values]
    return shown


def _titled(kind: str, dataset: str | None) -> dict[str, Any]:
    return {"type": kind} if dataset is None else {"type": kind, "datasetId": dataset}
