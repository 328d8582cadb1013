"""What each street says of its air, hour by hour, and how good that is, by everything that was checked before.

One station plays four streets: they differ in how many channels their box has, and in how it is looked after. In an hour in
which the sensors are silent a street repeats what it said last, for a few hours at most; then it says nothing.

Quality is what a producer can know in that very hour: the analyser's value of an hour counts from the next hour on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from math import fsum
from typing import Final

from msgspec import Struct

from bordeaux.calibration import PAIRS_MIN, Calibration, calibrate, pairs_of
from bordeaux.index import CO_HOURS, Index, air_quality_index
from bordeaux.measurements import GASES, HOUR, SENSORS, WEATHER, Gas, Row
from hanse.quality import computed

WINDOW: Final = timedelta(days=28)  # of a calibration
RECALIBRATED: Final = timedelta(days=7)  # every Monday
REPEATED_MAX: Final = timedelta(hours=3)  # what is older than this is not said again
RECENT: Final = timedelta(hours=24)  # accuracy and completeness are of these hours
CHECKS_SINCE: Final = timedelta(days=28)  # correctness looks no further back
CHECKS_MAX: Final = 24  # and at no more statements of the same level than these
CHECKS_MIN: Final = 3  # fewer checks say nothing
MEASURED: Final = {"T": "temperature", "RH": "relativeHumidity"}  # attributes beside the gases
EXPECTED: Final = (*(gas.name for gas in GASES), *MEASURED.values())


class Street(Struct, frozen=True):
    name: str
    slug: str
    sensor_uri: str  # as the INCOME paper names sensors
    position: tuple[float, float]  # longitude, latitude
    has_all_sensors: bool
    is_recalibrated: bool

    def channels(self, gas: Gas) -> tuple[str, ...]:
        return (*SENSORS, *WEATHER) if self.has_all_sensors else (gas.sensor, "T", "AH")

    @property
    def words(self) -> str:
        sensors = "five sensors" if self.has_all_sensors else "one sensor a gas"
        return f"{sensors}, calibrated {'every Monday' if self.is_recalibrated else 'once, in spring 2004'}"


STREETS: Final = (
    Street("Avenue Thiers", "avenue-thiers", "bordeaux://thiersave./sensors/45/", (-0.5536, 44.8436), True, True),
    Street("Quai des Chartrons", "quai-des-chartrons", "bordeaux://chartrons./sensors/12/", (-0.5690, 44.8528), True, False),
    Street(
        "Rue Sainte-Catherine", "rue-sainte-catherine", "bordeaux://saintecatherine./sensors/7/", (-0.5740, 44.8367), False, True
    ),
    Street("Place de la Victoire", "place-de-la-victoire", "bordeaux://victoire./sensors/31/", (-0.5727, 44.8310), False, False),
)


class Statement(Struct, frozen=True):
    """What a street says in an hour; `observed` is an earlier hour if its sensors are silent."""

    hour: datetime
    observed: datetime
    values: dict[str, float]  # by attribute, of EXPECTED
    index: Index

    @property
    def is_measured(self) -> bool:
        return self.observed == self.hour


class Check(Struct, frozen=True):
    """An hour that is past: what the street said in it, what was the truth, and how near each gas was."""

    hour: datetime
    level: str
    true_level: str | None
    accuracy: dict[str, float]
    measured: frozenset[str]


class Report(Struct, frozen=True):
    """A statement with its quality: by attribute and criterion, under "" for the whole."""

    street: Street
    statement: Statement
    quality: dict[str, dict[str, float]]
    truth: Index | None  # by the analyser; known afterwards, for the table and the picture only


# --- calibrations -----------------------------------------------------------------------------------------------------


class Calibrations:
    """The calibrations of a street, each learned when it is first needed."""

    def __init__(self, rows: Mapping[datetime, Row], street: Street) -> None:
        self._rows = rows
        self._street = street
        self._first = next(iter(rows))
        self._known: dict[tuple[str, datetime], Calibration] = {}

    def at(self, gas: Gas, hour: datetime) -> Calibration:
        """The one that is in use in an hour."""
        first = self._first + WINDOW
        end = max(first, _monday(hour)) if self._street.is_recalibrated else first
        if (gas.name, end) not in self._known:
            self._known[gas.name, end] = self._learned(gas, end, first)
        return self._known[gas.name, end]

    def _learned(self, gas: Gas, end: datetime, first: datetime) -> Calibration:
        """From the latest window that has enough to learn from: the analyser is off at times."""
        channels = self._street.channels(gas)
        rows = _between(self._rows, end - WINDOW, end)
        while end > first and len(pairs_of(rows, gas, channels)) < PAIRS_MIN:
            end = max(first, end - RECALIBRATED)
            rows = _between(self._rows, end - WINDOW, end)
        return calibrate(rows, gas, channels)


def _monday(hour: datetime) -> datetime:
    return (hour - timedelta(days=hour.weekday())).replace(hour=0)


def _between(rows: Mapping[datetime, Row], since: datetime, until: datetime) -> list[Row]:
    hours = int((until - since) / HOUR)
    return [rows[hour] for hour in (since + number * HOUR for number in range(hours)) if hour in rows]


# --- what is said, and how good it is -------------------------------------------------------------------------------------


@lru_cache(maxsize=1_000)
def _parts(hour: datetime) -> frozenset[str]:
    """What should be measured in an hour."""
    return frozenset(f"{name} {hour}" for name in EXPECTED)


def qualify(statement: Statement, past: Iterable[Check], precision: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The quality of a statement, by what was checked in the hours before it. What nobody can know is not stated.

    correctness   of the level: of the latest statements of this level by this street, the share in which the analyser agreed
    accuracy      of a gas: the mean closeness to the analyser in the last 24 hours
    precision     of a gas: the repeatability that its calibration has found
    freshness     the age of the measurement
    completeness  of the whole: the share of what should have been measured in the last 24 hours, this one included
    """
    now = statement.hour
    age = computed.freshness(statement.observed.timestamp(), now.timestamp())
    quality: dict[str, dict[str, float]] = {
        name: {"freshness": age} for name in (*statement.values, "airQualityIndex", "airQualityLevel")
    }
    checked = [check for check in past if check.hour >= now - CHECKS_SINCE]
    recent = [check for check in checked if check.hour > now - RECENT]
    for gas in GASES:
        if gas.is_independent and gas.name in statement.values:
            if gas.name in precision:
                quality[gas.name]["precision"] = precision[gas.name]
            found = [check.accuracy[gas.name] for check in recent if gas.name in check.accuracy]
            if len(found) >= CHECKS_MIN:
                quality[gas.name]["accuracy"] = fsum(found) / len(found)
    same = [check for check in checked if check.level == statement.index.level and check.true_level is not None][-CHECKS_MAX:]
    if len(same) >= CHECKS_MIN:
        right = sum(check.true_level == check.level for check in same)
        quality["airQualityLevel"]["correctness"] = computed.correctness(right, len(same))
    expected = frozenset[str]().union(*(_parts(now - number * HOUR) for number in range(int(RECENT / HOUR))))
    quality[""] = {"completeness": computed.completeness(measured(statement).union(*(one.measured for one in recent)), expected)}
    return quality


