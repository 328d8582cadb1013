from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, Entity
from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.registrations import (
    EntityInfo,
    Registration,
    RegistrationInfo,
    Sought,
    advertisement,
    claimed,
    conflicting,
    decode_registration,
    encode_registration,
    info_fits,
    matching_information,
    parse_registration,
    parse_sought,
    patch_registration,
    represent_registration,
)

NOW = "2026-01-01T00:00:00.000000Z"
CITY = compile_context({"Building": "https://city.example/Building", "height": "https://city.example/height"})
HERE = {"type": "Point", "coordinates": [13.4, 52.5]}
AREA = {"type": "Polygon", "coordinates": [[[13.0, 52.0], [14.0, 52.0], [14.0, 53.0], [13.0, 53.0], [13.0, 52.0]]]}


def body(**members: Any) -> dict[str, Any]:
    return {
        "id": "urn:ngsi-ld:ContextSourceRegistration:1",
        "type": "ContextSourceRegistration",
        "endpoint": "http://source.example:1026",
        "information": [{"entities": [{"type": "Building"}]}],
    } | members


def registration(**members: Any) -> Registration:
    return parse_registration(body(**members), CITY, NOW)


def exclusive(number: int = 1, **entity: Any) -> Registration:
    information = [{"entities": [{"type": "Building", "id": "urn:b:1"} | entity], "propertyNames": ["height"]}]
    return registration(id=f"urn:r:{number}", mode="exclusive", information=information)


# --- reading, changing, showing ---------------------------------------------------------------------------------------


def test_a_registration_is_shown_as_it_was_given_in_any_context() -> None:
    given_body = body(
        information=[{"entities": [{"type": ["Building", "Tower"], "idPattern": ".*1$"}], "propertyNames": ["height"]}],
        location=AREA,
        expiresAt="2035-01-01T00:00:00Z",
        sourceType={"type": "Property", "value": "sensor"},
        scope=["/a", "/b/c"],
        management={"cacheDuration": "PT5M", "timeout": 500, "localOnly": True},
        contextSourceInfo=[{"key": "X-Token", "value": "abc"}],
    )
    found = decode_registration(encode_registration(parse_registration(given_body, CITY, NOW)))
    assert represent_registration(found, CITY) == given_body
    shown = represent_registration(found, CORE, sys_attrs=True)
    assert shown["information"][0]["propertyNames"] == ["https://city.example/height"]
    assert shown["information"][0]["entities"][0]["type"] == ["https://city.example/Building", "Tower"]
    assert shown["createdAt"] == NOW


def test_one_without_an_id_gets_one() -> None:
    given_body = body()
    del given_body["id"]
    assert parse_registration(given_body, CITY, NOW).id.startswith("urn:ngsi-ld:ContextSourceRegistration:")


def test_what_only_the_node_says_is_ignored() -> None:
    assert "status" not in registration(status="failed", timesSent=5).document


@pytest.mark.parametrize(
    "members",
    [
        {"type": "Building"},
        {"id": "not a uri"},
        {"endpoint": "nowhere"},
        {"endpoint": "http://[broken"},
        {"endpoint": None},
        {"information": None},
        {"information": []},
        {"information": [{}]},
        {"information": [{"entities": []}]},
        {"information": [{"entities": [{"id": "urn:a:1"}]}]},
        {"information": [{"entities": [{"type": "A", "idPattern": "("}]}]},
        {"information": [{"propertyNames": []}]},
        {"information": [{"properties": ["a"]}]},
        {"expiresAt": "2018-01-01T00:00:00Z"},
        {"expiresAt": "tomorrow"},
        {"mode": "greedy"},
        {"operations": ["fly"]},
        {"operations": []},
        {"mode": "auxiliary", "operations": ["updateEntity"]},
        {"mode": "exclusive"},
        {"mode": "exclusive", "information": [{"entities": [{"type": "A", "id": "urn:a:1"}]}]},
        {"mode": "exclusive", "information": [{"entities": [{"type": "A"}], "propertyNames": ["b"]}]},
        {"mode": "exclusive", "information": [{"entities": [{"type": "A", "idPattern": "b"}], "propertyNames": ["b"]}]},
        {"mode": "exclusive", "information": [{"propertyNames": ["b"]}]},
        {"location": {"type": "Point", "coordinates": [300, 0]}},
        {"observationInterval": {"endAt": "2030-01-01T00:00:00Z"}},
        {"observationInterval": {"startAt": "2030-01-01T00:00:00Z", "endAt": "2029-01-01T00:00:00Z"}},
        {"management": "yes"},
        {"management": {"cacheDuration": "bogus"}},
        {"management": {"cooldown": 0}},
        {"management": {"timeout": -5}},
        {"management": {"timeout": True}},
        {"management": {"localOnly": "yes"}},
        {"contextSourceInfo": [{"key": "a"}]},
        {"contextSourceInfo": [{"key": 5, "value": "a"}]},
        {"datasetId": ["not a uri"]},
        {"refreshRate": "often"},
        {"scope": "/a/#"},
        {"description": ""},
    ],
)
def test_what_makes_no_sense_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(BadRequestData):
        registration(**members)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
