"""The measurements: one row an hour, of five low-cost sensors and of the certified analyser that stands beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from hanse.model import InvalidInput

FILE: Final = Path(__file__).resolve().parents[1] / "data" / "air-quality-uci.csv"
MISSING: Final = -200.0  # how the file says that there is no value
HOUR: Final = timedelta(hours=1)
SENSORS: Final = ("PT08_S1_CO", "PT08_S2_NMHC", "PT08_S3_NOx", "PT08_S4_NO2", "PT08_S5_O3")
WEATHER: Final = ("T", "RH", "AH")  # temperature in °C, relative humidity in percent, absolute humidity


class Row(Struct, frozen=True):
    """What was measured in an hour, by the names of the file's columns; what is missing is not there."""

    hour: datetime
    values: dict[str, float]


class Gas(Struct, frozen=True):
    """A gas: the column of the analyser, the sensor that is made for it, its unit (UN/CEFACT code).

    `is_independent`: whether the analyser measured it by itself. The file's benzene is a function of the sensor PT08_S2_NMHC (one
    reading, one value, to its last digit), so nothing can be learned from comparing the two.
    """

    name: str
    reference: str
    sensor: str
    unit_code: str
    is_independent: bool = True


GASES: Final = (
    Gas("CO", "CO_GT", "PT08_S1_CO", "GP"),  # mg/m3
    Gas("NO2", "NO2_GT", "PT08_S4_NO2", "GQ"),  # µg/m3
    Gas("NOx", "NOx_GT", "PT08_S3_NOx", "61"),  # ppb
    Gas("C6H6", "C6H6_GT", "PT08_S2_NMHC", "GQ", is_independent=False),  # µg/m3
)


def read(file: Path = FILE) -> dict[datetime, Row]:
    """The rows of the file by their hour, in the order of time."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            return in_order(row_of(line, number) for number, line in enumerate(csv.DictReader(lines), start=2))
    except OSError as error:
        raise InvalidInput(f"{file.name} cannot be read: {error.strerror}") from None


def row_of(line: dict[str, str], number: int = 0) -> Row:
    """A row as the file has it, with the day first: 10/03/2004 and 18:00:00."""
    try:
        hour = datetime.strptime(f"{line['Date']} {line['Time']}", "%d/%m/%Y %H:%M:%S").replace(tzinfo=UTC)
        values = {name: float(text) for name, text in line.items() if name not in ("Date", "Time")}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"line {number} is no row of measurements: {error}") from None
    return Row(hour, {name: value for name, value in values.items() if value != MISSING})


def in_order(rows: Iterable[Row]) -> dict[datetime, Row]:
    return {row.hour: row for row in sorted(rows, key=lambda row: row.hour)}
