"""The air of Bordeaux as typed: Bob hears of the hours that are unhealthy and can be believed, each once, and of no other."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.examples import plain_air

RUN = Path(__file__).parents[2] / "examples" / "bordeaux-air" / "run.py"
FROM, DAYS = "2004-12-20", 5  # alarms that can be believed, others that cannot, and hours in which the sensors are silent


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(RUN), *arguments], capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("air")
    done = ran("--from", FROM, "--days", str(DAYS), "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", plain_air.STREETS)
def test_bob_hears_what_a_plain_computation_says(played: dict[str, Any], name: str) -> None:
    since = datetime.fromisoformat(f"{FROM}T00:00:00+00:00")
    hours, unhealthy, believed = plain_air.for_bob(plain_air.rows(), name, since, since + timedelta(days=DAYS))
    row = next(row for row in played["streets"] if row["street"] == name)
    assert row["hours"] == hours < DAYS * 24
    assert row["unhealthy"] == row["heardWithoutQuality"] == len(unhealthy)
    assert row["unhealthyAndMedium"] == row["bobHeard"] == len(believed)
    assert row["told"] == [f"{hour:%Y-%m-%dT%H:%M:%SZ}" for hour in believed]


def test_quality_makes_a_difference_in_these_days(played: dict[str, Any]) -> None:
    """Otherwise the test above would say little: there are hours of both kinds, and more of one than of the other."""
    told, unhealthy = (sum(row[name] for row in played["streets"]) for name in ("bobHeard", "unhealthy"))
    assert 0 < told < unhealthy


def test_xpath_on_xml_says_the_same(played: dict[str, Any]) -> None:
    thiers = next(row for row in played["streets"] if row["street"] == played["natively"]["street"])
    assert played["natively"]["heard"] == played["natively"]["expected"] == thiers["bobHeard"] > 0


def test_there_is_a_picture(played: dict[str, Any]) -> None:
    assert Path(played["picture"]).read_bytes().startswith(b"\x89PNG")


def test_a_notification_too_many_or_too_few_is_noticed() -> None:
    script = runpy.run_path(str(RUN))
    from bordeaux import measurements, scenario
    from bordeaux.context import id_of, is_for_bob, is_unhealthy, moment
    from bordeaux.streets import STREETS, reports

    since = measurements.row_of({"Date": "22/11/2004", "Time": "00:00:00"}).hour
    thiers = STREETS[0]
    said = list(reports(measurements.read(), thiers, since, since + timedelta(days=1)))
    unhealthy = [(id_of(thiers), moment(one.statement.hour)) for one in said if is_unhealthy(one)]
    wanted = [(id_of(thiers), moment(one.statement.hour)) for one in said if is_for_bob(one)]
    native = [(thiers.sensor_uri, hour) for _, hour in wanted]
    assert len(wanted) > 1
    compared = script["compared"]
    assert compared(said, scenario.Outcome(wanted, unhealthy, native)) == []
    for bob in (wanted[1:], [*wanted, wanted[0]], [*wanted, (id_of(thiers), moment(since - timedelta(hours=1)))]):
        (fault,) = compared(said, scenario.Outcome(bob, unhealthy, native))
        assert fault.startswith("Bob heard of")
    (fault,) = compared(said, scenario.Outcome(wanted, unhealthy, native[:-1]))
    assert fault.startswith("Bob's native subscription heard of")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "yesterday"), "'yesterday' is no day; write it like 2004-11-15"),
        (("--from", "2004-03-20"), "take a day from 2004-04-08 to 2005-04-03"),
        (("--from", "2005-04-04"), "take a day from 2004-04-08 to 2005-04-03"),
        (("--from", "2005-04-01", "--days", "9"), "--days 9 cannot be played from 2005-04-01 on; take 1 to 3"),
        (("--days", "0"), "--days 0 cannot be played from 2004-11-15 on; take 1 to 140"),
    ],
)
def test_what_cannot_be_played_is_said_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = ran(*arguments, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert words in line


def test_help_has_an_example() -> None:
    done = ran("--help")
    assert done.returncode == 0
    assert "python examples/bordeaux-air/run.py --from 2005-03-07 --days 14 --json" in done.stdout
