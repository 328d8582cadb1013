"""The past of an entity, out of what several sources know of it: all that any of them says, once and in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hanse.ngsild.distributed_merge import put_times, said, together
from hanse.ngsild.entity import Instance
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.temporal import SCOPE, Evolution, Page, Series
from hanse.ngsild.temporal_parsing import TemporalQuery, parse_scope_instances, to_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hanse.ngsild.contexts import Context

_encode = msgspec.json.Encoder(order="sorted").encode


def merged_pages(pages: Sequence[Page], asked: TemporalQuery) -> Page:
    """One page of what all of them have; with lastN, no more than the last ones of that."""
    by_id: dict[str, list[Evolution]] = {}
    for page in pages:
        for evolution in page.evolutions:
            by_id.setdefault(evolution.id, []).append(evolution)
    evolutions = [_merged(by_id[id_], asked) for id_ in sorted(by_id)]
    return Page(evolutions, is_partial=any(page.is_partial for page in pages))


def _merged(evolutions: Sequence[Evolution], asked: TemporalQuery) -> Evolution:
    found: dict[tuple[str, str], dict[tuple[int, bytes], Instance]] = {}
    for evolution in evolutions:
        for series in evolution.series:
            known = found.setdefault((series.attribute, series.dataset or ""), {})
            for us, instance in zip(series.times, series.instances, strict=True):
                known.setdefault((us, _content(instance)), instance)
    return Evolution(
        id=evolutions[0].id,
        types=together([evolution.types for evolution in evolutions]),
        created_at=min((evolution.created_at for evolution in evolutions if evolution.created_at), default=""),
        modified_at=max(evolution.modified_at for evolution in evolutions),
        series=[
            _series(attribute, dataset or None, instances, asked)
            for (attribute, dataset), instances in sorted(found.items(), key=_first)
        ],
    )


def _first(item: tuple[tuple[str, str], Any]) -> tuple[str, str]:
    return item[0]


def _content(instance: Instance) -> bytes:
    """What makes an instance the same as another one of that time: what it says, not what it is called at its source."""
    return _encode({name: value for name, value in instance.items() if name not in ("instanceId", "createdAt", "modifiedAt")})


def _series(attribute: str, dataset: str | None, known: dict[tuple[int, bytes], Instance], asked: TemporalQuery) -> Series:
    placed = sorted(known)
    if asked.last_n is not None:
        placed = placed[-asked.last_n :]
    instances = [known[key] for key in placed]
    return Series(attribute, dataset, [us for us, _ in placed], instances, instances[0]["type"] if instances else "Property")


def read_evolution(body: Any, context: Context, asked: TemporalQuery) -> Evolution:
    """The past of an entity as another source shows it, normalized. Raises BadRequestData."""
    if not isinstance(body, dict):
        raise BadRequestData("the past of an entity is a JSON object")
    plain = {name: value for name, value in body.items() if name != "scope"}
    entity = parse_entity(plain, context, "", temporal=True)
    series: list[Series] = []
    for name, value in plain.items():
        attribute = context.expand_term(name)
        instances = entity.attributes.get(attribute)
        if instances is not None:
            put_times(instances, value, context)
            series += _apart(attribute, instances, asked)
    if isinstance(body.get("scope"), list | dict):
        series += _apart(SCOPE, parse_scope_instances(body["scope"], ""), asked)
    return Evolution(
        id=entity.id, types=entity.types, created_at=said(body, "createdAt"), modified_at=said(body, "modifiedAt"), series=series
    )


def _apart(attribute: str, instances: Iterable[Instance], asked: TemporalQuery) -> list[Series]:
    by_dataset: dict[str | None, Series] = {}
    for instance in instances:
        dataset = instance.get("datasetId")
        series = by_dataset.setdefault(dataset, Series(attribute, dataset, [], [], instance["type"]))
        series.times.append(_place(instance, asked))
        series.instances.append(instance)
    return list(by_dataset.values())


def _place(instance: Instance, asked: TemporalQuery) -> int:
    """When an instance was; one that does not say when was always there."""
    for member in (asked.timeproperty or "observedAt", "observedAt", "modifiedAt", "createdAt"):
        us = to_us(instance[member]) if isinstance(instance.get(member), str) else None
        if us is not None:
            return us
    return 0
