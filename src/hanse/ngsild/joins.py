"""Linked entities (clause 4.5.23): the entities that relationships lead to, inside the answer or beside it.

`inline` puts a linked entity into the relationship, `flat` puts all of them into one list behind those asked for, each once.
`join_level` says how many relationships are followed one after another; an entity that holds another already (or is named in
`contained_by`) is not put into it again, so that a circle ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from hanse.ngsild.entity import Entity, Instance
from hanse.ngsild.errors import TooManyResults
from hanse.ngsild.geojson import as_feature
from hanse.ngsild.representation import Projection, View, in_datasets, represent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.ngsild.contexts import Context

Fetch: TypeAlias = Callable[[str], Entity | None]

JOINED_MAX: Final = 10_000


def joined(what: Entity | list[Entity], context: Context, view: View, fetch: Fetch) -> Any:
    """What is answered: an entity or a list, or their GeoJSON, with linked entities as the view says."""
    entities = [what] if isinstance(what, Entity) else what
    shown = [(entity, item) for entity, item in _joined(entities, context, view, fetch) if item]
    is_one = isinstance(what, Entity) and len(shown) <= 1
    if view.geojson:
        features = [as_feature(entity, item, view) for entity, item in shown]
        return features[0] if is_one and features else {"type": "FeatureCollection", "features": features}
    if is_one:
        return shown[0][1] if shown else {}
    return [item for _, item in shown]


def with_linked(entities: list[Entity], context: Context, view: View, fetch: Fetch) -> list[dict[str, Any]]:
    """The entities, and (flat) behind them those that they are linked to."""
    return [item for _, item in _joined(entities, context, view, fetch) if item]


def _joined(entities: list[Entity], context: Context, view: View, fetch: Fetch) -> list[tuple[Entity, dict[str, Any]]]:
    fetch = _bounded(fetch)
    if view.join == "inline":
        path = frozenset(view.contained_by)
        return [(entity, _inline(entity, context, view, view.join_level, path, fetch)) for entity in entities]
    if view.join == "flat":
        return _flat(entities, context, view, fetch)
    return [(entity, represent(entity, context, view)) for entity in entities]


def _bounded(fetch: Fetch) -> Fetch:
    """The same, each entity asked for once, and only so many of them."""
    known: dict[str, Entity | None] = {}
    uses = 0

    def get(id_: str) -> Entity | None:
        nonlocal uses
        uses += 1
        if uses > JOINED_MAX:
            raise TooManyResults(f"more than {JOINED_MAX} linked entities; ask for fewer entities or a lower joinLevel")
        if id_ not in known:
            known[id_] = fetch(id_)
        return known[id_]

    return get


def _inline(entity: Entity, context: Context, view: View, level: int, path: frozenset[str], fetch: Fetch) -> dict[str, Any]:
    path |= {entity.id}
    changed: dict[str, list[Instance]] = {}
    for name, instances in _relationships(entity, view):
        inner = _linked_view(view, name)

        def show(id_: str, inner: View = inner) -> dict[str, Any] | None:
            linked = None if id_ in path else fetch(id_)
            if linked is None:
                return None
            if level > 1:
                return _inline(linked, context, inner, level - 1, path, fetch)
            return represent(linked, context, inner)

        changed[name] = [_with_entity(instance, show) for instance in instances]
    return represent(replace(entity, attributes=entity.attributes | changed) if changed else entity, context, view)


def _with_entity(instance: Instance, show: Callable[[str], dict[str, Any] | None]) -> Instance:
    ids = linked_ids(instance)
    found = {id_: shown for id_ in ids if (shown := show(id_)) is not None}
    if not found:
        return instance
    if instance.get("type") == "ListRelationship":
        return instance | {"entityList": [found.get(id_, id_) for id_ in ids]}
    return instance | {"entity": [found.get(id_, id_) for id_ in ids] if isinstance(instance["object"], list) else found[ids[0]]}


def _flat(entities: list[Entity], context: Context, view: View, fetch: Fetch) -> list[tuple[Entity, dict[str, Any]]]:
    shown = [(entity, represent(entity, context, view)) for entity in entities]
    seen = {entity.id for entity in entities} | set(view.contained_by)
    front = [(entity, view) for entity in entities]
    for _ in range(view.join_level):
        following: list[tuple[Entity, View]] = []
        for entity, its_view in front:
            for name, instances in _relationships(entity, its_view):
                inner = _linked_view(its_view, name)
                for id_ in (id_ for instance in instances for id_ in linked_ids(instance)):
                    linked = None if id_ in seen else fetch(id_)
                    if linked is not None:
                        seen.add(id_)
                        following.append((linked, inner))
        shown += [(entity, represent(entity, context, its_view)) for entity, its_view in following]
        front = following
    return shown


def _relationships(entity: Entity, view: View) -> Iterable[tuple[str, list[Instance]]]:
    """The attributes that the view shows and that lead to other entities."""
    for name, instances in entity.attributes.items():
        if instances and instances[0].get("type") in ("Relationship", "ListRelationship") and view.shows(name):
            yield name, in_datasets(instances, view.dataset_ids)


def linked_ids(instance: Instance) -> list[str]:
    """The entities that a relationship leads to."""
    objects = instance.get("objectList", instance.get("object"))
    found = objects if isinstance(objects, list) else [objects]
    ids = [item.get("object") if isinstance(item, dict) else item for item in found]
    return [id_ for id_ in ids if isinstance(id_, str)]


def _linked_view(view: View, name: str) -> View:
    """What the view says of the entities behind a relationship: all of them, unless it picks or omits there."""
    pick = dict(view.pick_linked).get(name, _ALL)
    omit = dict(view.omit_linked).get(name, _ALL)
    return View(
        format=view.format,
        sys_attrs=view.sys_attrs,
        lang=view.lang,
        pick=pick.names,
        omit=omit.names,
        pick_linked=pick.linked,
        omit_linked=omit.linked,
        join=view.join,
    )


_ALL: Final = Projection()
