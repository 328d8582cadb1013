"""Points in an order in which neighbours are mostly close together, so that an ordinary index finds those in a box.

The earth is a square of cells, numbered along a Z-curve: the digits of a cell's column and row, in turns. Every quarter of the
square, every quarter of that and so on has numbers that follow each other. So a box is covered by a few ranges of numbers; what
they hold beyond the box is a strip as wide as the quarters are that it was covered with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hanse.ngsild.geo import Box

AXIS_BITS: Final = 24  # a cell is at most 2.4 m wide
CELL_BYTES: Final = AXIS_BITS * 2 // 8
COVER_MAX: Final = 36  # quarters that a box is covered with

_HALF: Final = AXIS_BITS // 2
_LOW: Final = (1 << _HALF) - 1
_LAST: Final = (1 << AXIS_BITS) - 1
_COLUMNS_PER_DEG: Final = _LAST / 360.0
_ROWS_PER_DEG: Final = _LAST / 180.0
# the digits of a number with a gap behind each
_SPREAD: Final = [int(f"{number:b}", 4) for number in range(1 << _HALF)]


def cell(lon: float, lat: float) -> bytes:
    """The cell of a point, whose coordinates are those of a place on earth."""
    x, y = int((lon + 180.0) * _COLUMNS_PER_DEG), int((lat + 90.0) * _ROWS_PER_DEG)
    spread = _SPREAD
    high = spread[x >> _HALF] << 1 | spread[y >> _HALF]
    return (high << AXIS_BITS | spread[x & _LOW] << 1 | spread[y & _LOW]).to_bytes(CELL_BYTES, "big")


def cover(box: Box) -> list[tuple[bytes, bytes]]:
    """Ranges of cells, from the first to the last of each, that hold every point in a box."""
    west, south, east, north = box
    x0, x1 = (int((min(max(lon, -180.0), 180.0) + 180.0) * _COLUMNS_PER_DEG) for lon in (west, east))
    y0, y1 = (int((min(max(lat, -90.0), 90.0) + 90.0) * _ROWS_PER_DEG) for lat in (south, north))
    shift = max(0, ((x1 - x0 + 1) * (y1 - y0 + 1) // COVER_MAX).bit_length() // 2)  # smaller ones would be too many
    while ((x1 >> shift) - (x0 >> shift) + 1) * ((y1 >> shift) - (y0 >> shift) + 1) > COVER_MAX:
        shift += 1
    columns = [_spread(x) << 1 for x in range(x0 >> shift, (x1 >> shift) + 1)]
    rows = [_spread(y) for y in range(y0 >> shift, (y1 >> shift) + 1)]
    ranges: list[tuple[int, int]] = []
    for number in sorted(column | row for column in columns for row in rows):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    wide = shift * 2
    return [
        ((first << wide).to_bytes(CELL_BYTES, "big"), ((last + 1 << wide) - 1).to_bytes(CELL_BYTES, "big"))
        for first, last in ranges
    ]


def _spread(number: int) -> int:
    return _SPREAD[number >> _HALF] << AXIS_BITS | _SPREAD[number & _LOW]
