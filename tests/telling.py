"""What a node tells others of a change, made here to know beforehand."""

from __future__ import annotations

from hanse.model import WORLD, Geofence, Location, Notification
from hanse.ngsild.entity import Change
from hanse.ngsild.quality import default_measure
from hanse.ngsild.subscriptions import news
from hanse.node.federation.changes import travelling


def notification_of(
    change: Change, *, id_: str = "1", publisher: str, location: Location | None = None, geofence: Geofence = WORLD
) -> Notification:
    entity = change.entity
    told = Notification(
        id=id_,
        publisher=publisher,
        types=entity.types,
        entity=entity.id,
        attributes=entity.attributes,
        news=news(change),
        quality=default_measure().of_change(change),
        location=location,
        geofence=geofence,
    )
    return travelling(told, change)
