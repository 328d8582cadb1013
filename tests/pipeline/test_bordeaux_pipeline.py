"""The air of Bordeaux through the pipeline, as it is typed: Bob is told what a plain computation says, and all is reported."""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bordeaux import live, measurements
from bordeaux.expected import fuse, street_hours
from bordeaux.sensors import BOXES, SENSORS, Sensed, sensed
from bordeaux.streets import STREETS

SCRIPT = Path(__file__).parents[2] / "examples" / "bordeaux-air" / "pipeline.py"
FROM = "2004-11-22"  # a day with alarms that are accurate, and others that are not
SINCE = datetime.fromisoformat(f"{FROM}T00:00:00+00:00")


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """In this process, so that the Spark that is there is used."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    return int(runpy.run_path(str(SCRIPT))["main"]())


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_bob_is_told_and_everybody_is_reported_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = ran(monkeypatch, "--from", FROM, "--days", "1", "--out", str(tmp_path), "--json")
    out, err = capsys.readouterr()
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    assert result["faults"] == []
    told, unhealthy = (sum(row[name] for row in result["streets"]) for name in ("bobTold", "unhealthy"))
    assert 0 < told < unhealthy  # so that quality has made a difference
    assert sum(row["hours"] for row in result["streets"]) == 24 * len(STREETS)

    rows = measurements.read()
    published = [one for box in BOXES for one in sensed(rows, box, SINCE, SINCE + timedelta(days=1))]
    daily = {one["producer"]: one for one in result["daily"]}
    for sensor in SENSORS:
        hours: dict[datetime, list[dict[str, float]]] = {}
        for one in published:
            if one.sensor == sensor:
                hours.setdefault(one.hour, []).append(one.quality)
        least = 85 if sensor.box.startswith("five") else 75
        good = sum(all(quality["accuracy"] >= least for quality in gases) for gases in hours.values())
        row = daily[f"{sensor.street.slug} {sensor.box}"]
        assert (row["publications"], row["met"]) == (len(hours), good)
        assert row["broken"] == ({f"accuracy>={least}": len(hours) - good} if good < len(hours) else {})
        assert (row["refresh_s"], row["completeness"]) == (3600, 100)
    assert {bool(daily[f"{one.street.slug} {one.box}"]["broken"]) for one in SENSORS} == {True, False}
    assert {one["producer"] for one in result["daily"]} == {
        "", "capsule-street-gases", "capsule-street-index", *(f"{one.street.slug} {one.box}" for one in SENSORS),
    }  # fmt: skip

    by_street = {street: streets_no2(published, street.slug) for street in STREETS}
    spots = {one["place"].rpartition("/")[2]: one["value"] for one in result["hotSpots"]}
    assert spots == {street.slug.replace("-", "_"): pytest.approx(mean) for street, mean in by_street.items()}
    assert [(one["bus"], one["positions"]) for one in result["buses"]] == [("urn:ngsi-ld:Bus:1", 76), ("urn:ngsi-ld:Bus:2", 76)]
    assert (tmp_path / "streets.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "index.html").read_text()
    assert "avenue-thiers five-weekly" in page
    assert "Place de la Victoire" in page


def streets_no2(published: list[Sensed], slug: str) -> float:
    """The mean of a street's fused NO2, each hour with the weight of its accuracy."""
    hours: dict[datetime, list[Sensed]] = {}
    for one in published:
        if one.sensor.street.slug == slug and one.gas == "NO2":
            hours.setdefault(one.hour, []).append(one)
    fused = [fuse(readings) for readings in hours.values()]
    return sum(one.value * one.quality["accuracy"] for one in fused) / sum(one.quality["accuracy"] for one in fused)


def test_each_street_has_three_boxes_and_each_box_three_streets() -> None:
    assert set(Counter(one.street for one in SENSORS).values()) == set(Counter(one.box for one in SENSORS).values()) == {3}
    assert len({one.id for one in SENSORS}) == len({one.position for one in SENSORS}) == 12


def test_what_is_told_otherwise_is_noticed() -> None:
    said = street_hours(measurements.read(), SINCE, SINCE + timedelta(days=1, hours=4))
    wanted = live.expected(said, is_quality_asked=True)
    assert len(wanted) > 2
    assert list(live.differences("Bob", wanted, wanted)) == []
    first = wanted[0]
    for heard, words in (
        (wanted[1:], "Bob missed 1 of"),
        ([*wanted, first], "Bob heard 1 things twice"),
        ([*wanted, msgspec.structs.replace(first, hour="2004-11-01T00:00:00Z")], "Bob heard of 1 hours too many"),
        ([msgspec.structs.replace(first, index=first.index + 1), *wanted[1:]], "and it should be"),
        ([msgspec.structs.replace(first, accuracy=first.accuracy - 0.01), *wanted[1:]], "and it should be"),
    ):
        (fault,) = live.differences("Bob", wanted, heard)
        assert words in fault


def test_a_fusion_weighs_by_accuracy_and_knows_what_is_missing() -> None:
    def one(value: float, **quality: float) -> Sensed:
        return Sensed(SENSORS[0], "NO2", datetime(2004, 11, 22, tzinfo=UTC), value, {"completeness": 90.0} | quality)

    found = fuse([one(10.0, accuracy=90.0, precision=80.0), one(40.0, accuracy=30.0), one(1000.0)])
    assert (found.value, found.quality) == (17.5, {"accuracy": 75.0, "completeness": 60.0})
    alike = fuse([one(10.0), one(20.0, completeness=45.0)])
    assert (alike.value, alike.quality) == (15.0, {"completeness": 30.0})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "yesterday"), "is no day"),
        (("--days", "0"), "take 1 to"),
        (("--from", "2004-03-20"), "take a day from"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert ran(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
