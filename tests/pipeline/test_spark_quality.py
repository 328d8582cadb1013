"""Quality in Spark is that of the node: the same entities, drawn by hypothesis, asked at once in both."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.ngsild.quality import IN_FULL, Measure, quality_matches
from hanse.pipeline.observations import COLUMNS, SCHEMA, observations
from hanse.pipeline.quality import entity_meets, entity_quality, levels, meets, with_quality
from hanse.pipeline.schema import Layout
from hanse.quality import Registry, default_registry, load, normalized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Drawn = TypeVar("Drawn")
Instance = dict[str, Any]
Attributes = dict[str, list[Instance]]

ENTITIES = 150
REQUIREMENTS = 25
ACCEPTED = "2026-01-31T12:00:00.000005Z"
LATER = datetime(2026, 1, 31, 12, 10, tzinfo=UTC)
EXPECTED = {"Air": ("no2", "pm10", "o3"), "Noise": ("no2",), "Other": ()}
COMPOSITES = """
[[criteria]]
id = "90"
name = "worth"
rule = "mean"
parts = ["precision", "trust", "half"]
[[criteria.definitions]]
id = "90.1"
min = 0
max = 1
levels = { medium = 0.3, high = 0.7 }
[[criteria]]
id = "91"
name = "half"
rule = "geometric mean"
parts = ["precision", "completeness"]
[[criteria.definitions]]
id = "91.1"
direction = "lower"
min = 0
max = 9
[[criteria]]
id = "92"
name = "reach"
[[criteria.definitions]]
id = "92.1"
unit_code = "KMT"
direction = "lower"
min = 0
max = 80
levels = { medium = 50, high = 40 }
[[criteria.definitions]]
id = "92.2"
unit_code = "P1"
min = 0
max = 100
[[criteria.definitions]]
id = "92.3"
"""
REGISTRIES = {"starting set": default_registry(), "composites": load(COMPOSITES)}
CRITERIA = {  # how an entity says it: the sub-property that states the criterion
    CORE.expand_term("precision"): "precision",
    "http://www.w3.org/ns/dqv#precision": "precision",
    CORE.expand_term("freshness"): "freshness",
    CORE.expand_term("trust"): "trust",
    CORE.expand_term("completeness"): "completeness",
    CORE.expand_term("refreshRate"): "refreshRate",
    CORE.expand_term("worth"): "worth",
    CORE.expand_term("reach"): "reach",
    CORE.expand_term("mood"): "",
}
NAMES = [CORE.expand_term(name) for name in ("no2", "pm10", "o3", "precision", "completeness", "reach", "freshness")]
UNITS = st.sampled_from(["", "", "", "P1", "C62", "SEC", "MIN", "C26", "MTR", "KMT", "GQ"])
NUMBERS = st.sampled_from([0, 1, 0.3, 0.7, 39.9, 40, 50, 60, 79.99999999999999, 80, 100, 100.5, 600, -1]) | st.floats(0, 100)
VALUES = NUMBERS | st.sampled_from(["good", True, [1, 2]])
TIMES = st.sampled_from(
    [ACCEPTED, "2026-01-31T11:59:00Z", "2026-01-31T11:50:00.000004Z", "2026-02-01T00:00:00Z", "2024-02-29T12:00:00.5Z"]
)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    said: Instance = {"type": "Property", "value": draw(VALUES), "createdAt": ACCEPTED, "modifiedAt": ACCEPTED}
    if draw(st.booleans()):
        said["observedAt"] = draw(TIMES)
    if unit := draw(UNITS):
        said["unitCode"] = unit
    for name in draw(st.lists(st.sampled_from(list(CRITERIA)), max_size=3, unique=True)):
        said[name] = draw(st.lists(indicators(), min_size=1, max_size=2))
    return said


@st.composite
def indicators(draw: st.DrawFn) -> Instance:
    """A sub-property: a number, perhaps with its unit, or with all that its producer knows of how it was measured."""
    said: Instance = {"type": "Property", "value": draw(VALUES)}
    if unit := draw(UNITS):
        said["unitCode"] = unit
    if draw(st.integers(0, 3)) == 0:
        number = draw(st.sampled_from([said["value"], 50.0]))
        definition = {"id": draw(st.sampled_from(["10.1", "92.1", "92.2"])), "unit_code": draw(UNITS), "min": 0}
        values = [{"value": number, "definition": definition["id"]}]
        full = {"id": "10", "name": "x", "criterionId": "[10.1]", "definitions": [definition], "values": values}
        said[IN_FULL] = [{"type": "Property", "value": full}]
    return said


@st.composite
def attributes(draw: st.DrawFn) -> Attributes:
    made: Attributes = {}
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True)):
        made[name] = draw(st.lists(instances(), min_size=1, max_size=2))
        for number, instance in enumerate(made[name][1:]):
            instance["datasetId"] = f"urn:d:{number}"
    return made


@st.composite
def requirements(draw: st.DrawFn, registry: Registry) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        criterion = draw(
            st.sampled_from(["precision", "freshness", "trust", "completeness", "refreshRate", *registry.names[10:]])
        )
        name = draw(st.sampled_from(["", "", "no2.", "pm10."])) + criterion
        number = draw(st.sampled_from([0.3, 0.7, 1, 40, 50, 60, 80, 599.999999, 600, 1200]))
        forms = [name, f"{name}==40,{number}", f"{name}!=40..80"] + [
            f"{name}{sign}{number}" for sign in ("<", "<=", ">", ">=", "==", "!=")
        ]
        if registry.by_name[criterion].definition.levels is not None:
            forms += [f"{name}{sign}{level}" for sign in (">=", "==", "!=") for level in ("medium", "high")] + [f"{name}<high"]
        parts.append(draw(st.sampled_from(forms)))
    return ";".join(parts)


def drawn(strategy: st.SearchStrategy[Drawn], number: int) -> list[Drawn]:
    """Many examples at once, for one job of Spark."""
    every: list[Drawn] = []

    @settings(max_examples=number, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(one: Drawn) -> None:
        every.append(one)

    collect()
    return every


def records(spark: SparkSession, every: list[tuple[str, str, Attributes]]) -> DataFrame:
    """As the source gives them: made by its own layout of what a node sends."""
    import pyarrow as pa

    def logged(one: Attributes) -> str:
        return msgspec.json.encode(
            [
                {"name": name, "instance": instance, "dataset": instance.get("datasetId")}
                for name, many in one.items()
                for instance in many
            ]
        ).decode()

    at = pa.scalar(datetime.fromisoformat(ACCEPTED), pa.timestamp("us", tz="UTC"))
    sent = {
        "offset": pa.array(range(len(every)), pa.int64()),
        "at": pa.repeat(at, len(every)),
        "operation": pa.repeat("upsert", len(every)),
        "kind": pa.repeat("updated", len(every)),
        "entity": pa.array([id_ for id_, _, _ in every]),
        "types": pa.array([[CORE.expand_term(type_)] for _, type_, _ in every]),
        "scopes": pa.array([[]] * len(every), pa.list_(pa.string())),
        "attributes": pa.array([logged(one) for _, _, one in every]),
    }
    return spark.createDataFrame(pa.Table.from_batches([Layout().batch("fire", pa.RecordBatch.from_pydict(sent))]))


def expected_of(type_: str) -> tuple[str, ...]:
    return tuple(CORE.expand_term(name) for name in EXPECTED[CORE.compact_iri(type_)])


def short(quality: dict[str, float]) -> dict[str, float]:
    """With short names of attributes, as Spark has them."""
    return {key.replace(CORE.expand_term("x")[:-1], ""): value for key, value in quality.items()}


def requirement_for_node(text: str, registry: Registry) -> str:
    return normalized(text, registry, CORE.expand_term)


def single(one: Attributes) -> Iterator[tuple[str, Attributes]]:
    for name, many in one.items():
        for instance in many:
            yield f"{CORE.compact_iri(name)}/{instance.get('datasetId', '')}", {name: [instance]}


@pytest.mark.parametrize("registry", REGISTRIES.values(), ids=REGISTRIES.keys())
def test_the_same_answers_as_the_node(spark: SparkSession, registry: Registry) -> None:
    every = [
        (f"urn:x:{number}", type_, one)
        for number, (type_, one) in enumerate(drawn(st.tuples(st.sampled_from(list(EXPECTED)), attributes()), ENTITIES))
    ]
    asked = sorted(set(drawn(requirements(registry), REQUIREMENTS)))
    observed = observations(records(spark, every), registry).cache()
    measure = Measure(registry, expected_of)

    columns = [entity_meets(text, registry).alias(str(number)) for number, text in enumerate(asked)]
    for at, moment in ((None, None), (LATER, "2026-01-31T12:10:00Z")):
        frame = entity_quality(observed, registry, expected=EXPECTED, at=at)
        found = {row.entity: row for row in frame.select("entity", "quality", *columns).collect()}
        answers = set()
        for id_, type_, one in every:
            if not one:
                assert id_ not in found  # nothing of it was observed
                continue
            quality = measure.of(one, (CORE.expand_term(type_),), moment)
            assert found[id_].quality == short(quality), one
            for number, text in enumerate(asked):
                holds = quality_matches(requirement_for_node(text, registry), quality)
                assert found[id_][str(number)] == holds, (text, one)
                answers.add((number, holds))
        assert len(answers) > len(asked)  # some requirements hold for some entities and not for others

    columns = [meets(text, registry).alias(str(number)) for number, text in enumerate(asked)]
    rows = (
        with_quality(observed, registry).select("entity", "key", "quality", levels(registry).alias("levels"), *columns).collect()
    )
    by_key = {(row.entity, row.key.split("/", 2)[2]): row for row in rows}
    plain = Measure(registry)
    for id_, _, one in every:
        for key, alone in single(one):
            row = by_key.pop((id_, key))
            # what the value of an attribute that is named as a criterion states of the whole is no quality of its observation
            nameless = {CORE.expand_term("x"): many for many in alone.values()}
            of_alone = plain.of(nameless, (), None)
            assert row.quality == {name: value for name, value in of_alone.items() if "." not in name}, alone
            assert row.levels == {
                name: definition.level(value)
                for name, value in row.quality.items()
                if (definition := registry.by_name[name].definition).levels is not None
            }
            attribute = key.partition("/")[0]
            of_alone |= {f"{CORE.expand_term(attribute)}.{name}": value for name, value in row.quality.items()}
            for number, text in enumerate(asked):
                assert row[str(number)] == quality_matches(requirement_for_node(text, registry), of_alone), (text, alone)
    assert not by_key
    observed.unpersist()


def test_quality_that_nobody_accepts_says_nothing(spark: SparkSession) -> None:
    made = dict.fromkeys(COLUMNS) | {"entity": "e", "type": "t", "attribute": "a", "key": "k"}
    rows = [
        made
        | {"quality": {"precision": float("nan"), "trust": float("inf"), "accuracy": -1.0, "mood": 3.0, "correctness": 60.0}},
        made | {"quality": None},
    ]
    frame = with_quality(spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA))
    assert [row.quality for row in frame.collect()] == [{"correctness": 60.0}, {}]
    assert [row[0] for row in frame.select(meets("correctness")).collect()] == [True, False]
    assert [row[0] for row in frame.select(meets("")).collect()] == [True, True]


def test_a_requirement_that_is_none_is_refused_before_spark_starts() -> None:
    with pytest.raises(InvalidInput, match="precision"):
        meets("precison>=40")
    with pytest.raises(InvalidInput):
        entity_meets("precision>=medium|trust>1")


def test_entities_of_a_stream_by_windows(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    made = dict.fromkeys(COLUMNS) | {"entity": "e", "type": "t", "dated": True, "accepted_at": LATER}
    noon, later = datetime(2026, 1, 31, 12, 9, tzinfo=UTC), datetime(2026, 1, 31, 13, tzinfo=UTC)
    rows = [
        made | {"attribute": "no2", "observed_at": noon, "quality": {"precision": 80.0}, "key": "1"},
        made | {"attribute": "pm10", "observed_at": noon, "quality": {"precision": 20.0}, "key": "2"},
        made | {"attribute": "no2", "observed_at": later, "quality": {}, "key": "3"},  # so that the first window is over
    ]
    spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in")).withWatermark("observed_at", "1 minute")
    windows = stream.withColumn("window", f.window("observed_at", "5 minutes"))
    query = (
        entity_quality(windows, by=("entity", "type", "window"))
        .where(entity_meets("precision<medium"))
        .writeStream.format("memory")
        .queryName("quality_of_windows")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    (row,) = spark.table("quality_of_windows").collect()
    both = {"no2.precision": 80.0, "pm10.precision": 20.0, "precision": 20.0}
    assert row.quality == both | {"no2.freshness": 60.0, "pm10.freshness": 60.0, "freshness": 60.0}