MEMBER = st.sampled_from(
    sorted({*body(), "mode", "operations", "location", "scope", "management", "observationInterval", "datasetId"})
)


@given(st.dictionaries(MEMBER | st.text(max_size=5), JSON, max_size=4), st.booleans())
def test_nothing_but_a_refusal_comes_of_nonsense(members: dict[str, Any], whole: bool) -> None:
    try:
        if whole:
            decode_registration(encode_registration(registration(**members)))
        else:
            patch_registration(registration(), members, CITY, NOW)
    except NgsiLdError:
        pass


PARAMETER = st.sampled_from(
    ["type", "id", "idPattern", "attrs", "q", "csf", "scopeQ", "georel", "geometry", "coordinates", "timerel", "timeAt"]
)


@given(st.dictionaries(PARAMETER, st.text(max_size=12)))
def test_nothing_but_a_refusal_comes_of_nonsense_in_a_url(params: dict[str, str]) -> None:
    with contextlib.suppress(NgsiLdError, InvalidInput):
        matching_information(registration(), parse_sought(params, CITY))


def test_a_patch_takes_members_away_and_puts_others_there() -> None:
    old = registration(expiresAt="2035-01-01T00:00:00Z", description="old")
    new = patch_registration(old, {"expiresAt": None, "description": "new", "note": 1}, CITY, "2026-02-01T00:00:00.000000Z")
    shown = represent_registration(new, CITY, sys_attrs=True)
    assert "expiresAt" not in shown
    assert (shown["description"], shown["note"]) == ("new", 1)
    assert (shown["createdAt"], shown["modifiedAt"]) == (NOW, "2026-02-01T00:00:00.000000Z")


@pytest.mark.parametrize(
    "fragment", [{"information": None}, {"type": "Building"}, {"id": "urn:other:1"}, {"expiresAt": "2018-01-01T00:00:00Z"}, []]
)
def test_a_patch_leaves_a_registration_behind_or_nothing(fragment: Any) -> None:
    with pytest.raises(BadRequestData):
        patch_registration(registration(), fragment, CITY, NOW)