def measured(statement: Statement) -> frozenset[str]:
    """Which of the expected parts of its hour a statement has measured; nothing, if it repeats what was said before."""
    return frozenset(f"{name} {statement.hour}" for name in statement.values) if statement.is_measured else frozenset()


def reports(rows: Mapping[datetime, Row], street: Street, since: datetime, until: datetime) -> Iterator[Report]:
    """What a street says from an hour on, until another one; it has been at work long enough before to have been checked."""
    calibrations = Calibrations(rows, street)
    past: deque[Check] = deque()
    said: Statement | None = None
    hour = max(next(iter(rows)) + WINDOW, since - CHECKS_SINCE - RECENT)
    co: dict[datetime, float] = {}
    while hour < until:
        values = rows[hour].values if hour in rows else {}
        in_use = {gas: calibrations.at(gas, hour) for gas in GASES}
        estimates = {gas.name: value for gas in GASES if (value := in_use[gas].estimate(values)) is not None}
        if "CO" in estimates:
            co[hour] = estimates["CO"]
        index = air_quality_index(estimates.get("NO2"), [co[one] for one in _eight_hours(hour) if one in co])
        said = stated(hour, estimates | {MEASURED[name]: values[name] for name in MEASURED if name in values}, index, said)
        if said is not None:
            truth = true_index(rows, hour)
            if hour >= since:
                precision = {gas.name: one.precision for gas, one in in_use.items() if one.precision is not None}
                yield Report(street, said, qualify(said, past, precision), truth)
            past.append(check(said, truth, values, in_use))
        while past and past[0].hour < hour - CHECKS_SINCE:
            past.popleft()
        hour += HOUR


def stated(hour: datetime, values: dict[str, float], index: Index | None, before: Statement | None) -> Statement | None:
    """What a street says: what it has measured, or else what it said before, unless that is too old."""
    if index is not None:
        return Statement(hour, hour, values, index)
    if before is not None and hour - before.observed <= REPEATED_MAX:
        return Statement(hour, before.observed, before.values, before.index)
    return None


def true_index(rows: Mapping[datetime, Row], hour: datetime) -> Index | None:
    """What the analyser says of an hour; None if it was off."""
    if hour not in rows:
        return None
    co = [rows[one].values["CO_GT"] for one in _eight_hours(hour) if one in rows and "CO_GT" in rows[one].values]
    return air_quality_index(rows[hour].values.get("NO2_GT"), co)


def check(said: Statement, truth: Index | None, values: Mapping[str, float], in_use: Mapping[Gas, Calibration]) -> Check:
    """A statement held against the analyser, once its hour is past."""
    accuracy = {
        gas.name: computed.accuracy(said.values[gas.name], values[gas.reference], in_use[gas].span)
        for gas in GASES
        if gas.is_independent and gas.reference in values and gas.name in said.values
    }
    return Check(said.hour, said.index.level, truth.level if truth is not None else None, accuracy, measured(said))


def _eight_hours(hour: datetime) -> list[datetime]:
    return [hour - number * HOUR for number in range(CO_HOURS)]
