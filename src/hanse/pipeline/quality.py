"""Quality in Spark: the criteria, requirements and levels of the node, as columns; the same answer on the same data.

- `with_quality(observations)`: the column `quality` as the node would have it: of what is stated, what its definition accepts;
  the age of what has an observedAt; composite criteria where their parts are there;
- `meets(requirement) -> Column`: of observations. Each one is judged as an entity that has nothing but this attribute: both
  `NO2.precision>=40` and `precision>=40` ask for the precision of an observation of NO2; the first never holds for another;
- `levels() -> Column`: by criterion `low`, `medium` or `high`;
- `entity_quality(observations)`: one row for each entity, with the keys of `Notification.quality`: `NO2.precision`, and for the
  whole `precision`: what is stated of it, else the worst of its attributes; `entity_meets(requirement) -> Column` of that.

Names of attributes are short ones, as in observations; otherwise a requirement is written as in a qualityQ. Age is that when a
value was accepted, unless `at` says a moment. Everything is SQL that Spark knows without Python, but for composite criteria: they
are computed by the node's own function, to the last digit, in an Arrow UDF.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Final

from hanse.filters import compile_quality
from hanse.filters.terms import Exists, Interval, Within
from hanse.pipeline.observations import FRESHNESS, criterion_names
from hanse.pipeline.schema import context_of
from hanse.quality import attribute_and_criterion, default_registry, normalized
from hanse.quality.composites import with_composites
from hanse.quality.units import CODES, factors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hanse.quality import Criterion, Definition, Registry

COMPLETENESS: Final = "completeness"
QUALITY: Final = "quality"
MAP: Final = "map<string,double>"
_INFINITE: Final = float("inf")


def with_quality(frame: DataFrame, registry: Registry | None = None, at: Column | datetime | None = None) -> DataFrame:
    """The observations with their quality; `at` is the moment at which ages count: none is when each value was accepted."""
    registry = registry or default_registry()
    return frame.withColumn(QUALITY, _composed(_stated_and_age(registry, at), registry))


def meets(requirement: str, registry: Registry | None = None) -> Column:
    """Whether an observation meets a requirement, as its column `quality` is. InvalidInput if it is none."""
    from pyspark.sql import functions as f

    def value(key: str) -> Column:
        attribute, criterion = attribute_and_criterion(key)
        found = _value(criterion)
        return f.when(_plain_name() == attribute, found) if attribute else found

    return _all(_holding(part, value) for part in _parts(requirement, registry))


def entity_meets(requirement: str, registry: Registry | None = None) -> Column:
    """Whether an entity meets a requirement, by the column `quality` that `entity_quality` gives. InvalidInput if it is none."""
    return _all(_holding(part, _value) for part in _parts(requirement, registry))


def levels(registry: Registry | None = None) -> Column:
    """The level of each value of the column `quality`, by its name; those without levels are left out."""
    from pyspark.sql import functions as f

    registry = registry or default_registry()

    def level(key: Column, value: Column) -> Column:
        found = f.lit(None).cast("string")
        criterion = f.substring_index(key, ".", -1)
        for name, one in registry.by_name.items():
            if one.definition.levels is not None:
                found = f.when(criterion == name, _level(one.definition, value)).otherwise(found)
        return found

    return f.map_filter(f.transform_values(QUALITY, level), lambda _, one: one.isNotNull())


def entity_quality(
    frame: DataFrame,
    registry: Registry | None = None,
    *,
    expected: Mapping[str, Collection[str]] | None = None,
    at: Column | datetime | None = None,
    by: Sequence[str] = ("entity", "type"),
    context: str = "",
) -> DataFrame:
    """The columns `by` and `quality`: of each entity as a whole.

    The observations of an entity are taken as its state: give those of one moment, as they come (`with_quality` is not needed,
    and what it computes would count as stated). Of several observations of one attribute the worst counts. `expected` are the
    attributes that a type should have, which gives completeness; an entity's first type counts. On a stream `by` names a window
    as well, with a watermark.
    """
    from pyspark.sql import functions as f

    registry = registry or default_registry()
    names = criterion_names(registry, context_of(context).compact_iri)
    values = frame.select(
        *by,
        _plain_name().alias("attribute"),
        _stated_and_age(registry, at).alias(QUALITY),
        _of_the_whole(registry, names).alias("own"),
    )
    worst = [_worst(one.definition, _value(name)).alias(name) for name, one in registry.by_name.items()]
    of_attributes = values.groupBy(*by, "attribute").agg(*worst, f.min("own").alias("least"), f.max("own").alias("most"))
    of_attributes = of_attributes.select(
        *by,
        "attribute",
        "least",
        "most",
        _composed(_map({name: f.col(f"`{name}`") for name in registry.by_name}), registry).alias(QUALITY),
    )
    named = f.transform_keys(QUALITY, lambda name, _: f.concat("attribute", f.lit("."), name))
    of_whole = []
    for name, one in registry.by_name.items():
        higher = one.definition.direction == "higher"
        stated = f.when(
            f.col("attribute").isin([member for member in names if names[member] == name]), f.col("least" if higher else "most")
        )
        of_whole += [
            _worst(one.definition, stated).alias(f"stated {name}"),
            _worst(one.definition, _value(name)).alias(f"worst {name}"),
        ]
    entities = of_attributes.groupBy(*by).agg(
        *of_whole, f.collect_set("attribute").alias("present"), f.collect_list(f.map_entries(named)).alias("named")
    )
    whole = {name: f.coalesce(f.col(f"`stated {name}`"), f.col(f"`worst {name}`")) for name in registry.by_name}
    if COMPLETENESS in whole and expected:
        whole[COMPLETENESS] = f.coalesce(f.col(f"`stated {COMPLETENESS}`"), _completeness(expected), whole[COMPLETENESS])
    attributes = f.map_from_entries(f.flatten("named"))
    return entities.select(*by, f.map_concat(attributes, _composed(_map(whole), registry)).alias(QUALITY))


# --- what is stated, and what is computed -------------------------------------------------------------------------------


def _stated_and_age(registry: Registry, at: Column | datetime | None) -> Column:
    from pyspark.sql import functions as f

    nothing = f.expr(f"cast(map() as {MAP})")
    stated = f.map_filter(f.coalesce(QUALITY, nothing), lambda name, value: _accepted(registry, name, value))
    if FRESHNESS not in registry.by_name:
        return stated
    moment = f.col("accepted_at") if at is None else f.lit(at)
    age = (f.unix_micros(moment) - f.unix_micros("observed_at")) / f.lit(1_000_000.0)
    is_computed = f.col("dated") & age.isNotNull() & ~f.map_contains_key(stated, FRESHNESS)
    return f.when(is_computed, f.map_concat(stated, f.create_map(f.lit(FRESHNESS), f.greatest(f.lit(0.0), age)))).otherwise(
        stated
    )


def _accepted(registry: Registry, name: Column, value: Column) -> Column:
    from pyspark.sql import functions as f

    return _any((name == f.lit(known)) & _accepts(one.definition, value) for known, one in registry.by_name.items())


def _accepts(definition: Definition, value: Column) -> Column:
    """`Definition.accepts`."""
    from pyspark.sql import functions as f

    found = value.isNotNull() & ~f.isnan(value) & (f.abs(value) < f.lit(_INFINITE))
    if definition.min is not None:
        found &= value >= f.lit(definition.min)
    if definition.max is not None:
        found &= value <= f.lit(definition.max)
    return found


def _of_the_whole(registry: Registry, names: Mapping[str, str]) -> Column:
    """The value of an attribute that is named as a criterion and so states one of the whole, as far as that accepts it.

    What such an attribute says in full (`qocIndicator`) is not among observations, and does not count.
    """
    from pyspark.sql import functions as f

    found = f.lit(None).cast("double")
    for name, criterion in registry.by_name.items():
        members = [member for member in names if names[member] == name]
        stated = _plain_in_unit(criterion, f.col("value"), f.coalesce("unit", f.lit("")))
        found = f.when(f.col("attribute").isin(members), stated).otherwise(found)
    return found


def _plain_in_unit(criterion: Criterion, value: Column, unit: Column) -> Column:
    """`Criterion.plain_in_unit`."""
    from pyspark.sql import functions as f

    own = criterion.definition
    found = f.lit(None).cast("double")
    if own.unit_code:
        for code in CODES:
            if (by := factors(code, own.unit_code)) is not None:
                found = f.when(unit == code, _accepted_only(own, value * f.lit(by[0]) / f.lit(by[1]))).otherwise(found)
    else:
        found = _accepted_only(own, value)
    for definition in reversed(criterion.definitions):
        plain = _accepted_only(definition, value)
        if definition is not own:
            plain = _scored(own, _score(definition, plain))
        is_its = unit.isin("", definition.unit_code) if definition is own else unit == definition.unit_code
        found = f.when(is_its, plain).otherwise(found)
    return found


def _accepted_only(definition: Definition, value: Column) -> Column:
    from pyspark.sql import functions as f

    return f.when(_accepts(definition, value), value)


def _score(definition: Definition, value: Column) -> Column:
    """`Definition.score`."""
    from pyspark.sql import functions as f

    if definition.min is None or definition.max is None:
        return f.lit(None).cast("double")
    share = (value - f.lit(definition.min)) / f.lit(definition.max - definition.min)
    return share if definition.direction == "higher" else f.lit(1.0) - share


def _scored(definition: Definition, score: Column) -> Column:
    """`Definition.scored`."""
    from pyspark.sql import functions as f

    if definition.min is None or definition.max is None:
        return f.lit(None).cast("double")
    share = score if definition.direction == "higher" else f.lit(1.0) - score
    return f.lit(definition.min) + share * f.lit(definition.max - definition.min)


def _completeness(expected: Mapping[str, Collection[str]]) -> Column:
    """`computed.completeness` of the column `present`, by the column `type`; null where nothing is expected."""
    from pyspark.sql import functions as f

    found = f.lit(None).cast("double")
    for type_, attributes in expected.items():
        wanted = sorted(set(attributes))
        if wanted:
            share = f.size(f.array_intersect("present", f.array(*map(f.lit, wanted)))) / f.lit(float(len(wanted)))
            found = f.when(f.col("type") == type_, f.lit(100.0) * share).otherwise(found)
    return found


def _composed(values: Column, registry: Registry) -> Column:
    """With composite criteria, where there are any, by the node's own function."""
    if not registry.composites:
        return values
    from pyspark.sql import functions as f

    return f.udf(lambda one: None if one is None else with_composites(one, registry), MAP)(values)