# --- matching: clause 5.12, said once more ----------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
IDS = st.sampled_from(["urn:x:1", "urn:x:2", "urn:y:1"])
PATTERNS = st.sampled_from(["x", ":1$", "^urn:y", "2"])
ENTITY_INFO = st.builds(
    EntityInfo,
    st.lists(NAMES, min_size=1, max_size=2, unique=True).map(tuple),
    st.none() | IDS,
    st.none() | PATTERNS,
)
INFO = st.builds(RegistrationInfo, st.lists(ENTITY_INFO, max_size=2).map(tuple), st.lists(NAMES, max_size=2).map(tuple))
SELECTOR = st.builds(
    EntitySelector,
    st.lists(st.lists(NAMES, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    st.lists(IDS, max_size=2).map(tuple),
    st.none() | PATTERNS,
)


def clause_5_12(info: RegistrationInfo, selectors: tuple[EntitySelector, ...], attrs: tuple[str, ...]) -> bool:
    def entity_matches(selector: EntitySelector, entity: EntityInfo) -> bool:
        if selector.types and not any(set(alternative) <= set(entity.types) for alternative in selector.types):
            return False
        pattern = entity.id_pattern if entity.id is None else None
        return any(
            [
                not selector.ids and selector.id_pattern is None,
                entity.id is None and pattern is None,
                entity.id in selector.ids,
                pattern is not None and any(re.search(pattern, id_) for id_ in selector.ids),
                selector.id_pattern is not None and entity.id is not None and bool(re.search(selector.id_pattern, entity.id)),
                selector.id_pattern is not None and pattern is not None,
            ]
        )

    entities = not selectors or not info.entities or any(entity_matches(s, e) for s in selectors for e in info.entities)
    names = not attrs or not info.names or bool(set(attrs) & set(info.names))
    return entities and names


@given(INFO, st.lists(SELECTOR, max_size=2).map(tuple), st.lists(NAMES, max_size=2).map(tuple))
def test_information_matches_as_the_specification_says(
    info: RegistrationInfo, selectors: tuple[EntitySelector, ...], attrs: tuple[str, ...]
) -> None:
    assert info_fits(info, selectors, attrs) == clause_5_12(info, selectors, attrs)


# --- discovery --------------------------------------------------------------------------------------------------------


def sought(**params: str) -> Sought:
    return parse_sought(params, CITY)


@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ({"type": "Building"}, True),
        ({"type": "Tower"}, False),
        ({"type": "https://city.example/Building"}, True),
        ({"type": "Building", "id": "urn:a:1,urn:b:2"}, True),
        ({"id": "urn:a:1"}, True),
        ({"type": "Building", "idPattern": "x"}, True),
        ({"attrs": "height"}, True),
        ({"attrs": "width"}, False),
        ({"type": "Building", "attrs": "width,height"}, True),
        ({"q": "height>5"}, True),
        ({"q": "width>5|depth"}, False),
        ({"type": "Building", "csf": 'endpoint=="http://source.example:1026"'}, True),
        ({"type": "Building", "csf": 'endpoint=="http://other.example"'}, False),
        ({"type": "Building", "csf": 'mode=="inclusive"'}, True),
        ({"type": "Building", "csf": 'sourceType=="sensor"'}, True),
        ({"type": "Building", "csf": 'sourceType=="person"'}, False),
        ({"type": "Building", "scopeQ": "/a/#"}, True),
        ({"type": "Building", "scopeQ": "/b"}, False),
        ({"type": "Building", "datasetId": "urn:d:1"}, True),
        ({"type": "Building", "datasetId": "urn:d:2"}, False),
        ({"type": "Building", "timerel": "before", "timeAt": "2021-01-01T00:00:00Z"}, False),
    ],
)
def test_discovery(params: dict[str, str], fits: bool) -> None:
    found = registration(
        information=[{"entities": [{"type": "Building"}], "propertyNames": ["height"]}],
        scope="/a/b",
        sourceType={"type": "Property", "value": "sensor"},
        datasetId=["urn:d:1", "@none"],
    )
    assert bool(matching_information(found, sought(**params))) == fits


def test_only_the_elements_that_match_are_named() -> None:
    found = registration(
        information=[{"entities": [{"type": "Tower"}]}, {"entities": [{"type": "Building"}]}, {"propertyNames": ["height"]}]
    )
    assert matching_information(found, sought(type="Building")) == (1, 2)


@pytest.mark.parametrize("params", [{}, {"scopeQ": "/a"}, {"csf": "a"}, {"limit": "5"}])
def test_everything_is_too_much(params: dict[str, str]) -> None:
    with pytest.raises(BadRequestData):
        sought(**params)


@pytest.mark.parametrize(
    "params",
    [
        {"id": "invalidUri"},
        {"q": "(invalid"},
        {"georel": "within"},
        {"timerel": "before"},
        {"type": "A", "timerel": "since", "timeAt": "2021-01-01T00:00:00Z"},
        {"type": "A", "timerel": "between", "timeAt": "2021-01-01T00:00:00Z"},
        {"type": "A", "timerel": "before", "timeAt": "2021-01-01T00:00:00Z", "timeproperty": "seenAt"},
        {"type": "A", "idPattern": "("},
        {"type": "A", "csf": "a=="},
        {"attrs": "a,,b"},
    ],
)
def test_what_cannot_be_sought(params: dict[str, str]) -> None:
    with pytest.raises(BadRequestData):
        sought(**params)


@pytest.mark.parametrize(
    ("timerel", "at", "end", "fits"),
    [
        ("before", "2021-08-02", "", True),
        ("before", "2020-09-01", "", True),
        ("before", "2020-01-01", "", False),
        ("after", "2020-01-01", "", True),
        ("after", "2022-01-01", "", False),
        ("between", "2019-01-01", "2020-01-01", False),
        ("between", "2019-01-01", "2020-09-01", True),
        ("between", "2022-01-01", "2023-01-01", False),
    ],
)
@pytest.mark.parametrize("kind", ["observationInterval", "managementInterval"])
def test_a_source_of_history_is_found_by_time(kind: str, timerel: str, at: str, end: str, fits: bool) -> None:
    found = registration(**{kind: {"startAt": "2020-08-01T22:07:00Z", "endAt": "2021-08-01T21:07:00Z"}})
    params = {"type": "Building", "timerel": timerel, "timeAt": f"{at}T00:00:00Z"}
    if end:
        params["endTimeAt"] = f"{end}T00:00:00Z"
    observed, managed = (sought(**params, timeproperty=name) for name in ("observedAt", "modifiedAt"))
    assert bool(matching_information(found, observed)) == (fits and kind == "observationInterval")
    assert bool(matching_information(found, managed)) == (fits and kind == "managementInterval")
    assert not matching_information(found, sought(type="Building"))


