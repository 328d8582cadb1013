"""Entities as GeoJSON (clauses 4.5.16 and 4.5.17): a feature is an entity with one of its GeoProperties as the geometry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanse.ngsild.entity import Entity, default_instance
from hanse.ngsild.representation import NORMALIZED, View, represent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.ngsild.contexts import Context


def feature(entity: Entity, context: Context, view: View = NORMALIZED) -> dict[str, Any]:
    """The entity as a Feature. Its id is beside its properties; without the GeoProperty asked for its geometry is null."""
    return as_feature(entity, represent(entity, context, view), view)


def as_feature(entity: Entity, shown: dict[str, Any], view: View) -> dict[str, Any]:
    """The Feature of an entity that is represented already."""
    properties = {name: value for name, value in shown.items() if name != "id"}
    made: dict[str, Any] = {"type": "Feature", "geometry": geometry_of(entity, view), "properties": properties}
    return {"id": entity.id} | made if "id" in shown or (not view.pick and "id" not in view.omit) else made


def feature_collection(entities: Iterable[Entity], context: Context, view: View = NORMALIZED) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": [feature(entity, context, view) for entity in entities]}


def geometry_of(entity: Entity, view: View) -> dict[str, Any] | None:
    """Of the instance without a datasetId, or of the first one that the view shows."""
    instances = entity.attributes.get(view.geometry_name)
    if not instances:
        return None
    if view.dataset_ids:
        instances = [one for one in instances if one.get("datasetId", "@none") in view.dataset_ids]
    instance = default_instance(instances) or next(iter(instances), None)
    if instance is None or instance.get("type") != "GeoProperty":
        return None
    value = instance.get("value")
    return value if isinstance(value, dict) else None
