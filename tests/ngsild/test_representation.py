"""Entities as clients see them: three forms, parts of them, one language."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, Entity
from hanse.ngsild.representation import (
    NORMALIZED,
    View,
    choose_language,
    language_ranges,
    represent,
    represent_all,
    represent_instance,
)

V = DEFAULT_VOCAB
TIMES = {"createdAt": "2024-01-01T00:00:00.000000Z", "modifiedAt": "2024-01-02T00:00:00.000000Z"}
POINT = {"type": "Point", "coordinates": [8, 40]}
ENTITY = Entity(
    id="urn:ngsi-ld:Building:1",
    types=(V + "Building",),
    attributes={
        V + "level": [
            {
                "type": "Property",
                "value": 4,
                "unitCode": "C62",
                **TIMES,
                V + "accuracy": [{"type": "Property", "value": 1, **TIMES}],
            }
        ],
        V + "name": [{"type": "Property", "value": "Tower", **TIMES}],
        V + "street": [{"type": "LanguageProperty", "languageMap": {"fr": "Grand Place", "nl": "Grote Markt"}, **TIMES}],
        V + "locatedIn": [{"type": "Relationship", "object": "urn:ngsi-ld:City:1", "objectType": V + "City", **TIMES}],
        LOCATION: [{"type": "GeoProperty", "value": POINT, **TIMES}],
        V + "content": [{"type": "JsonProperty", "json": {"a": 1}, **TIMES}],
        V + "use": [{"type": "VocabProperty", "vocab": [V + "home", "https://e.org/x"], **TIMES}],
        V + "parts": [{"type": "ListProperty", "valueList": [1, 2], **TIMES}],
        V + "route": [{"type": "ListRelationship", "objectList": [{"object": "urn:a:1"}, {"object": "urn:a:2"}], **TIMES}],
        V + "speed": [{"type": "Property", "value": 5}, {"type": "Property", "value": 6, "datasetId": "urn:d:1"}],
        V + "tags": [{"type": "Property", "value": ["a", "b"]}],
        V + "address": [{"type": "Property", "value": {"city": "Berlin"}}],
    },
    created_at=TIMES["createdAt"],
    modified_at=TIMES["modifiedAt"],
    expires_at="2100-01-01T00:00:00Z",
)


def test_normalized() -> None:
    assert represent(ENTITY, CORE) == {
        "id": "urn:ngsi-ld:Building:1",
        "type": "Building",
        "level": {"type": "Property", "value": 4, "unitCode": "C62", "accuracy": {"type": "Property", "value": 1}},
        "name": {"type": "Property", "value": "Tower"},
        "street": {"type": "LanguageProperty", "languageMap": {"fr": "Grand Place", "nl": "Grote Markt"}},
        "locatedIn": {"type": "Relationship", "object": "urn:ngsi-ld:City:1", "objectType": "City"},
        "location": {"type": "GeoProperty", "value": POINT},
        "content": {"type": "JsonProperty", "json": {"a": 1}},
        "use": {"type": "VocabProperty", "vocab": ["home", "https://e.org/x"]},
        "parts": {"type": "ListProperty", "valueList": [1, 2]},
        "route": {"type": "ListRelationship", "objectList": [{"object": "urn:a:1"}, {"object": "urn:a:2"}]},
        "speed": [{"type": "Property", "value": 5}, {"type": "Property", "value": 6, "datasetId": "urn:d:1"}],
        "tags": {"type": "Property", "value": ["a", "b"]},
        "address": {"type": "Property", "value": {"city": "Berlin"}},
    }


def test_concise() -> None:
    assert represent(ENTITY, CORE, View(format="concise")) == {
        "id": "urn:ngsi-ld:Building:1",
        "type": "Building",
        "level": {"value": 4, "unitCode": "C62", "accuracy": 1},
        "name": "Tower",
        "street": {"languageMap": {"fr": "Grand Place", "nl": "Grote Markt"}},
        "locatedIn": {"object": "urn:ngsi-ld:City:1", "objectType": "City"},
        "location": POINT,
        "content": {"json": {"a": 1}},
        "use": {"vocab": ["home", "https://e.org/x"]},
        "parts": {"valueList": [1, 2]},
        "route": {"objectList": [{"object": "urn:a:1"}, {"object": "urn:a:2"}]},
        "speed": [{"value": 5}, {"value": 6, "datasetId": "urn:d:1"}],
        "tags": {"value": ["a", "b"]},
        "address": {"value": {"city": "Berlin"}},
    }


def test_simplified() -> None:
    assert represent(ENTITY, CORE, View(format="simplified")) == {
        "id": "urn:ngsi-ld:Building:1",
        "type": "Building",
        "level": 4,
        "name": "Tower",
        "street": {"languageMap": {"fr": "Grand Place", "nl": "Grote Markt"}},
        "locatedIn": "urn:ngsi-ld:City:1",
        "location": POINT,
        "content": {"json": {"a": 1}},
        "use": {"vocab": ["home", "https://e.org/x"]},
        "parts": [1, 2],
        "route": ["urn:a:1", "urn:a:2"],
        "speed": {"dataset": {"@none": 5, "urn:d:1": 6}},
        "tags": ["a", "b"],
        "address": {"city": "Berlin"},
    }


def test_system_attributes() -> None:
    shown = represent(ENTITY, CORE, View(sys_attrs=True))
    assert {name: shown[name] for name in ("createdAt", "modifiedAt", "expiresAt")} == TIMES | {
        "expiresAt": "2100-01-01T00:00:00Z"
    }
    assert shown["level"]["createdAt"] == shown["level"]["accuracy"]["createdAt"] == TIMES["createdAt"]
    simple = represent(ENTITY, CORE, View(sys_attrs=True, format="simplified"))
    assert simple["createdAt"] == TIMES["createdAt"]
    assert simple["level"] == 4
    assert "createdAt" not in represent(ENTITY, CORE, View(format="concise"))["level"]


def test_several_types_and_scopes() -> None:
    entity = Entity(id="urn:x:1", types=(V + "A", "https://e.org/B"), scopes=("/a",))
    assert represent(entity, CORE) == {"id": "urn:x:1", "type": ["A", "https://e.org/B"], "scope": "/a"}
    entity = Entity(id="urn:x:1", types=(V + "A",), scopes=("/a", "/b"))
    assert represent(entity, CORE)["scope"] == ["/a", "/b"]
    assert represent(entity, CORE, View(omit=("scope",))) == {"id": "urn:x:1", "type": "A"}


def test_names_by_the_context() -> None:
    context = compile_context({"niveau": V + "level", "Bau": V + "Building"})
    shown = represent(ENTITY, context, View(attrs=(V + "level",)))
    assert shown.keys() == {"id", "type", "niveau"}
    assert shown["type"] == "Bau"


@pytest.mark.parametrize(
    ("view", "keys"),
    [
        (View(pick=("id", V + "name")), {"id", "name"}),
        (View(pick=(V + "name",)), {"name"}),
        (View(pick=(V + "unknown",)), set()),
        (View(pick=("id", "createdAt")), {"id", "createdAt"}),
        (View(attrs=(V + "name", V + "unknown")), {"id", "type", "name"}),
        (View(attrs=(V + "name",), sys_attrs=True), {"id", "type", "name", "createdAt", "modifiedAt", "expiresAt"}),
        (View(dataset_ids=("urn:d:1",)), {"id", "type", "speed"}),
        (View(dataset_ids=("urn:d:2",)), {"id", "type"}),
        (View(omit=("id", "type", *ENTITY.attributes)), set()),
        (View(pick=("id", "type"), omit=("type",)), {"id"}),
    ],
)
def test_parts(view: View, keys: set[str]) -> None:
    assert represent(ENTITY, CORE, view).keys() == keys
    assert represent_all([ENTITY], CORE, view) == ([represent(ENTITY, CORE, view)] if keys else [])


def test_instances_of_data_sets() -> None:
    assert represent(ENTITY, CORE, View(dataset_ids=("urn:d:1",)))["speed"] == {
        "type": "Property",
        "value": 6,
        "datasetId": "urn:d:1",
    }
    assert represent(ENTITY, CORE, View(dataset_ids=("@none",)))["speed"] == {"type": "Property", "value": 5}
    assert represent(ENTITY, CORE, View(dataset_ids=("urn:d:1",), format="simplified"))["speed"] == {"dataset": {"urn:d:1": 6}}


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        ("fr", "fr"), ("nl", "nl"), ("FR", "fr"), ("fr-CH,fr", "fr"), ("nl-BE", "nl"), ("*", "fr"), ("pt", "fr"),
        ("fr;q=0.2,nl;q=0.9", "nl"), ("fr-CH,fr;q=0.9,en;q=0.8,*;q=0.5", "fr"), ("en", "fr"), ("nl;q=x,fr", "fr"), (",", "fr"),
        ("nl;q=0,fr", "fr"), ("pt,*,nl", "fr"),
    ],
)  # fmt: skip
def test_one_language(wanted: str, language: str) -> None:
    text = {"fr": "Grand Place", "nl": "Grote Markt"}[language]
    assert represent(ENTITY, CORE, View(lang=wanted))["street"] == {"type": "Property", "value": text, "lang": language}
    assert represent(ENTITY, CORE, View(lang=wanted, format="concise"))["street"] == {"value": text, "lang": language}
    assert represent(ENTITY, CORE, View(lang=wanted, format="simplified"))["street"] == text


def test_languages_of_regions() -> None:
    assert choose_language({"de": "a", "en-US": "b"}, "en")[0] == "en-US"
    assert choose_language({"de": "a", "zh-Hant": "b"}, "zh-Hant-x-private")[0] == "zh-Hant"
    assert choose_language({"de": "a", "@none": "b"}, "fr") == ("@none", "b")
    assert language_ranges("a;q=0.5, b , c;q=1") == ("b", "c", "a")


def test_single_instances() -> None:
    instance = ENTITY.attributes[V + "level"][0]
    assert represent_instance(instance, CORE) == represent(ENTITY, CORE)["level"]
    assert represent_instance(instance, CORE, View(format="simplified")) == 4
    assert represent_instance(instance, CORE, View(format="concise")) == {"value": 4, "unitCode": "C62", "accuracy": 1}


def test_what_is_shown_does_not_change_what_is_kept() -> None:
    before = repr(ENTITY)
    for view in (NORMALIZED, View(format="concise", lang="fr"), View(format="simplified"), View(lang="nl")):
        shown: Any = represent(ENTITY, CORE, view)
        shown["extra"] = 1
        if isinstance(shown["level"], dict):
            shown["level"]["extra"] = 1
    assert repr(ENTITY) == before


@given(st.text(), st.dictionaries(st.text(max_size=6), st.text(max_size=3), min_size=1, max_size=4))
def test_any_language_wish_is_answered(wanted: str, languages: dict[str, str]) -> None:
    language, text = choose_language(languages, wanted)
    assert languages[language] == text
