"""The quality of what a street says: computed from what was checked before, never from what is still to come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any

import pytest

from bordeaux.context import BOBS_QUALITY, LEVEL, document, entity, id_of, is_for_bob, level_of_correctness, observations
from bordeaux.index import Index
from bordeaux.measurements import HOUR, Row, read
from bordeaux.streets import EXPECTED, STREETS, Calibrations, Check, Report, Statement, check, measured, qualify, reports
from hanse.quality.json_form import from_entity
from hanse.quality.xml_form import from_xml, quality_of_xml

NOW = datetime(2004, 11, 22, 12, tzinfo=UTC)
GOOD, BAD = Index(20, "good"), Index(105, "unhealthyForSensitiveGroups")
VALUES = dict.fromkeys(EXPECTED, 1.0)


def said(index: Index = BAD, hour: datetime = NOW, age: int = 0) -> Statement:
    return Statement(hour, hour - age * HOUR, VALUES, index)


def checked(hours_ago: int, index: Index = BAD, truth: Index | None = BAD, **accuracy: float) -> Check:
    statement = said(index, NOW - hours_ago * HOUR)
    return Check(statement.hour, index.level, truth.level if truth else None, accuracy, measured(statement))


def quality(past: list[Check], statement: Statement | None = None) -> dict[str, dict[str, float]]:
    return qualify(statement or said(), past, {"NO2": 91.0})


def test_correctness_is_the_share_of_alarms_that_were_right() -> None:
    past = [checked(9), checked(7, GOOD, BAD), checked(5, BAD, GOOD), checked(3, BAD, None), checked(2), checked(1)]
    assert quality(past)[LEVEL]["correctness"] == 75.0
    assert quality(past, said(GOOD))[LEVEL] == {"freshness": 0.0}  # one check of this level is too few


def test_correctness_forgets_what_is_long_ago() -> None:
    wrong = [checked(hours, BAD, GOOD) for hours in range(60, 30, -1)]
    right = [checked(hours) for hours in range(24, 0, -1)]
    assert quality([*wrong, *right])[LEVEL]["correctness"] == 100.0
    old = [checked(24 * 28 + hours, BAD, GOOD) for hours in (3, 2, 1)]
    assert "correctness" not in quality(old)[LEVEL]
    assert quality([checked(24 * 28 - hours, BAD, GOOD) for hours in (0, 1, 2)])[LEVEL]["correctness"] == 0.0


def test_accuracy_is_of_the_last_day_and_only_where_the_analyser_is_independent() -> None:
    past = [checked(24, NO2=0.0), *(checked(hours, NO2=90.0 + hours) for hours in (3, 2, 1))]
    found = quality(past)
    assert found["NO2"] == {"freshness": 0.0, "precision": 91.0, "accuracy": 92.0}
    assert found["CO"] == found["C6H6"] == {"freshness": 0.0}
    assert "accuracy" not in quality(past[:3])["NO2"]


def test_completeness_counts_what_was_measured_in_a_day() -> None:
    assert quality([])[""] == {"completeness": pytest.approx(100 / 24)}
    assert quality([checked(hours) for hours in range(30, 0, -1)])[""] == {"completeness": 100.0}
    half = [checked(hours) for hours in range(12, 0, -1)]
    assert quality(half, said(age=1))[""] == {"completeness": pytest.approx(50.0)}


def test_what_is_repeated_says_how_old_it_is() -> None:
    found = quality([], said(age=2))
    assert {found[name]["freshness"] for name in (*EXPECTED, LEVEL, "airQualityIndex")} == {7200.0}


# --- on the file --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> dict[datetime, Row]:
    return read()


@pytest.fixture(scope="module")
def winter(rows: dict[datetime, Row]) -> list[Report]:
    return list(reports(rows, STREETS[0], NOW - timedelta(days=1), NOW + timedelta(days=1)))


def test_quality_knows_nothing_of_the_future(rows: dict[datetime, Row], winter: list[Report]) -> None:
    """Were the analyser to say anything else from now on, no street would say anything else until then, nor now."""
    wrong = {
        hour: Row(hour, row.values | ({"NO2_GT": 1.0, "CO_GT": 99.0, "NOx_GT": 7.0} if hour >= NOW else {}))
        for hour, row in rows.items()
    }
    again = list(reports(wrong, STREETS[0], NOW - timedelta(days=1), NOW + timedelta(days=1)))
    until = [(one.statement, one.quality) for one in winter if one.statement.hour <= NOW]
    assert [(one.statement, one.quality) for one in again if one.statement.hour <= NOW] == until
    assert again[-1].quality != winter[-1].quality


def test_accuracy_is_what_the_file_says(rows: dict[datetime, Row], winter: list[Report]) -> None:
    calibrations = Calibrations(rows, STREETS[0])
    last = winter[-1].statement.hour
    deviations = []
    for one in winter:
        hour = one.statement.hour
        from bordeaux.measurements import GASES

        span = calibrations.at(GASES[1], hour).span
        reference = rows[hour].values.get("NO2_GT")
        if last - 24 * HOUR < hour < last and reference is not None:
            deviations.append(1 - abs(one.statement.values["NO2"] - reference) / span)
    assert winter[-1].quality["NO2"]["accuracy"] == pytest.approx(100 * fmean(deviations))


def test_silence_is_bridged_for_three_hours(rows: dict[datetime, Row]) -> None:
    """The sensors were silent for 75 hours in the week of 13 December."""
    since = datetime(2004, 12, 13, tzinfo=UTC)
    found = {one.statement.hour: one for one in reports(rows, STREETS[0], since, since + timedelta(days=7))}
    silent = [hour for hour, row in rows.items() if since <= hour < since + timedelta(days=7) and "T" not in row.values]
    assert len(silent) == 75
    assert [hour in found for hour in silent] == [True] * 3 + [False] * 72
    assert [found[hour].quality["NO2"]["freshness"] for hour in silent[:3]] == [3600, 7200, 10800]
    after = found[silent[-1] + HOUR]
    assert after.quality[""]["completeness"] == pytest.approx(100 / 24)
    assert "accuracy" not in after.quality["NO2"]


def test_a_wrong_statement_is_held_against_the_analyser(rows: dict[datetime, Row], winter: list[Report]) -> None:
    from bordeaux.measurements import GASES

    one = winter[0]
    hour = one.statement.hour
    in_use = {gas: Calibrations(rows, STREETS[0]).at(gas, hour) for gas in GASES}
    found = check(one.statement, GOOD, {"NO2_GT": one.statement.values["NO2"]}, in_use)
    assert (found.level, found.true_level, found.accuracy) == (one.statement.index.level, "good", {"NO2": 100.0})


# --- as context ---------------------------------------------------------------------------------------------------------


def test_both_forms_carry_the_same_quality(winter: list[Report]) -> None:
    for report in winter:
        document_quality = quality_of_xml(document(report))
        made = entity(report)
        of_level: dict[str, Any] = made[LEVEL]
        for name, value in report.quality[LEVEL].items():
            assert of_level[name]["value"] == document_quality[f"pollution.{name}"] == value
        observed = {name: made[name] for name in (*EXPECTED, "airQualityIndex", LEVEL)}
        read_back = from_entity({"id": made["id"], "type": made["type"], **observed})
        assert set(map(repr, read_back)) == set(map(repr, observations(report)))
        (xml,) = from_xml(document(report))
        assert (xml.value, xml.entity) == (of_level["value"], report.street.sensor_uri)
        assert made["completeness"]["value"] == report.quality[""]["completeness"]


def test_both_must_hold(winter: list[Report]) -> None:
    kinds = {(one.statement.index.level, level_of_correctness(one)): is_for_bob(one) for one in winter}
    assert {kind for kind, wanted in kinds.items() if wanted} == {
        (level, correctness)
        for level, correctness in kinds
        if level == "unhealthyForSensitiveGroups" and correctness in ("medium", "high")
    }
    assert True in kinds.values()
    assert ("moderate", "high") in kinds
    assert BOBS_QUALITY == "correctness>=medium"
    assert len({id_of(street) for street in STREETS}) == len(STREETS)
