"""Bad data through whole pipelines, in random mixes: what comes in comes out, or is set aside with the reason. Nothing stops."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.filling import node_with, upsert

from hanse.pipeline.plan import load
from hanse.pipeline.runner import run
from hanse.pipeline.sink import dead_letters
from hanse.pipeline.state import QueryState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hanse.client.sync import SyncNodeClient

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PIPELINE = """
[source]
nodes = "n={url}"
maxRecordsPerTrigger = 30
recordsPerPartition = 20

[sink]
node = "{url}"

[[capsules]]
name = "by-street"
kind = "{kind}"
types = ["AirQualityObserved"]
attributes = ["no2"]
place = "scope"
window = "2 minutes"
every = "1 minute"
late = "10 seconds"
expected = 3
output = "StreetAir"
guarantee = "completeness>=50"
"""
WINDOWS_OF_EACH = 2  # two minutes, every minute
BAD = {"late": 0.15, "duplicate": 0.15, "wrong type": 0.1, "unplaced": 0.1, "ahead": 0.1}  # and how often


def time_text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def observed(sensor: str, at: datetime, value: Any, scope: str | None = "/rue") -> dict[str, Any]:
    entity = {
        "id": f"urn:ngsi-ld:AirQualityObserved:{sensor}",
        "type": "AirQualityObserved",
        "no2": {"type": "Property", "value": value, "observedAt": time_text(at)},
    }
    return entity if scope is None else entity | {"scope": scope}


def mixed(chance: random.Random, start: datetime, number: int) -> list[dict[str, Any]]:
    """Good ones, in order of time, one each ten seconds, with bad ones among them."""
    made: list[dict[str, Any]] = []
    for turn in range(number):
        at = start + timedelta(seconds=10 * turn)
        kind = chance.choices([*BAD, "good"], [*BAD.values(), 1 - sum(BAD.values())])[0]
        if kind == "duplicate" and made:
            made.append(made[-1])
        elif kind == "late":
            made.append(observed("a", at - timedelta(hours=1), turn))
        elif kind == "wrong type":
            made.append(observed("a", at, chance.choice(["high", True, [1, 2], {"x": 1}])))
        elif kind == "unplaced":
            made.append(observed(f"lost{turn}", at, turn, None))
        elif kind == "ahead":
            made.append(observed("a", datetime(2099, 1, 1, tzinfo=UTC) + timedelta(seconds=turn), turn))
        else:
            made.append(observed("a", at, turn))
    return made


def run_once(file: Path, spark: SparkSession) -> QueryState:
    state = run(load(file), file=str(file), is_once=True, spark=spark)
    assert state.status == "done", state.error
    assert not any(one.restarts for one in state.queries)
    return state.queries[0]


def contributions(node: SyncNodeClient, letters: list[dict[str, Any]]) -> int:
    """How many observations are in the windows that were made, published or below the guarantee."""
    made = node.request("GET", "/ngsi-ld/v1/entities", params={"type": "StreetAir", "limit": 1000}).data
    below = [json.loads(one["entity"]) for one in letters if one["reason"].startswith("below the guarantee")]
    assert made
    assert below
    return sum(round(one["no2Count"]["value"]) for one in (*made, *below))


@pytest.mark.long
def test_what_comes_to_a_capsule_is_in_what_it_makes_or_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    file = tmp_path / "air.toml"
    with node_with() as (url, node):
        file.write_text(PIPELINE.format(url=url, kind="aggregation") + 'statistics = ["mean", "count"]\n')
        told = Counter[str]()
        sent: list[dict[str, Any]] = []
        for turn in range(2):
            mix = mixed(chance, NOON + timedelta(minutes=20 * turn), 50)
            mix += [observed("b", NOON + timedelta(minutes=20 * turn + 15), 1)]  # all windows before it are over
            for one in mix:
                upsert(node, [one])
            sent += mix
            state = run_once(file, spark)
            for name in ("late", "duplicates", "wrong", "unplaced", "ahead"):
                told[name] += getattr(state, name)
        letters = dead_letters(tmp_path / "air.pipeline" / "set-aside" / "by-street")
        aside = Counter(one["kind"] for one in letters if "kind" in one)
        again = aside["duplicate"]
        assert told == {"late": aside["late"], "duplicates": again} | {
            "wrong": aside["wrong type"],
            "unplaced": aside["unplaced"],
            "ahead": aside["ahead"],
        }
        assert all(told.values())
        open_ = 1  # the last one
        inside = contributions(node, letters)
        assert inside % WINDOWS_OF_EACH == 0
        assert len(sent) == inside // WINDOWS_OF_EACH + aside.total() + open_
        keys = [one["id"] if one["kind"] == "duplicate" else json.loads(one["entity"])["key"] for one in letters if "kind" in one]
        assert len(set(keys)) == len(keys)
        run_once(file, spark)
        assert dead_letters(tmp_path / "air.pipeline" / "set-aside" / "by-street") == letters  # nothing twice


OWN = """
from hanse.pipeline.capsules import Capsule, Gathering, Inferred, Place, Selector, Value, Windows
from hanse.pipeline.plan import Pipeline


