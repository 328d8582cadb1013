"""The areas that nodes are local to: who owns a place, and whose area a geofence touches.

The earth is divided into square fields of a few degrees; each belongs to the node nearest to its centre. A geofence
touches an area if it touches one of its fields: for circles by the distance on the sphere from the centre to the field,
for polygons in the plane of latitude and longitude.
"""

from __future__ import annotations

from functools import lru_cache
from math import asin, cos, degrees, radians, sin
from typing import TYPE_CHECKING

import numpy as np
import shapely
from shapely.affinity import translate

from hanse.model import Circle, Geofence, InvalidInput, Polygon, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hanse.routing.federation import Federation

FIELD_SIZE_DEG = 6.0
CIRCLES_KEPT = 65_536
POLYGONS_KEPT = 256  # they may be large
_GAP = 1e-13  # neighbouring fields do not touch


class Areas:
    def __init__(self, nodes: Sequence[str], owners: NDArray[np.int64], size_deg: float = FIELD_SIZE_DEG) -> None:
        """`owners` has the index of the owning node for each field, south to north, then west to east."""
        self._nodes = tuple(nodes)
        self._size = size_deg
        self._rows, self._columns = round(180 / size_deg), round(360 / size_deg)
        if owners.shape != (self._rows * self._columns,):
            raise InvalidInput(
                f"{owners.shape[0]} fields do not make up the earth: of {size_deg:g} degrees it has {self._rows * self._columns}"
            )
        self._owners = owners
        south = np.repeat(np.arange(self._rows) * size_deg - 90.0, self._columns)
        west = np.tile(np.arange(self._columns) * size_deg - 180.0, self._rows)
        self._south, self._north = np.radians(south), np.radians(south + size_deg - _GAP)
        self._west, self._east = np.radians(west), np.radians(west + size_deg - _GAP)
        self._boxes = shapely.STRtree(shapely.box(west, south, west + size_deg - _GAP, south + size_deg - _GAP))
        self._touched_by_circle = lru_cache(maxsize=CIRCLES_KEPT)(self._owners_of_circle)
        self._touched_by_polygon = lru_cache(maxsize=POLYGONS_KEPT)(self._owners_of_polygon)

    @classmethod
    def nearest(cls, federation: Federation, size_deg: float = FIELD_SIZE_DEG) -> Areas:
        """Each field to the node nearest to its centre."""
        rows, columns = round(180 / size_deg), round(360 / size_deg)
        lat = np.radians(np.repeat(np.arange(rows) * size_deg - 90.0 + size_deg / 2, columns))[:, None]
        lon = np.radians(np.tile(np.arange(columns) * size_deg - 180.0 + size_deg / 2, rows))[:, None]
        node_lat = np.radians([node.location.lat for node in federation.nodes])[None, :]
        node_lon = np.radians([node.location.lon for node in federation.nodes])[None, :]
        owners = np.argmin(_haversine(lat, lon, node_lat, node_lon), axis=1)
        return cls(federation.ids, owners, size_deg)

    def owner(self, lat: float, lon: float) -> str:
        row = min(int((lat + 90.0) / self._size), self._rows - 1)
        column = int((lon + 180.0) / self._size) % self._columns
        return self._nodes[int(self._owners[row * self._columns + column])]

    def touched(self, geofence: Geofence) -> tuple[str, ...]:
        """The nodes whose area the geofence touches, in the order of the federation."""
        if isinstance(geofence, World):
            return self._nodes
        return self._touched_by_circle(geofence) if isinstance(geofence, Circle) else self._touched_by_polygon(geofence)

    def _owners_of_circle(self, circle: Circle) -> tuple[str, ...]:
        return tuple(self._nodes[i] for i in np.unique(self._owners[self._fields_of_circle(circle)]))

    def _owners_of_polygon(self, polygon: Polygon) -> tuple[str, ...]:
        return tuple(self._nodes[i] for i in np.unique(self._owners[self._fields_of_polygon(polygon)]))

    def _fields_of_circle(self, circle: Circle) -> NDArray[np.int64]:
        low = max(0, int((circle.lat - circle.radius_deg + 90.0) / self._size) - 1)
        high = min(self._rows, int((circle.lat + circle.radius_deg + 90.0) / self._size) + 2)
        near = (np.arange(low, high)[:, None] * self._columns + self._columns_near(circle)[None, :]).ravel()
        lat, lon = np.radians(circle.lat), np.radians(circle.lon)
        south, north, west, east = self._south[near], self._north[near], self._west[near], self._east[near]
        # the nearest point of a field lies at the centre's own longitude if the field spans it, else on its nearer meridian
        to_west, to_east = _angle(west - lon), _angle(east - lon)
        spans = (to_west <= 0) & (to_east >= 0) & (to_east - to_west < np.pi)
        side = np.where(np.abs(to_west) < np.abs(to_east), to_west, to_east)
        side = np.where(spans, 0.0, side)
        foot = np.arctan2(np.sin(lat), np.cos(lat) * np.cos(side))
        foot = np.where(np.abs(foot) > np.pi / 2, np.copysign(np.pi / 2, foot), foot)
        distance = _haversine(lat, lon, np.clip(foot, south, north), lon + side)
        for corner in (
            south,
            north,
        ):  # where the clipped foot of the perpendicular is not the nearest point: beyond a right angle
            distance = np.minimum(distance, _haversine(lat, lon, corner, lon + side))
        reach = np.sin(np.radians(circle.radius_deg) / 2) ** 2
        # in doubt touched: a field too many costs a message, one too few a notification
        found: NDArray[np.int64] = near[distance <= reach * (1 + 1e-12) + 1e-24]
        return found

    def _columns_near(self, circle: Circle) -> NDArray[np.int64]:
        """The columns of fields that a circle may reach: all of them if it comes near a pole."""
        sine = sin(radians(min(circle.radius_deg, 90.0)))
        room = cos(radians(circle.lat))
        if abs(circle.lat) + circle.radius_deg >= 90.0 or sine >= room:
            return np.arange(self._columns)
        width = degrees(asin(sine / room))
        first = int((circle.lon - width + 180.0) // self._size) - 1
        last = int((circle.lon + width + 180.0) // self._size) + 1
        return np.arange(first, min(last + 1, first + self._columns)) % self._columns

    def _fields_of_polygon(self, polygon: Polygon) -> NDArray[np.int64]:
        # a place on or beyond the date line has two names; a shape is looked for under each
        shapes = [translate(polygon.shape, xoff=degrees) for degrees in (-360.0, 0.0, 360.0)]
        return np.unique(np.concatenate([self._boxes.query(shape, predicate="intersects") for shape in shapes]))


def _angle(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """An angle as the shorter way round: between -π and π."""
    return (value + np.pi) % (2 * np.pi) - np.pi


def _haversine(
    lat1: NDArray[np.float64], lon1: NDArray[np.float64], lat2: NDArray[np.float64], lon2: NDArray[np.float64]
) -> NDArray[np.float64]:
    h: NDArray[np.float64] = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return h
