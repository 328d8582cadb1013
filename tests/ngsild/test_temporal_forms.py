"""Evolutions as they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.ngsild.aggregation import Aggregation, Period
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, Instance
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.representation import View
from hanse.ngsild.temporal import SCOPE, Evolution, Page, Series, content_range, gone, patched, represent_evolution
from hanse.ngsild.temporal_parsing import TemporalQuery, to_us

SPEED = DEFAULT_VOCAB + "speed"
VALUES = TemporalQuery(format="temporalValues")
SEEN = "2020-08-01T12:03:00Z"
US = to_us(SEEN) or 0


def instance(kind: str, member: str, value: Any, **more: Any) -> Instance:
    times = {"createdAt": "2026-01-01T00:00:00Z", "modifiedAt": "2026-01-02T00:00:00Z"}
    return {"type": kind, member: value, "observedAt": SEEN, "instanceId": "urn:i"} | times | more


def evolution(*series: Series) -> Evolution:
    return Evolution(
        id="urn:a",
        types=(DEFAULT_VOCAB + "Vehicle",),
        created_at="2026-01-01T00:00:00Z",
        modified_at="2026-01-02T00:00:00Z",
        series=list(series),
    )


def of(*instances: Instance, dataset: str | None = None, attribute: str = SPEED) -> Series:
    return Series(attribute, dataset, [US + n for n in range(len(instances))], list(instances), instances[0]["type"])


def shown(*series: Series, query: TemporalQuery = TemporalQuery(), view: View = View()) -> dict[str, Any]:  # noqa: B008
    return represent_evolution(evolution(*series), CORE, view, query)


def test_normalized_is_an_array_of_instances() -> None:
    one = instance("Property", "value", 1)
    expected = {"type": "Property", "value": 1, "observedAt": SEEN, "instanceId": "urn:i"}
    assert shown(of(one)) == {"id": "urn:a", "type": "Vehicle", "speed": [expected]}


def test_times_set_by_the_node_show_on_demand() -> None:
    one = instance("Property", "value", 1)
    everything = shown(of(one), view=View(sys_attrs=True))
    assert (everything["createdAt"], everything["speed"][0]["createdAt"]) == (one["createdAt"], one["createdAt"])
    by_time = shown(of(one), query=TemporalQuery(timeproperty="modifiedAt"))
    assert by_time["speed"][0]["modifiedAt"] == one["modifiedAt"]
    assert "createdAt" not in by_time["speed"][0]


def test_concise_leaves_out_what_one_can_tell() -> None:
    one = instance("Property", "value", 1)
    assert shown(of(one), view=View(format="concise"))["speed"] == [{"value": 1, "observedAt": SEEN, "instanceId": "urn:i"}]


@pytest.mark.parametrize(
    ("kind", "member", "value", "many", "pair"),
    [
        ("Property", "value", 5, "values", 5),
        ("GeoProperty", "value", {"type": "Point", "coordinates": [1, 2]}, "values", {"type": "Point", "coordinates": [1, 2]}),
        ("Relationship", "object", "urn:b", "objects", "urn:b"),
        ("LanguageProperty", "languageMap", {"en": "x"}, "languageMaps", {"languageMap": {"en": "x"}}),
        ("JsonProperty", "json", {"a": 1}, "jsons", {"json": {"a": 1}}),
        ("VocabProperty", "vocab", DEFAULT_VOCAB + "monument", "vocabs", {"vocab": "monument"}),
        ("ListProperty", "valueList", [1, 2], "valueLists", [1, 2]),
        ("ListRelationship", "objectList", [{"object": "urn:b"}], "objectLists", ["urn:b"]),
    ],
)
def test_values_of_every_kind(kind: str, member: str, value: Any, many: str, pair: Any) -> None:
    assert shown(of(instance(kind, member, value)), query=VALUES)["speed"] == {"type": kind, many: [[pair, SEEN]]}


def test_values_in_one_language() -> None:
    one = instance("LanguageProperty", "languageMap", {"en": "x", "fr": "y"})
    assert shown(of(one), query=VALUES, view=View(lang="fr"))["speed"] == {"type": "Property", "values": [["y", SEEN]]}


def test_values_of_several_datasets_and_kinds_are_apart() -> None:
    one, other = instance("Property", "value", 1), instance("Relationship", "object", "urn:b")
    found = shown(of(one, other), of(instance("Property", "value", 2, datasetId="urn:d"), dataset="urn:d"), query=VALUES)["speed"]
    assert found == [
        {"type": "Property", "values": [[1, SEEN]]},
        {"type": "Relationship", "objects": [["urn:b", SEEN]]},
        {"type": "Property", "datasetId": "urn:d", "values": [[2, SEEN]]},
    ]


def test_what_lies_beyond_the_page_is_there_but_empty() -> None:
    beyond = Series(SPEED, None, [], [], "Relationship")
    assert shown(beyond)["speed"] == []
    assert shown(beyond, query=VALUES)["speed"] == {"type": "Relationship", "objects": []}


def test_deletions() -> None:
    deleted = gone("LanguageProperty", None) | {"deletedAt": SEEN, "instanceId": "urn:i"}
    query = TemporalQuery(timeproperty="deletedAt")
    assert shown(of(deleted), query=query)["speed"] == [deleted]
    by_value = TemporalQuery(timeproperty="deletedAt", format="temporalValues")
    assert shown(of(deleted), query=by_value)["speed"]["languageMaps"] == [[{"languageMap": {"@none": "urn:ngsi-ld:null"}}, SEEN]]
    plain = gone("Property", "urn:d")
    assert plain == {"type": "Property", "value": "urn:ngsi-ld:null", "datasetId": "urn:d"}
    assert shown(of(plain), query=by_value)["speed"]["values"] == [["urn:ngsi-ld:null", SEEN]]


def test_scopes_evolve_like_a_property() -> None:
    scope = of({"type": "Property", "value": ["/A"], "observedAt": SEEN, "instanceId": "urn:i"}, attribute=SCOPE)
    assert shown(scope)["scope"][0]["value"] == ["/A"]
    assert shown(scope, query=VALUES)["scope"]["values"] == [[["/A"], SEEN]]
    assert "scope" not in shown(scope, view=View(omit=("scope",)))


def test_aggregates() -> None:
    series = Series(SPEED, None, [], [], "Property", {"avg": [(2.5, Period(US, US + 60_000_000))]})
    found = shown(series, query=TemporalQuery(aggregation=Aggregation(("avg",)), format="aggregatedValues"))
    assert found["speed"] == {"type": "Property", "avg": [[2.5, SEEN, "2020-08-01T12:04:00Z"]]}


def test_a_view_leaves_what_it_picks() -> None:
    one = of(instance("Property", "value", 1))
    assert shown(one, view=View(pick=("id",))) == {"id": "urn:a"}
    assert shown(one, view=View(pick=(SPEED,))).keys() == {"speed"}
    assert shown(one, view=View(pick=("other",))) == {}
    assert shown(one, view=View(omit=("type", SPEED))) == {"id": "urn:a"}


def test_content_range() -> None:
    page = Page([evolution(Series(SPEED, None, [1_000_000, 2_000_000], [{}, {}]))], is_partial=True)
    first, last, other = "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z", "1970-01-01T00:00:09Z"
    assert content_range(page, TemporalQuery()) == f"date-time {first}-{last}/*"
    assert content_range(page, TemporalQuery(last_n=7)) == f"date-time {last}-{first}/7"
    assert content_range(page, TemporalQuery(last_n=7, until_us=9_000_000)) == f"date-time {other}-{first}/7"
    assert content_range(page, TemporalQuery(from_us=0)) == f"date-time 1970-01-01T00:00:00Z-{last}/*"


def test_an_instance_is_patched_by_member() -> None:
    one = {"type": "Property", "value": 1, "unitCode": "KMH", "observedAt": SEEN}
    assert patched(one, {"value": 2}) == one | {"value": 2}
    assert patched(one, {"unitCode": "urn:ngsi-ld:null"}) == {"type": "Property", "value": 1, "observedAt": SEEN}
    assert patched(one, {"type": "Relationship", "object": "urn:b"}) == {
        "type": "Relationship",
        "object": "urn:b",
        "unitCode": "KMH",
        "observedAt": SEEN,
    }
    for wrong in ({"type": "Relationship"}, {"object": "urn:b"}):
        with pytest.raises(BadRequestData):
            patched(one, wrong)