class Fragile(Gathering, frozen=True):
    def infer(self, readings, span):
        value = 100 / min(one.value for one in readings)
        yield Inferred((Value("ratio", value, "", {{}}),), readings[0].observed_at)


pipeline = Pipeline(
    source={{"nodes": "n={url}"}},
    sink={{"node": "{url}"}},
    capsules=(
        Capsule("odd", Selector(attributes=("no2",)), Fragile(Place.of("scope"), Windows.of("1 minute", late="1 s")), "Ratio"),
    ),
)
"""


@pytest.mark.long
def test_a_window_that_a_capsule_cannot_deal_with_is_set_aside_and_the_others_are_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "own.py"
    with node_with() as (url, node):
        file.write_text(OWN.format(url=url))
        for minute, value in ((0, 5), (1, 0), (2, 4), (9, 1)):
            upsert(node, [observed("a", NOON + timedelta(minutes=minute), value)])
        run_once(file, spark)
        made = node.request("GET", "/ngsi-ld/v1/entities", params={"type": "Ratio"}).data
    assert sorted(one["ratio"]["value"] for one in made) == [20, 25]
    (letter,) = dead_letters(tmp_path / "own.pipeline" / "set-aside" / "odd")
    assert letter["reason"] == "failed: ZeroDivisionError: float division by zero"
    assert [one["value"] for one in json.loads(letter["entity"])["readings"]] == [0.0]


MAPPING = """
[source]
name = "stations"
format = "csv"
[entity]
id = "urn:ngsi-ld:AirQualityObserved:{station}"
type = "AirQualityObserved"
[time]
column = "time"
format = "iso"
[[attributes]]
name = "no2"
column = "no2"
"""
COLLECTING = """
[sink]
node = "{url}"
[[collectors]]
name = "stations"
mapping = "stations.toml"
path = "incoming"
"""
LINES = (
    ("", "s{n},{at},{n}"),
    ("", "s{n},{at},{n}"),
    ("unreadable", "s{n},{at},{n},5,6"),
    ("unreadable", 's{n},"{at},{n}'),
    ("wrong type", "s{n},{at},much"),
    ("no time", "s{n},yesterday,{n}"),
    ("no time", "s{n},,{n}"),
    ("no entity", ",{at},{n}"),
    ("empty", "s{n},{at},"),
    ("refused", "s {n}>,{at},{n}"),  # no URI: the node's word
    ("duplicate", ""),
)


@pytest.mark.long
def test_every_line_that_is_collected_is_in_the_node_or_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(11)
    (tmp_path / "stations.toml").write_text(MAPPING)
    (tmp_path / "incoming").mkdir()
    expected = Counter[str]()
    good: list[str] = []
    for number in range(3):
        lines = ["station,time,no2"]
        for turn in range(40):
            kind, form = chance.choice(LINES)
            n = 100 * number + turn
            if kind == "duplicate" and not good:
                continue
            line = chance.choice(good) if kind == "duplicate" else form.format(n=n, at=time_text(NOON + timedelta(seconds=n)))
            good += [line] if not kind else []
            expected[kind] += 1
            lines.append(line)
        raw = "\n".join(lines).encode()
        (tmp_path / "incoming" / f"{number}.csv").write_bytes(raw + (b"\n\xff\xfe,x,1\n" if number == 2 else b"\n"))
    expected["unreadable"] += 1  # which is no text at all
    with node_with() as (url, node):
        file = tmp_path / "collecting.toml"
        file.write_text(COLLECTING.format(url=url))
        run_once(file, spark)
        logged = node.request("GET", "/hanse/v1/log", params={"limit": 1000}).data
    folder = tmp_path / "collecting.pipeline"
    rejected = spark.read.parquet(str(folder / "rejected" / "stations")).collect()
    refused = dead_letters(folder / "set-aside" / "collector-stations")
    found = Counter(row["kind"] for row in rejected) + Counter({"": len(logged), "refused": len(refused)})
    assert found == expected
    assert all(row["reason"] and row["line"] for row in rejected)
    assert all("URI" in one["reason"] for one in refused)
