"""The past out of several sources: nothing is lost, nothing is told twice, and the order of sources does not matter."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.distributed_past import merged_pages, read_evolution
from hanse.ngsild.entity import Instance
from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.representation import View
from hanse.ngsild.temporal import Evolution, Page, Series, represent_evolution
from hanse.ngsild.temporal_parsing import TemporalQuery

ALL = TemporalQuery()
EVENTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=6)


def evolution(id_: str, attribute: str, dataset: str | None, events: list[tuple[int, int]]) -> Evolution:
    instances: list[Instance] = [{"type": "Property", "value": value, "instanceId": f"urn:i:{us}{value}"} for us, value in events]
    series = Series(attribute, dataset, [us for us, _ in events], instances)
    return Evolution(id=id_, types=("urn:Vehicle",), created_at="", modified_at="", series=[series])


PAGES = st.builds(
    Page,
    st.lists(
        st.builds(
            evolution,
            st.sampled_from(["urn:v:1", "urn:v:2"]),
            st.sampled_from(["urn:a", "urn:b"]),
            st.none() | st.just("urn:d:1"),
            EVENTS,
        ),
        max_size=3,
        unique_by=lambda found: found.id,
    ),
    st.booleans(),
)


def events_of(pages: list[Page]) -> set[tuple[str, str, str | None, int, int]]:
    return {
        (found.id, series.attribute, series.dataset, us, instance["value"])
        for page in pages
        for found in page.evolutions
        for series in found.series
        for us, instance in zip(series.times, series.instances, strict=True)
    }


@given(st.lists(PAGES, min_size=1, max_size=4), st.randoms())
def test_everything_once_in_order_whoever_says_it(pages: list[Page], random: Any) -> None:
    merged = merged_pages(pages, ALL)
    assert events_of([merged]) == events_of(pages)
    for found in merged.evolutions:
        for series in found.series:
            said = [(us, instance["value"]) for us, instance in zip(series.times, series.instances, strict=True)]
            assert said == sorted(set(said))
    shuffled = list(pages)
    random.shuffle(shuffled)
    assert merged_pages([*shuffled, merged], ALL) == merged
    assert merged.is_partial is any(page.is_partial for page in pages)


@given(st.lists(PAGES, min_size=1, max_size=3), st.integers(1, 3))
def test_the_last_ones_are_the_last_of_all(pages: list[Page], last: int) -> None:
    for found in merged_pages(pages, TemporalQuery(last_n=last)).evolutions:
        for series in found.series:
            every = {event[3:] for event in events_of(pages) if event[:3] == (found.id, series.attribute, series.dataset)}
            assert list(zip(series.times, (item["value"] for item in series.instances), strict=True)) == sorted(every)[-last:]


def test_the_past_is_read_as_it_is_shown() -> None:
    body = {
        "id": "urn:v:1",
        "type": "Vehicle",
        "speed": [
            {"type": "Property", "value": 1, "observedAt": "2030-01-01T00:00:00Z", "instanceId": "urn:i:1"},
            {"type": "Property", "value": 2, "observedAt": "2030-01-02T00:00:00Z", "instanceId": "urn:i:2"},
            {
                "type": "Property",
                "value": 3,
                "observedAt": "2030-01-03T00:00:00Z",
                "datasetId": "urn:d:1",
                "instanceId": "urn:i:3",
            },
        ],
    }
    found = read_evolution(body, CORE, ALL)
    assert [(series.dataset, len(series.times)) for series in found.series] == [(None, 2), ("urn:d:1", 1)]
    assert represent_evolution(found, CORE, View(), ALL) == body


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["id", "type", "value", "speed", "scope", "observedAt"]), inner)
        ),
    )
)
def test_whatever_a_source_says_is_a_past_or_refused(body: Any) -> None:
    try:
        read_evolution(body, CORE, ALL)
    except NgsiLdError:
        return
    assert isinstance(body, dict)
