"""What Bob must hear, computed once more from the file: by `csv` and elimination by hand, with nothing of the example's own."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

FILE = Path(__file__).parents[2] / "examples" / "bordeaux-air" / "data" / "air-quality-uci.csv"
HOUR = timedelta(hours=1)
Rows: TypeAlias = dict[datetime, dict[str, float]]

ALL = ["PT08_S1_CO", "PT08_S2_NMHC", "PT08_S3_NOx", "PT08_S4_NO2", "PT08_S5_O3", "T", "RH", "AH"]
# name -> channels for NO2, channels for CO, whether it is calibrated every Monday
STREETS = {
    "Avenue Thiers": (ALL, ALL, True),
    "Quai des Chartrons": (ALL, ALL, False),
    "Rue Sainte-Catherine": (["PT08_S4_NO2", "T", "AH"], ["PT08_S1_CO", "T", "AH"], True),
    "Place de la Victoire": (["PT08_S4_NO2", "T", "AH"], ["PT08_S1_CO", "T", "AH"], False),
}


def rows() -> Rows:
    with FILE.open(newline="") as lines:
        return {
            datetime.strptime(f"{line['Date']} {line['Time']} +0000", "%d/%m/%Y %H:%M:%S %z"): {
                name: float(text) for name, text in line.items() if name not in ("Date", "Time") and text != "-200"
            }
            for line in csv.DictReader(lines)
        }


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivots."""
    size = len(right)
    lines = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(lines[row][column]))
        lines[column], lines[pivot] = lines[pivot], lines[column]
        for row in range(size):
            if row != column:
                factor = lines[row][column] / lines[column][column]
                lines[row] = [one - factor * other for one, other in zip(lines[row], lines[column], strict=True)]
    return [lines[row][size] / lines[row][row] for row in range(size)]


def line_through(known: list[dict[str, float]], target: str, channels: list[str]) -> tuple[float, list[float]]:
    """Least squares by the normal equations: the constant, and a weight for each channel."""
    used = [values for values in known if target in values and all(channel in values for channel in channels)]
    assert len(used) >= 100
    means = [fmean(values[channel] for values in used) for channel in channels]
    mean = fmean(values[target] for values in used)
    centred = [[values[channel] - middle for channel, middle in zip(channels, means, strict=True)] for values in used]
    size = range(len(channels))
    matrix = [[sum(line[i] * line[j] for line in centred) for j in size] for i in size]
    right = [sum(line[i] * (values[target] - mean) for line, values in zip(centred, used, strict=True)) for i in size]
    weights = solved(matrix, right)
    return mean - sum(weight * middle for weight, middle in zip(weights, means, strict=True)), weights


def is_unhealthy(no2: float, co: list[float]) -> bool:
    """Above index 100: more than 100 ppb of NO2, or more than 9.4 ppm of CO in the mean of eight hours."""
    ppb, ppm = no2 * 24.055 / 46.0055, fmean(co) * 24.055 / 28.01 if len(co) >= 6 else 0.0
    return ppb >= 101 or ppm >= 9.5


def level(no2: float | None, co: list[float]) -> str | None:
    """The three levels that there are in this air."""
    if no2 is None:
        return None
    ppb, ppm = no2 * 24.055 / 46.0055, fmean(co) * 24.055 / 28.01 if len(co) >= 6 else 0.0
    assert ppb < 361
    assert ppm < 12.5
    if is_unhealthy(no2, co):
        return "unhealthyForSensitiveGroups"
    return "moderate" if ppb >= 54 or ppm >= 4.5 else "good"


class Street:
    def __init__(self, data: Rows, name: str) -> None:
        self._data = data
        self._first = min(data)
        self._no2_channels, self._co_channels, self._weekly = STREETS[name]
        self._lines: dict[tuple[str, datetime], tuple[float, list[float]]] = {}

    def estimate(self, target: str, hour: datetime) -> float | None:
        channels = self._no2_channels if target == "NO2_GT" else self._co_channels
        values = self._data[hour]
        if any(channel not in values for channel in channels):
            return None
        end = self._first + timedelta(days=28)
        if self._weekly:
            end = max(end, hour - timedelta(days=hour.weekday(), hours=hour.hour))
        if (target, end) not in self._lines:
            window = [self._data[end - number * HOUR] for number in range(1, 28 * 24 + 1)]
            self._lines[target, end] = line_through(window, target, channels)
        constant, weights = self._lines[target, end]
        found = constant + sum(weight * values[channel] for weight, channel in zip(weights, channels, strict=True))
        return max(0.0, found)

    def said(self, since: datetime, until: datetime) -> dict[datetime, str]:
        """The level that the street says, by hour; what was said up to three hours before, where it is silent."""
        found: dict[datetime, str] = {}
        measured: dict[datetime, str] = {}
        hour = since
        while hour < until:
            eight = [self.estimate("CO_GT", hour - number * HOUR) for number in range(8)]
            own = level(self.estimate("NO2_GT", hour), [co for co in eight if co is not None])
            if own is not None:
                measured[hour] = own
            last = next((measured[hour - back * HOUR] for back in range(4) if hour - back * HOUR in measured), None)
            if last is not None:
                found[hour] = last
            hour += HOUR
        return found


def truth(data: Rows, hour: datetime) -> str | None:
    eight = [data[hour - number * HOUR].get("CO_GT") for number in range(8)]
    return level(data[hour].get("NO2_GT"), [co for co in eight if co is not None])


def for_bob(data: Rows, name: str, since: datetime, until: datetime) -> tuple[int, list[datetime], list[datetime]]:
    """How many hours a street says something, in which of them the air is unhealthy, and in which of these it may be believed."""
    said = Street(data, name).said(since - timedelta(days=29), until)
    unhealthy = [hour for hour, what in said.items() if hour >= since and what == "unhealthyForSensitiveGroups"]
    believed = []
    for hour in unhealthy:
        before = [one for one, what in said.items() if hour - timedelta(days=28) <= one < hour and what == said[hour]]
        checks = [truth(data, one) == said[hour] for one in before if truth(data, one) is not None][-24:]
        if len(checks) >= 3 and fmean(checks) >= 0.5:
            believed.append(hour)
    return sum(hour >= since for hour in said), unhealthy, believed
