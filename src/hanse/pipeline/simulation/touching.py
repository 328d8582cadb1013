"""Whose areas many circles touch, all at once: what `hanse.routing.areas.Areas` says of each one, and of many places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hanse.routing import Settings

FIELDS_AT_ONCE: Final = 1_000_000  # pairs of circle and field that are looked at together: some 100 MB
_GAP: Final = 1e-13  # neighbouring fields do not touch


class FieldMap(Struct, frozen=True):
    """The fields of the earth and who owns each, south to north, then west to east. Small: it is sent to Spark's workers."""

    size_deg: float
    rows: int
    columns: int
    owner: NDArray[np.int64]

    @classmethod
    def of(cls, settings: Settings) -> FieldMap:
        size, areas = settings.field_size_deg, settings.areas
        index = {node: i for i, node in enumerate(settings.federation.ids)}
        rows, columns = round(180.0 / size), round(360.0 / size)
        owner = [
            index[areas.owner(-90.0 + size * (row + 0.5), -180.0 + size * (column + 0.5))]
            for row in range(rows)
            for column in range(columns)
        ]
        return cls(size, rows, columns, np.array(owner, dtype=np.int64))

    def owners(self, lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.int64]:
        """Who owns each place."""
        row = np.minimum(((lat + 90.0) / self.size_deg).astype(np.int64), self.rows - 1)
        column = ((lon + 180.0) / self.size_deg).astype(np.int64) % self.columns
        return self.owner[row * self.columns + column]

    def touched(
        self, lat: NDArray[np.float64], lon: NDArray[np.float64], radius_deg: NDArray[np.float64]
    ) -> list[NDArray[np.int64]]:
        """For each circle the brokers whose areas it touches. Circles that follow on an equal one are looked at once."""
        if not len(lat):
            return []
        new = np.ones(len(lat), dtype=bool)
        new[1:] = (lat[1:] != lat[:-1]) | (lon[1:] != lon[:-1]) | (radius_deg[1:] != radius_deg[:-1])
        lat, lon, radius_deg = lat[new], lon[new], radius_deg[new]
        windows = self._windows(lat, lon, radius_deg)
        bounds = np.concatenate(([0], np.cumsum(windows[1] * windows[3])))
        found: list[NDArray[np.int64]] = []
        start = 0
        while start < len(lat):
            stop = max(start + 1, int(np.searchsorted(bounds, bounds[start] + FIELDS_AT_ONCE, side="right")) - 1)
            part = slice(start, stop)
            found += self._touched(lat[part], lon[part], radius_deg[part], tuple(each[part] for each in windows))
            start = stop
        return [found[i] for i in np.cumsum(new) - 1]

    def _windows(
        self, lat: NDArray[np.float64], lon: NDArray[np.float64], radius_deg: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], ...]:
        """The fields that each circle may reach: first row and how many, first column and how many."""
        low = np.maximum(0, ((lat - radius_deg + 90.0) / self.size_deg).astype(np.int64) - 1)
        high = np.minimum(self.rows, ((lat + radius_deg + 90.0) / self.size_deg).astype(np.int64) + 2)
        sine, room = np.sin(np.radians(np.minimum(radius_deg, 90.0))), np.cos(np.radians(lat))
        round_a_pole = (np.abs(lat) + radius_deg >= 90.0) | (sine >= room)
        width = np.degrees(np.arcsin(np.where(round_a_pole, 0.0, sine / np.where(room > 0, room, 1.0))))
        first = np.floor((lon - width + 180.0) / self.size_deg).astype(np.int64) - 1
        last = np.floor((lon + width + 180.0) / self.size_deg).astype(np.int64) + 1
        count = np.minimum(last + 1 - first, self.columns)
        return low, high - low, np.where(round_a_pole, 0, first), np.where(round_a_pole, self.columns, count)

    def _touched(
        self,
        lat: NDArray[np.float64],
        lon: NDArray[np.float64],
        radius_deg: NDArray[np.float64],
        windows: tuple[NDArray[np.int64], ...],
    ) -> list[NDArray[np.int64]]:
        low, high, first, across = windows
        sizes = high * across
        circle = np.repeat(np.arange(len(lat)), sizes)
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        row = low[circle] + place // across[circle]
        column = (first[circle] + place % across[circle]) % self.columns
        south, west = row * self.size_deg - 90.0, column * self.size_deg - 180.0
        reached = _distance(np.radians(lat)[circle], np.radians(lon)[circle], south, west, self.size_deg)
        reach = np.sin(np.radians(radius_deg) / 2) ** 2
        near = reached <= (reach * (1 + 1e-12) + 1e-24)[circle]  # in doubt touched, as `Areas` says
        nodes = int(self.owner.max()) + 1
        pairs = np.unique(circle[near] * nodes + self.owner[(row * self.columns + column)[near]])
        return np.split(pairs % nodes, np.searchsorted(pairs // nodes, np.arange(1, len(lat))))


def _distance(
    lat: NDArray[np.float64],
    lon: NDArray[np.float64],
    south_deg: NDArray[np.float64],
    west_deg: NDArray[np.float64],
    size_deg: float,
) -> NDArray[np.float64]:
    """The haversine of the shortest way from a point to a field, as `Areas` computes it."""
    south, north = np.radians(south_deg), np.radians(south_deg + size_deg - _GAP)
    to_west, to_east = _angle(np.radians(west_deg) - lon), _angle(np.radians(west_deg + size_deg - _GAP) - lon)
    spans = (to_west <= 0) & (to_east >= 0) & (to_east - to_west < np.pi)
    side = np.where(np.abs(to_west) < np.abs(to_east), to_west, to_east)
    side = np.where(spans, 0.0, side)
    foot = np.arctan2(np.sin(lat), np.cos(lat) * np.cos(side))
    foot = np.where(np.abs(foot) > np.pi / 2, np.copysign(np.pi / 2, foot), foot)
    aside, here = np.sin(side / 2) ** 2, np.cos(lat)
    distance: NDArray[np.float64] = np.full(len(lat), np.inf)
    for there in (np.clip(foot, south, north), south, north):
        distance = np.minimum(distance, np.sin((there - lat) / 2) ** 2 + here * np.cos(there) * aside)
    return distance


def _angle(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """An angle as the shorter way round: between -π and π."""
    return (value + np.pi) % (2 * np.pi) - np.pi