# --- small things -------------------------------------------------------------------------------------------------------


def _parts(requirement: str, registry: Registry | None) -> Sequence[Exists | Within]:
    parts = compile_quality(normalized(requirement, registry or default_registry())).conjuncts
    return [part for part in parts if isinstance(part, Exists | Within)]  # a normalized requirement has no others


def _holding(part: Exists | Within, value_of: Callable[[str], Column]) -> Column:
    """Whether the indicator is there, and is as it should be."""
    from pyspark.sql import functions as f

    value = value_of(part.path.text)
    is_there = value.isNotNull() & ~f.isnan(value)
    if isinstance(part, Exists):
        return is_there
    within = _any(_inside(interval, value) for interval in part.intervals)
    return f.coalesce(is_there & (~within if part.negated else within), f.lit(False))


def _inside(interval: Interval, value: Column) -> Column:
    from pyspark.sql import functions as f

    sides = []
    if interval.low is not None:
        low = f.lit(interval.low.key)
        sides.append(value > low if interval.is_open else value >= low)
    if interval.high is not None:
        high = f.lit(interval.high.key)
        sides.append(value < high if interval.is_open else value <= high)
    return _all(sides)


def _level(definition: Definition, value: Column) -> Column:
    """`Definition.level`."""
    from pyspark.sql import functions as f

    assert definition.levels is not None
    medium, high = f.lit(definition.levels.medium), f.lit(definition.levels.high)
    is_high, is_medium = (
        (value >= high, value >= medium) if definition.direction == "higher" else (value <= high, value <= medium)
    )
    return f.when(is_high, f.lit("high")).when(is_medium, f.lit("medium")).otherwise(f.lit("low"))


def _worst(definition: Definition, values: Column) -> Column:
    """An aggregate: `Definition.worse` of all."""
    from pyspark.sql import functions as f

    return f.min(values) if definition.direction == "higher" else f.max(values)


def _plain_name() -> Column:
    """The attribute as keys have it (`hanse.quality.indicator_key`): with the dots that filters may write escaped."""
    from pyspark.sql import functions as f

    return f.regexp_replace("attribute", "%2[Ee]", ".")


def _value(key: str) -> Column:
    from pyspark.sql import functions as f

    return f.try_element_at(f.col(QUALITY), f.lit(key))


def _map(values: Mapping[str, Column]) -> Column:
    """Of those that are not null."""
    from pyspark.sql import functions as f

    every = f.create_map(*(part for name, value in values.items() for part in (f.lit(name), value)))
    return f.map_filter(every, lambda _, value: value.isNotNull())


def _all(conditions: Iterable[Column]) -> Column:
    from pyspark.sql import functions as f

    return reduce(lambda one, other: one & other, conditions, f.lit(True))


def _any(conditions: Iterable[Column]) -> Column:
    from pyspark.sql import functions as f

    return reduce(lambda one, other: one | other, conditions, f.lit(False))
