"""The geo-queries of subscriptions, for entities that are not at a single point, of which the broker's index cannot say where.

Such entities change seldom, so this is a tree that is built when one of them asks, and again after subscriptions have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import shapely

from hanse.ngsild.entity import LOCATION
from hanse.ngsild.geo import geo_bounds, geometry_box

if TYPE_CHECKING:
    from hanse.ngsild.entity import Attributes
    from hanse.ngsild.geo import Box, GeoQuery


class Fences:
    def __init__(self) -> None:
        self._boxes: dict[str, list[Box]] = {}
        self._tree: tuple[shapely.STRtree, list[str]] | None = None

    def __len__(self) -> int:
        return len(self._boxes)

    def add(self, subscription: str, geo: GeoQuery) -> None:
        """One that has a geofence, and so bounds."""
        self._boxes[subscription] = geo_bounds(geo) or [(-180.0, -90.0, 180.0, 90.0)]
        self._tree = None

    def remove(self, subscription: str) -> None:
        if self._boxes.pop(subscription, None) is not None:
            self._tree = None

    def near(self, attributes: Attributes) -> list[str]:
        """The subscriptions whose bounds some `location` of the entity touches: at least all those that it satisfies."""
        if self._tree is None:
            names = [name for name, boxes in self._boxes.items() for _ in boxes]
            corners = np.array([box for boxes in self._boxes.values() for box in boxes]).reshape(-1, 4)
            self._tree = shapely.STRtree(shapely.box(*corners.T)), names
        tree, names = self._tree
        found: dict[str, None] = {}
        for instance in attributes.get(LOCATION, ()):
            box = geometry_box(instance.get("value"))
            if box is not None:
                found |= dict.fromkeys(names[row] for row in tree.query(shapely.box(*box)).tolist())
        return list(found)
