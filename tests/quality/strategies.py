"""Observations of every kind, as a hypothesis strategy."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hanse.quality import default_registry
from hanse.quality.criteria import Definition, Levels
from hanse.quality.indicators import Indicator, MetricValue, Quality
from hanse.quality.observation import Observation

REGISTRY = default_registry()

# what XML can carry: no control characters but tab, newline and return; no surrogates; no U+FFFE and U+FFFF
characters = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff", include_characters="\t\n\r<>&\"'")
texts = st.text(characters, max_size=12)
words = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).map(lambda word: f"own_{word}")
ids = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,2})?", fullmatch=True)
numbers = st.floats(allow_nan=False, allow_infinity=False)
times = st.datetimes().map(lambda moment: moment.isoformat() + "Z") | st.just("2014-06-12T08:30:00.123456789Z")
maybe_times = st.none() | times

definitions = st.builds(
    Definition,
    id=ids,
    name=texts,
    levels=st.none() | st.builds(Levels, numbers, numbers),
    unit=texts,
    unit_code=texts,
    direction=st.sampled_from(["higher", "lower"]),
    min=st.none() | numbers,
    max=st.none() | numbers,
    default=st.none() | numbers,
    provider=texts,
    description=texts,
    keywords=st.lists(texts, max_size=2).map(tuple),
    related=st.lists(ids, max_size=2).map(tuple),
    invariant=st.booleans(),
)


@st.composite
def foreign_indicators(draw: st.DrawFn) -> Indicator:
    """Of whatever criterion, by whatever definitions."""
    own = draw(st.lists(definitions, min_size=1, max_size=2, unique_by=lambda one: one.id))
    value = st.builds(MetricValue, numbers, maybe_times, st.sampled_from([one.id for one in own]), texts, maybe_times)
    return Indicator(
        criterion=draw(words | st.sampled_from(REGISTRY.names)),
        id=draw(ids),
        name=draw(texts),
        criterion_id=draw(texts),
        definitions=tuple(own),
        values=tuple(draw(st.lists(value, min_size=1, max_size=2))),
    )


@st.composite
def usual_indicators(draw: st.DrawFn) -> Indicator:
    """As the registry defines them, with values that may be outside of the range."""
    criterion = REGISTRY.by_name[draw(st.sampled_from(REGISTRY.names))]
    return Indicator(
        criterion=criterion.name,
        id=criterion.id,
        name=criterion.indicator_name,
        criterion_id=criterion.criterion_id,
        definitions=(criterion.definition,),
        values=(MetricValue(draw(st.floats(0, 120) | numbers), draw(maybe_times), criterion.definition.id),),
    )


qualities = st.lists(usual_indicators() | foreign_indicators(), max_size=3, unique_by=lambda one: one.criterion).map(
    lambda found: Quality(tuple(found))
)
values: st.SearchStrategy[Any] = st.recursive(
    texts | st.booleans() | st.integers(-(10**30), 10**30) | numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)
observations = st.builds(
    Observation,
    entity=st.sampled_from(["bordeaux://thiersave./sensors/45/", "urn:ngsi-ld:Sensor:1", "urn:x:é"]),
    observable=st.sampled_from(["#pollution", "#NO2", "#a.b", "https://example.org/air#NO2", "urn:x:y"]),
    value=values,
    at=maybe_times,
    unit_code=texts,
    entity_type=st.sampled_from(["Thing", "Sensor", "https://example.org/Sensor"]),
    id=texts,
    quality=qualities,
)
