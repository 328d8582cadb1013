"""Several sensors on each street, for the pipeline: three boxes a street, of the four kinds that `streets` plays.

`streets` has one box for each street; here each kind of box hangs on three streets, so that there is something to fuse. All of
them breathe the air of the one station. What a box says is `streets.reports`; only what it has measured itself is published,
and of that the two gases that the index needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct

from bordeaux.measurements import GASES, Row
from bordeaux.streets import STREETS, Report, Street, reports

TYPE: Final = "AirQualityObserved"
GASES_USED: Final = tuple(gas for gas in GASES if gas.name in ("NO2", "CO"))
BOXES: Final = dict(zip(("five-weekly", "five-once", "one-weekly", "one-once"), STREETS, strict=True))
ABSENT: Final = ("one-once", "five-weekly", "one-weekly", "five-once")  # the kind of box that each street does not have
SPREAD_DEG: Final = 0.0005  # of longitude between two boxes of a street: 40 metres


class Sensor(Struct, frozen=True):
    street: Street
    box: str
    position: tuple[float, float]  # longitude, latitude

    @property
    def id(self) -> str:
        return f"urn:ngsi-ld:{TYPE}:Bordeaux:{self.street.slug}:{self.box}"

    @property
    def scope(self) -> str:
        return scope_of(self.street)

    @property
    def promise(self) -> str:
        """What its owner advertises: a box with five sensors is said to be better. A value an hour, in values a second."""
        return f"accuracy>={85 if BOXES[self.box].has_all_sensors else 75};completeness>=80;refreshRate>=0.00027"


class Sensed(Struct, frozen=True):
    """One gas, as a sensor gives it in an hour, with its quality in percent: accuracy and precision where they are known."""

    sensor: Sensor
    gas: str
    hour: datetime
    value: float
    quality: dict[str, float]


def scope_of(street: Street) -> str:
    return "/bordeaux/" + street.slug.replace("-", "_")


SENSORS: Final = tuple(
    Sensor(street, box, (round(street.position[0] + place * SPREAD_DEG, 6), street.position[1]))
    for street, absent in zip(STREETS, ABSENT, strict=True)
    for place, box in enumerate(box for box in BOXES if box != absent)
)
SENSORS_A_STREET: Final = 3


def sensed(rows: Mapping[datetime, Row], box: str, since: datetime, until: datetime) -> Iterator[Sensed]:
    """What all sensors with such a box publish from an hour on, until another one."""
    hanging = [sensor for sensor in SENSORS if sensor.box == box]
    for report in reports(rows, BOXES[box], since, until):
        if report.statement.is_measured:
            for gas in GASES_USED:
                if gas.name in report.statement.values:
                    quality = quality_of(report, gas.name)
                    value = report.statement.values[gas.name]
                    yield from (Sensed(one, gas.name, report.statement.hour, value, quality) for one in hanging)


def quality_of(report: Report, gas: str) -> dict[str, float]:
    """Of the gas, and how complete the last day of the box was."""
    own = {name: value for name, value in report.quality[gas].items() if name in ("accuracy", "precision")}
    return own | {"completeness": report.quality[""]["completeness"]}
