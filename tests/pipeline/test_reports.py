"""Reports on a lake against the same computed in plain Python, on small random data."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import asin, cos, radians, sin, sqrt
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.cli.conftest import Ran
from tests.pipeline.filling import at, node_with, station, upsert

from hanse.model import InvalidInput, Selector
from hanse.pipeline import register
from hanse.pipeline.capsules import Place
from hanse.pipeline.capsules.places import cell, middle
from hanse.pipeline.lake import Lake
from hanse.pipeline.observations import SCHEMA
from hanse.pipeline.reports import (
    Promise,
    Side,
    daily_quality,
    encounters,
    hot_spots,
    lake_observations,
    load_promises,
    promises_of_node,
)
from hanse.quality import default_registry
from hanse.quality.contracts import shortfall
from hanse.quality.keys import whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 3, 1, tzinfo=UTC)
EARTH_M = 6_371_008.7714


class Record(NamedTuple):
    """A record of a node's log: what it says of an entity."""

    source: str
    offset: int
    entity: str
    type: str
    observed: datetime | None
    accepted: datetime
    lat: float | None
    lon: float | None
    said: dict[str, tuple[float | None, dict[str, float]]]

    @property
    def moment(self) -> datetime:
        return self.observed or self.accepted


def rows_of(records: list[Record]) -> list[tuple[Any, ...]]:
    return [
        (
            one.source,
            one.entity,
            one.type,
            name,
            value,
            None if value is not None else '"word"',
            "GQ",
            one.moment,
            one.accepted,
            one.lat,
            one.lon,
            [f"/{one.entity[-1]}"],
            quality,
            f"{one.source}/{one.offset}/{name}/",
            one.observed is not None,
        )
        for one in records
        for name, (value, quality) in one.said.items()
    ]


def frame_of(spark: SparkSession, records: list[Record]) -> DataFrame:
    return spark.createDataFrame(rows_of(records), SCHEMA)


def random_records(seed: int, number: int = 160) -> list[Record]:
    """Two nodes whose names have slashes, five entities, three days; some values come twice, some without time or quality."""
    rng = random.Random(seed)
    found = []
    for offset in range(number):
        observed = START + timedelta(minutes=10 * rng.randrange(3 * 144))
        said: dict[str, tuple[float | None, dict[str, float]]] = {}
        for name in rng.sample(["NO2", "CO", "name"], rng.randint(1, 3)):
            quality = {
                criterion: round(rng.uniform(0, 100), 3)
                for criterion in ("accuracy", "precision", "completeness")
                if rng.random() < 0.7
            }
            said[name] = (None, {}) if name == "name" else (round(rng.uniform(0, 200), 3), quality)
        entity = rng.randrange(5)
        is_dated = rng.random() < 0.9
        found.append(
            Record(
                source=rng.choice(["http://a/1", "b"]),
                offset=offset,
                entity=f"urn:x:{entity}",
                type="Air" if entity < 3 else "Water",
                observed=observed if is_dated else None,
                accepted=observed + timedelta(seconds=rng.choice([0, 5, 900])),
                lat=44.8 + rng.uniform(0, 0.02),
                lon=-0.58 + rng.uniform(0, 0.02),
                said=said,
            )
        )
    return found


# --- promised against delivered -------------------------------------------------------------------------------------------

PROMISES = [
    Promise("first", "accuracy>=medium;NO2.precision>=20", (Selector(type="Air", id="urn:x:0"), Selector(id="urn:x:1"))),
    Promise("rest", "freshness<=60;refreshRate>=0.001", (Selector(id_pattern="x:[34]$"),)),
    Promise("slow", "", (Selector(type="Air", id="urn:x:2"),), refresh_s=7200.0),
    Promise("also", "completeness>=30", (Selector(id="urn:x:0"),)),
    Promise("elsewhere", "accuracy>=90", (Selector(topic="air"),)),
]


def of_promise(name: str, entity: str) -> bool:
    return entity[-1] in {"first": "01", "rest": "34", "slow": "2", "also": "0"}.get(name, "")