@pytest.mark.parametrize(
    ("place", "georel", "geometry", "fits"),
    [
        (HERE, "near;maxDistance==2000", HERE, True),
        (HERE, "within", AREA, True),
        (AREA, "near;maxDistance==2000", HERE, True),
        (AREA, "contains", HERE, True),
        (AREA, "equals", HERE, True),  # something in the area may be just there
        (HERE, "equals", AREA, False),
        (AREA, "disjoint", HERE, True),
        (HERE, "disjoint", AREA, False),
        (AREA, "near;minDistance==2000", HERE, True),
        (AREA, "near;maxDistance==2000", {"type": "Point", "coordinates": [0, 0]}, False),
    ],
)
def test_a_place_fits_if_something_in_it_may(place: dict[str, Any], georel: str, geometry: dict[str, Any], fits: bool) -> None:
    wanted = sought(type="Building", georel=georel, geometry=geometry["type"], coordinates=str(geometry["coordinates"]))
    assert bool(matching_information(registration(location=place), wanted)) == fits
    assert not matching_information(registration(), wanted)


def test_a_request_does_not_go_back_to_where_it_came_from() -> None:
    found = registration(contextSourceAlias="north")
    assert matching_information(found, Sought(passed=frozenset({"south"})))
    assert not matching_information(found, Sought(passed=frozenset({"north"})))


def test_groups_of_operations_stand_for_each_of_them() -> None:
    assert matching_information(registration(operations=["retrieveOps"]), Sought(operations=frozenset({"queryEntity"})))
    assert not matching_information(registration(operations=["retrieveOps"]), Sought(operations=frozenset({"createEntity"})))


# --- conflicts, and the core's view -----------------------------------------------------------------------------------


def test_who_has_something_for_itself_shares_it_with_nobody() -> None:
    lone = exclusive()
    redirect = registration(id="urn:r:2", mode="redirect")
    assert conflicting(exclusive(2), lone)
    assert conflicting(redirect, lone)
    assert conflicting(lone, redirect)
    assert not conflicting(exclusive(2, id="urn:b:2"), lone)
    assert not conflicting(registration(id="urn:r:3", mode="redirect"), redirect)
    assert not conflicting(registration(id="urn:r:3"), lone)
    assert not conflicting(lone, lone)


@pytest.mark.parametrize(
    ("held", "id_", "names", "is_claimed"),
    [
        (exclusive(), "urn:b:1", ["height"], True),
        (exclusive(), "urn:b:1", ["width"], False),
        (exclusive(), "urn:b:2", ["height"], False),
        (registration(mode="redirect"), "urn:b:2", [], True),
        (registration(), "urn:b:2", ["height"], False),
    ],
)
def test_an_entity_that_another_source_has(held: Registration, id_: str, names: list[str], is_claimed: bool) -> None:
    attributes = {f"https://city.example/{name}": [{"type": "Property", "value": 1}] for name in names}
    entity = Entity(id=id_, types=("https://city.example/Building",), attributes=attributes)
    assert claimed(held, entity) == is_claimed


def test_a_registration_is_an_advertisement() -> None:
    information = [{"entities": [{"type": "Building", "id": "urn:b:1"}, {"type": ["Building", "Tower"], "idPattern": "x"}]}]
    found = advertisement(registration(information=information, expiresAt="2035-01-01T00:00:00Z"), "urn:client")
    assert [(s.type, s.id, s.id_pattern) for s in found.selectors] == [
        ("https://city.example/Building", "urn:b:1", None),
        ("https://city.example/Building", None, "x"),
        (DEFAULT_VOCAB + "Tower", None, "x"),
    ]
    assert found.expires_at_ms == int(datetime(2035, 1, 1, tzinfo=UTC).timestamp() * 1000)
    anything = advertisement(registration(information=[*information, {"propertyNames": ["height"]}]), "urn:client")
    assert anything.selectors == ()