def plain_days(records: list[Record]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """By the node's own functions, record by record."""
    registry = default_registry()
    last: dict[tuple[str, str], datetime] = {}
    groups: defaultdict[tuple[str, str, str], list[tuple[Record, float | None, dict[str, float]]]] = defaultdict(list)
    for one in sorted(records, key=lambda one: (one.moment, str(one.offset))):
        series = one.source, one.entity
        gap = (one.moment - last[series]).total_seconds() if series in last else None
        last[series] = one.moment
        age = {"freshness": (one.accepted - one.moment).total_seconds()} if one.observed else {}
        quality = whole({name: age | stated for name, (_, stated) in one.said.items()}, {}, registry)
        names = [promise.producer for promise in PROMISES if of_promise(promise.producer, one.entity)]
        for name in names or [""]:
            groups[f"{one.moment:%Y-%m-%d}", name, one.type].append((one, gap or None, quality))
    return {key: plain_day(key[1], found) for key, found in groups.items()}


PARTS = {
    "first": ["accuracy>=50", "NO2.precision>=20"],
    "rest": ["freshness<=60"],
    "slow": [],
    "also": ["completeness>=30"],
    "": [],
}
EVERY_S = {"rest": 1000.0, "slow": 7200.0}


def plain_day(name: str, found: list[tuple[Record, float | None, dict[str, float]]]) -> dict[str, Any]:
    broken = Counter(part for _, _, quality in found for part in PARTS[name] if shortfall(part, quality))
    met = sum(not any(shortfall(part, quality) for part in PARTS[name]) for _, _, quality in found)
    entities = {(one.source, one.entity) for one, _, _ in found}
    moments = {(one.source, one.entity, one.moment) for one, _, _ in found}
    gaps = [gap for _, gap, _ in found if gap]
    expected = len(entities) * 86_400 / EVERY_S[name] if name in EVERY_S else None
    stated: defaultdict[str, list[float]] = defaultdict(list)
    for _, _, quality in found:
        for criterion, value in quality.items():
            if "." not in criterion:
                stated[criterion].append(value)
    return {
        "publications": len(found),
        "entities": len(entities),
        "met": met if name else None,
        "broken": dict(broken),
        "refresh_s": median(gaps) if gaps else None,
        "longest_gap_s": max(gaps, default=None),
        "expected": expected,
        "completeness": None if expected is None else min(100.0, 100 * len(moments) / expected),
        "quality": {
            criterion: (len(values), fmean(values), (max if criterion == "freshness" else min)(values))
            for criterion, values in stated.items()
        },
    }


def test_the_daily_report_is_what_the_nodes_own_functions_say(spark: SparkSession) -> None:
    records = random_records(1)
    wanted = plain_days(records)
    found = daily_quality(frame_of(spark, records), PROMISES)
    assert [(one.day, one.producer, one.type) for one in found] == sorted(
        wanted, key=lambda key: (key[0], key[1] == "", key[1], key[2])
    )
    for one in found:
        plain = wanted[one.day, one.producer, one.type]
        for name in ("publications", "entities", "met", "broken", "refresh_s", "longest_gap_s"):
            assert getattr(one, name) == plain[name], (one, plain)
        for name in ("expected", "completeness"):
            assert getattr(one, name) == pytest.approx(plain[name])
        delivered = {name: (value.stated, value.mean, value.worst) for name, value in one.quality.items()}
        assert delivered == {name: pytest.approx(value) for name, value in plain["quality"].items()}
    # the data are such that it could have been otherwise
    assert {bool(one.broken) for one in found if one.producer == "first"} == {True}
    assert any(one.met not in (0, one.publications) for one in found if one.producer)
    assert not any(one.producer == "elsewhere" for one in found)


def test_a_day_is_kept_if_all_of_it_is() -> None:
    assert Promise("x", "precision>=medium;refreshRate>=0.5").of_each == ("precision>=40",)
    assert Promise("x", "refreshRate>=0.5").every_s == 2.0
    assert Promise("x", "precision>=40", refresh_s=60).every_s == 60.0
    assert Promise("x", "precision>=40").every_s is None


# --- hot spots ----------------------------------------------------------------------------------------------------------


def way_m(one: tuple[float, float], other: tuple[float, float]) -> float:
    (lat, lon), (lat2, lon2) = one, other
    s, t = sin(radians(lat2 - lat) / 2), sin(radians(lon2 - lon) / 2)
    return 2 * EARTH_M * asin(sqrt(s * s + cos(radians(lat)) * cos(radians(lat2)) * t * t))


def plain_places(records: list[Record], metres: float, unknown: float, percentile: float | None) -> dict[str, tuple[float, int]]:
    """By cell: the value, and of how many observations."""
    groups: defaultdict[str, list[tuple[float, float | None]]] = defaultdict(list)
    seen = set()
    for one in records:
        value, quality = one.said.get("NO2", (None, {}))
        if value is not None and (same := (one.entity, one.moment, value)) not in seen:
            seen.add(same)
            assert one.lat is not None
            assert one.lon is not None
            groups[cell(one.lat, one.lon, metres)].append((value, quality.get("accuracy")))
    found = {}
    for place, every in groups.items():
        weighed = sorted((value, unknown if stated is None else stated) for value, stated in every)
        if not any(weight for _, weight in weighed):
            weighed = [(value, 1.0) for value, _ in weighed]
        weighed = [(value, weight) for value, weight in weighed if weight > 0]
        total = sum(weight for _, weight in weighed)
        if percentile is None:
            value = sum(value * weight for value, weight in weighed) / total
        else:
            value = next(
                value
                for value, _ in weighed
                if sum(weight for other, weight in weighed if other <= value) >= percentile / 100 * total - 1e-9
            )
        found[place] = value, len(weighed)
    return found


def plain_z(values: dict[str, float], metres: float, near_m: float) -> dict[str, float | None]:
    """Gi*, as Ord and Getis wrote it, with weights of 0 and 1."""
    n, mean, spread = len(values), fmean(values.values()), pstdev(values.values())
    found: dict[str, float | None] = {}
    for place in values:
        weights = {other: 1.0 if way_m(middle(place, metres), middle(other, metres)) <= near_m else 0.0 for other in values}
        total, squares = sum(weights.values()), sum(weight**2 for weight in weights.values())
        if total == n:
            found[place] = None
            continue
        above = sum(weights[other] * values[other] for other in values) - mean * total
        found[place] = above / (spread * sqrt((n * squares - total**2) / (n - 1)))
    return found


@pytest.mark.parametrize(("unknown", "percentile"), [(0.0, None), (40.0, 75.0)])
def test_hot_spots_are_the_weighted_values_and_gi_star(spark: SparkSession, unknown: float, percentile: float | None) -> None:
    records = random_records(2, 400)
    records += records[:20]  # what comes twice counts once
    wanted = plain_places(records, 400, unknown, percentile)
    z = plain_z({place: value for place, (value, _) in wanted.items()}, 400, 600)
    found = hot_spots(frame_of(spark, records), "NO2", where=Place.of("cell 400"), unknown=unknown, percentile=percentile)
    assert {one.place: one.value for one in found} == {place: pytest.approx(value) for place, (value, _) in wanted.items()}
    assert {one.place: one.observations for one in found} == {place: count for place, (_, count) in wanted.items()}
    assert [one.place for one in found] == [place for place, _ in sorted(wanted.items(), key=lambda one: (-one[1][0], one[0]))]
    assert {one.place: one.z for one in found} == {place: pytest.approx(value) for place, value in z.items()}
    assert [(one.lat, one.lon) for one in found] == [pytest.approx(middle(one.place, 400)) for one in found]
    assert len({one.neighbours for one in found}) > 2


def test_a_corner_that_is_hot_stands_out(spark: SparkSession) -> None:
    """A grid of a hundred cells, with nine high ones together; a high one that is alone does not stand out as much."""
    records = []
    for number in range(100):
        lat, lon = 44.8 + 0.0045 * (number // 10), -0.58 + 0.0064 * (number % 10)
        is_high = (number // 10 < 3 and number % 10 < 3) or number == 77
        said: dict[str, tuple[float | None, dict[str, float]]] = {"NO2": (100.0 if is_high else 20.0 + number % 3, {})}
        records.append(Record("n", number, f"urn:x:{number}", "Air", START, START, lat, lon, said))
    found = {one.place: one for one in hot_spots(frame_of(spark, records), "NO2", where=Place.of("cell 500"))}
    centre = found[cell(44.8045, -0.5736, 500)]
    alone = found[cell(44.8 + 0.0045 * 7, -0.58 + 0.0064 * 7, 500)]
    assert centre.value == alone.value == 100.0
    assert centre.is_hot
    assert centre.z is not None
    assert alone.z is not None
    assert centre.z > 2 * alone.z


def test_wishes_that_mean_nothing_are_refused(spark: SparkSession) -> None:
    frame = frame_of(spark, random_records(3, 5))
    for words, given in (
        ("weighed by a percentage", {"by": "freshness"}),
        ("a percentile is above 0", {"percentile": 0.0}),
        ("near is a number of metres", {"near_m": -1.0}),
    ):
        with pytest.raises(InvalidInput, match=words):
            hot_spots(frame, "NO2", **given)
    assert hot_spots(frame, "nothing") == []


# --- who met whom -------------------------------------------------------------------------------------------------------


def plain_encounters(records: list[Record], within_m: float, within_s: float) -> dict[tuple[str, int], tuple[str, int]]:
    """Of each observation of CO at node b: which of NO2, anywhere, is met."""
    found = {}
    for one in records:
        if "CO" not in one.said or one.source != "b" or one.lat is None or one.lon is None:
            continue
        best = None
        for other in records:
            if "NO2" not in other.said or other.type != "Air" or other.entity == one.entity or other.lat is None:
                continue
            assert other.lon is not None
            ago = (one.moment - other.moment).total_seconds()
            way = way_m((one.lat, one.lon), (other.lat, other.lon))
            if 0 <= ago <= within_s and way <= within_m:
                rank = ago, way, other.entity, f"{other.source}/{other.offset}"
                best = min(best, (rank, other)) if best is not None else (rank, other)
        if best is not None:
            found[one.source, one.offset] = best[1].source, best[1].offset
    return found


@pytest.mark.parametrize(("within_m", "within_s"), [(700.0, 1800.0), (3000.0, 86_400.0), (150.0, 40_000.0)])
def test_each_meets_the_newest_that_is_near(spark: SparkSession, within_m: float, within_s: float) -> None:
    records = random_records(4, 220)
    records[7] = records[7]._replace(lat=None, lon=None)
    wanted = plain_encounters(records, within_m, within_s)
    met = encounters(frame_of(spark, records), Side.of(".CO@b"), Side.of("Air.NO2"), within_m=within_m, within_s=within_s)
    by_values = {(one.source, one.moment, one.entity, name, one.said[name][0]): one for one in records for name in one.said}
    found = {}
    for row in met.selectExpr("*", "unix_micros(observed_at) AS us", "unix_micros(other_observed_at) AS other_us").collect():
        mine = by_values[row["source"], moment(row["us"]), row["entity"], "CO", row["value"]]
        other = by_values[row["other_source"], moment(row["other_us"]), row["other_entity"], "NO2", row["other_value"]]
        assert row["seconds"] == (mine.moment - other.moment).total_seconds()
        assert mine.lat is not None
        assert mine.lon is not None
        assert other.lat is not None
        assert other.lon is not None
        assert row["metres"] == pytest.approx(way_m((mine.lat, mine.lon), (other.lat, other.lon)), abs=1e-3)
        found[mine.source, mine.offset] = other.source, other.offset
    assert found == wanted
    assert len(found) > 3


def moment(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def test_sides_are_read_as_they_are_written() -> None:
    assert Side.of("Bus.location@transport") == Side("Bus", "location", "transport")
    assert Side.of("Bus") == Side("Bus")
    assert Side.of("@transport") == Side(node="transport")
    with pytest.raises(InvalidInput, match="names nothing"):
        Side.of(" ")


# --- promises -----------------------------------------------------------------------------------------------------------


def test_promises_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "promises.toml"
    file.write_text(
        '[[promises]]\nproducer = "a"\nguarantee = "precision>=high"\ntypes = ["Air", "Water"]\nrefresh = "1 hour"\n'
        '[[promises]]\nproducer = "b"\n'
    )
    assert load_promises(file) == [
        Promise("a", "precision>=high", (Selector(type="Air"), Selector(type="Water")), 3600.0),
        Promise("b", ""),
    ]
    for text, words in (
        ('[[promises]]\nproducer = "a"\nguarantee = "precison>=40"', "promise of a"),
        ('[[promises]]\nproducer = "a"\nrefresh = "soon"', "refresh of a is written like"),
        ('[[promises]]\nproducer = "a"\nid_pattern = "("', "promise of a"),
        ('[[promises]]\nproducers = "a"', "it cannot be read"),
    ):
        file.write_text(text)
        with pytest.raises(InvalidInput, match=words) as error:
            load_promises(file)
        assert str(file) in str(error.value)
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_promises(tmp_path / "nothing.toml")


# --- as typed -----------------------------------------------------------------------------------------------------------


def hour(number: int, no2: float, precision: float) -> dict[str, Any]:
    found = station(1, no2, location=at(-0.57, 44.84))
    found["no2"] |= {"observedAt": f"2026-03-01T{number:02}:00:00Z", "precision": {"type": "Property", "value": precision}}
    return found


def bus(number: int, day: int = 1) -> dict[str, Any]:
    place = at(-0.5701, 44.8401) | {"observedAt": f"2026-03-{day:02}T{number:02}:10:00Z"}
    return {"id": "urn:ngsi-ld:Bus:4", "type": "Bus", "location": place}


@pytest.mark.long
def test_a_lake_is_asked_as_typed(spark: SparkSession, hanse: Callable[..., Ran], tmp_path: Path) -> None:
    with node_with() as (url, node):
        node.request("PUT", "/hanse/v1/clients/station", json={})
        promise = {"selectors": [{"type": "AirQualityObserved"}], "quality": "precision>=high"}
        node.request("PUT", "/hanse/v1/clients/station/advertisements/air", json=promise)
        for number, precision in enumerate((90, 70, 85)):
            upsert(node, [hour(number, 40 + number, precision), bus(number)])
        upsert(node, [bus(0, day=2)])
        register(spark)
        log = spark.readStream.format("hanse").option("nodes", f"city={url}").load()
        Lake(tmp_path).write(log, "raw", trigger={"availableNow": True}).awaitTermination()
        assert promises_of_node(url) == [Promise("station", "precision>=80", (Selector(type="AirQualityObserved"),))]
        told = json.loads(hanse("report", "quality", "--lake", tmp_path, "--node", url, "--until", "2026-03-01", "--json").out)
        shown = hanse("report", "quality", "--lake", tmp_path, "--node", url, "--producer", "station")
    assert [(one["producer"], one["type"], one["publications"], one["met"]) for one in told] == [
        ("station", "AirQualityObserved", 3, 2),
        ("", "Bus", 3, None),
    ]
    assert told[0]["broken"] == {"precision>=80": 1}
    assert told[0]["quality"]["precision"] == {"stated": 3, "mean": pytest.approx(245 / 3), "worst": 70}
    assert (told[0]["refresh_s"], told[0]["expected"]) == (3600, None)
    assert "66.6 %" in shown.out
    assert "Bus" not in shown.out

    arguments = ("report", "hotspots", "no2", "--lake", tmp_path, "--by", "precision", "--place", "entity", "--json")
    (spot,) = json.loads(hanse(*arguments).out)
    assert spot["value"] == pytest.approx((40 * 90 + 41 * 70 + 42 * 85) / 245)
    assert (spot["place"], spot["observations"], spot["z"]) == ("urn:ngsi-ld:AirQualityObserved:1", 3, None)

    sides = ("report", "join", "Bus.location@city", "AirQualityObserved.no2", "--lake", tmp_path, "--metres", "100")
    met = json.loads(hanse(*sides, "--json").out)
    assert [(one["observed_at"], one["other_value"], one["seconds"]) for one in met] == [
        (f"2026-03-01T{number:02}:10:00.000000Z", 40 + number, 600) for number in range(3)
    ]
    good = ("--quality", "precision>=80", "--within", "1 day")
    assert [one["other_value"] for one in json.loads(hanse(*sides, *good, "--json").out)] == [40, 40, 42, 42]
    assert "22.2 h" in hanse(*sides, *good, "--from", "2026-03-02").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("quality", "--from", "yesterday"), "from is a day such as 2026-01-31, not 'yesterday'"),
        (("quality", "--from", "2026-03-02", "--until", "2026-03-01"), "let the first one be the earlier"),
        (("quality",), "there are no tables in"),
        (("hotspots", "no2", "--place", "town"), "a place is entity, scope"),
        (("join", "@", "Air.no2"), "names nothing"),
        (("join", "Bus", "Air.no2", "--within", "soon"), "within is written like 30 seconds"),
    ],
)
def test_what_cannot_be_reported_is_said_in_one_line(
    hanse: Callable[..., Ran], tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    ran = hanse("report", *arguments, "--lake", tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err


@pytest.mark.parametrize("verb", ["quality", "hotspots", "join"])
def test_every_report_has_an_example(hanse: Callable[..., Ran], verb: str) -> None:
    assert f"Example: hanse report {verb}" in " ".join(hanse("report", verb, "--help").out.split())


def test_a_table_that_is_none_of_a_pipeline_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("at timestamp, type string").parquet(str(tmp_path / "in"))
    spark.sql("SELECT timestamp'2026-03-01' AS at, 'A' AS type").write.mode("append").parquet(str(tmp_path / "in"))
    Lake(tmp_path / "lake").write(stream, "other", trigger={"availableNow": True}).awaitTermination()
    with pytest.raises(InvalidInput, match="the table other has no column attribute"):
        lake_observations(spark, Lake(tmp_path / "lake"), "other")
